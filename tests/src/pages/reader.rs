//! A reader: an account with Longshore installed under `~/.local`, and a terminal in `~/work`,
//! which also contains the clone.

use super::cargo;
use super::output::is_as_shown;
use super::steps::{Step, steps};
use crate::device_code::clangs;
use crate::world::{check_command, command, executor, host_plugin, root};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The folder of the headers that `longshore_device.h` includes.
const PARTS: &str = "include/longshore_math";
/// The folder of the package files for CMake.
const CMAKE: &str = "share/cmake/LongshorePlugin";
/// Time limit of one command in seconds.
const LIMIT: &str = "300";
/// The script of the terminal. It runs the file `command` with the exit status, the folder and the
/// exported variables of the earlier commands.
const SHELL: &str = r#"
. "$READER/variables"
cd "$(cat "$READER/folder")"
(exit "$(cat "$READER/status")")
. "$READER/command"
status=$?
echo $status > "$READER/status"
pwd > "$READER/folder"
export -p > "$READER/variables"
exit $status
"#;
/// Beginnings of names of variables that the reader does not inherit from the test.
const CLEARED: [&str; 3] = ["LONGSHORE_", "CARGO_", "RUST"];
/// Exceptions: the places of toolchain and registry, the settings of the workspace's build, and the
/// size of the conformance suite.
const KEPT: [&str; 7] = [
    "CARGO_HOME",
    "CARGO_INCREMENTAL",
    "CARGO_PROFILE_",
    "CARGO_TARGET_",
    "LONGSHORE_FLIPPED_BITS",
    "LONGSHORE_SMALL",
    "RUSTUP_",
];

/// A reader's account.
pub struct Reader {
    home: TempDir,
}

impl Default for Reader {
    fn default() -> Reader {
        Reader::new()
    }
}

impl Reader {
    /// Creates an account.
    pub fn new() -> Reader {
        let reader = Reader { home: TempDir::new().expect("a temporary folder") };
        let work = reader.home().join("work");
        for folder in [&work, &reader.state(), &reader.home().join(".cargo")] {
            fs::create_dir_all(folder).expect("the folder is new");
        }
        symlink(root(), work.join("longshore")).expect("the folder is new");
        reader.install();
        // Crates of the workspace's build are used again where their features are the same.
        let built = host_plugin();
        let built = built.ancestors().nth(2).expect("plugins lie in a profile's folder");
        let config = format!(
            "[build]\nbuild-dir = {built:?}\n[net]\noffline = true\n\
             [term]\nquiet = true\ncolor = \"never\"\n\
             [profile.dev]\ndebug = \"line-tables-only\"\n"
        );
        fs::write(reader.home().join(".cargo/config.toml"), config).expect("the folder is new");
        for (name, text) in [("status", "0"), ("folder", work.to_str().unwrap()), ("variables", "")]
        {
            fs::write(reader.state().join(name), text).expect("the folder is new");
        }
        reader
    }

    /// Follows a page of the repository, and panics with the line of the first different outcome.
    pub fn follow(&self, page: &str) {
        let path = root().join(page);
        let text =
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let steps = steps(&text).unwrap_or_else(|problem| panic!("{page}:{problem}"));
        assert!(!steps.is_empty(), "{page} has neither files nor sessions");
        for step in steps {
            let done = match &step {
                Step::File { path, contents, .. } => self.write(path, contents),
                Step::Command { typed, shown, may_fail, .. } => self.enter(typed, shown, *may_fail),
            };
            done.unwrap_or_else(|problem| panic!("{page}:{}: {problem}", step.line()));
        }
    }

