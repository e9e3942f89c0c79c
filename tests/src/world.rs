//! Made worlds: folders with the plugins that a test builds, in various versions and with various
//! faults.

use longshore::{Environment, Host, HostBuilder};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A folder of plugins.
pub struct World {
    folder: TempDir,
}

/// A change of the plugin-api crate for a plugin in Rust, so that it differs from the host's.
pub struct Tampering {
    /// Path of the file, below `plugin-api/`.
    pub file: &'static str,
    /// Pairs of texts, in order: the first occurrence of the first text, which must exist, becomes
    /// the second.
    pub replacements: &'static [(&'static str, &'static str)],
}

impl Default for World {
    fn default() -> World {
        World::new()
    }
}

impl World {
    /// Creates an empty folder.
    pub fn new() -> World {
        World { folder: TempDir::new().expect("a temporary folder") }
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the file of a backend's plugin in this folder.
    pub fn plugin(&self, backend: &str) -> PathBuf {
        self.path().join(format!("liblongshore_plugin_{backend}.so"))
    }

    /// Adds a file with any content under a plugin's name.
    pub fn add_file(&self, backend: &str, content: &[u8]) -> PathBuf {
        let path = self.plugin(backend);
        std::fs::write(&path, content).expect("the folder can be written");
        path
    }

    /// Adds a shared object that is not a plugin.
    pub fn add_other_library(&self, backend: &str) -> PathBuf {
        self.compile_c(backend, "int answer(void) { return 42; }", &[])
    }

    /// Adds the sample plugin in C under the name `backend`, compiled with further flags.
    pub fn add_sample(&self, backend: &str, flags: &[&str]) -> PathBuf {
        self.add_sample_with_header(backend, &root().join("plugin-api/include"), flags)
    }

    /// Adds the sample plugin, with the header of another version of the interface.
    pub fn add_sample_with_header(&self, backend: &str, include: &Path, flags: &[&str]) -> PathBuf {
        let folder = root().join("examples/plugin-c");
        let sources = std::fs::read_dir(&folder).expect("the sample is there");
        let sources = sources.map(|entry| entry.expect("an entry").path());
        let sources: Vec<_> =
            sources.filter(|path| path.extension() == Some(OsStr::new("c"))).collect();
        let name = format!("-DBACKEND=\"{backend}\"");
        let include = format!("-I{}", include.display());
        let mut compile = c_compiler();
        compile.args(["-std=gnu99", "-O1", &name, &include]).args(flags).args(sources);
        run(compile.arg("-o").arg(self.plugin(backend)).arg("-pthread"));
        self.plugin(backend)
    }

    /// Adds the sample plugin under the name `backend`, with one faulty function. The file `fault`
    /// in this folder, which [`World::set_fault`] writes, names the function and its fault.
    pub fn add_faulty(&self, backend: &str) -> PathBuf {
        let wrapper = root().join("tests/fixtures/faulty/wrapper.c");
        let wrapper = wrapper.to_str().expect("the repository's path is UTF-8");
        self.add_sample(backend, &["-Dlongshore_plugin=sample_plugin", wrapper])
    }

    /// Makes function `index` of a table of the faulty plugin fail after the next load. `kind` is
    /// "abort", "exit" (with the exit code 7), "segv", "kill" or "hang".
    pub fn set_fault(&self, table: &str, index: usize, kind: &str) {
        let fault = format!("{table} {index} {kind}");
        std::fs::write(self.path().join("fault"), fault).expect("the folder can be written");
    }

    /// Removes the fault of the faulty plugin from the next load on.
    pub fn clear_fault(&self) {
        let _ = std::fs::remove_file(self.path().join("fault"));
    }

    /// Adds a plugin in Rust with this body of `connect`, optionally built against a tampered
    /// interface.
    pub fn add_rust(&self, backend: &str, connect: &str, tampering: Option<&Tampering>) -> PathBuf {
        let crate_folder = TempDir::new().expect("a temporary folder");
        let api = interface(&crate_folder.path().join(format!("api-{backend}")), tampering);
        write_crate(crate_folder.path(), &api, &RUST_PLUGIN.replace("CONNECT", connect), backend);
        // The target folder is the workspace's, which has the interface's dependencies.
        let target = folder().parent().expect("it is a folder of the target folder").to_owned();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--offline", "--manifest-path"]);
        cargo.arg(crate_folder.path().join("Cargo.toml")).arg("--target-dir").arg(&target);
        run(&mut cargo);
        let built = target.join(format!("debug/libworld_{backend}.so"));
        std::fs::copy(built, self.plugin(backend)).expect("the plugin was built");
        self.plugin(backend)
    }

    /// Returns a host that sees this folder alone, and no variables of the process.
    pub fn host(&self) -> HostBuilder {
        Host::builder()
            .with_environment(Environment::empty())
            .with_only_given_plugins()
            .with_plugin(self.path())
    }

    fn compile_c(&self, backend: &str, source: &str, flags: &[&str]) -> PathBuf {
        let file = self.path().join("source.c");
        std::fs::write(&file, source).expect("the folder can be written");
        run(c_compiler().args(flags).arg(&file).arg("-o").arg(self.plugin(backend)));
        std::fs::remove_file(file).expect("it was written");
        self.plugin(backend)
    }
}

/// Copies a file of the build, such as the host plugin, into a world.
pub fn copy_into(world: &World, file: &Path) -> PathBuf {
    let place = world.path().join(file.file_name().expect("a file"));
    std::fs::copy(file, &place).expect("the file is there");
    place
}

/// Returns the repository's root.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the workspace")
}

