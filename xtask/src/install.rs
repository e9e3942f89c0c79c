//! `cargo xtask install`: the command, the plugins, the executor for isolated plugins, and the C
//! API with its headers, and the OpenMP library, under one folder.
//!
//! No installed file contains the path of that folder, so it can be moved as a whole. The command
//! and the library find plugins in `../lib/longshore`, and the package files derive the folder from
//! their own location.

use crate::documentation::with_links_to_installed;
use crate::files::files_below;
use crate::shared_library::{self, Linker, OFFLOAD, OPENMP};
use crate::{process, root, test};
use anyhow::{Context, Result};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable of the build with the commit.
pub(crate) const COMMIT: &str = "LONGSHORE_COMMIT";
const EXECUTOR: &str = "longshore-executor";
/// The process of the MPI backend on other machines. Launchers find it on `PATH`.
const NODE: &str = "longshore-node";
const LIBRARY: &str = "libLLVMOffload.so";
/// The folder of the OpenMP library, for `LD_LIBRARY_PATH`.
const OPENMP_FOLDER: &str = "lib/longshore/openmp";
const MANUAL: &str = "share/man/man1";
/// The folder of package files for headers, which are the same on all machines.
const PKG_CONFIG: &str = "share/pkgconfig";
/// Files of the repository, and their folders below the prefix.
const FILES: [(&str, &str); 9] = [
    ("capi/include/OffloadAPI.h", "include/offload"),
    ("plugin-api/include/longshore_plugin.h", "include"),
    ("plugin-api/package/longshore-plugin.pc", PKG_CONFIG),
    ("plugin-api/package/LongshorePluginConfig.cmake", "share/cmake/LongshorePlugin"),
    ("plugin-api/package/LongshorePluginConfigVersion.cmake", "share/cmake/LongshorePlugin"),
    ("include/package/longshore-device.pc", PKG_CONFIG),
    ("command/src/run/longshore-gdb.py", "share/longshore"),
    ("LICENSE-APACHE", "share/doc/longshore"),
    ("LICENSE-MIT", "share/doc/longshore"),
];
/// Files of the repository, and their folders below the folder of libraries. `@LIBDIR@` in a file
/// with the ending `in`, which is removed, stands for that folder. `@UP@` is the way up from it to
/// the prefix.
const LIBRARY_FILES: [(&str, &str); 3] = [
    ("capi/package/LLVMOffload.pc.in", "pkgconfig"),
    ("capi/package/LLVMOffloadConfig.cmake.in", "cmake/LLVMOffload"),
    ("capi/package/LLVMOffloadConfigVersion.cmake", "cmake/LLVMOffload"),
];
/// The folder of the headers for kernels, here and below the prefix.
const HEADERS: &str = "include";
/// Documentation and examples, whose relative paths stay as in the repository.
const DOCUMENTATION: [&str; 4] = ["README.md", "CHANGELOG.md", "docs", "examples"];
const DOCUMENTATION_FOLDER: &str = "share/doc/longshore";

/// A profile of the build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// A build without optimization.
    Dev,
    /// A build without optimization, whose dependencies have the features of a build for tests:
    /// after that build, little remains to compile.
    Tested,
    /// An optimized build.
    Release,
}

/// Folders below the prefix that differ between systems.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// The folder of the libraries that the system's linker searches.
    pub libraries: &'static str,
    /// The folder of completions for zsh.
    pub zsh: &'static str,
}

impl Layout {
    /// The layout of an installation that can be moved.
    pub const MOVABLE: Layout = Layout { libraries: "lib", zsh: "share/zsh/site-functions" };
}

/// The results of a build.
#[derive(Debug)]
pub struct Built {
    /// The folder of programs and libraries.
    pub folder: PathBuf,
    /// The command, as a program that this machine can run.
    pub command: PathBuf,
    /// The linker of shared libraries.
    pub linker: Linker,
}

/// Builds all files and installs them under `prefix`. Replaces earlier files one at a time, so that
/// running programs are not disturbed.
///
/// # Errors
/// A build that fails; files that cannot be written.
pub fn run(prefix: &Path, profile: Profile) -> Result<()> {
    let prefix = std::path::absolute(prefix)?;
    let folder = build(profile)?;
    let command = folder.join("longshore");
    let built = Built { folder, command, linker: Linker::for_this_machine() };
    put_built(&built, &prefix, Layout::MOVABLE)?;
    println!("installed under {}", prefix.display());
    Ok(())
}

