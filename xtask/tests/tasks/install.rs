//! `cargo xtask install`, into a folder that is moved before use.

use crate::support::{is_missing, printed};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use tempfile::TempDir;
use xtask::install::{self, Profile};
use xtask::process;
use xtask::test::BUILT;

/// A program that succeeds if the backend of its environment has a device.
const PROGRAM: &str = r#"
#include <offload/OffloadAPI.h>
#include <OffloadAPI.h>
#include <stdio.h>

static bool count(ol_device_handle_t device, void *devices) {
  (void)device;
  ++*(int *)devices;
  return true;
}

int main(void) {
  int devices = 0;
  ol_result_t result = olInit(NULL);
  if (!result) result = olIterateDevices(count, &devices);
  if (!result) result = olShutDown();
  if (result) fprintf(stderr, "%s\n", result->Details);
  return result || devices == 0;
}
"#;

const PROJECT: &str = r#"
cmake_minimum_required(VERSION 3.16)
project(program C)
find_package(LLVMOffload 23 REQUIRED)
add_executable(shared program.c)
target_link_libraries(shared LLVMOffload::LLVMOffload)
add_executable(static program.c)
target_link_libraries(static LLVMOffload::static)
"#;

/// The moved installation, made once for a process.
struct Installed {
    folder: TempDir,
}

impl Installed {
    fn prefix(&self) -> PathBuf {
        self.folder.path().join("a/folder/further/down")
    }

    /// Returns a new folder of a test, beside the installation.
    fn beside(&self, name: &str) -> PathBuf {
        let folder = self.folder.path().join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("program.c"), PROGRAM).unwrap();
        folder
    }
}

fn installed() -> &'static Installed {
    static INSTALLED: LazyLock<Installed> = LazyLock::new(|| {
        let installed = Installed { folder: TempDir::new().unwrap() };
        let before = installed.folder.path().join("before");
        let is_built = std::env::var_os(BUILT).is_some();
        let profile = if is_built { Profile::Tested } else { Profile::Dev };
        install::run(&before, profile).unwrap();
        fs::create_dir_all(installed.prefix().parent().unwrap()).unwrap();
        fs::rename(before, installed.prefix()).unwrap();
        installed
    });
    &INSTALLED
}

/// Returns a command without the variables for plugin folders.
fn run(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    command.env_remove("LONGSHORE_PLUGIN_PATH").env_remove("LONGSHORE_DEVICES");
    command.env("LONGSHORE_BACKEND", "host");
    command
}

#[test]
fn a_program_that_pkg_config_helped_to_make_finds_the_moved_plugins() {
    if is_missing("pkg-config") {
        return;
    }
    let (prefix, folder) = (installed().prefix(), installed().beside("by-pkg-config"));
    let mut pkg_config = Command::new("pkg-config");
    pkg_config.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    let flags = printed(pkg_config.args(["--cflags", "--libs", "LLVMOffload >= 23.1"]));
    let example = prefix.join("share/doc/longshore/examples/saxpy.c");
    for (source, program) in [(&*example, "saxpy"), (Path::new("program.c"), "program")] {
        let mut compiler = Command::new("cc");
        compiler.current_dir(&folder).args(["-std=c99", "-Wall", "-Werror"]).arg(source);
        printed(compiler.args(["-o", program]).args(flags.split_whitespace()));
    }
    printed(run(folder.join("program")).env("LD_LIBRARY_PATH", prefix.join("lib")));
}

#[test]
fn programs_that_cmake_made_find_the_moved_plugins() {
    if is_missing("cmake") {
        return;
    }
    let (prefix, folder) = (installed().prefix(), installed().beside("by-cmake"));
    fs::write(folder.join("CMakeLists.txt"), PROJECT).unwrap();
    let mut cmake = Command::new("cmake");
    cmake.current_dir(&folder).args(["-S", ".", "-B", "build"]);
    printed(cmake.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display())));
    printed(Command::new("cmake").current_dir(&folder).args(["--build", "build"]));
    printed(&mut run(folder.join("build/shared")));
    // A program linked with the static library looks for plugins beside itself.
    let program = prefix.join("bin/static");
    fs::copy(folder.join("build/static"), &program).unwrap();
    printed(&mut run(program));
}

