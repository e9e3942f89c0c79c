//! The build of programs and libraries for an architecture and an old glibc.
//!
//! The linker is `zig cc`. It has the interface of each version of glibc for each architecture.
//! By default, it links an unwinder of its own into each file instead of `libgcc_s`. Code that
//! the linker of Longshore loads registers its frames with the unwinder of the process, so all
//! files must use that one.

use super::target::Architecture;
use crate::install::{COMMIT, commit, packages};
use crate::shared_library::Linker;
use crate::{process, root};
use anyhow::{Context, Result, bail};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest glibc on which the files run.
pub(crate) const GLIBC: &str = "2.28";
/// The variable that permits undefined functions in shared libraries: a module of Python has the
/// functions of its interpreter.
pub(crate) const UNDEFINED: &str = "LONGSHORE_LINK_UNDEFINED";
/// The Python package of zig.
const ZIG: &str = "ziglang==0.17.1";

/// Installs the tools of a build for an architecture: zig, and the standard library of Rust.
///
/// # Errors
/// `pip` or `rustup` that fails.
pub(crate) fn install(architecture: Architecture) -> Result<()> {
    if !zig().is_file() {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target"]);
        process::run_quietly(pip.arg(zig_folder()).arg(ZIG))?;
    }
    if architecture != Architecture::native() {
        let mut rustup = Command::new("rustup");
        process::run_quietly(rustup.args(["target", "add", architecture.rust()]))?;
    }
    Ok(())
}

/// Builds everything for an architecture. Returns the folder with programs and libraries.
///
/// # Errors
/// A build that fails.
pub(crate) fn build(architecture: Architecture, target_folder: &Path) -> Result<PathBuf> {
    let mut cargo = process::cargo(["build", "--release", "--locked", "--bins", "--lib"]);
    cargo.args(["--target", architecture.rust()]);
    cargo.args(packages()?.iter().flat_map(|name| ["-p", name]));
    prepare(&mut cargo, architecture, target_folder)?;
    process::run(&mut cargo)?;
    Ok(target_folder.join(architecture.release()))
}

/// Sets the environment of cargo, or of a program that runs it, for a build in `target_folder`.
///
/// # Errors
/// No `libgcc_s` for the architecture.
pub(crate) fn prepare(
    cargo: &mut Command,
    architecture: Architecture,
    target_folder: &Path,
) -> Result<()> {
    let archiver = wrapper(&target_folder.join("tools/ar"), "exec \"$zig\" ar \"$@\"\n")?;
    let prefixes = [
        (target_folder, "/usr/src/longshore/target"),
        (&root(), "/usr/src/longshore"),
        (&cargo_home()?, "/usr/src/cargo"),
    ];
    let maps = |flag: &str| -> Vec<String> {
        prefixes.iter().map(|(from, to)| format!("{flag}={}={to}", from.display())).collect()
    };
    // The folders may have blanks in their names.
    let c_maps = maps("-ffile-prefix-map");
    let c_flags = shlex::try_join(c_maps.iter().map(String::as_str))?;
    cargo.env("CC_SHELL_ESCAPED_FLAGS", "1");
    cargo.env("CARGO_TARGET_DIR", target_folder);
    // Build scripts and macros have the same linker in the builds for all architectures. Otherwise
    // each build would make the other's files anew.
    for architecture in [Architecture::native(), architecture] {
        let compiler = compiler(architecture, &target_folder.join("tools"))?;
        cargo.env(architecture.variable("CARGO_TARGET_", "_LINKER"), &compiler);
        cargo.env(architecture.variable("CC_", ""), &compiler);
        cargo.env(architecture.variable("AR_", ""), &archiver);
        cargo.env(architecture.variable("CFLAGS_", ""), &c_flags);
    }
    // A function that glibc lacks is an error of the build, in shared libraries too.
    let mut flags = maps("--remap-path-prefix");
    flags.push("-Clink-arg=-Wl,-z,defs".to_owned());
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    cargo.env("CARGO_PROFILE_RELEASE_STRIP", "symbols").env(COMMIT, commit());
    Ok(())
}

/// Returns the linker of shared libraries for an architecture. The identification of a build is
/// computed from the file without symbols, which contain the folders of the build.
///
/// # Errors
/// No `libgcc_s` for the architecture.
pub(crate) fn linker(architecture: Architecture) -> Result<Linker> {
    let compiler = compiler(architecture, &super::target_folder().join("tools"))?;
    Ok(Linker { compiler, options: &["-Wl,--strip-all"] })
}

/// Writes a script that is a C compiler and linker for an architecture, and returns its path.
///
/// # Errors
/// No `libgcc_s` for the architecture.
fn compiler(architecture: Architecture, folder: &Path) -> Result<PathBuf> {
    let gcc = format!("{}-gcc", architecture.triplet());
    let libgcc = process::said(&gcc, &["-print-file-name=libgcc_s.so.1"]);
    if !Path::new(&libgcc).is_absolute() {
        bail!("{gcc} has no libgcc_s.so.1; install gcc-{}", architecture.triplet());
    }
    // The library of this machine is linked; it may need a later glibc than the files. By default,
    // zig leaves out sections without references, which other compilers keep.
    let script = format!(
        "for argument; do shift\n\
         case $argument in\n\
         -lgcc_s) set -- \"$@\" {libgcc} -Wl,--allow-shlib-undefined;;\n\
         -lgcc|-lgcc_eh|--target=*) ;;\n\
         -Wl,-z,defs) test \"${{{UNDEFINED}}}\" || set -- \"$@\" \"$argument\";;\n\
         *) set -- \"$@\" \"$argument\";;\n\
         esac; done\n\
         exec \"$zig\" cc -target {} -fno-sanitize=all -Wl,--build-id=sha1,--no-gc-sections \"$@\"\n",
        architecture.zig()
    );
    wrapper(&folder.join(format!("cc-{}", architecture.debian())), &script)
}

/// Writes a script in which `$zig` is zig, if the file has other contents. The cache of zig is in
/// its own folder: results in a shared one have the paths of other folders.
fn wrapper(file: &Path, script: &str) -> Result<PathBuf> {
    let zig = zig();
    let zig = shlex::try_quote(zig.to_str().context("the folder's name is text")?)?;
    let cache = zig_folder().join("cache");
    let cache = shlex::try_quote(cache.to_str().context("the folder's name is text")?)?;
    let text = format!("#!/bin/sh\nzig={zig}\nexport ZIG_GLOBAL_CACHE_DIR={cache}\n{script}");
    if std::fs::read_to_string(file).is_ok_and(|old| old == text) {
        return Ok(file.to_owned());
    }
    let written = || -> std::io::Result<()> {
        std::fs::create_dir_all(file.parent().expect("a file is in a folder"))?;
        std::fs::write(file, &text)?;
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755))
    };
    written().with_context(|| file.display().to_string())?;
    Ok(file.to_owned())
}

fn zig_folder() -> PathBuf {
    // Another version has another folder.
    root().join("target").join(ZIG.replace("==", "-"))
}

fn zig() -> PathBuf {
    zig_folder().join("ziglang/zig")
}

fn cargo_home() -> Result<PathBuf> {
    if let Some(home) = std::env::var_os("CARGO_HOME") {
        return Ok(home.into());
    }
    let home = std::env::home_dir().context("the folder of cargo is unknown: set CARGO_HOME")?;
    Ok(home.join(".cargo"))
}
