//! The facts of a kernel that decide its launches.

use super::environment;
use super::limits::Limits;
use longshore::{ErrorCode, Kernel, Program, Queue, Result};

/// The first version of arguments whose kernels take a launch environment. Newer kernels without a
/// description are bare.
pub(super) const WITH_ENVIRONMENT: u32 = 3;

/// The execution mode of a kernel. LLVM: `OMPTgtExecModeFlags`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Kernel without the device runtime's state machine.
    Bare,
    /// The main thread runs the serial parts, and the other threads wait for work.
    Generic,
    /// All threads run the region.
    Spmd,
    /// Generic in the source, and transformed so that all threads run the region.
    GenericSpmd,
    /// All threads run the region, each at most one iteration.
    SpmdNoLoop,
}

impl Mode {
    /// Returns the mode with a number of the kernel environment; SPMD for an unknown one.
    fn from_raw(raw: u8) -> Mode {
        match raw {
            0 => Mode::Bare,
            1 => Mode::Generic,
            3 => Mode::GenericSpmd,
            6 => Mode::SpmdNoLoop,
            _ => Mode::Spmd,
        }
    }

    /// Returns LLVM's name of the mode.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Bare => "Bare",
            Mode::Generic => "Generic",
            Mode::Spmd => "SPMD",
            Mode::GenericSpmd => "Generic-SPMD",
            Mode::SpmdNoLoop => "SPMD-No-Loop",
        }
    }
}

/// A kernel's description of itself. LLVM: `ConfigurationEnvironmentTy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelEnvironment {
    pub(crate) mode: Mode,
    /// Least number of threads; not positive if unlimited.
    pub(crate) min_threads: i32,
    /// Greatest number of threads; not positive if unlimited.
    pub(crate) max_threads: i32,
    /// Bytes that a team adds to the buffer of a reduction; 0 without a reduction.
    pub(crate) reduction_bytes: u32,
    /// Number of elements of that buffer; 0 if there is one for each team.
    pub(crate) reduction_elements: u32,
}

impl KernelEnvironment {
    /// The environment of a kernel of clang 17 or older that has none.
    pub(crate) const DEFAULT: KernelEnvironment = KernelEnvironment {
        mode: Mode::Spmd,
        min_threads: -1,
        max_threads: -1,
        reduction_bytes: 0,
        reduction_elements: 0,
    };

    /// Reads the variable `<kernel>_kernel_environment`: the configuration, whose size depends on
    /// LLVM's version, and two pointers. Missing fields have their defaults.
    pub(crate) fn parse(bytes: &[u8]) -> KernelEnvironment {
        const POINTERS: usize = 16;
        let configuration = &bytes[..bytes.len().saturating_sub(POINTERS)];
        let number = |at: usize| {
            let field = configuration.get(at..at + 4)?;
            Some(i32::from_le_bytes(field.try_into().expect("the field has 4 bytes")))
        };
        let positive = |at| number(at).filter(|value| *value > 0).map_or(0, |value| value as u32);
        KernelEnvironment {
            mode: configuration.get(2).map_or(Mode::Spmd, |raw| Mode::from_raw(*raw)),
            min_threads: number(4).unwrap_or(-1),
            max_threads: number(8).unwrap_or(-1),
            reduction_bytes: positive(20),
            reduction_elements: positive(24),
        }
    }

    /// Reads the variable `<kernel>_exec_mode` of LLVM 17 and older. LLVM 13 writes 0 for SPMD.
    pub(crate) fn parse_mode(bytes: &[u8]) -> KernelEnvironment {
        let mode = match bytes.first() {
            Some(0) | None => Mode::Spmd,
            Some(raw) => Mode::from_raw(*raw),
        };
        KernelEnvironment { mode, ..KernelEnvironment::DEFAULT }
    }

    /// Reads the environment of a kernel from its image on the device, and whether the image has
    /// one in the form of LLVM 18 and later. `version` is that of the region's arguments. Blocks.
    ///
    /// # Errors
    /// Errors of the driver.
    fn read(
        program: &Program,
        queue: &Queue,
        kernel: &str,
        version: u32,
    ) -> Result<(KernelEnvironment, bool)> {
        let read = |suffix| match environment::find(program, &format!("{kernel}_{suffix}"))? {
            Some(global) => environment::read(queue, &global).map(Some),
            None => Ok(None),
        };
        if let Some(bytes) = read("kernel_environment")? {
            return Ok((KernelEnvironment::parse(&bytes), true));
        }
        if let Some(bytes) = read("exec_mode")? {
            return Ok((KernelEnvironment::parse_mode(&bytes), false));
        }
        let mode = if version < WITH_ENVIRONMENT { Mode::Spmd } else { Mode::Bare };
        log::debug!("kernel {kernel} has no environment; {} mode is assumed", mode.name());
        Ok((KernelEnvironment { mode, ..KernelEnvironment::DEFAULT }, false))
    }
}

