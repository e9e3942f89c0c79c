//! Runs of this program under valgrind's callgrind.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folder with callgrind's files, for `callgrind_annotate`.
pub(crate) const FOLDER: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/instructions");
/// Options: names and line numbers are uncompressed in the file, and child processes are not
/// followed.
const OPTIONS: [&str; 5] = [
    "--tool=callgrind",
    "--quiet",
    "--trace-children=no",
    "--compress-strings=no",
    "--compress-pos=no",
];

/// Returns the name and version of valgrind, such as "valgrind-3.19.0".
pub(crate) fn version() -> Result<String> {
    let output = Command::new("valgrind").arg("--version").output();
    let output = output.context("valgrind cannot be started (Debian: `valgrind`)")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Starts this program again with other arguments, and counts the instructions in one of its
/// libraries. `name` is the name of callgrind's file.
pub(crate) fn instructions(name: &str, library: &Path, arguments: &[&str]) -> Result<u64> {
    let file = PathBuf::from(FOLDER).join(name).with_extension("callgrind");
    std::fs::create_dir_all(FOLDER).context(FOLDER)?;
    let mut command = Command::new("valgrind");
    command.args(OPTIONS).arg(format!("--callgrind-out-file={}", file.display()));
    command.arg(std::env::current_exe()?).args(arguments);
    // The user's selection does not apply to the double's devices.
    let output = command.env_remove("LONGSHORE_DEVICES").output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    let profile = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let counted = instructions_in(&profile, &library.display().to_string());
    ensure!(counted > 0, "{}: nothing of {}", file.display(), library.display());
    Ok(counted)
}

/// Returns the cost of an object's own code. The cost lines follow its `ob=` line; the line after
/// `calls=` has the cost of a call, which does not count.
fn instructions_in(profile: &str, object: &str) -> u64 {
    let (mut is_ours, mut is_call, mut sum) = (false, false, 0);
    for line in profile.lines() {
        if let Some(named) = line.strip_prefix("ob=") {
            is_ours = named == object;
        } else if line.starts_with("calls=") {
            is_call = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit()) {
            let cost = line.split_once(' ').and_then(|(_, cost)| cost.parse::<u64>().ok());
            sum += cost.filter(|_| is_ours && !is_call).unwrap_or(0);
            is_call = false;
        }
    }
    sum
}