#[test]
fn package_files_of_headers_have_their_versions_and_folders() {
    let prefix = installed().prefix();
    let header = fs::read_to_string(prefix.join("include/longshore_plugin.h")).unwrap();
    let number = |name: &str| {
        let line = header.lines().find_map(|line| line.strip_prefix(&format!("#define {name} ")));
        line.unwrap_or_else(|| panic!("no {name}")).to_owned()
    };
    let interface =
        ["LONGSHORE_INTERFACE_MAJOR", "LONGSHORE_INTERFACE_MINOR"].map(number).join(".");
    let cmake = "share/cmake/LongshorePlugin/LongshorePluginConfigVersion.cmake";
    let cmake = fs::read_to_string(prefix.join(cmake)).unwrap();
    assert!(cmake.contains(&format!("set(PACKAGE_VERSION \"{interface}\")")), "{cmake}");
    if is_missing("pkg-config") {
        return;
    }
    let version = env!("CARGO_PKG_VERSION");
    for (package, header, version) in [
        ("longshore-plugin", "longshore_plugin.h", &*interface),
        ("longshore-device", "longshore_device.h", version),
    ] {
        let ask = |option: &str| {
            let mut pkg_config = Command::new("pkg-config");
            pkg_config.env("PKG_CONFIG_PATH", prefix.join("share/pkgconfig"));
            printed(pkg_config.args([option, package])).trim().to_owned()
        };
        assert_eq!(ask("--modversion"), version);
        assert!(Path::new(&ask("--variable=includedir")).join(header).is_file(), "{package}");
    }
}

#[test]
fn another_version_is_not_found() {
    if is_missing("cmake") {
        return;
    }
    let (prefix, folder) = (installed().prefix(), installed().beside("another-version"));
    for version in ["22", "23.2", "24"] {
        let project = PROJECT.replace("LLVMOffload 23 ", &format!("LLVMOffload {version} "));
        fs::write(folder.join("CMakeLists.txt"), project).unwrap();
        let mut cmake = Command::new("cmake");
        cmake.current_dir(&folder).args(["-S", ".", "-B", version]);
        let output =
            cmake.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display())).output().unwrap();
        assert!(!output.status.success(), "{version} is found");
    }
}

#[test]
fn an_installation_has_its_documentation_its_samples_and_its_commit() {
    let prefix = installed().prefix();
    let documentation = prefix.join("share/doc/longshore");
    for file in ["README.md", "CHANGELOG.md", "docs/command.md", "examples/plugin-c/plugin.c"] {
        let text = fs::read_to_string(documentation.join(file))
            .unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(!text.is_empty(), "{file}");
    }
    let version = printed(run(prefix.join("bin/longshore")).arg("--version"));
    let commit = process::said("git", &["describe", "--always", "--dirty"]);
    assert!(version.contains(&format!("(commit {commit})")), "{version}: {commit}");
}

/// Returns the pages in a folder and below.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let pages = |path: PathBuf| match path.is_dir() {
        true => pages(&path),
        false => vec![path],
    };
    entries.flat_map(pages).filter(|path| path.extension().is_some_and(|end| end == "md")).collect()
}

#[test]
fn links_of_installed_pages_lead_to_installed_files() {
    let prefix = installed().prefix();
    let (mut followed, mut to_headers) = (0, 0);
    for page in pages(&prefix.join("share/doc/longshore")) {
        let text = fs::read_to_string(&page).unwrap();
        for part in text.split("](").skip(1) {
            let target = part.split(')').next().unwrap().split('#').next().unwrap();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let file = page.parent().unwrap().join(target);
            let file =
                file.canonicalize().unwrap_or_else(|_| panic!("{}: {target}", page.display()));
            assert!(file.starts_with(prefix.canonicalize().unwrap()), "{}", file.display());
            followed += 1;
            to_headers += usize::from(file.extension().is_some_and(|end| end == "h"));
        }
    }
    assert!(followed > 20 && to_headers > 0, "{followed}, {to_headers}");
}

