//! The examples, each run on the CPU, and the conformance suite on the plugin in Rust.

use longshore::{Grid, Host, Image};
use longshore_conformance::{Filter, Outcome, Setup, TrustedImages};
use longshore_tests::device_code::clangs;
use longshore_tests::world::{command, host_plugin, root};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use xtask::shared_library::OFFLOAD;

/// Returns a file in cargo's target folder; `cargo build` with `options` makes a missing one.
fn built(file: &str, options: &[&str]) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join(file);
    if !path.is_file() {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet"]).args(options);
        assert!(cargo.current_dir(root()).status().unwrap().success());
    }
    path
}

/// Returns the program or library of an example in Rust.
fn example(file: &str) -> PathBuf {
    built(&format!("examples/{file}"), &["--package", "longshore-examples", "--examples"])
}

/// Compiles the example in C into a folder, with the shared library of the C API.
fn example_in_c(folder: &Path) -> PathBuf {
    let archive = built(OFFLOAD.archive, &["--package", "longshore-capi"]);
    let library = OFFLOAD.link(archive.parent().unwrap()).unwrap();
    let program = folder.join("saxpy");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"]);
    compiler.arg(root().join("capi/include")).arg(root().join("examples/saxpy.c"));
    compiler.arg(&library).arg(format!("-Wl,-rpath,{}", library.parent().unwrap().display()));
    assert!(compiler.arg("-o").arg(&program).status().unwrap().success());
    program
}

/// Compiles the kernels of a source. Without a clang, prints that and returns `None`.
fn kernels(source: &str, folder: &Path) -> Option<PathBuf> {
    let Some(clang) = clangs().pop() else {
        println!("not tried: no clang is installed");
        return None;
    };
    let image = folder.join("kernels.img");
    let mut compiler = Command::new(command());
    compiler.arg("cc").arg(root().join(source)).args(["--clang", clang]);
    assert!(compiler.arg("-o").arg(&image).status().unwrap().success());
    Some(image)
}

/// Runs a program with an image, on the CPU as `devices` devices.
fn output(program: &Path, image: &Path, devices: &str) -> Output {
    let mut command = Command::new(program);
    command.arg(image).env("LONGSHORE_BACKEND", "host").env("LONGSHORE_HOST_DEVICES", devices);
    command.env("LONGSHORE_PLUGIN_PATH", host_plugin()).env_remove("LONGSHORE_DEVICES");
    command.output().unwrap()
}

/// Returns the output of a program that runs on the CPU as `devices` devices; empty without a
/// clang.
fn runs(program: &Path, devices: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let Some(image) = kernels("examples/kernels.c", folder.path()) else { return String::new() };
    let output = output(program, &image, devices);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", program.display());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn saxpy_is_right() {
    let said = runs(&example("saxpy"), "1");
    assert!(said.is_empty() || said.starts_with("1024 values are right on "), "{said}");
}

#[test]
fn saxpy_in_c_is_right() {
    let folder = tempfile::tempdir().unwrap();
    let said = runs(&example_in_c(folder.path()), "1");
    assert!(said.is_empty() || said.starts_with("1024 values are right on "), "{said}");
}

#[test]
fn saxpy_in_c_says_what_has_failed() {
    let folder = tempfile::tempdir().unwrap();
    let program = example_in_c(folder.path());
    for (image, expected) in [("examples/none.img", "opened"), ("examples/saxpy.c", "no device")] {
        let output = output(&program, &root().join(image), "1");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{image}: {said}");
        assert!(said.contains(expected), "{image}: {said}");
    }
}

#[test]
fn two_queues_make_and_add_blocks() {
    let said = runs(&example("two_queues"), "1");
    assert!(said.is_empty() || said.starts_with("8 blocks of 4096 values are right on "), "{said}");
}

#[test]
fn several_devices_share_the_values() {
    let said = runs(&example("several_devices"), "3");
    assert!(said.is_empty() || said.lines().count() == 3, "{said}");
}

#[test]
fn rows_on_several_devices_equal_the_rows_on_one_device() {
    let folder = tempfile::tempdir().unwrap();
    let Some(image) = kernels("examples/jacobi/kernel.c", folder.path()) else { return };
    let cells = |devices: &str, steps: &str| {
        let file = folder.path().join(format!("cells-{devices}-{steps}"));
        let mut command = Command::new(example("jacobi"));
        command.arg(&image).args(["64", steps]).arg(&file).env("LONGSHORE_BACKEND", "host");
        command.env("LONGSHORE_HOST_DEVICES", devices).env_remove("LONGSHORE_DEVICES");
        let output = command.env("LONGSHORE_PLUGIN_PATH", host_plugin()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::read(file).unwrap()
    };
    let one = cells("1", "25");
    assert_eq!(one.len(), 64 * 66 * size_of::<f64>());
    assert!(one == cells("4", "25"), "the cells differ");
    assert!(one != cells("4", "24"), "steps change nothing");
}

fn plugin() -> PathBuf {
    example("liblongshore_plugin_example.so")
}

#[test]
fn the_plugin_runs_its_kernel() {
    let host = Host::builder().with_only_given_plugins().with_plugin(plugin()).build().unwrap();
    let device = host.device("example:0").unwrap();
    let image = Image::from(b"longshore-example: saxpy\n".to_vec());
    let program = device.load_trusted(image).unwrap();
    let (saxpy, queue) = (program.kernel("saxpy").unwrap(), device.queue().unwrap());
    let x = device.buffer_of(&queue, &[1.0f32; 512]).unwrap();
    let y = device.buffer_of(&queue, &[2.0f32; 512]).unwrap();
    // SAFETY: the kernel takes (u64, f32, pointer, pointer) and stays within 512 elements.
    unsafe { queue.launch(&saxpy, Grid::linear(4, 128), (512u64, 2.5f32, &x, &y)).unwrap() };
    assert_eq!(y.to_vec(&queue).unwrap(), [4.5; 512]);
}

#[test]
fn the_plugin_passes_the_suite() {
    let setup = Setup::new().with_plugin(plugin()).with_backends("example");
    let device = setup.devices().unwrap().remove(0);
    let report = setup.run_all(&device, &Filter::all(), |_, _| {});
    let failed: Vec<_> = report
        .outcomes
        .iter()
        .filter_map(|(behaviour, outcome)| match outcome {
            Outcome::Failed(what) => Some(format!("{behaviour}: {what}")),
            _ => None,
        })
        .collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(report.passed() > 50, "{} behaviours", report.passed());
}
