//! Times of the steps of a child process, which prints them.

use anyhow::{Result, ensure};
use std::process::Command;
use std::time::{Duration, Instant};

/// Prints the times between the moments, in nanoseconds.
pub fn print(moments: &[Instant]) {
    let took = moments.windows(2).map(|pair| (pair[1] - pair[0]).as_nanos().to_string());
    println!("{}", took.collect::<Vec<_>>().join(" "));
}

/// Starts this program again, with other arguments, and reads the times that it prints.
///
/// # Errors
/// A program that cannot be started or fails; output other than times.
pub fn time_child(arguments: &[&str]) -> Result<Vec<Duration>> {
    let mut command = Command::new(std::env::current_exe()?);
    let output = command.args(arguments).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    let steps = String::from_utf8(output.stdout)?;
    let steps = steps.split_whitespace().map(|step| Ok(Duration::from_nanos(step.parse()?)));
    steps.collect()
}
