//! The README and the guides in `docs`: each is followed as a reader follows it.

use longshore_tests::device_code::clangs;
use longshore_tests::doubled::{CUDA, Doubled};
use longshore_tests::pages::{Reader, is_followed};
use longshore_tests::world::{host_plugin, root};
use std::path::Path;
use std::process::Command;

macro_rules! guides {
    ($($name:ident: $page:literal, $needs:expr;)*) => {
        $(#[test]
        fn $name() {
            if are_installed(&$needs) {
                Reader::new().follow($page);
            }
        })*

        /// The guides that a test follows.
        const GUIDES: &[&str] = &[$($page),*];
    };
}

// Each with the programs that its commands need beside clang.
guides! {
    getting_started: "docs/getting-started.md", [];
    kernel_to_result: "docs/kernel-to-result.md", [];
    debugging_a_kernel: "docs/debugging-a-kernel.md", ["gdb"];
    checking_kernels: "docs/checking-kernels.md", [];
    overlap: "docs/overlap.md", [];
    plugin_from_nothing: "docs/plugin-from-nothing.md", ["cmake", "nm"];
    plugin_in_rust: "docs/plugin-in-rust.md", [];
    plugin_in_c: "docs/plugin-in-c.md", ["make", "patch"];
    isolating_a_driver: "docs/isolating-a-driver.md", ["make"];
    shipping: "docs/shipping.md", [];
}

/// Returns whether clang and these programs are installed, and gdb may trace. Prints the name of a
/// missing one.
fn are_installed(programs: &[&str]) -> bool {
    let mut probes = programs.iter().map(|name| match *name {
        "gdb" => (*name, &["-nx", "-batch", "-return-child-result", "-ex", "run", "true"][..]),
        _ => (*name, &["--version"][..]),
    });
    let fails = |(name, arguments): &(&str, &[&str])| {
        let output = Command::new(name).args(*arguments).output();
        !output.is_ok_and(|output| output.status.success())
    };
    if let Some((name, _)) = probes.find(fails) {
        println!("{name} is not installed or cannot run; the guide was not tried");
        return false;
    }
    !clangs().is_empty()
}

#[test]
fn every_page_with_files_or_sessions_is_followed() {
    let pages = std::fs::read_dir(root().join("docs")).unwrap();
    for page in pages.map(|page| page.unwrap().path()) {
        let text = std::fs::read_to_string(&page).unwrap();
        let name = page.strip_prefix(root()).unwrap();
        let has_test = GUIDES.iter().any(|guide| Path::new(guide) == name);
        assert_eq!(is_followed(&text), has_test, "{}", name.display());
    }
}

#[test]
fn the_readmes_program_runs_also_on_a_machine_with_a_gpu() {
    if !are_installed(&[]) {
        return;
    }
    let reader = Reader::new();
    reader.run("mkdir saxpy && cd saxpy");
    reader.follow("README.md");
    let plugins = host_plugin().parent().unwrap().display().to_string();
    let variables = [
        ("LONGSHORE_BACKEND", "cuda,host".to_owned()),
        ("LONGSHORE_PLUGIN_PATH", plugins),
        (
            "LONGSHORE_CUDA_DRIVER",
            CUDA.double().expect("the double is built").display().to_string(),
        ),
        (CUDA.settings_variable(), Doubled::with_twins("devices=1")),
    ];
    for (name, value) in variables {
        assert!(reader.run(&format!("export {name}='{value}'")).0);
    }
    let (_, devices) = reader.run("longshore devices");
    assert!(devices.lines().nth(1).is_some_and(|line| line.starts_with("cuda:0")), "{devices}");
    // The image has code for the CPU alone.
    let (succeeded, output) = reader.run("cargo run --quiet");
    assert!(succeeded && output.trim_end().ends_with("4.5"), "{output}");
}
