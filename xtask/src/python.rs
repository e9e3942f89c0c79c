//! `cargo xtask python`: the wheel for Python, and its tests in fresh environments.

use crate::shared_library::OFFLOAD;
use crate::{process, root};
use anyhow::{Context, Result, bail};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Tools of the build, as packages of Python: maturin, and a linker for old versions of glibc.
const TOOLS: [&str; 3] = ["maturin", "ziglang", "cargo-zigbuild"];
/// Packages of the tests of types and notebooks.
const CHECKERS: [&str; 5] = ["mypy", "nbclient", "nbformat", "ipykernel", "matplotlib"];
/// The glibc of the wheel.
const GLIBC: &str = "2.28";
/// The oldest version of Python 3 that the wheel serves, and one that does not exist yet.
const VERSIONS: std::ops::Range<u32> = 9..30;
/// Crates with the programs and the plugin in the wheel.
const CRATES: [&str; 3] = ["longshore-command", "longshore-executor", "longshore-plugin-host"];
/// Files of the build that lie beside the package's modules.
const BUILT: [&str; 3] = ["longshore", "longshore-executor", "liblongshore_plugin_host.so"];
/// The folder of the package's modules.
const PACKAGE: &str = "python/python/longshore";

/// Choices of a build.
#[derive(Debug)]
pub struct Options {
    /// Whether to build without optimization, for this machine's glibc.
    pub debug: bool,
    /// Target triple of the wheel; `None` for this machine's.
    pub target: Option<String>,
    /// Further packages in the environments of the tests, such as torch.
    pub with: Vec<String>,
    /// Whether to build the wheel without testing it.
    pub no_tests: bool,
}

/// Builds the wheel into `target/wheels`, then installs it into fresh environments of each version
/// of Python found and runs tests, documentation, notebook, checks of types and measurements.
///
/// # Errors
/// A build or a test that fails, and no Python.
pub fn run(options: &Options) -> Result<()> {
    let pythons = pythons();
    let Some((newest, _)) = pythons.last() else {
        bail!("no python3.9 or later on PATH, nor in pyenv's folder; install python3 and its venv");
    };
    let folder = process::target_folder().join("python");
    let tools = environment(newest, &folder.join("tools"), &TOOLS)?;
    let built = build(&tools, options)?;
    let wheel = package(&tools, &built, options)?;
    println!("\n{}", wheel.display());
    if options.no_tests || options.target.is_some() {
        return Ok(());
    }
    for (python, version) in &pythons {
        let venv = folder.join(format!("venv-{version}"));
        if venv.exists() {
            std::fs::remove_dir_all(&venv)?;
        }
        test(python, &venv, &wheel, options)?;
    }
    let (python, version) = pythons.last().expect("there is a newest one");
    check(&folder.join(format!("venv-{version}")), python)?;
    measure(&folder.join(format!("venv-{version}")), &built, options)
}

/// Returns the interpreters found, by version, and their versions.
fn pythons() -> Vec<(PathBuf, String)> {
    let mut places: Vec<PathBuf> = Vec::new();
    let path = std::env::var_os("PATH").unwrap_or_default();
    places.extend(std::env::split_paths(&path));
    if let Some(home) = std::env::home_dir() {
        let versions = std::fs::read_dir(home.join(".pyenv/versions")).into_iter().flatten();
        let mut versions: Vec<_> = versions.flatten().map(|entry| entry.path()).collect();
        versions.sort();
        places.extend(versions.into_iter().map(|version| version.join("bin")));
    }
    let mut found = Vec::new();
    for minor in VERSIONS {
        let version = format!("3.{minor}");
        let name = format!("python{version}");
        // Scripts of pyenv bear the name of each version, and start only the selected ones.
        let starts = |file: &PathBuf| {
            let script = format!("import sys, venv; sys.exit(sys.version_info[1] != {minor})");
            file.is_file() && process::starts(&file.to_string_lossy(), &["-c", &script])
        };
        if let Some(file) = places.iter().map(|place| place.join(&name)).find(starts) {
            found.push((file, version));
        }
    }
    found
}

