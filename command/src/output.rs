//! Standard output.

use crate::escape;
use crate::failure::{Exit, Failure};
use longshore_plugin_api::printable;
use serde::Serialize;
use std::io::{ErrorKind, Write};

/// Prints text and a newline, with control characters as escapes. A reader that closes its end
/// early, as in `longshore devices | head -1`, is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    let written = writeln!(stdout, "{}", printable(text)).and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(Exit::Runtime, format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints a value as indented JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    print(&escape::json(&serde_json::to_string_pretty(value).map_err(unwritable)?))
}

/// Prints a value as JSON on one line, for long output that programs read.
pub(crate) fn print_json_line(value: &impl Serialize) -> Result<(), Failure> {
    print(&escape::json(&serde_json::to_string(value).map_err(unwritable)?))
}

fn unwritable(error: serde_json::Error) -> Failure {
    Failure::new(Exit::Runtime, format!("cannot make JSON: {error}"))
}
