//! Child processes.

use crate::root;
use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

/// Returns a command for the `cargo` that runs this task, in the root of the repository.
pub fn cargo<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    command
}

/// Returns the package that makes the shared library of a backend's crate: the crate itself, or the
/// one in its folder `library`.
pub fn plugin_package(backend: &str) -> String {
    let folder = backend.strip_prefix("longshore-").unwrap_or(backend);
    match root().join(folder).join("library").is_dir() {
        true => format!("{backend}-library"),
        false => backend.to_owned(),
    }
}

/// Prints a command and runs it to its end.
///
/// # Errors
/// A program that cannot be started, or that fails; the message holds the command.
pub fn run(command: &mut Command) -> Result<()> {
    println!("$ {}", shown(command));
    let status = command.status().with_context(|| shown(command))?;
    if !status.success() {
        bail!("{}: {status}", shown(command));
    }
    Ok(())
}

/// Prints a command and runs it to its end; prints its output if it fails.
///
/// # Errors
/// See [`run`].
pub fn run_quietly(command: &mut Command) -> Result<()> {
    println!("$ {}", shown(command));
    let output = command.output().with_context(|| shown(command))?;
    if !output.status.success() {
        println!("{}", String::from_utf8_lossy(&output.stdout));
        eprintln!("{}", String::from_utf8_lossy(&output.stderr));
        bail!("{}: {}", shown(command), output.status);
    }
    Ok(())
}

/// Prints a command and its standard output; returns status and output at its end.
///
/// # Errors
/// A program that cannot be started.
pub fn captured(command: &mut Command) -> Result<(ExitStatus, String)> {
    println!("$ {}", shown(command));
    let mut child = command.stdout(Stdio::piped()).spawn().with_context(|| shown(command))?;
    let text = echoed(child.stdout.take().expect("it is piped"))?;
    Ok((child.wait()?, text))
}

/// Does the same as [`captured`], with standard error in the output too.
///
/// # Errors
/// A program that cannot be started.
pub fn captured_with_errors(mut command: Command) -> Result<(ExitStatus, String)> {
    println!("$ {}", shown(&command));
    let (output, input) = std::io::pipe()?;
    command.stdout(input.try_clone()?).stderr(input);
    let mut child = command.spawn().with_context(|| shown(&command))?;
    // The command holds the pipe's writing end, so the output would not end.
    drop(command);
    let text = echoed(output)?;
    Ok((child.wait()?, text))
}

/// Prints lines as they arrive, and returns them at their end.
fn echoed(output: impl Read) -> Result<String> {
    let mut text = String::new();
    for line in BufReader::new(output).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        println!("{line}");
        text.push_str(&line);
        text.push('\n');
    }
    Ok(text)
}

/// Runs a command to its end, and returns its standard output.
///
/// # Errors
/// A program that cannot be started, or that fails; the message holds the command and its output.
pub fn printed(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| shown(command))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("{}: {}\n{text}{errors}", shown(command), output.status);
    }
    Ok(text)
}

/// Returns the output of a program on one line; "unknown" if the program fails.
pub fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(root()).output();
    let output = output.ok().filter(|output| output.status.success());
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.unwrap_or_else(|| "unknown".to_owned())
}

/// Returns the folder that cargo builds into.
pub fn target_folder() -> PathBuf {
    let variable = std::env::var_os("CARGO_TARGET_DIR");
    variable.map_or_else(|| root().join("target"), |folder| root().join(folder))
}

/// Returns whether a program can be started; `arguments` should make it do nothing.
pub fn starts(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