/// Creates a virtual environment with these packages, unless it exists. Returns its programs'
/// folder.
fn environment(python: &Path, folder: &Path, packages: &[&str]) -> Result<PathBuf> {
    let bin = folder.join("bin");
    let marker = folder.join("complete");
    if !marker.exists() {
        process::run_quietly(Command::new(python).args(["-m", "venv", "--clear"]).arg(folder))?;
        let mut pip = Command::new(bin.join("python"));
        process::run_quietly(pip.args(["-m", "pip", "install", "--quiet"]).args(packages))?;
        std::fs::write(marker, "")?;
    }
    Ok(bin)
}

/// Builds programs and plugin, and the C API for measurements. Returns their folder.
fn build(tools: &Path, options: &Options) -> Result<PathBuf> {
    let mut cargo = process::cargo(["build"]);
    cargo.args(CRATES.iter().flat_map(|name| ["-p", name]));
    cargo.args(["-p", OFFLOAD.package, "--bins", "--lib"]);
    cargo.env("LONGSHORE_COMMIT", process::said("git", &["describe", "--always", "--dirty"]));
    let folder = process::target_folder();
    if options.debug {
        process::run(&mut cargo)?;
        return Ok(folder.join("debug"));
    }
    let target = triple(options);
    link_by_zig(cargo.args(["--release", "--target", &target]), tools, &target)?;
    process::run(&mut cargo)?;
    Ok(folder.join(target).join("release"))
}

/// Makes a build for a target compile C and link by zig, for an old glibc.
///
/// Cargo builds everything again after a change of the linker's path, so the programs and the wheel
/// have the same linker: a script that runs the one of cargo-zigbuild.
fn link_by_zig(build: &mut Command, tools: &Path, target: &str) -> Result<()> {
    let machine = target.split('-').next().expect("a triple has parts");
    let script = process::target_folder().join("python").join(format!("link-{target}"));
    let tools = tools.display();
    let text = format!(
        "#!/bin/sh\n\
         export CARGO_ZIGBUILD_ZIG_COMMAND='{tools}/python'\n\
         export CARGO_ZIGBUILD_ZIG_COMMAND_ARGS='-m ziglang'\n\
         exec '{tools}/cargo-zigbuild' zig cc -- -fno-sanitize=all \
         -target {machine}-linux-gnu.{GLIBC} \"$@\"\n"
    );
    if std::fs::read_to_string(&script).ok().as_deref() != Some(&text) {
        std::fs::write(&script, text).with_context(|| script.display().to_string())?;
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))?;
    }
    let variable = target.replace('-', "_");
    build.env(format!("CC_{variable}"), &script);
    build.env(format!("CARGO_TARGET_{}_LINKER", variable.to_uppercase()), &script);
    Ok(())
}

/// Returns the target triple of the wheel.
fn triple(options: &Options) -> String {
    let own = || format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    options.target.clone().unwrap_or_else(own)
}

/// Puts files of the build, headers and licences beside the package's modules, and builds the
/// wheel. Returns its path.
fn package(tools: &Path, built: &Path, options: &Options) -> Result<PathBuf> {
    let package = root().join(PACKAGE);
    for file in BUILT {
        put(&built.join(file), &package.join(file), 0o755)?;
        if !options.debug {
            // The wheel holds no symbols of debuggers.
            let mut strip = Command::new(tools.join("python"));
            strip.args(["-m", "ziglang", "objcopy", "--strip-all"]);
            strip.arg(built.join(file)).arg(package.join(file));
            process::run_quietly(&mut strip)?;
        }
    }
    for folder in ["include", "licenses"] {
        let folder = package.join(folder);
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir_all(&folder)?;
    }
    copy_folder(&root().join("include"), &package.join("include"))?;
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        put(&root().join(licence), &package.join("licenses").join(licence), 0o644)?;
    }
    let wheels = process::target_folder().join("wheels");
    let mut maturin = Command::new(tools.join("maturin"));
    maturin.current_dir(root().join("python")).args(["build", "--out"]).arg(&wheels);
    maturin.env("PYO3_NO_PYTHON", "1");
    if options.debug {
        maturin.args(["--compatibility", "linux"]);
    } else {
        let (target, tag) = (triple(options), format!("manylinux_{}", GLIBC.replace('.', "_")));
        maturin.args(["--release", "--compatibility", &tag, "--target", &target]);
        link_by_zig(&mut maturin, tools, &target)?;
    }
    let before = std::time::SystemTime::now();
    process::run(&mut maturin)?;
    newest(&wheels, before)
}