/// Installs the results of a build under `prefix`, with the other files of an installation.
///
/// # Errors
/// Files that are missing or cannot be written; a linker or a command that fails.
pub fn put_built(built: &Built, prefix: &Path, layout: Layout) -> Result<()> {
    put_programs(built, prefix, layout)?;
    for (file, folder) in FILES {
        let file = root().join(file);
        let name = file.file_name().expect("the list names files");
        put(&file, &prefix.join(folder).join(name), 0o644)?;
    }
    for (file, folder) in LIBRARY_FILES {
        put_configured(Path::new(file), &prefix.join(layout.libraries).join(folder), layout)?;
    }
    // Other files beside the headers have their own places.
    let is_header = |file: &&PathBuf| file.extension() == Some("h".as_ref());
    for header in tracked(HEADERS)?.iter().filter(is_header) {
        put(&root().join(header), &prefix.join(header), 0o644)?;
    }
    for name in DOCUMENTATION {
        tracked(name)?.iter().try_for_each(|file| put_documentation(file, prefix))?;
    }
    std::fs::create_dir_all(prefix.join(MANUAL))?;
    let mut manual = Command::new(&built.command);
    process::run(manual.arg("__manual").arg(prefix.join(MANUAL)))?;
    let completions = [
        ("bash", "share/bash-completion/completions/longshore".to_owned()),
        ("zsh", format!("{}/_longshore", layout.zsh)),
        ("fish", "share/fish/vendor_completions.d/longshore.fish".to_owned()),
    ];
    for (shell, file) in completions {
        put_printed(&built.command, &["completions", shell], &prefix.join(file))?;
    }
    Ok(())
}

/// Installs programs, plugins and libraries.
fn put_programs(built: &Built, prefix: &Path, layout: Layout) -> Result<()> {
    let folder = &built.folder;
    for program in ["longshore", "longshore-check", NODE] {
        put(&folder.join(program), &prefix.join("bin").join(program), 0o755)?;
    }
    for plugin in plugins()? {
        let file = format!("lib{}.so", plugin.replace('-', "_"));
        put(&folder.join(&file), &prefix.join("lib/longshore").join(&file), 0o644)?;
    }
    put(&folder.join(EXECUTOR), &prefix.join("libexec/longshore").join(EXECUTOR), 0o755)?;
    let library = OFFLOAD.link_by(&built.linker, folder)?;
    let libraries = prefix.join(layout.libraries);
    put(&library, &libraries.join(OFFLOAD.soname), 0o644)?;
    link(OFFLOAD.soname, &libraries.join(LIBRARY))?;
    let archive = libraries.join(LIBRARY).with_extension("a");
    put(&folder.join(OFFLOAD.archive), &archive, 0o644)?;
    let openmp = prefix.join(OPENMP_FOLDER);
    put(&OPENMP.link_by(&built.linker, folder)?, &openmp.join(OPENMP.soname), 0o644)?;
    for name in shared_library::OPENMP_NAMES {
        link(OPENMP.soname, &openmp.join(name))?;
    }
    Ok(())
}

/// Returns the crates of the backends.
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

/// Returns the crates of an installation.
pub(crate) fn packages() -> Result<Vec<String>> {
    let others = ["command", "capi", "openmp", "executor", "conformance"];
    let others = others.iter().map(|name| format!("longshore-{name}"));
    let plugins = plugins()?;
    let plugins = plugins.iter().map(|name| process::plugin_package(name));
    Ok(others.chain([NODE.to_owned()]).chain(plugins).collect())
}

/// Returns the commit, a part of the version that the command prints.
pub(crate) fn commit() -> String {
    process::said("git", &["describe", "--always", "--dirty"])
}

