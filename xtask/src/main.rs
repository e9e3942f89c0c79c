//! `cargo xtask`: runs the tasks of a fresh clone itself, and starts `xtask-tasks` for the others,
//! whose crates take long to build.

use anyhow::{Context, Result};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use xtask::install::{self, Profile};
use xtask::{demo, prose, root, test};

fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match Task::parse(&arguments) {
        Some(Task::Demo) => demo::run(),
        Some(Task::Install { prefix, profile }) => install::run(&prefix, profile),
        Some(Task::Test { install, all }) => test::run(install, all),
        Some(Task::Prose { arguments }) => prose::run(&arguments),
        None => pass_on(&arguments),
    }
}

/// A task that needs only the crates of this program.
enum Task {
    Demo,
    Install { prefix: PathBuf, profile: Profile },
    Prose { arguments: Vec<OsString> },
    Test { install: bool, all: bool },
}

impl Task {
    /// Returns the task that the arguments name. Returns `None` for another task, and for arguments
    /// that only `xtask-tasks` explains.
    fn parse(arguments: &[OsString]) -> Option<Task> {
        let (task, options) = arguments.split_first()?;
        match task.to_str()? {
            "demo" if options.is_empty() => Some(Task::Demo),
            "install" => {
                let (mut prefix, mut profile) = (None, Profile::Release);
                let mut options = options.iter();
                while let Some(option) = options.next() {
                    match option.to_str()? {
                        "--debug" => profile = Profile::Dev,
                        "--prefix" => prefix = Some(PathBuf::from(options.next()?)),
                        option => prefix = Some(PathBuf::from(option.strip_prefix("--prefix=")?)),
                    }
                }
                Some(Task::Install { prefix: prefix?, profile })
            }
            "test" => {
                let (mut install, mut all) = (false, false);
                for option in options {
                    match option.to_str()? {
                        "--install" => install = true,
                        "--all" => all = true,
                        _ => return None,
                    }
                }
                Some(Task::Test { install, all })
            }
            "prose" => Some(Task::Prose { arguments: options.to_vec() }),
            _ => None,
        }
    }
}

/// Replaces this process by `xtask-tasks`, in the folder of the caller.
fn pass_on(arguments: &[OsString]) -> Result<()> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["run", "--quiet", "--package", "xtask", "--bin", "xtask-tasks", "--manifest-path"]);
    cargo.arg(root().join("Cargo.toml")).arg("--").args(arguments);
    Err(cargo.exec()).context("starting cargo")
}
