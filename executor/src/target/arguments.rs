//! The command line.

use std::ffi::OsString;
use std::time::Duration;

use lexopt::prelude::{Long, Short, ValueExt};

/// How to run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Arguments {
    /// The descriptor of the controller's socket.
    pub(super) descriptor: i32,
    pub(super) spin: Duration,
    pub(super) limits: Limits,
}

/// What the process may use at most.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) memory_bytes: Option<u64>,
    pub(super) cpu_seconds: Option<u64>,
    pub(super) open_files: Option<u64>,
    pub(super) core_bytes: Option<u64>,
}

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    Run(Arguments),
    Say(String),
}

const HELP: &str = "\
Executes code and plugins for a program that Longshore is part of, which starts it and ends it.

Usage: longshore-executor --fd NUMBER [OPTIONS]

Options:
      --fd NUMBER         The descriptor of the socket on which the controller calls
      --spin NANOSECONDS  How long to look for the next call before sleeping [default: 0]
      --memory BYTES      The most address space
      --cpu SECONDS       The most processor time; then it is killed
      --files NUMBER      The most open files
      --core BYTES        The largest core dump
  -h, --help              Print help
  -V, --version           Print version
";

impl Arguments {
    pub(super) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Parsed, String> {
        Self::read(lexopt::Parser::from_iter(arguments)).map_err(|error| {
            format!("{error}\nIt is not run by hand; 'longshore-executor --help' says more.")
        })
    }

    fn read(mut parser: lexopt::Parser) -> Result<Parsed, lexopt::Error> {
        let (mut descriptor, mut spin, mut limits) = (None, Duration::ZERO, Limits::default());
        while let Some(argument) = parser.next()? {
            match argument {
                Long("fd") => descriptor = Some(parser.value()?.parse()?),
                Long("spin") => spin = Duration::from_nanos(parser.value()?.parse()?),
                Long("memory") => limits.memory_bytes = Some(parser.value()?.parse()?),
                Long("cpu") => limits.cpu_seconds = Some(parser.value()?.parse()?),
                Long("files") => limits.open_files = Some(parser.value()?.parse()?),
                Long("core") => limits.core_bytes = Some(parser.value()?.parse()?),
                Short('h') | Long("help") => return Ok(Parsed::Say(HELP.to_owned())),
                Short('V') | Long("version") => {
                    let version = env!("CARGO_PKG_VERSION");
                    return Ok(Parsed::Say(format!("longshore-executor {version}\n")));
                }
                other => return Err(other.unexpected()),
            }
        }
        let descriptor = descriptor.ok_or("--fd is missing")?;
        if descriptor < 0 {
            return Err("--fd is negative".into());
        }
        Ok(Parsed::Run(Self { descriptor, spin, limits }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Parsed, String> {
        Arguments::parse(
            std::iter::once("longshore-executor")
                .chain(arguments.iter().copied())
                .map(OsString::from),
        )
    }

    #[test]
    fn options_are_read() {
        let limits = Limits { cpu_seconds: Some(5), core_bytes: Some(0), ..Limits::default() };
        let spin = Duration::from_micros(20);
        let expected = Arguments { descriptor: 3, spin, limits };
        let arguments = ["--fd", "3", "--spin=20000", "--cpu", "5", "--core", "0"];
        assert_eq!(parse(&arguments), Ok(Parsed::Run(expected)));
    }

    #[test]
    fn mistakes_are_told() {
        for wrong in
            [&[][..], &["--fd"], &["--fd", "x"], &["--fd", "-1"], &["3"], &["--fd=3", "--nonsense"]]
        {
            assert!(parse(wrong).unwrap_err().contains("--help"), "{wrong:?}");
        }
    }
}