/// The facts of a kernel on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KernelFacts {
    pub(crate) mode: Mode,
    /// Greatest number of threads of a team.
    pub(crate) most_threads: u32,
    /// Number of threads of a team without a clause.
    pub(crate) preferred_threads: u32,
    pub(crate) reduction_bytes: u32,
    pub(crate) reduction_elements: u32,
    /// Size in bytes of the group memory that the kernel's code declares.
    pub(crate) static_group_bytes: u64,
    /// Size of each argument in bytes, if the image describes them.
    pub(crate) argument_bytes: Option<Vec<u32>>,
    /// Whether LLVM 18 or a later version compiled the kernel.
    pub(crate) has_environment: bool,
}

impl KernelFacts {
    /// Creates the facts of a kernel. `most_threads` is the limit of the kernel's code, 0 without
    /// one.
    pub(crate) fn new(
        environment: KernelEnvironment,
        limits: &Limits,
        most_threads: u32,
        static_group_bytes: u64,
    ) -> KernelFacts {
        let positive = |value: i32| u32::try_from(value).ok().filter(|value| *value > 0);
        let most = positive(environment.max_threads).unwrap_or(limits.threads).min(limits.threads);
        let least = positive(environment.min_threads).unwrap_or(0);
        KernelFacts {
            mode: environment.mode,
            most_threads: if most_threads == 0 { most } else { most.min(most_threads) },
            preferred_threads: limits.default_threads.max(least),
            reduction_bytes: environment.reduction_bytes,
            reduction_elements: environment.reduction_elements,
            static_group_bytes,
            argument_bytes: None,
            has_environment: false,
        }
    }

    /// Reads the facts of a kernel. `version` is that of the region's arguments. Blocks.
    ///
    /// # Errors
    /// Errors of the driver.
    pub(crate) fn read(
        program: &Program,
        kernel: &Kernel,
        limits: &Limits,
        queue: &Queue,
        version: u32,
    ) -> Result<KernelFacts> {
        let (environment, has_environment) =
            KernelEnvironment::read(program, queue, kernel.name(), version)?;
        let attributes = kernel.attributes();
        let (most, shared) = (attributes.max_group_items, attributes.static_shared_bytes);
        let facts = KernelFacts::new(environment, limits, most, shared);
        let argument_bytes = attributes.argument_sizes.clone();
        Ok(KernelFacts { argument_bytes, has_environment, ..facts })
    }
}

/// Returns `None` for the error of a name that the image lacks.
pub(super) fn if_found<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.code(), ErrorCode::NotFound | ErrorCode::SymbolKind) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an environment with a configuration of some size, and two pointers.
    fn bytes(configuration: usize, fields: &[i32]) -> Vec<u8> {
        let mut bytes = vec![1, 0, 2, 0];
        bytes.extend(fields.iter().flat_map(|field| field.to_le_bytes()));
        bytes.resize(configuration, 0);
        bytes.extend([0xff; 16]);
        bytes
    }

    #[test]
    fn environments_of_all_versions_are_read() {
        // The first version has modes alone.
        let first = KernelEnvironment::parse(&bytes(8, &[])[..]);
        assert_eq!((first.mode, first.reduction_bytes), (Mode::Spmd, 0));
        let second = KernelEnvironment::parse(&bytes(24, &[1, 128, -1, -1]));
        assert_eq!((second.min_threads, second.max_threads, second.reduction_bytes), (1, 128, 0));
        let third = KernelEnvironment::parse(&bytes(32, &[1, 128, -1, -1, 8, 1024]));
        assert_eq!((third.reduction_bytes, third.reduction_elements), (8, 1024));
        let newest = KernelEnvironment::parse(&bytes(24, &[1, 128, -1, -1, 8]));
        assert_eq!((newest.reduction_bytes, newest.reduction_elements), (8, 0));
        assert_eq!(KernelEnvironment::parse(&[]), KernelEnvironment::DEFAULT);
    }

    #[test]
    fn modes_of_older_versions_have_zero_for_spmd() {
        let mode = |raw| KernelEnvironment::parse_mode(&[raw]).mode;
        assert_eq!(
            [0, 1, 2, 3].map(mode),
            [Mode::Spmd, Mode::Generic, Mode::Spmd, Mode::GenericSpmd]
        );
    }
}