/// Returns the CPU's plugin, after a build if the file is missing.
pub fn host_plugin() -> PathBuf {
    built("longshore-plugin-host-library", "liblongshore_plugin_host.so")
}

/// Returns the static library of `libomptarget.so`, after a build if the file is missing.
pub fn openmp_archive() -> PathBuf {
    built("longshore-openmp", "liblongshore_openmp.a")
}

/// Returns the executable for isolated plugins, after a build if the file is missing.
pub fn executor() -> PathBuf {
    built("longshore-executor", "longshore-executor")
}

/// Returns the command `longshore`, after a build if the file is missing.
pub fn command() -> PathBuf {
    built("longshore-command", "longshore")
}

/// Returns the program `longshore-check`, after a build if the file is missing.
pub fn check_command() -> PathBuf {
    built("longshore-conformance", "longshore-check")
}

/// Returns the MPI plugin, after a build if the file is missing.
pub fn mpi_plugin() -> PathBuf {
    built("longshore-plugin-mpi-library", "liblongshore_plugin_mpi.so")
}

/// Returns the process that serves devices to programs on other machines, after a build if the file
/// is missing.
pub fn node() -> PathBuf {
    built("longshore-node", "longshore-node")
}

/// Returns the library of the Python package, after a build if the file is missing.
pub fn python_library() -> PathBuf {
    built("longshore-python", "liblongshore_python.so")
}

/// Returns a file in cargo's build folder, after a build if the file is missing.
fn built(package: &str, file: &str) -> PathBuf {
    let path = folder().join(file);
    if !path.is_file() {
        let mut cargo = Command::new(env!("CARGO"));
        run(cargo.args(["build", "--quiet", "-p", package]).current_dir(root()));
    }
    path
}

/// Returns cargo's build folder for this test's profile.
fn folder() -> PathBuf {
    let executable = std::env::current_exe().expect("an executable has a path");
    let folder = executable.ancestors().find(|path| path.join(".fingerprint").is_dir());
    folder.expect("tests run from a folder that cargo made").to_owned()
}

const RUST_PLUGIN: &str = include_str!("world/plugin.rs.txt");

/// Returns the plugin-api crate to build against: the repository's, or a tampered copy. Cargo
/// distinguishes crates of one target folder by their paths in the workspace.
fn interface(copy: &Path, tampering: Option<&Tampering>) -> PathBuf {
    let original = root().join("plugin-api");
    let Some(tampering) = tampering else {
        return original;
    };
    let mut cp = Command::new("cp");
    run(cp.arg("-r").arg(&original).arg(copy));
    let file = copy.join(tampering.file);
    let mut text = std::fs::read_to_string(&file).expect("the file is there");
    for (from, to) in tampering.replacements {
        assert!(text.contains(from), "{} has no '{from}'", tampering.file);
        text = text.replacen(from, to, 1);
    }
    std::fs::write(&file, text).expect("a copy");
    let manifest = copy.join("Cargo.toml");
    let text = std::fs::read_to_string(&manifest).expect("a manifest");
    std::fs::write(&manifest, detach(&text)).expect("a copy");
    copy.to_owned()
}

/// Returns a manifest that inherits nothing from the workspace.
fn detach(manifest: &str) -> String {
    let versions = std::fs::read_to_string(root().join("Cargo.toml")).expect("the workspace");
    let version_of = |name: &str| {
        let line = versions.lines().find(|line| line.starts_with(&format!("{name} = ")));
        // Crates of the workspace keep their paths.
        let here = format!("path = \"{}/", root().display());
        line.expect("the workspace has it").replace("path = \"", &here)
    };
    let kept = manifest.lines().filter_map(|line| match line.strip_suffix(".workspace = true") {
        Some("edition") => Some("edition = \"2024\"".to_owned()),
        Some("rust-version" | "license" | "publish") => None,
        Some(dependency) => Some(version_of(dependency)),
        None if line == "[lints]" || line == "workspace = true" => None,
        None => Some(line.to_owned()),
    });
    kept.map(|line| line + "\n").collect()
}

fn write_crate(folder: &Path, api: &Path, source: &str, backend: &str) {
    let manifest = format!(
        "[package]\nname = \"world-{backend}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
         [lib]\ncrate-type = [\"cdylib\"]\n\n\
         [dependencies]\nlongshore-plugin-api = {{ path = {api:?} }}\n\n\
         [workspace]\n\n[profile.dev]\ndebug = \"line-tables-only\"\n"
    );
    std::fs::create_dir_all(folder.join("src")).expect("a folder");
    std::fs::write(folder.join("Cargo.toml"), manifest).expect("a manifest");
    std::fs::write(folder.join("src/lib.rs"), source.replace("BACKEND", backend)).expect("a file");
    let lock = root().join("Cargo.lock");
    std::fs::copy(lock, folder.join("Cargo.lock")).expect("the workspace has a lock file");
}

fn c_compiler() -> Command {
    let mut compile = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compile.args(["-shared", "-fPIC"]);
    compile
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
}
