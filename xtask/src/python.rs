//! `cargo xtask python`: the wheel for Python, and its tests in fresh environments.

use crate::package::target::Architecture;
use crate::package::toolchain::{self, GLIBC};
use crate::shared_library::OFFLOAD;
use crate::{install, package, process, root};
use anyhow::{Context, Result, bail};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Tools of the build, as packages of Python.
const TOOLS: [&str; 1] = ["maturin"];
/// Packages of the tests of types and notebooks.
const CHECKERS: [&str; 5] = ["mypy", "nbclient", "nbformat", "ipykernel", "matplotlib"];
/// The oldest version of Python 3 that the wheel serves, and one that does not exist yet.
const VERSIONS: std::ops::Range<u32> = 9..30;
/// Crates with the programs and the plugin in the wheel.
const CRATES: [&str; 3] =
    ["longshore-command", "longshore-executor", "longshore-plugin-host-library"];
/// Files of the build that lie beside the package's modules.
const BUILT: [&str; 3] = ["longshore", "longshore-executor", "liblongshore_plugin_host.so"];
/// The folder of the package's modules.
const PACKAGE: &str = "python/python/longshore";

/// Choices of a build.
#[derive(Debug)]
pub struct Options {
    /// Whether to build without optimization, for this machine's glibc.
    pub debug: bool,
    /// The architecture of the wheel. A wheel for another machine is not tested.
    pub architecture: Architecture,
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
    let built = build(options)?;
    let wheel = package(&tools, &built, options)?;
    println!("\n{}", wheel.display());
    if options.no_tests || options.architecture != Architecture::native() {
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
fn build(options: &Options) -> Result<PathBuf> {
    if !options.debug {
        toolchain::install(options.architecture)?;
        return toolchain::build(options.architecture, &package::target_folder());
    }
    let mut cargo = process::cargo(["build"]);
    cargo.args(CRATES.iter().flat_map(|name| ["-p", name]));
    cargo.args(["-p", OFFLOAD.package, "--bins", "--lib"]).env(install::COMMIT, install::commit());
    process::run(&mut cargo)?;
    Ok(process::target_folder().join("debug"))
}

/// Puts files of the build, headers and licences beside the package's modules, and builds the
/// wheel. Returns its path.
fn package(tools: &Path, built: &Path, options: &Options) -> Result<PathBuf> {
    let package = root().join(PACKAGE);
    for file in BUILT {
        put(&built.join(file), &package.join(file), 0o755)?;
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
        let tag = format!("manylinux_{}", GLIBC.replace('.', "_"));
        maturin.args(["--release", "--compatibility", &tag, "--target"]);
        maturin.arg(options.architecture.rust()).env(toolchain::UNDEFINED, "1");
        toolchain::prepare(&mut maturin, options.architecture, &package::target_folder())?;
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
    let library = OFFLOAD.link_by(&toolchain::linker(options.architecture)?, built)?;
    let mut python = Command::new(venv.join("bin/python"));
    python.arg(root().join("python/benches/measure.py")).arg(library).current_dir(venv);
    let plugin = built.join("liblongshore_plugin_host.so");
    process::run(python.env("LONGSHORE_PLUGIN_PATH", plugin))
}