    /// Writes a file below the terminal's folder. A manifest gets the workspace's lock file beside
    /// it. Its dependencies in the clone get the path of the repository: cargo would build the same
    /// crate under another path again.
    fn write(&self, path: &str, contents: &str) -> Result<(), String> {
        let path = self.folder().join(path);
        let folder = path.parent().expect("it has a folder");
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut contents = contents.to_owned();
        if path.ends_with("Cargo.toml") {
            let lock = folder.join("Cargo.lock");
            fs::copy(root().join("Cargo.lock"), lock).map_err(|error| error.to_string())?;
            contents = contents.replace("\"../longshore/", &format!("\"{}/", root().display()));
        }
        fs::write(&path, contents).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Enters a command and compares its output.
    fn enter(&self, typed: &str, shown: &[&str], may_fail: bool) -> Result<(), String> {
        let (succeeded, output) = self.run(typed);
        let is_error = |line: &&str| line.to_ascii_lowercase().starts_with("error");
        let expects_failure = shown.iter().any(is_error);
        if !may_fail && succeeded == expects_failure {
            let outcome = if succeeded { "succeeded" } else { "failed" };
            return Err(format!("`{typed}` {outcome}:\n{output}"));
        }
        let lines: Vec<_> = output.trim_end().lines().collect();
        if shown.is_empty() || is_as_shown(shown, &lines) {
            return Ok(());
        }
        Err(format!("`{typed}` printed\n{output}\nnot\n{}", shown.join("\n")))
    }

    /// Runs a command in the terminal. Returns its success, and its output and errors in one text.
    pub fn run(&self, typed: &str) -> (bool, String) {
        fs::write(self.state().join("command"), typed).expect("the folder can be written to");
        let output = self.state().join("output");
        let file = fs::File::create(&output).expect("the folder can be written to");
        let mut shell = Command::new("timeout");
        shell.args(["--foreground", LIMIT, "bash", "-c", SHELL]);
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            let begins = |with: &&str| name.starts_with(*with);
            if CLEARED.iter().any(begins) && !KEPT.iter().any(begins) {
                shell.env_remove(&*name);
            }
        }
        let cargo = Path::new(env!("CARGO")).parent().expect("cargo lies in a folder");
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}/.local/bin:{}:{path}", self.home().display(), cargo.display());
        for (variable, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            if std::env::var_os(variable).is_none()
                && let Some(home) = std::env::home_dir()
            {
                shell.env(variable, home.join(folder));
            }
        }
        shell.env("READER", self.state()).env("HOME", self.home()).env("PATH", path);
        shell.env("LC_ALL", "C.UTF-8").env_remove("CARGO_TARGET_DIR");
        shell.stdin(Stdio::null()).stderr(file.try_clone().expect("a file has copies"));
        let status = shell.stdout(file).status().expect("there are `timeout` and `bash`");
        let output = fs::read(output).expect("the file was made");
        (status.success(), String::from_utf8_lossy(&output).into_owned())
    }

    fn home(&self) -> &Path {
        self.home.path()
    }

    fn state(&self) -> PathBuf {
        self.home().join(".reader")
    }

    /// Returns the terminal's folder.
    fn folder(&self) -> PathBuf {
        let folder = fs::read_to_string(self.state().join("folder")).expect("it was written");
        PathBuf::from(folder.trim_end())
    }

    /// Installs as `cargo xtask install --prefix ~/.local` does, as far as pages need it.
    fn install(&self) {
        let prefix = self.home().join(".local");
        let header = |path: &str| root().join(path);
        let part = |name: &str| (root().join("include/longshore_math").join(name), PARTS);
        let files = [
            (command(), "bin"),
            (check_command(), "bin"),
            (host_plugin(), "lib/longshore"),
            (executor(), "libexec/longshore"),
            (header("include/longshore_device.h"), "include"),
            (header("include/longshore_math.h"), "include"),
            part("angles.h"),
            part("double.h"),
            part("exact.h"),
            part("fast.h"),
            part("float.h"),
            part("pair.h"),
            (header("plugin-api/include/longshore_plugin.h"), "include"),
            (header("plugin-api/package/LongshorePluginConfig.cmake"), CMAKE),
            (header("plugin-api/package/LongshorePluginConfigVersion.cmake"), CMAKE),
        ];
        for (file, folder) in files {
            let to = prefix.join(folder);
            fs::create_dir_all(&to).expect("the folder can be made");
            let to = to.join(file.file_name().expect("it is a file"));
            fs::hard_link(&file, &to)
                .or_else(|_| fs::copy(&file, &to).map(drop))
                .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        }
        // The reader's only compiler of kernels, by its usual name.
        if let Some(clang) = clangs().pop() {
            self.install_script("clang", &format!("#!/bin/sh\nexec {clang} \"$@\"\n"));
        }
        if let Some(shortcut) = cargo::shortcut() {
            self.install_script("cargo", &shortcut);
        }
        let documentation = prefix.join("share/doc/longshore");
        fs::create_dir_all(&documentation).expect("the folder can be made");
        let examples =
            Command::new("cp").arg("-r").arg(root().join("examples")).arg(&documentation).status();
        assert!(examples.is_ok_and(|status| status.success()));
    }

    fn install_script(&self, name: &str, text: &str) {
        let path = self.home().join(".local/bin").join(name);
        fs::write(&path, text).expect("the folder can be written to");
        fs::set_permissions(path, Permissions::from_mode(0o755)).expect("the file was written");
    }
}
