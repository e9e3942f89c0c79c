//! Faults of kernels with debug information: the error names the line and the functions.

use longshore::{Device, DevicePointer, Environment, Error, ErrorCode, Grid, Image, LoadOptions};
use longshore_tests::device_code::{Workshop, clangs};
use longshore_tests::world::executor;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Each kernel fails in line 4, in a function that `-O2` inlines into the kernel's line.
const SOURCE: &str = r#"
#include <longshore_device.h>
static inline int half(const int *at, int by) {
  return *(volatile const int *)at / by;
}
LONGSHORE_FUNCTION void check(LONGSHORE_SELF, int by) {
  longshore_assert(by != 0);
}
LONGSHORE_KERNEL(load, (const int *in, int *out)) {
  out[longshore_global_id(0)] = half(in, 2);
}
LONGSHORE_KERNEL(divide, (int by, int *out)) {
  out[longshore_global_id(0)] = half(out, by);
}
LONGSHORE_KERNEL(checked, (int by, int *out)) {
  check(longshore_self, by);
  out[longshore_global_id(0)] = by;
}
LONGSHORE_GROUP_KERNEL(grouped, (int by, int *out)) {
  LONGSHORE_ITEMS {
    out[longshore_global_id(0)] = half(out, by);
  }
}
LONGSHORE_KERNEL(waiting, (int by, int *out)) {
  longshore_barrier();
  out[longshore_global_id(0)] = half(out, by);
}
LONGSHORE_KERNEL(copying, (int by, int *out)) {
  __builtin_memcpy(out, (const void *)(uintptr_t)(16 + by), 4096 + (size_t)by * out[0]);
}
LONGSHORE_KERNEL(calling, (int by, int *out)) {
  void (*volatile function)(void) = (void (*)(void))(uintptr_t)by;
  function();
  out[0] = 1;
}
__attribute__((visibility("default"))) void plain(void **arguments) {
  int *out = *(int **)arguments[1];
  *out = half(out, *(int *)arguments[0]);
}
"#;

/// Returns the message of a kernel's failed launch.
fn failure(device: &Device, image: &Path, lazily: bool, kernel: &str) -> String {
    let image = Image::read(image).unwrap();
    let options = LoadOptions::new().with_lazy_linking(lazily);
    // SAFETY: the image is this test's.
    let program = unsafe { device.load_with(image, &options) }.unwrap();
    let queue = device.queue().unwrap();
    let out = device.buffer_of(&queue, &[1_i32; 8]).unwrap();
    let by = 0_i32;
    let null = DevicePointer(0);
    let found = program.kernel(kernel).unwrap();
    let grid = Grid::new([1; 3], [4, 1, 1]);
    // SAFETY: the kernels read and write these arguments, or fail.
    let error: Error = unsafe {
        match kernel {
            "load" => queue.launch_and_wait(&found, grid, (null, &out)),
            _ => queue.launch_and_wait(&found, grid, (by, &out)),
        }
    }
    .unwrap_err();
    assert_eq!(error.code(), ErrorCode::BackendFailure);
    error.message().to_owned()
}

/// Returns images of the source in each format, and whether each is linked lazily.
fn images(workshop: &Workshop, clang: &str, flags: &[&str]) -> [(PathBuf, bool); 4] {
    let object = workshop.object(clang, "lines", SOURCE, flags);
    let archive = object.with_extension("a");
    let _ = std::fs::remove_file(&archive);
    let made = Command::new("ar").arg("rcs").args([&archive, &object]).status().unwrap();
    assert!(made.success());
    let shared = object.with_extension("so");
    let mut linking = Command::new(clang);
    linking.args(["-shared", "-o"]).args([&shared, &object]);
    assert!(linking.status().unwrap().success());
    [(object.clone(), false), (object, true), (archive, true), (shared, false)]
}

#[test]
fn a_fault_names_its_line_and_the_functions_that_were_inlined() {
    let workshop = Workshop::new();
    let device = workshop.device(Environment::empty());
    for clang in clangs() {
        for flags in [["-g", "-O2"], ["-g", "-O0"], ["-gdwarf-4", "-O2"]] {
            for (image, lazily) in images(&workshop, clang, &flags) {
                for kernel in ["load", "divide", "grouped", "waiting", "plain"] {
                    let message = failure(&device, &image, lazily, kernel);
                    let is_inlined = flags[1] == "-O2";
                    let what = format!("{} {kernel}: {message}", image.display());
                    assert!(message.contains("lines.c:4 in half"), "{what}");
                    let inlined = format!(", inlined in {kernel} at ");
                    assert_eq!(message.contains(&inlined), is_inlined, "{what}");
                }
            }
        }
    }
}

#[test]
fn a_failed_assertion_names_the_functions_that_were_inlined() {
    let workshop = Workshop::new();
    let device = workshop.device(Environment::empty());
    for clang in clangs() {
        for (image, lazily) in images(&workshop, clang, &["-g", "-O2"]) {
            let message = failure(&device, &image, lazily, "checked");
            let functions = "lines.c:7) in check, inlined in checked at ";
            let what = format!("{}: {message}", image.display());
            assert!(message.contains("by != 0 ("), "{what}");
            assert!(message.contains(functions), "{what}");
            assert!(message.ends_with("lines.c:16"), "{what}");
        }
    }
}

#[test]
fn a_fault_in_a_function_of_the_process_names_the_kernels_line() {
    let workshop = Workshop::new();
    let device = workshop.device(Environment::empty());
    for clang in clangs() {
        for (image, lazily) in images(&workshop, clang, &["-g", "-O2"]) {
            let message = failure(&device, &image, lazily, "copying");
            assert!(message.ends_with("lines.c:29 in copying"), "{}: {message}", image.display());
            let message = failure(&device, &image, lazily, "calling");
            assert!(message.ends_with("lines.c:33 in calling"), "{}: {message}", image.display());
        }
    }
}

#[test]
fn a_fault_without_debug_information_names_no_line() {
    let workshop = Workshop::new();
    let device = workshop.device(Environment::empty());
    for clang in clangs() {
        for (image, lazily) in images(&workshop, clang, &["-O2", "-g0"]) {
            let message = failure(&device, &image, lazily, "load");
            let what = format!("{}: {message}", image.display());
            assert!(!message.contains("lines.c"), "{what}");
            assert!(message.ends_with("next to the null pointer"), "{what}");
        }
    }
}

#[test]
fn bitcode_that_is_compiled_at_its_load_has_lines() {
    const CLANG: &str = "clang-19";
    if Command::new(CLANG).arg("--version").output().is_err() {
        println!("{CLANG} is not installed; nothing was tried");
        return;
    }
    let workshop = Workshop::new();
    let device = workshop.device(Environment::empty().with("LONGSHORE_EXECUTOR", executor()));
    for lazily in [false, true] {
        let bitcode = workshop.object(CLANG, "lines", SOURCE, &["-emit-llvm", "-g", "-O1"]);
        for kernel in ["divide", "grouped"] {
            let message = failure(&device, &bitcode, lazily, kernel);
            let functions = format!("lines.c:4 in half, inlined in {kernel} at ");
            assert!(message.contains(&functions), "{message}");
        }
    }
}
