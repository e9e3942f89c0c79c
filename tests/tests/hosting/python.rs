//! The Python package, put together from the build as its wheel is, and tested by its own tests.

use longshore_tests::doubled::CUDA;
use longshore_tests::world::{command, executor, host_plugin, python_library, root};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// Returns the package's folder, with links to modules and to files of the build.
fn package() -> TempDir {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let package = folder.path().join("longshore");
    std::fs::create_dir(&package).unwrap();
    for entry in std::fs::read_dir(root().join("python/python/longshore")).unwrap() {
        let path = entry.unwrap().path();
        let is_module = path.extension().is_some_and(|it| it == "py");
        if is_module {
            put(&path, &package.join(path.file_name().unwrap()));
        }
    }
    put(&python_library(), &package.join("_native.abi3.so"));
    for file in [host_plugin(), command(), executor()] {
        put(&file, &package.join(file.file_name().unwrap()));
    }
    folder
}

/// Puts a file there, as one file of two names where the file system can.
fn put(from: &Path, to: &Path) {
    std::fs::hard_link(from, to).or_else(|_| std::fs::copy(from, to).map(drop)).unwrap();
}

/// Returns whether Python is installed. Prints the reason if not.
fn is_installed() -> bool {
    let is_new_enough = "import sys; sys.exit(sys.version_info < (3, 9))";
    let probe = Command::new("python3").args(["-c", is_new_enough]).status();
    let is_installed = probe.is_ok_and(|status| status.success());
    if !is_installed {
        println!("python3 from 3.9 is not installed; the package was not tried");
    }
    is_installed
}

/// Runs the tests in the files of these names, with the package in a folder.
fn run(folder: &TempDir, files: &str, variables: &[(&str, &Path)]) {
    let mut tests = Command::new("python3");
    tests.args(["-m", "unittest", "discover", "--pattern", files, "--start-directory"]);
    tests.arg(root().join("python/tests")).current_dir(folder.path());
    // `cargo xtask test --install` puts NumPy there.
    let path = std::env::join_paths([folder.path(), &root().join("target/numpy")]).unwrap();
    tests.env("PYTHONPATH", path).env("PYTHONDONTWRITEBYTECODE", "1");
    tests.envs(variables.iter().copied());
    let output = tests.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    println!("{printed}");
    assert!(output.status.success(), "{printed}");
    // A discovery that finds nothing succeeds in older versions.
    assert!(!printed.contains("Ran 0 tests"), "{printed}");
}

#[test]
fn the_package_passes_its_tests() {
    if is_installed() {
        let page = root().join("docs/python.md");
        run(&package(), "test_*.py", &[("LONGSHORE_TEST_PAGE", &page)]);
    }
}

#[test]
fn the_package_passes_its_tests_of_gpus_on_a_double_and_on_vulkan() {
    let files = CUDA.plugin().zip(CUDA.double());
    let Some((plugin, double)) = files.filter(|_| is_installed()) else { return };
    let vulkan = plugin.with_file_name("liblongshore_plugin_vulkan.so");
    let plugins = std::env::join_paths([plugin, vulkan]).unwrap();
    let variables =
        [("LONGSHORE_PLUGIN_PATH", Path::new(&plugins)), ("LONGSHORE_CUDA_DRIVER", &*double)];
    run(&package(), "test_gpu.py", &variables);
}
