//! How a command fails: what is told, what may help, and the exit code.

use crate::logging;
use longshore::{Error, ErrorCode};
use longshore_plugin_api::printable;
use std::fmt;
use std::io::Write;
use std::process::ExitCode;

/// The exit codes, as `longshore --help` lists them. The last, for a check that failed, is given
/// by the suite itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Runtime = 1,
    Usage = 2,
    NothingFound = 3,
}

/// Why a command ended without doing what it was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
    hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Failure {
        Failure { exit, message: message.into(), hint: None }
    }

    /// Returns the same with a hint, unless it has one.
    pub(crate) fn or_hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint.get_or_insert_with(|| hint.into());
        self
    }

    /// Returns the same, of which is said first what it is about.
    pub(crate) fn about(mut self, what: &str) -> Failure {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// Tells the user and answers the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        ExitCode::from(self.tell())
    }

    /// Returns the same; the exit code as a number.
    pub(crate) fn tell(&self) -> u8 {
        // Where nobody reads the errors there is nobody else to tell.
        let _ = write!(std::io::stderr(), "{}", printable(&self.to_string()));
        self.exit as u8
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}", self.message)?;
        self.hint.iter().try_for_each(|hint| writeln!(f, "hint: {hint}"))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let hint = hint(error.code()).map(str::to_owned);
        Failure { exit: Exit::Runtime, message: error.to_string(), hint }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// What to do about an error of which nothing but the code is known.
fn hint(code: ErrorCode) -> Option<&'static str> {
    Some(match code {
        ErrorCode::InvalidBinary => {
            "`longshore inspect IMAGE` shows what the image is, `longshore plugins` the formats that \
             each backend takes, `longshore devices` the architectures; --device chooses another"
        }
        ErrorCode::LinkFailure => "link the image with the libraries that define what it lacks",
        ErrorCode::OutOfResources => {
            "use smaller buffers, or end other programs that use the device"
        }
        ErrorCode::HostToolNotFound => "install the tool, or add its folder to PATH",
        ErrorCode::Unsupported => "another device may be able to: choose it with --device",
        ErrorCode::SymbolKind => "`longshore run IMAGE --list` shows what each symbol is",
        ErrorCode::BackendFailure | ErrorCode::Unknown if logging::is_withheld() => {
            "-vv shows what the plugin and the driver logged"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_shown_as_error_and_hint() {
        let failure = Failure::new(Exit::Runtime, "it broke");
        assert_eq!(failure.to_string(), "error: it broke\n");
        let failure = failure.or_hint("mend it").or_hint("not this");
        assert_eq!(failure.to_string(), "error: it broke\nhint: mend it\n");
    }

    #[test]
    fn an_error_of_the_library_brings_a_hint_where_the_code_tells_one() {
        let failure = Failure::from(Error::new(ErrorCode::LinkFailure, "no 'f'"));
        assert!(failure.to_string().starts_with("error: no 'f'\nhint: link the image"));
        let failure = Failure::from(Error::new(ErrorCode::InvalidSize, "0 bytes"));
        assert_eq!(failure.to_string(), "error: 0 bytes\n");
    }
}
