//! `cargo xtask install`: the command, the plugins, what runs isolated ones, and the C API with its headers, under one folder.
//!
//! Nothing that is installed knows that folder, so it can be moved as a whole: the command and the library find
//! plugins in `../lib/longshore`, and the package files say where they are from where they lie.

use crate::documentation::with_links_to_installed;
use crate::{offload_library, process, root, test};
use anyhow::{Context, Result};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

const COMMAND: &str = "bin/longshore";
const EXECUTOR: &str = "longshore-executor";
const LIBRARY: &str = "lib/libLLVMOffload.so";
const MANUAL: &str = "share/man/man1";
/// Shells, and where they look for what completes a command.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/longshore"),
    ("zsh", "share/zsh/site-functions/_longshore"),
    ("fish", "share/fish/vendor_completions.d/longshore.fish"),
];
/// Files of the repository, and the folders that they are put into.
const FILES: [(&str, &str); 8] = [
    ("capi/include/OffloadAPI.h", "include/offload"),
    ("include/longshore_device.h", "include"),
    ("plugin-api/include/longshore_plugin.h", "include"),
    ("capi/package/LLVMOffload.pc", "lib/pkgconfig"),
    ("capi/package/LLVMOffloadConfig.cmake", "lib/cmake/LLVMOffload"),
    ("capi/package/LLVMOffloadConfigVersion.cmake", "lib/cmake/LLVMOffload"),
    ("LICENSE-APACHE", "share/doc/longshore"),
    ("LICENSE-MIT", "share/doc/longshore"),
];
/// Documentation and examples of the repository, which lie to each other as they do there.
const DOCUMENTATION: [&str; 4] = ["README.md", "CHANGELOG.md", "docs", "examples"];
const DOCUMENTATION_FOLDER: &str = "share/doc/longshore";

/// How what is installed is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Without optimization.
    Dev,
    /// Without optimization, with the features of dependencies that a build for tests has: little is left to build after that.
    Tested,
    /// Optimized.
    Release,
}

/// Builds everything and puts it under `prefix`. What is there of earlier is replaced, a file at a time, so that
/// programs that run are not disturbed.
///
/// # Errors
/// A build that fails; files that cannot be written.
pub fn run(prefix: &Path, profile: Profile) -> Result<()> {
    let prefix = std::path::absolute(prefix)?;
    let plugins = plugins()?;
    let built = build(&plugins, profile)?;
    for program in ["longshore", "longshore-check"] {
        put(&built.join(program), &prefix.join("bin").join(program), 0o755)?;
    }
    for plugin in &plugins {
        let file = format!("lib{}.so", plugin.replace('-', "_"));
        put(&built.join(&file), &prefix.join("lib/longshore").join(&file), 0o755)?;
    }
    put(&built.join(EXECUTOR), &prefix.join("libexec/longshore").join(EXECUTOR), 0o755)?;
    let library = offload_library::link(&built)?;
    put(&library, &prefix.join("lib").join(offload_library::SONAME), 0o755)?;
    link(offload_library::SONAME, &prefix.join(LIBRARY))?;
    put(&built.join(offload_library::ARCHIVE), &prefix.join(LIBRARY).with_extension("a"), 0o644)?;
    for (file, folder) in FILES {
        let file = root().join(file);
        let name = file.file_name().expect("the list names files");
        put(&file, &prefix.join(folder).join(name), 0o644)?;
    }
    for name in DOCUMENTATION {
        put_documentation(Path::new(name), &prefix)?;
    }
    let command = prefix.join(COMMAND);
    std::fs::create_dir_all(prefix.join(MANUAL))?;
    process::run(Command::new(&command).arg("__manual").arg(prefix.join(MANUAL)))?;
    for (shell, file) in COMPLETIONS {
        put_printed(&command, &["completions", shell], &prefix.join(file))?;
    }
    println!("installed under {}", prefix.display());
    Ok(())
}

