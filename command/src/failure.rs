//! Failures of a command: message, hint and exit code.

use crate::logging;
use longshore::{Error, ErrorCode};
use longshore_plugin_api::printable;
use std::fmt;
use std::io::Write;
use std::process::ExitCode;

/// The exit codes listed by `longshore --help`. The conformance suite itself returns the last one,
/// for a failed check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Runtime = 1,
    Usage = 2,
    NothingFound = 3,
}

/// A failure of a command, for the user.
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

    /// Adds a hint unless the failure has one.
    pub(crate) fn or_hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint.get_or_insert_with(|| hint.into());
        self
    }

    /// Puts the subject and a colon before the message.
    pub(crate) fn about(mut self, what: &str) -> Failure {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// Prints the failure to standard error, and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        ExitCode::from(self.print())
    }

    /// Prints the failure to standard error, and returns the exit code as a number.
    pub(crate) fn print(&self) -> u8 {
        // A failed write to standard error cannot be reported anywhere.
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
        if error.vendor().is_some_and(|vendor| vendor.name == FOUND_BY_CHECK) {
            let message = in_lines(error.message(), error.vendor());
            return Failure::new(Exit::Runtime, with_source_names(&message));
        }
        let hint = hint(error.code()).map(str::to_owned);
        Failure { exit: Exit::Runtime, message: with_source_names(&error.to_string()), hint }
    }
}

impl From<longshore_cc::Failure> for Failure {
    fn from(failure: longshore_cc::Failure) -> Failure {
        let exit = match failure.exit {
            longshore_cc::Exit::Usage => Exit::Usage,
            longshore_cc::Exit::NothingFound => Exit::NothingFound,
            _ => Exit::Runtime,
        };
        Failure { exit, message: failure.message, hint: failure.hint }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// The vendor's name in errors that list the reports of a checked launch.
const FOUND_BY_CHECK: &str = "LONGSHORE_CHECK";

/// Returns the list of a checked launch with a line for each part.
fn in_lines(message: &str, count: Option<&longshore::VendorError>) -> String {
    let mut message = message.to_owned();
    for number in 1..=count.map_or(0, |count| count.number + 1) {
        let begin = format!(" [{number}] ");
        message = message.replacen(&begin, &format!("\n{}", &begin[1..]), 1);
    }
    message.replace("; ", "\n    ")
}

/// Returns a message in which quoted symbols of C++, CUDA and HIP have the names of the source, as
/// in `longshore run IMAGE --list`.
fn with_source_names(message: &str) -> String {
    let mut parts = message.split('\'');
    let mut named = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        named.push('\'');
        match longshore::source_name(part) {
            Some(name) => named.push_str(&name),
            None => named.push_str(part),
        }
    }
    named
}

/// Returns the hint for an error's code.
fn hint(code: ErrorCode) -> Option<&'static str> {
    Some(match code {
        ErrorCode::InvalidBinary => {
            "`longshore inspect IMAGE` shows the image's format and architecture, `longshore plugins` \
             each backend's formats, `longshore devices` the architectures; choose another device \
             with --device"
        }
        ErrorCode::LinkFailure => {
            "link the image with the libraries that define its undefined symbols"
        }
        ErrorCode::OutOfResources => {
            "use smaller buffers, or end other programs that use the device"
        }
        ErrorCode::HostToolNotFound => "install the tool, or add its folder to PATH",
        ErrorCode::Unsupported => "another device may support this: choose it with --device",
        ErrorCode::SymbolKind => "`longshore run IMAGE --list` shows the kind of each symbol",
        ErrorCode::BackendFailure | ErrorCode::Unknown if logging::is_withheld() => {
            "-vv shows the log of the plugin and the driver"
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

    #[test]
    fn symbols_have_the_names_of_their_sources() {
        let cases = [
            ("kernel '_Z5scaleifPf': wrong", "kernel 'scale': wrong"),
            ("'saxpy' and '_Z3sumILi8EEvPf'", "'saxpy' and 'sum<8>'"),
            ("it's '_Znot' a '", "it's '_Znot' a '"),
        ];
        for (message, expected) in cases {
            assert_eq!(with_source_names(message), expected);
        }
    }
}
