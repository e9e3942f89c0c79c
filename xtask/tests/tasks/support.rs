//! Common functions of tests of tasks.

use std::process::Command;
use xtask::process;

/// Returns the output of a command, which must succeed.
pub(crate) fn printed(command: &mut Command) -> String {
    process::printed(command).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns whether a tool is missing. Prints that the test is skipped then.
pub(crate) fn is_missing(tool: &str) -> bool {
    let is_missing = !process::starts(tool, &["--version"]);
    if is_missing {
        eprintln!("skipped: {tool} is not installed");
    }
    is_missing
}