/// Builds the files and returns their folder.
///
/// # Errors
/// A build that fails.
pub fn build(profile: Profile) -> Result<PathBuf> {
    let mut cargo = process::cargo(["build", "--bins", "--lib"]);
    if profile == Profile::Tested {
        // One test program is enough for dependencies to have the features of all tests.
        cargo.args(test::TESTED).args(["--test", "tasks"]);
    } else {
        cargo.args(packages()?.iter().flat_map(|name| ["-p", name]));
    }
    cargo.env(COMMIT, commit());
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

/// Copies a file; an older file at `to` is replaced.
fn put(from: &Path, to: &Path, mode: u32) -> Result<()> {
    replace(to, |new| {
        std::fs::copy(from, new).with_context(|| from.display().to_string())?;
        Ok(std::fs::set_permissions(new, std::fs::Permissions::from_mode(mode))?)
    })
}

/// Copies a file of [`LIBRARY_FILES`] into a folder.
fn put_configured(file: &Path, folder: &Path, layout: Layout) -> Result<()> {
    let from = root().join(file);
    let name = file.file_name().expect("the list names files");
    if file.extension() != Some("in".as_ref()) {
        return put(&from, &folder.join(name), 0o644);
    }
    let up = Path::new(layout.libraries).components().map(|_| "..").collect::<Vec<_>>().join("/");
    let text = std::fs::read_to_string(&from).with_context(|| from.display().to_string())?;
    let text = text.replace("@LIBDIR@", layout.libraries).replace("@UP@", &up);
    put_text(&text, &folder.join(Path::new(name).with_extension("")))
}

/// Returns the files of the repository in a folder and below, or the file with this name. Results
/// of builds there, such as a built example, are no files of the repository. In a copy without git
/// all files are.
fn tracked(name: &str) -> Result<Vec<PathBuf>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--", name]).current_dir(root());
    let listed = process::printed(&mut git).unwrap_or_default();
    let names = listed.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from);
    let files: Vec<_> = names.filter(|file| root().join(file).exists()).collect();
    if !files.is_empty() {
        return Ok(files);
    }
    let place = root().join(name);
    let all = if place.is_file() { vec![place] } else { files_below(&place)? };
    all.iter().map(|file| Ok(file.strip_prefix(root())?.to_owned())).collect()
}

/// Copies a file of the documentation. Links of pages lead to installed files.
fn put_documentation(name: &Path, prefix: &Path) -> Result<()> {
    let from = root().join(name);
    let to = prefix.join(DOCUMENTATION_FOLDER).join(name);
    if name.extension() != Some("md".as_ref()) {
        return put(&from, &to, 0o644);
    }
    let text = std::fs::read_to_string(&from).with_context(|| from.display().to_string())?;
    let text = with_links_to_installed(name, &text, &place);
    put_text(&text, &to)
}

/// Returns the place of a file or folder of the repository below the prefix, if it is installed.
fn place(file: &Path) -> Option<PathBuf> {
    let is_documentation = DOCUMENTATION.iter().any(|name| file.starts_with(name));
    if is_documentation && root().join(file).exists() {
        return Some(Path::new(DOCUMENTATION_FOLDER).join(file));
    }
    if file.starts_with(HEADERS) && root().join(file).is_file() {
        return Some(file.to_owned());
    }
    let (source, folder) = FILES.iter().find(|(source, _)| Path::new(source) == file)?;
    Some(Path::new(folder).join(Path::new(source).file_name()?))
}

/// Writes a file that all users may read.
fn put_text(text: &str, to: &Path) -> Result<()> {
    replace(to, |new| {
        std::fs::write(new, text)?;
        Ok(std::fs::set_permissions(new, std::fs::Permissions::from_mode(0o644))?)
    })
}

/// Creates a link to a file in the same folder.
fn link(to: &str, at: &Path) -> Result<()> {
    replace(at, |new| Ok(symlink(to, new)?))
}

/// Writes the output of a program into a file.
fn put_printed(program: &Path, arguments: &[&str], to: &Path) -> Result<()> {
    replace(to, |new| {
        let mut command = Command::new(program);
        process::run_quietly(command.args(arguments).stdout(std::fs::File::create(new)?))
    })
}

/// Calls `write` for a new file beside `file`, then renames the new file to `file`.
fn replace(file: &Path, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let written = || -> Result<()> {
        std::fs::create_dir_all(file.parent().expect("a file is in a folder"))?;
        let new = file.with_extension(format!("new{}", std::process::id()));
        let renamed = write(&new).and_then(|()| Ok(std::fs::rename(&new, file)?));
        if renamed.is_err() {
            // Nothing unfinished stays; the error says more than that of the removal would.
            let _ = std::fs::remove_file(&new);
        }
        renamed
    };
    written().with_context(|| format!("installing {}", file.display()))
}
