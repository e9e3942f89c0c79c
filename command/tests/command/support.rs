//! Runs of the `longshore` command, as by its users.

use std::fs::File;
use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Path of the command, built with the tests.
pub(crate) const EXECUTABLE: &str = env!("CARGO_BIN_EXE_longshore");

/// The outcome of a run of the command.
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Outcome {
    /// Parses standard output as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error} in: {}", self.stdout))
    }

    /// Asserts the exit code, and that standard error contains all texts.
    pub(crate) fn assert_fails(&self, code: i32, texts: &[&str]) {
        for text in texts {
            assert!(self.stderr.contains(text), "no '{text}' in: {}", self.stderr);
        }
        assert_eq!(self.code, code, "{}", self.stderr);
    }

    /// Asserts success without output on standard error.
    pub(crate) fn assert_succeeds(&self) {
        assert_eq!((self.code, self.stderr.as_str()), (0, ""), "{}", self.stdout);
    }
}

/// Creates the command, with the host's plugin beside it and without variables of Longshore.
pub(crate) fn command() -> Command {
    ensure_built("longshore-plugin-host-library", "liblongshore_plugin_host.so");
    clean(Path::new(EXECUTABLE))
}

/// Creates the same command, which runs all plugins in the executor.
pub(crate) fn isolating_command() -> Command {
    executor();
    let mut command = command();
    command.env("LONGSHORE_ISOLATE", "all");
    command
}

/// Returns the path of the executor for isolated plugins.
pub(crate) fn executor() -> PathBuf {
    ensure_built("longshore-executor", "longshore-executor");
    Path::new(EXECUTABLE).with_file_name("longshore-executor")
}

/// Runs the command with these arguments.
pub(crate) fn longshore(arguments: &[&str]) -> Outcome {
    outcome(command().args(arguments))
}

/// Runs a command to its end.
pub(crate) fn outcome(command: &mut Command) -> Outcome {
    let Output { status, stdout, stderr } = command.output().unwrap();
    Outcome {
        code: status.code().unwrap_or_else(|| panic!("{command:?} ended: {status}")),
        stdout: String::from_utf8(stdout).unwrap(),
        stderr: String::from_utf8(stderr).unwrap(),
    }
}

/// Runs a command on a terminal of this width in columns, asserts its success, and returns its
/// output.
pub(crate) fn on_terminal(command: &mut Command, columns: u16) -> String {
    let (mut terminal, mut end) = (-1, -1);
    let size = libc::winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let (no_name, no_settings) = (std::ptr::null_mut(), std::ptr::null());
    // SAFETY: the pointers are valid for two descriptors and a size.
    let opened =
        unsafe { libc::openpty(&mut terminal, &mut end, no_name, no_settings, &raw const size) };
    assert_eq!(opened, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: the descriptors were just made, and only this function owns them.
    let [terminal, end] = [terminal, end].map(|end| unsafe { OwnedFd::from_raw_fd(end) });
    // SAFETY: `setsid` is async-signal-safe, so that it may be called between fork and exec. It
    // detaches the child from the terminal of the tests.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            Ok(())
        })
    };
    let mut child = command.stdout(end).spawn().unwrap();
    // From now on only the child holds the other end.
    command.stdout(Stdio::null());
    let (mut printed, mut part) = (Vec::new(), [0; 4096]);
    let mut terminal = File::from(terminal);
    // An error means that the other end is closed.
    while let Ok(bytes @ 1..) = terminal.read(&mut part) {
        printed.extend_from_slice(&part[..bytes]);
    }
    assert!(child.wait().unwrap().success(), "{command:?}");
    String::from_utf8(printed).unwrap().replace('\r', "")
}

/// Copies the command to a new folder without plugins.
pub(crate) fn alone() -> (TempDir, Command) {
    let folder = tempfile::tempdir().unwrap();
    let executable = folder.path().join("longshore");
    install(Path::new(EXECUTABLE), &executable);
    let command = clean(&executable);
    (folder, command)
}

/// Copies a program, in another process. If this process opened the copy for writing, children of
/// other tests could inherit the descriptor, and the copy could not be started.
pub(crate) fn install(program: &Path, to: &Path) {
    let mut install = Command::new("install");
    assert!(install.args(["-m", "755"]).args([program, to]).status().unwrap().success());
}

/// Builds a plugin in C whose `connect` function has this body.
pub(crate) fn toy_plugin(folder: &Path, backend: &str, connect: &str) -> PathBuf {
    toy_plugin_with(folder, backend, &format!("CONNECT={connect}"))
}

/// Builds a plugin in C from `toy.c`, with this macro definition.
pub(crate) fn toy_plugin_with(folder: &Path, backend: &str, definition: &str) -> PathBuf {
    let path = folder.join(format!("liblongshore_plugin_{backend}.so"));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../host/src/discovery/toy.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-w", "-fno-builtin", "-o"]).arg(&path).arg(source);
    compiler.args([format!("-DBACKEND=\"{backend}\""), format!("-D{definition}")]);
    assert!(compiler.status().unwrap().success());
    path
}

fn clean(executable: &Path) -> Command {
    let mut command = Command::new(executable);
    let ours = |name: &str| name.starts_with("LONGSHORE_") || name == "RUST_LOG";
    let names = std::env::vars_os().map(|(name, _)| name);
    for name in names.filter(|name| name.to_str().is_some_and(ours)) {
        command.env_remove(name);
    }
    command
}

/// Builds a file beside the command if it is missing. A build of the whole workspace makes all
/// files, a build of this package does not.
pub(crate) fn ensure_built(package: &str, file: &str) {
    let folder = Path::new(EXECUTABLE).parent().unwrap();
    if folder.join(file).exists() {
        return;
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--package", package, "--target-dir"]);
    cargo.arg(folder.parent().unwrap()).current_dir(env!("CARGO_MANIFEST_DIR"));
    if folder.ends_with("release") {
        cargo.arg("--release");
    }
    assert!(cargo.status().unwrap().success());
}
