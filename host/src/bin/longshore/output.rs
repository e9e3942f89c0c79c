//! Standard output.

use crate::failure::{Exit, Failure};
use serde::Serialize;
use std::io::{ErrorKind, Write};

/// Prints text and a newline. A reader that has gone away, as in `longshore devices | head -1`,
/// is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    let written = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(Exit::Runtime, format!("writing to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints a value as JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::new(Exit::Runtime, format!("making JSON: {error}")))?;
    print(&text)
}