/// Returns the newest wheel of a folder, which is newer than `before`.
fn newest(wheels: &Path, before: std::time::SystemTime) -> Result<PathBuf> {
    let mut found = None;
    for entry in std::fs::read_dir(wheels)? {
        let entry = entry?;
        let made = entry.metadata()?.modified()?;
        if entry.path().extension().is_some_and(|it| it == "whl") {
            found = found.max(Some((made, entry.path())));
        }
    }
    let one_second = std::time::Duration::from_secs(1);
    let found = found.filter(|(made, _)| *made + one_second >= before);
    Ok(found.context("maturin has written no wheel")?.1)
}

/// Copies a file.
fn put(from: &Path, to: &Path, mode: u32) -> Result<()> {
    // A program that runs cannot be written, and can be replaced.
    let _ = std::fs::remove_file(to);
    std::fs::copy(from, to).with_context(|| from.display().to_string())?;
    Ok(std::fs::set_permissions(to, std::fs::Permissions::from_mode(mode))?)
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_folder(&entry.path(), &to)?,
            false => put(&entry.path(), &to, 0o644)?,
        }
    }
    Ok(())
}

/// Installs the wheel into a fresh environment and runs its tests, first without NumPy.
fn test(python: &Path, venv: &Path, wheel: &Path, options: &Options) -> Result<()> {
    let bin = environment(python, venv, &["pip"])?;
    let install = |packages: &[&str], is_needed: bool| -> Result<()> {
        let mut pip = Command::new(bin.join("python"));
        let installed =
            process::run_quietly(pip.args(["-m", "pip", "install", "--quiet"]).args(packages));
        match installed {
            Err(error) if !is_needed => {
                println!("not installed, and not tested with: {error}");
                Ok(())
            }
            installed => installed,
        }
    };
    install(&[&wheel.to_string_lossy()], true)?;
    // Outside of the repository, so that the installed package is imported.
    let tests = || {
        let mut tests = Command::new(bin.join("python"));
        tests.args(["-m", "unittest", "discover", "--start-directory"]);
        tests.arg(root().join("python/tests")).current_dir(venv);
        tests.env("LONGSHORE_TEST_PAGE", root().join("docs/python.md"));
        process::run(&mut tests)
    };
    tests()?;
    install(&["numpy"], false)?;
    for package in &options.with {
        install(&[package], false)?;
    }
    tests()?;
    let mut command = Command::new(bin.join("longshore"));
    process::run(command.arg("devices").current_dir(venv))
}

/// Checks the types and the stubs, and runs the notebook.
fn check(venv: &Path, python: &Path) -> Result<()> {
    println!("checking with {}", python.display());
    let bin = venv.join("bin");
    let mut pip = Command::new(bin.join("python"));
    process::run_quietly(pip.args(["-m", "pip", "install", "--quiet"]).args(CHECKERS))?;
    let mypy = |arguments: &[&str]| {
        let mut mypy = Command::new(bin.join("python"));
        process::run(mypy.args(["-m"]).args(arguments).current_dir(venv))
    };
    mypy(&["mypy", "--strict", "--package", "longshore"])?;
    mypy(&["mypy", "--strict", &root().join("python/tests/typed.py").to_string_lossy()])?;
    let allowed = root().join("python/tests/stubtest.txt");
    let allowed = allowed.to_string_lossy();
    mypy(&["mypy.stubtest", "longshore", "--ignore-unused-allowlist", "--allowlist", &allowed])?;
    let mut notebook = Command::new(bin.join("python"));
    notebook.arg(root().join("python/tests/notebook.py"));
    notebook.arg(root().join("python/examples/mandelbrot.ipynb")).current_dir(venv);
    process::run(&mut notebook)
}

/// Prints the times of import and calls, beside ctypes on the C API.
fn measure(venv: &Path, built: &Path, options: &Options) -> Result<()> {
    if options.debug {
        return Ok(());
    }
    let library = OFFLOAD.link(built)?;
    let mut python = Command::new(venv.join("bin/python"));
    python.arg(root().join("python/benches/measure.py")).arg(library).current_dir(venv);
    let plugin = built.join("liblongshore_plugin_host.so");
    process::run(python.env("LONGSHORE_PLUGIN_PATH", plugin))
}
