//! Reports on kernels to profilers: the perf map and the jitdump.

use longshore::{Environment, ErrorCode, Host, Image, LoadOptions};
use longshore_tests::device_code::{Workshop, clangs};
use longshore_tests::world::{World, command, copy_into, host_plugin};
use std::path::Path;
use std::process::Command;

const SOURCE: &str = r#"
#include <longshore_device.h>
LONGSHORE_KERNEL(spin_for_profilers, (uint64_t n, uint64_t *out)) {
  volatile uint64_t sum = 0;
  for (uint64_t i = 0; i < n; ++i) sum += i;
  out[longshore_global_id(0)] = sum;
}
"#;
const KERNEL: &str = "spin_for_profilers";

/// Returns an object and a shared object.
fn images(workshop: &Workshop) -> Option<[std::path::PathBuf; 2]> {
    let clang = clangs().pop()?;
    let object = workshop.object(clang, "spin", SOURCE, &["-O1"]);
    let shared = object.with_extension("so");
    let mut linking = Command::new(clang);
    linking.args(["-shared", "-fPIC", "-o"]).args([&shared, &object]);
    assert!(linking.status().unwrap().success());
    Some([object, shared])
}

#[test]
fn the_perf_map_has_the_kernels_of_objects_and_of_shared_objects() {
    let workshop = Workshop::new();
    let Some(images) = images(&workshop) else { return };
    let device = workshop.device(Environment::empty().with("LONGSHORE_HOST_DEBUG", "perf"));
    let map = format!("/tmp/perf-{}.map", std::process::id());
    for image in images {
        let lines = || std::fs::read_to_string(&map).unwrap_or_default();
        let before = lines().len();
        let image = Image::read(image).unwrap();
        // SAFETY: the image is this test's.
        let program = unsafe { device.load_with(image, &LoadOptions::new()) }.unwrap();
        let address = program.kernel(KERNEL).unwrap().attributes().address;
        let lines = lines();
        let line = lines[before..].lines().find(|line| line.ends_with(&format!(" {KERNEL}")));
        assert!(line.unwrap().starts_with(&format!("{address:x} ")), "{address:x}: {lines}");
        program.unload().unwrap();
    }
    std::fs::remove_file(&map).unwrap();
}

#[test]
fn the_jitdump_has_the_code_of_a_kernel() {
    let workshop = Workshop::new();
    let Some(images) = images(&workshop) else { return };
    let folder = tempfile::tempdir().unwrap();
    let setting = format!("jitdump={}", folder.path().display());
    let device = workshop.device(Environment::empty().with("LONGSHORE_HOST_DEBUG", setting));
    for image in images {
        let image = Image::read(image).unwrap();
        // SAFETY: the image is this test's.
        let program = unsafe { device.load_with(image, &LoadOptions::new()) }.unwrap();
        let attributes = program.kernel(KERNEL).unwrap().attributes().clone();
        let dump = dump(folder.path());
        // SAFETY: the kernel's code is in memory until the program is unloaded.
        let code = unsafe {
            std::slice::from_raw_parts(
                attributes.address as *const u8,
                attributes.code_bytes as usize,
            )
        };
        let record = [KERNEL.as_bytes(), b"\0", code].concat();
        assert!(dump.windows(record.len()).any(|bytes| bytes == record));
        program.unload().unwrap();
    }
}

/// Returns the contents of the only jitdump below a folder.
fn dump(folder: &Path) -> Vec<u8> {
    let entry = |folder: &Path| std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    std::fs::read(entry(&entry(folder))).unwrap()
}

#[test]
fn perf_report_names_kernels_of_objects_and_of_shared_objects() {
    let workshop = Workshop::new();
    let Some(images) = images(&workshop) else { return };
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("perf.data");
    let record = ["record", "-q", "-k", "mono", "-e", "cpu-clock:u", "-o"];
    let refused = Command::new("perf").args(record).arg(&data).args(["--", "true"]).output();
    if !refused.is_ok_and(|output| output.status.success()) {
        println!("perf is not installed or may not record; nothing was tried");
        return;
    }
    for image in images {
        let mut perf = Command::new("perf");
        perf.args(record).arg(&data).arg("--").arg(command()).args(["--backend", "host", "run"]);
        perf.arg(image).args(["--groups", "8", "--arg", "u64=20000000", "--arg", "out:u64[8]"]);
        perf.env("LONGSHORE_HOST_DEBUG", "perf").env("LONGSHORE_PLUGIN_PATH", host_plugin());
        let output = perf.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut report = Command::new("perf");
        report.args(["report", "--stdio", "-s", "dso,symbol", "-i"]).arg(&data);
        let output = report.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let named = |line: &str| line.contains("[JIT] tid ") && line.contains(KERNEL);
        assert!(said.lines().any(named), "{said}");
        for line in said.lines().filter(|line| named(line)) {
            let process = line.split("[JIT] tid ").nth(1).unwrap().split_whitespace().next();
            let _ = std::fs::remove_file(format!("/tmp/perf-{}.map", process.unwrap()));
        }
    }
}

#[test]
fn an_unknown_receiver_of_reports_is_an_error_of_the_setting() {
    let world = World::new();
    copy_into(&world, &host_plugin());
    let errors = [
        world.host().with_setting("host", "DEBUG", "gdb,lldb").build(),
        world
            .host()
            .with_environment(Environment::empty().with("LONGSHORE_HOST_DEBUG", "gdb,lldb"))
            .build(),
    ]
    .map(|host: longshore::Result<Host>| host.err().unwrap());
    for error in errors {
        assert!(error.message().contains("LONGSHORE_HOST_DEBUG is 'gdb,lldb'"), "{error}");
        assert_eq!(error.code(), ErrorCode::InvalidValue);
    }
}
