//! Rights and resources of the processes that run isolated plugins.

use crate::environment::Environment;
use longshore_executor::controller::Spawn;
use longshore_plugin_api::{Error, ErrorCode, Result};
use std::time::Duration;

const SANDBOX: &str = "LONGSHORE_ISOLATE_SANDBOX";
const LIMITS: &str = "LONGSHORE_ISOLATE_LIMITS";

/// The rights of a process that runs an isolated plugin. `docs/isolation.md` lists the parts of a
/// sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum IsolateSandbox {
    /// No sandbox: all rights of the user.
    #[default]
    Off,
    /// A sandbox of all parts that the kernel supports. The process names unsupported parts on
    /// standard error.
    Available,
    /// A complete sandbox. On a kernel without support for every part, the outcome of a plugin is
    /// [`Outcome::Failed`](crate::Outcome::Failed).
    Required,
}

/// The resource limits of a process that runs an isolated plugin. `None` keeps the program's own
/// limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IsolateLimits {
    /// Limit in bytes of private writable memory: heap, stacks, writable parts of libraries. Memory
    /// shared with the program and memory of a GPU do not count. Allocations beyond the limit fail.
    pub memory_bytes: Option<u64>,
    /// Limit of the processor time of all threads together, rounded up to seconds. The process is
    /// killed at the limit.
    pub processor_time: Option<Duration>,
    /// Limit of the number of open descriptors.
    pub open_files: Option<u64>,
}

impl IsolateSandbox {
    /// Returns the user's choice, if there is one.
    ///
    /// # Errors
    /// `InvalidValue` for an unknown word.
    pub(super) fn from_environment(environment: &Environment) -> Result<Option<IsolateSandbox>> {
        let Some(text) = environment.isolate_sandbox() else { return Ok(None) };
        match text.as_str() {
            "0" | "off" => Ok(Some(IsolateSandbox::Off)),
            "1" | "on" => Ok(Some(IsolateSandbox::Available)),
            "required" => Ok(Some(IsolateSandbox::Required)),
            _ => {
                let message = format!("{SANDBOX} is '{text}', expected 0, 1 or required");
                Err(Error::new(ErrorCode::InvalidValue, message))
            }
        }
    }

    /// Adds the option of this sandbox to the executor's arguments.
    pub(super) fn apply_to(self, spawn: Spawn) -> Spawn {
        match self {
            IsolateSandbox::Off => spawn,
            IsolateSandbox::Available => spawn.with_argument("--sandbox"),
            IsolateSandbox::Required => spawn.with_argument("--sandbox=required"),
        }
    }
}

impl IsolateLimits {
    /// Returns the limits with this limit of private writable memory, in bytes.
    #[must_use]
    pub fn with_memory_bytes(mut self, bytes: u64) -> IsolateLimits {
        self.memory_bytes = Some(bytes);
        self
    }

    /// Returns the limits with this limit of processor time.
    #[must_use]
    pub fn with_processor_time(mut self, time: Duration) -> IsolateLimits {
        self.processor_time = Some(time);
        self
    }

    /// Returns the limits with this limit of the number of open descriptors.
    #[must_use]
    pub fn with_open_files(mut self, number: u64) -> IsolateLimits {
        self.open_files = Some(number);
        self
    }

    /// Returns the user's limits, parsed from a text such as "memory=4GiB,time=60,files=256".
    ///
    /// # Errors
    /// `InvalidValue` for text outside this grammar.
    pub(super) fn from_environment(environment: &Environment) -> Result<IsolateLimits> {
        let text = environment.isolate_limits().unwrap_or_default();
        let mut limits = IsolateLimits::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            limits.read(part).ok_or_else(|| {
                let message = format!(
                    "{LIMITS} has '{part}', expected memory=BYTES (or KiB, MiB, GiB), time=SECONDS \
                     or files=NUMBER, separated by commas"
                );
                Error::new(ErrorCode::InvalidValue, message)
            })?;
        }
        Ok(limits)
    }

    /// Sets the limit of one part; `None` for an unknown name or a bad number.
    fn read(&mut self, part: &str) -> Option<()> {
        let (name, value) = part.split_once('=')?;
        match name.trim() {
            "memory" => self.memory_bytes = Some(bytes(value.trim())?),
            "time" => {
                let seconds = value.trim().parse().ok().filter(|seconds| *seconds > 0.0)?;
                self.processor_time = Some(Duration::try_from_secs_f64(seconds).ok()?);
            }
            "files" => self.open_files = Some(value.trim().parse().ok()?),
            _ => return None,
        }
        Some(())
    }

    /// Returns these limits, with the limits of `others` in place of missing ones.
    pub(super) fn or(self, others: IsolateLimits) -> IsolateLimits {
        IsolateLimits {
            memory_bytes: self.memory_bytes.or(others.memory_bytes),
            processor_time: self.processor_time.or(others.processor_time),
            open_files: self.open_files.or(others.open_files),
        }
    }

    /// Adds the options of these limits to the executor's arguments.
    pub(super) fn apply_to(self, spawn: Spawn) -> Spawn {
        let seconds = self.processor_time.map(|time| time.as_secs_f64().ceil() as u64);
        let options =
            [("--data", self.memory_bytes), ("--cpu", seconds), ("--files", self.open_files)];
        let set = options.into_iter().filter_map(|(name, value)| Some((name, value?)));
        set.fold(spawn, |spawn, (name, value)| spawn.with_argument(format!("{name}={value}")))
    }
}

/// Parses a number of bytes, with or without a binary unit.
fn bytes(text: &str) -> Option<u64> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];
    let unit = units.iter().find_map(|(name, shift)| Some((text.strip_suffix(name)?, *shift)));
    let (number, shift) = unit.unwrap_or((text, 0));
    number.trim().parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(text: &str) -> Result<IsolateLimits> {
        IsolateLimits::from_environment(&Environment::empty().with(LIMITS, text))
    }

    #[test]
    fn limits_are_read_with_their_units() {
        let expected = IsolateLimits::default()
            .with_memory_bytes(4 << 30)
            .with_processor_time(Duration::from_millis(1500))
            .with_open_files(256);
        assert_eq!(limits("memory=4GiB, time=1.5,files=256"), Ok(expected));
        assert_eq!(limits("memory=4096").unwrap().memory_bytes, Some(4096));
        assert_eq!(limits(""), Ok(IsolateLimits::default()));
        for wrong in
            ["memory", "memory=4GB", "time=-1", "time=0", "files=x", "x=1", "memory=99999999TiB"]
        {
            let error = limits(wrong).unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidValue, "{wrong}");
            assert!(error.message().contains(wrong), "{error}");
        }
    }

    #[test]
    fn a_limit_of_the_program_goes_before_that_of_the_user() {
        let program = IsolateLimits::default().with_open_files(9);
        let both = program.or(limits("files=100,memory=1MiB").unwrap());
        assert_eq!(both, program.with_memory_bytes(1 << 20));
    }

    #[test]
    fn a_sandbox_is_off_available_or_required() {
        let sandbox = |text: &str| {
            IsolateSandbox::from_environment(&Environment::empty().with(SANDBOX, text))
        };
        assert_eq!(sandbox(""), Ok(None));
        assert_eq!(sandbox("0"), Ok(Some(IsolateSandbox::Off)));
        assert_eq!(sandbox("1"), Ok(Some(IsolateSandbox::Available)));
        assert_eq!(sandbox("required"), Ok(Some(IsolateSandbox::Required)));
        assert!(sandbox("yes please").unwrap_err().message().contains("LONGSHORE_ISOLATE_SANDBOX"));
    }
}
