//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use lexopt::prelude::{Long, Short, ValueExt};

/// The parsed options of the executor.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Arguments {
    pub(super) controller: Controller,
    pub(super) spin: Duration,
    pub(super) limits: Limits,
    pub(super) sandbox: Sandbox,
    /// The descriptor to which the status of the process is written, for a process that is no child
    /// of its starter.
    pub(super) report: Option<i32>,
}

/// The connection to the controller.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Controller {
    /// A controller that has started this process: the descriptor of the socket to it.
    Parent(i32),
    /// A controller that will connect: the address to listen on, and the file of the shared key.
    Network(String, PathBuf),
}

/// Rights of the process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Sandbox {
    /// All rights of the user.
    #[default]
    Off,
    /// The fewest rights that the kernel supports.
    Available,
    /// The fewest rights possible; the process ends if the kernel does not support every part.
    Required,
}

/// Limits on the process's use of resources.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) memory_bytes: Option<u64>,
    pub(super) data_bytes: Option<u64>,
    pub(super) cpu_seconds: Option<u64>,
    pub(super) open_files: Option<u64>,
    pub(super) core_bytes: Option<u64>,
}

/// The action that the command line requests.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    Run(Arguments),
    Say(String),
}

const HELP: &str = "\
Executes code and plugins for a program that uses Longshore. That program starts and ends it.

Usage: longshore-executor --fd NUMBER [OPTIONS]
       longshore-executor --listen ADDRESS --key FILE [OPTIONS]

Options:
      --fd NUMBER         The descriptor of the socket to the controller
      --listen ADDRESS    The address on which to wait for one controller, such as 127.0.0.1:7400;
                          with port 0 a free port is chosen and printed
      --key FILE          The file of the key shared with the controller, 64 hexadecimal digits
      --report NUMBER     Be no child of the program: the descriptor to which the status of the
                          process is written when it ends
      --spin NANOSECONDS  Time to spin for the next call before sleeping [default: 0]
      --memory BYTES      Limit of the address space
      --data BYTES        Limit of private writable memory
      --cpu SECONDS       Limit of processor time, after which the process is killed
      --files NUMBER      Limit of open files
      --core BYTES        Limit of a core dump's size
      --sandbox[=required]
                          Start no processes, reach no network and no other process, change nothing of
                          the system. With 'required' the executor ends if the kernel does not support
                          all of this
  -h, --help              Print help
  -V, --version           Print version
";

impl Arguments {
    pub(super) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Parsed, String> {
        Self::read(lexopt::Parser::from_iter(arguments)).map_err(|error| {
            format!("{error}\nThis program is started by another one; 'longshore-executor --help' lists its options.")
        })
    }

    fn read(mut parser: lexopt::Parser) -> Result<Parsed, lexopt::Error> {
        let (mut descriptor, mut address, mut key) = (None, None, None);
        let (mut spin, mut limits) = (Duration::ZERO, Limits::default());
        let (mut sandbox, mut report) = (Sandbox::default(), None);
        while let Some(argument) = parser.next()? {
            match argument {
                Long("fd") => descriptor = Some(parser.value()?.parse()?),
                Long("listen") => address = Some(parser.value()?.parse()?),
                Long("key") => key = Some(PathBuf::from(parser.value()?)),
                Long("report") => report = Some(parser.value()?.parse()?),
                Long("spin") => spin = Duration::from_nanos(parser.value()?.parse()?),
                Long("memory") => limits.memory_bytes = Some(parser.value()?.parse()?),
                Long("data") => limits.data_bytes = Some(parser.value()?.parse()?),
                Long("cpu") => limits.cpu_seconds = Some(parser.value()?.parse()?),
                Long("files") => limits.open_files = Some(parser.value()?.parse()?),
                Long("core") => limits.core_bytes = Some(parser.value()?.parse()?),
                Long("sandbox") => {
                    sandbox = match parser.optional_value() {
                        None => Sandbox::Available,
                        Some(word) if word == "required" => Sandbox::Required,
                        Some(word) => {
                            return Err(format!(
                                "--sandbox={}: expected 'required' or no value",
                                word.display()
                            )
                            .into());
                        }
                    };
                }
                Short('h') | Long("help") => return Ok(Parsed::Say(HELP.to_owned())),
                Short('V') | Long("version") => {
                    let version = env!("CARGO_PKG_VERSION");
                    return Ok(Parsed::Say(format!("longshore-executor {version}\n")));
                }
                other => return Err(other.unexpected()),
            }
        }
        let controller = match (descriptor, address, key) {
            (Some(descriptor @ 0..), None, None) => Controller::Parent(descriptor),
            (None, Some(address), Some(key)) => Controller::Network(address, key),
            (Some(..0), ..) => {
                return Err("--fd is negative, expected the number of a descriptor".into());
            }
            (None, Some(_), None) => return Err("--listen requires --key".into()),
            _ => return Err("expected either --fd, or --listen with --key".into()),
        };
        match (report, &controller) {
            (Some(..0), _) => return Err("--report is negative, expected a descriptor".into()),
            (Some(_), Controller::Network(..)) => return Err("--report requires --fd".into()),
            _ => {}
        }
        Ok(Parsed::Run(Self { controller, spin, limits, sandbox, report }))
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
        let sandbox = Sandbox::Available;
        let (controller, report) = (Controller::Parent(3), Some(4));
        let expected = Arguments { controller, spin, limits, sandbox, report };
        let arguments = "--fd 3 --report 4 --spin=20000 --cpu 5 --core 0 --sandbox";
        let arguments: Vec<&str> = arguments.split(' ').collect();
        assert_eq!(parse(&arguments), Ok(Parsed::Run(expected)));
        let Ok(Parsed::Run(required)) = parse(&["--fd", "3", "--sandbox=required"]) else {
            panic!("these are options")
        };
        assert_eq!(required.sandbox, Sandbox::Required);
    }

    #[test]
    fn mistakes_are_reported() {
        for wrong in [
            &[][..],
            &["--fd"],
            &["--fd", "x"],
            &["--fd", "-1"],
            &["3"],
            &["--fd=3", "--nonsense"],
            &["--fd=3", "--report=-1"],
            &["--listen=x", "--key=y", "--report=4"],
            &["--fd=3", "--sandbox=perhaps"],
            &["--listen=x"],
            &["--key=x"],
            &["--fd=3", "--listen=x", "--key=y"],
        ] {
            assert!(parse(wrong).unwrap_err().contains("--help"), "{wrong:?}");
        }
    }
}