/// The crates of the backends.
fn plugins() -> Result<Vec<String>> {
    let mut plugins = Vec::new();
    for entry in std::fs::read_dir(root())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.starts_with("plugin-") && !["plugin-api", "plugin-streams"].contains(&&*name) {
            plugins.push(format!("longshore-{name}"));
        }
    }
    plugins.sort();
    Ok(plugins)
}

/// Answers the folder with what was built.
fn build(plugins: &[String], profile: Profile) -> Result<PathBuf> {
    let mut cargo = process::cargo(["build", "--bins", "--lib"]);
    if profile == Profile::Tested {
        // One test program is enough for dependencies to have the features of all tests.
        cargo.args(test::TESTED).args(["--test", "tasks"]);
    } else {
        let others = ["command", "capi", "executor", "conformance"];
        let others = others.iter().map(|name| format!("longshore-{name}"));
        cargo.args(others.chain(plugins.iter().cloned()).flat_map(|name| ["-p".to_owned(), name]));
    }
    // Part of what the command calls its version.
    cargo.env("LONGSHORE_COMMIT", process::said("git", &["describe", "--always", "--dirty"]));
    let folder = match profile {
        Profile::Dev | Profile::Tested => "debug",
        Profile::Release => {
            cargo.arg("--release");
            "release"
        }
    };
    process::run(&mut cargo)?;
    Ok(process::target_folder().join(folder))
}

/// Copies a file to where there may be an older one.
fn put(from: &Path, to: &Path, mode: u32) -> Result<()> {
    replace(to, |new| {
        std::fs::copy(from, new).with_context(|| from.display().to_string())?;
        Ok(std::fs::set_permissions(new, std::fs::Permissions::from_mode(mode))?)
    })
}

/// Copies a file of the documentation, or a folder with all that is in it. Links of pages lead to what is installed.
fn put_documentation(name: &Path, prefix: &Path) -> Result<()> {
    let from = root().join(name);
    if from.is_dir() {
        for entry in std::fs::read_dir(&from).with_context(|| from.display().to_string())? {
            put_documentation(&name.join(entry?.file_name()), prefix)?;
        }
        return Ok(());
    }
    let to = prefix.join(DOCUMENTATION_FOLDER).join(name);
    if name.extension() != Some("md".as_ref()) {
        return put(&from, &to, 0o644);
    }
    let text = std::fs::read_to_string(&from).with_context(|| from.display().to_string())?;
    let text = with_links_to_installed(name, &text, &place);
    replace(&to, |new| {
        std::fs::write(new, text)?;
        Ok(std::fs::set_permissions(new, std::fs::Permissions::from_mode(0o644))?)
    })
}

/// Where a file or folder of the repository lies below the prefix, if it is installed.
fn place(file: &Path) -> Option<PathBuf> {
    let is_documentation = DOCUMENTATION.iter().any(|name| file.starts_with(name));
    if is_documentation && root().join(file).exists() {
        return Some(Path::new(DOCUMENTATION_FOLDER).join(file));
    }
    let (source, folder) = FILES.iter().find(|(source, _)| Path::new(source) == file)?;
    Some(Path::new(folder).join(Path::new(source).file_name()?))
}

/// Makes a link to a file in the same folder.
fn link(to: &str, at: &Path) -> Result<()> {
    replace(at, |new| Ok(symlink(to, new)?))
}

/// Puts what a program prints into a file.
fn put_printed(program: &Path, arguments: &[&str], to: &Path) -> Result<()> {
    replace(to, |new| {
        let mut command = Command::new(program);
        process::run_quietly(command.args(arguments).stdout(std::fs::File::create(new)?))
    })
}

/// Has a file written under another name beside it, which then becomes it.
fn replace(file: &Path, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let written = || -> Result<()> {
        std::fs::create_dir_all(file.parent().expect("a file is in a folder"))?;
        let new = file.with_extension(format!("new{}", std::process::id()));
        write(&new)?;
        Ok(std::fs::rename(&new, file)?)
    };
    written().with_context(|| format!("installing {}", file.display()))
}