#[test]
fn a_library_in_a_folder_of_lib_longshore_finds_plugins_and_executor() {
    let (prefix, folder) = (installed().prefix(), installed().beside("nested"));
    let nested = folder.join("lib/longshore/openmp");
    fs::create_dir_all(&nested).unwrap();
    fs::create_dir_all(folder.join("libexec/longshore")).unwrap();
    for file in
        ["lib/longshore/liblongshore_plugin_host.so", "libexec/longshore/longshore-executor"]
    {
        fs::copy(prefix.join(file), folder.join(file)).unwrap();
    }
    let library = nested.join("libLLVMOffload.so.23.1");
    fs::copy(prefix.join("lib/libLLVMOffload.so.23.1"), &library).unwrap();
    let mut compile = Command::new("cc");
    compile.current_dir(&folder).args(["program.c", "-o", "bin"]).arg(library);
    let include = prefix.join("include");
    printed(compile.arg("-I").arg(&include).arg("-I").arg(include.join("offload")));
    for isolated in ["", "host"] {
        let mut program = run(folder.join("bin"));
        program.env("LD_LIBRARY_PATH", &nested).env("LONGSHORE_ISOLATE", isolated);
        printed(&mut program);
    }
    fs::remove_file(folder.join("libexec/longshore/longshore-executor")).unwrap();
    let mut program = run(folder.join("bin"));
    program.env("LD_LIBRARY_PATH", &nested).env("LONGSHORE_ISOLATE", "host");
    assert!(!program.status().unwrap().success(), "the program runs without the executor");
}

#[test]
fn the_installed_sample_finds_the_installed_header() {
    if is_missing("make") {
        return;
    }
    let (prefix, folder) = (installed().prefix(), installed().beside("sample"));
    let library = folder.join("liblongshore_plugin_sample.so");
    let mut make = Command::new("make");
    make.arg("-C").arg(prefix.join("share/doc/longshore/examples/plugin-c"));
    printed(make.arg(format!("LIBRARY={}", library.display())));
    let listed =
        printed(run(prefix.join("bin/longshore")).args(["plugins", "--plugin"]).arg(library));
    assert!(listed.contains("liblongshore_plugin_sample.so"), "{listed}");
}

#[test]
fn the_moved_command_finds_its_plugins_and_has_its_manual_and_completions() {
    let prefix = installed().prefix();
    let plugins = printed(run(prefix.join("bin/longshore")).arg("plugins"));
    let plugin = prefix.join("lib/longshore/liblongshore_plugin_host.so");
    assert!(plugins.contains(&*plugin.to_string_lossy()), "{plugins}");
    let isolated =
        printed(run(prefix.join("bin/longshore")).env("LONGSHORE_ISOLATE", "host").arg("plugins"));
    assert!(isolated.contains("isolated") && isolated.contains("process "), "{isolated}");
    let manual = fs::read_to_string(prefix.join("share/man/man1/longshore.1")).unwrap();
    assert!(manual.contains(".TH longshore 1"), "{manual}");
    for file in [
        "share/bash-completion/completions/longshore",
        "share/zsh/site-functions/_longshore",
        "share/fish/vendor_completions.d/longshore.fish",
        "include/longshore_device.h",
        "include/longshore_math/float.h",
        "include/longshore_cuda/ptx.h",
        "include/longshore_plugin.h",
    ] {
        let text = fs::read_to_string(prefix.join(file)).unwrap();
        assert!(text.contains("longshore"), "{file}");
    }
}
