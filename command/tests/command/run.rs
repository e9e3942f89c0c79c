//! `longshore run`, on the host's CPU with images compiled by the tests.

use crate::support::{Outcome, command, longshore, outcome, toy_plugin};
use serde_json::json;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const KERNELS: &str = r#"
#![no_std]

type Arguments = *const *const u8;

unsafe fn argument<T: Copy>(arguments: Arguments, index: usize) -> T {
    unsafe { (*arguments.add(index)).cast::<T>().read_unaligned() }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

#[unsafe(export_name = "factor")]
pub static FACTOR: u64 = 3;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn saxpy(arguments: Arguments) {
    unsafe {
        let (n, a) = (argument::<u64>(arguments, 0), argument::<f32>(arguments, 1));
        let x = argument::<*const f32>(arguments, 2);
        let y = argument::<*mut f32>(arguments, 3);
        for i in 0..n as usize {
            *y.add(i) += a * *x.add(i);
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn stuck(_: Arguments) {
    loop {
        core::hint::spin_loop();
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn is_null(arguments: Arguments) {
    unsafe {
        let pointer = argument::<*const u8>(arguments, 0);
        *argument::<*mut u8>(arguments, 1) = pointer.is_null() as u8 + argument::<u8>(arguments, 2);
    }
}
"#;

/// A folder with an image of kernels.
struct World {
    folder: TempDir,
}

/// Creates a folder with an image of [`KERNELS`].
fn world() -> World {
    world_of(KERNELS)
}

fn world_of(source: &str) -> World {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("kernels.rs"), source).unwrap();
    let mut compiler = Command::new("rustc");
    compiler.args(["--edition=2024", "--crate-type=cdylib", "-Cpanic=abort", "-Copt-level=2"]);
    compiler.args(["-Clink-arg=-nostartfiles", "-o", "kernels.so", "kernels.rs"]);
    assert!(compiler.current_dir(folder.path()).status().unwrap().success());
    World { folder }
}

impl World {
    fn run(&self, arguments: &[&str]) -> Outcome {
        let mut run = command();
        run.current_dir(self.folder.path()).args(["run", "kernels.so", "--backend", "host"]);
        outcome(run.args(arguments))
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }
}

fn words(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

const SAXPY: [&str; 6] = ["--kernel", "saxpy", "--arg", "u64=4", "--arg", "f32=2.5"];

fn saxpy<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SAXPY.iter().chain(more).copied().collect()
}

/// Kernels whose group 0 waits for group 1, with and without a pause in the loop.
const FLAGS: &str = r#"
#include <cuda_runtime.h>
__device__ bool is_set(int *flag, int is_atomic) {
  return is_atomic ? atomicAdd(flag, 0) != 0 : *(volatile int *)flag != 0;
}
__device__ void set(int *flag, int is_atomic) {
  if (is_atomic) atomicExch(flag, 1);
  else *(volatile int *)flag = 1;
}
__global__ void spins(int *flag, int *out, int is_atomic) {
  if (blockIdx.x == 1) return set(flag, is_atomic);
  while (!is_set(flag, is_atomic)) {}
  out[threadIdx.x] = 1;
}
__global__ void naps(int *flag, int *out, int is_atomic) {
  if (blockIdx.x == 1) return set(flag, is_atomic);
  while (!is_set(flag, is_atomic)) __nanosleep(100);
  out[threadIdx.x] = 1;
}
"#;

#[test]
fn groups_of_a_cooperative_launch_may_wait_for_each_other_in_any_loop() {
    let folder = TempDir::new().unwrap();
    let (source, image) = (folder.path().join("flags.cu"), folder.path().join("flags.img"));
    std::fs::write(&source, FLAGS).unwrap();
    let compiled = outcome(command().arg("cc").arg(&source).arg("-o").arg(&image));
    if compiled.code == 3 {
        println!("not tested, because there is no compiler: {}", compiled.stderr);
        return;
    }
    compiled.assert_succeeds();
    for kernel in ["spins", "naps"] {
        for (threads, is_atomic) in [("1", "i32=0"), ("1", "i32=1"), ("2", "i32=0"), ("2", "i32=1")]
        {
            let mut run = command();
            run.env("LONGSHORE_HOST_THREADS", threads).arg("run").arg(&image);
            run.args(["--backend", "host", "--cooperative", "--timeout", "60", "--kernel", kernel]);
            run.args([
                "-g",
                "2",
                "-i",
                "4",
                "-a",
                "out:i32[1]",
                "-a",
                "out:i32[4]",
                "-a",
                is_atomic,
            ]);
            let done = outcome(&mut run);
            done.assert_succeeds();
            assert!(done.stdout.contains("i32[4] = 1, 1, 1, 1\n"), "{}", done.stdout);
        }
    }
}

#[test]
fn an_image_that_no_device_takes_is_reported_with_the_plugins_that_failed() {
    let folder = TempDir::new().unwrap();
    let image = folder.path().join("k.spv");
    std::fs::write(&image, [0x0723_0203_u32, 0x0001_0600, 0, 1, 0].map(u32::to_le_bytes).concat())
        .unwrap();
    toy_plugin(folder.path(), "broken", "return &broken;");
    let mut run = command();
    let failed = outcome(run.arg("run").arg(&image).arg("--plugin").arg(folder.path()));
    let (_, faults) = failed.stderr.split_once("\nthese plugins failed:\n").expect(&failed.stderr);
    failed.assert_fails(1, &["host:0"]);
    assert!(faults.contains("_broken.so: failed: connecting 'broken': the toy driver"), "{faults}");
}

#[test]
fn an_unknown_kind_of_check_is_refused_with_the_known_ones() {
    for kinds in ["foo", "memory,foo"] {
        let failed = longshore(&["run", &format!("--check={kinds}"), "k.img"]);
        let known = "[possible values: memory, races, initialized, barriers, all]";
        failed.assert_fails(2, &["invalid value 'foo' for '--check", known]);
    }
}

#[test]
fn outputs_and_times_are_printed() {
    let ran = world().run(&saxpy(&["--arg", "f32[4]=iota", "--arg", "out:f32[4]=one"]));
    ran.assert_succeeds();
    assert!(ran.stdout.starts_with("saxpy on host:0"), "{}", ran.stdout);
    assert!(ran.stdout.contains("argument 3: f32[4] = 1, 3.5, 6, 8.5\n"), "{}", ran.stdout);
    assert!(ran.stdout.contains("load "), "{}", ran.stdout);
    assert!(ran.stdout.contains("run "), "{}", ran.stdout);
}

#[test]
fn only_the_first_elements_are_printed_unless_all_are_wanted() {
    let world = world();
    let arguments = ["-k", "saxpy", "-a", "u64=0", "-a", "f32=0", "-a", "ptr=null", "-a"];
    let short = world.run(&[&arguments[..], &["out:f32[20]=7"]].concat());
    assert!(short.stdout.contains("... (4 more; --full shows them)"), "{}", short.stdout);
    let full = world.run(&[&arguments[..], &["out:f32[20]=7", "--full"]].concat());
    assert!(full.stdout.contains(&["7"; 20].join(", ")), "{}", full.stdout);
}

#[test]
fn json_holds_outputs_and_times() {
    let arguments = ["--arg", "f32[]=0,1,2,inf", "--arg", "out:f32[4]=one", "--json"];
    let ran = world().run(&saxpy(&arguments));
    ran.assert_succeeds();
    let json = ran.json();
    assert_eq!(json["kernel"], "saxpy");
    let output = json!({"argument": 3, "type": "f32", "values": [1.0, 3.5, 6.0, "inf"]});
    assert_eq!(json["outputs"], json!([output]));
    assert!(json["load_ns"].as_u64().unwrap() > 0);
    assert!(json["run_min_ns"].as_u64().unwrap() <= json["run_median_ns"].as_u64().unwrap());
}

#[test]
fn outputs_are_set_anew_before_each_of_several_runs() {
    let arguments = ["-a", "f32[4]=iota", "-a", "out:f32[4]=one", "--repeat", "5"];
    let ran = world().run(&saxpy(&arguments));
    ran.assert_succeeds();
    assert!(ran.stdout.contains("= 1, 3.5, 6, 8.5\n"), "{}", ran.stdout);
    assert!(ran.stdout.contains("5 runs: min "), "{}", ran.stdout);
}

#[test]
fn buffers_come_from_files_and_go_to_files() {
    let world = world();
    std::fs::write(world.path("x.bin"), words(&[1.0, 2.0, 3.0, 4.0])).unwrap();
    let files = ["-a", "f32[]=@x.bin", "-a", "out:f32[4]", "--save", "3=y.bin", "-s", "2=x2.bin"];
    world.run(&saxpy(&files)).assert_succeeds();
    assert_eq!(std::fs::read(world.path("y.bin")).unwrap(), words(&[2.5, 5.0, 7.5, 10.0]));
    assert_eq!(std::fs::read(world.path("x2.bin")).unwrap(), words(&[1.0, 2.0, 3.0, 4.0]));
}

#[test]
fn null_pointers_and_small_scalars_arrive() {
    let arguments = ["-k", "is_null", "-a", "ptr=null", "-a", "out:u8[1]", "-a", "u8=0x10"];
    let ran = world().run(&arguments);
    ran.assert_succeeds();
    assert!(ran.stdout.contains("argument 1: u8[1] = 17\n"), "{}", ran.stdout);
}

#[test]
fn a_kernel_that_is_stuck_is_given_up_when_the_time_is_up() {
    let ran = world().run(&["-k", "stuck", "--timeout", "0.05", "-a", "out:f32[4]"]);
    ran.assert_fails(1, &["error: stuck still runs after 50.0 ms\n", "hint: --timeout SECONDS"]);
    assert_eq!(ran.stdout, "");
}

#[test]
fn a_kernel_that_ends_in_time_is_reported_as_without_a_limit() {
    let arguments = ["-a", "f32[4]=iota", "-a", "out:f32[4]=one", "-n", "3", "--timeout", "600"];
    let ran = world().run(&saxpy(&arguments));
    ran.assert_succeeds();
    assert!(ran.stdout.contains("= 1, 3.5, 6, 8.5\n"), "{}", ran.stdout);
}

#[test]
fn allocated_memory_is_printed_after_the_run() {
    let arguments = ["-a", "f32[4]=iota", "-a", "out:f32[1024]=one", "--memory-report"];
    let ran = world().run(&saxpy(&arguments));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.starts_with("memory of host:0 "), "{}", ran.stderr);
    for text in ["device\n", "kept for reuse: ", "allocated at\n", "memory.rs:"] {
        assert!(ran.stderr.contains(text), "no '{text}' in: {}", ran.stderr);
    }
    assert!(ran.stdout.starts_with("saxpy on host:0"), "{}", ran.stdout);
}

#[test]
fn allocated_memory_is_reported_for_a_failed_run() {
    let arguments = ["-a", "f32[4]=iota", "-a", "out:f32[4]=@missing", "--memory-report"];
    world().run(&saxpy(&arguments)).assert_fails(1, &["error: argument 3: ", "memory of host:0 "]);
}

#[test]
fn json_holds_what_memory_was_allocated() {
    let arguments = ["-a", "f32[4]=iota", "-a", "out:f32[1024]=one", "--json"];
    let ran = world().run(&saxpy(&[&arguments[..], &["--memory-report"]].concat()));
    ran.assert_succeeds();
    let memory = &ran.json()["memory"];
    let total = json!({"live_count": 0, "live_bytes": 0, "peak_bytes": 4112, "total_count": 2,
        "total_bytes": 4112, "leaked_count": 0, "leaked_bytes": 0});
    assert_eq!(memory["total"], total);
    assert_eq!(memory["device"], total);
    assert_eq!(memory["host"]["total_count"], 0);
    assert_eq!(memory["cached_blocks"], 2);
    assert_eq!(memory["sites"].as_array().unwrap().len(), 1);
    let over_time = memory["timeline"].as_array().unwrap().iter();
    let over_time: Vec<_> =
        over_time.map(|point| point["device_bytes"].as_u64().unwrap()).collect();
    assert_eq!(over_time[..2], [16, 4112]);
    assert_eq!(over_time[3..], [0]);
    let without = world().run(&saxpy(&arguments));
    assert!(without.json().get("memory").is_none());
}

#[test]
fn a_picture_of_the_memory_is_written() {
    let world = world();
    let arguments = ["-a", "f32[4]=iota", "-a", "out:f32[4]=one", "--memory-timeline", "m.svg"];
    world.run(&saxpy(&arguments)).assert_succeeds();
    let picture = std::fs::read_to_string(world.path("m.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("Live memory of host:0"), "{picture}");
    // A path below a file cannot be created.
    let nowhere = [&arguments[..5], &["kernels.so/m.svg"]].concat();
    world
        .run(&saxpy(&nowhere))
        .assert_fails(1, &["cannot write the timeline to 'kernels.so/m.svg'"]);
}

#[test]
fn an_image_without_a_tracker_prints_no_totals() {
    let world = world();
    let mut run = command();
    run.current_dir(world.folder.path()).args(["run", "kernels.so", "--backend", "host"]);
    run.args(saxpy(&["-a", "f32[4]=iota", "-a", "out:f32[4]=one"])).env("LONGSHORE_TRACK", "1");
    let ran = outcome(&mut run);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(!ran.stderr.contains("#Allocations"), "{}", ran.stderr);
}

#[test]
fn kernels_and_globals_are_listed() {
    let world = world();
    let listed = world.run(&["--list"]);
    listed.assert_succeeds();
    let rows = |kind: &str, name: &str| {
        let mut lines = listed.stdout.lines().map(|line| line.split_whitespace());
        lines.any(|mut line| line.next() == Some(kind) && line.next() == Some(name))
    };
    assert!(rows("kernel", "saxpy") && rows("kernel", "is_null"), "{}", listed.stdout);
    assert!(rows("global", "factor"), "{}", listed.stdout);
    let json = world.run(&["--list", "--json"]).json();
    let all = json.as_array().unwrap();
    let factor = json!({"kind": "global", "name": "factor", "bytes": 8});
    assert!(all.contains(&factor), "{json}");
}

#[test]
fn the_only_kernel_of_an_image_needs_no_name() {
    let stuck = KERNELS.find("#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn stuck").unwrap();
    let buffers = ["--arg", "f32[4]=iota", "--arg", "out:f32[4]=one"];
    let ran = world_of(&KERNELS[..stuck]).run(&[&SAXPY[2..], &buffers].concat());
    ran.assert_succeeds();
    assert!(ran.stdout.contains("argument 3: f32[4] = 1, 3.5, 6, 8.5\n"), "{}", ran.stdout);
}

#[test]
fn arguments_that_cannot_be_read_are_bad_usage() {
    let world = world();
    let cases: [(&[&str], &[&str]); 9] = [
        (&[], &["--kernel is missing", "3 kernels", "--list"]),
        (&["-k", "saxpy", "-a", "7"], &["invalid value '7'", "expected TYPE=VALUE"]),
        (&["-k", "saxpy", "-a", "u8=256"], &["256 is out of the range of u8"]),
        (&["-k", "saxpy", "-a", "f32[4]"], &["f32[4]=CONTENTS"]),
        (&["-k", "saxpy", "-g", "0"], &["expected X, X,Y or X,Y,Z"]),
        (&["-k", "saxpy", "-n", "0"], &["invalid value '0'"]),
        (&["-k", "saxpy", "--save", "x"], &["expected INDEX=FILE"]),
        (&["-k", "saxpy", "-s", "0=x", "-a", "u8=1"], &["argument 0 is not a buffer", "from 0"]),
        (&["-k", "saxpy", "--list"], &["cannot be used with"]),
    ];
    for (arguments, texts) in cases {
        world.run(arguments).assert_fails(2, &[texts, &["error: "]].concat());
    }
}

#[test]
fn errors_of_images_kernels_and_files_have_a_hint() {
    let world = world();
    world.run(&["-k", "saxp"]).assert_fails(1, &["error: ", "'saxp'", "saxpy", "hint: ", "--list"]);
    world.run(&["-k", "factor"]).assert_fails(1, &["error: ", "factor", "hint: "]);
    let file = ["-k", "saxpy", "-a", "f32[4]=@nosuch.bin"];
    world.run(&file).assert_fails(1, &["argument 0: cannot read 'nosuch.bin'"]);
    std::fs::write(world.path("short.bin"), [0; 15]).unwrap();
    let short = ["-k", "saxpy", "-a", "f32[4]=@short.bin"];
    world.run(&short).assert_fails(1, &["'short.bin' has 15 bytes, expected 16 for f32[4]"]);
    world.run(&["-k", "k", "-d", "host:9"]).assert_fails(3, &["'host:9'", "hint: ", "devices"]);
    world.run(&["-k", "k", "-d", "host"]).assert_fails(2, &["error: ", "\"backend:list\""]);
    image_fails(&world.path("nosuch.so"), &["cannot read the image"]);
    std::fs::write(world.path("text.so"), "text").unwrap();
    image_fails(&world.path("text.so"), &["does not accept this image", "hint: "]);
}

fn image_fails(image: &Path, texts: &[&str]) {
    let mut run = command();
    run.args(["run", "--backend", "host", "--list"]).arg(image);
    outcome(&mut run).assert_fails(1, &[texts, &["error: "]].concat());
}

/// Kernels that end the process, each in another way. On x86-64 and AArch64 `instruction` makes the
/// system call itself.
const ENDS: &str = r#"
use std::ffi::{c_char, c_int, c_void};
use std::process::Command;

type Arguments = *const *const u8;

unsafe extern "C" {
    fn err(status: c_int, text: *const c_char, ...) -> !;
    fn fork() -> c_int;
    fn sleep(seconds: u32) -> u32;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn instruction(_: Arguments) {
    #[cfg(target_arch = "x86_64")]
    unsafe { core::arch::asm!("syscall", in("rax") 231, in("rdi") 0, options(noreturn)) }
    #[cfg(target_arch = "aarch64")]
    unsafe { core::arch::asm!("svc #0", in("x8") 94, in("x0") 0, options(noreturn)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn library(_: Arguments) {
    unsafe { err(0, c"the end".as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn standard(_: Arguments) {
    std::process::exit(0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn executes(_: Arguments) {
    use std::os::unix::process::CommandExt;
    let _ = Command::new("true").exec();
}

/// The child keeps the standard streams open for 5 seconds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forks_and_ends(arguments: Arguments) {
    unsafe {
        if fork() == 0 {
            sleep(5);
            std::process::abort();
        }
        instruction(arguments)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fine(_: Arguments) {}
"#;

#[test]
fn a_run_that_the_image_ends_is_no_success() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("kernels.rs"), ENDS).unwrap();
    let mut compiler = Command::new("rustc");
    compiler.args(["--edition=2024", "--crate-type=cdylib", "-o", "kernels.so", "kernels.rs"]);
    assert!(compiler.current_dir(folder.path()).status().unwrap().success());
    let world = World { folder };
    for kernel in ["instruction", "library", "executes", "standard", "forks_and_ends"] {
        let Outcome { code, stderr, .. } = world.run(&["--kernel", kernel]);
        assert_eq!(code, 1, "{kernel}: {stderr}");
        let is_reported =
            ["did not finish", "() was called"].iter().any(|words| stderr.contains(words));
        assert!(is_reported, "{kernel}: {stderr}");
    }
    assert_eq!(world.run(&["--kernel", "fine"]).code, 0);
}
