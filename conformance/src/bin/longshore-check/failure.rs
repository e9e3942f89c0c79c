//! Reasons for an early end of the program, each with its exit status.

use longshore::{Error, ErrorCode};
use longshore_plugin_api::printable;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// The exit statuses beside success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    Unwritten = 1,
    Usage = 2,
    NoDevice = 3,
    /// A behaviour failed, or a verified report does not count.
    Failed = 4,
}

/// A failure of the program itself.
#[derive(Debug)]
pub(super) struct Failure {
    exit: Exit,
    message: String,
}

impl Failure {
    pub(super) fn new(exit: Exit, message: impl Display) -> Failure {
        Failure { exit, message: message.to_string() }
    }

    /// Prints the failure to standard error, and returns the exit status.
    pub(super) fn report(&self) -> ExitCode {
        let kind = match self.exit {
            Exit::NoDevice => "no device to check",
            _ => "error",
        };
        // A failed write to standard error cannot be reported anywhere.
        let _ = writeln!(io::stderr(), "{kind}: {}", printable(&self.message));
        self.exit.into()
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// An error of the search for devices.
impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let exit = match error.code() {
            ErrorCode::InvalidValue => Exit::Usage,
            _ => Exit::NoDevice,
        };
        Failure::new(exit, error)
    }
}
