//! Kernels of `longshore_device.h` as SPIR-V on every Vulkan device that has 64-bit integers:
//!
//! - the kernels of `kernels/kernels.c`, compared with plain Rust;
//! - the kernels of `kernels/values.c`, compared with the CPU;
//! - random kernels, compared with a scalar interpreter.
//!
//! Other devices must refuse the modules and name the feature.
//!
//! `LONGSHORE_RANDOM_KERNELS` is the number of random kernels, and `LONGSHORE_RANDOM_SEED` the
//! first kernel's seed.

mod errors;
mod rig;
mod values;

use crate::gpu_kernels::CHECKS;
use libtest_mimic::Trial;
use longshore::{ErrorCode, Program, Queue};
use longshore_conformance::{DeviceName, TrustedImages};
use longshore_tests::device_code::clangs;
use longshore_tests::items::{Argument, Launch};
use longshore_tests::random_kernels::{Kernel, compare_on, source};
use longshore_tests::suites::Suite;
use longshore_tests::world::command;
use longshore_tests::{effort, kernels, vulkan};
use std::path::Path;
use std::process::Command;

pub(crate) const SUITE: Suite =
    Suite { prepare: vulkan::choose_drivers, ..Suite::new("spirv_kernels", trials) };

/// Number of random kernels in an image.
const BATCH: usize = 20;

/// A kernel that returns the number of items in a sub-group.
const WIDTH: &str = "#include \"longshore_device.h\"\n\
     LONGSHORE_KERNEL(width, (uint32_t *x)) { x[0] = longshore_subgroup_width(); }";

/// A test of a device with a version of clang.
type Test = fn(&DeviceName, &'static str);

const TESTS: [(&str, Test); 3] = [
    ("all kernels are right", kernels_are_right),
    ("values of all kinds are the same as on the CPU", values::compare),
    ("random kernels have the results of an interpreter", random_kernels_are_right),
];

/// The tests of a device without 64-bit integers, which the addresses in modules need.
const REFUSED: [(&str, Test); 1] = [("modules are refused with the missing feature", are_refused)];

/// The driver without 64-bit integers, in the names of its devices.
const WITHOUT_LONGS: &str = "SwiftShader";

fn trials() -> Vec<Trial> {
    let devices = vulkan::devices().unwrap_or_else(|error| panic!("{error:?}"));
    let pairs = devices.iter().flat_map(|device| clangs().into_iter().map(move |it| (device, it)));
    let on_devices = pairs.flat_map(|(device, clang)| {
        let tests = if device.name.contains(WITHOUT_LONGS) { &REFUSED[..] } else { &TESTS };
        tests.iter().map(move |&(name, test)| {
            let device = device.clone();
            let name = format!("{}:{} {clang}: {name}", device.backend, device.index);
            Trial::test(name, move || {
                test(&device, clang);
                Ok(())
            })
        })
    });
    on_devices.chain(errors::trials()).collect()
}

fn kernels_are_right(device: &DeviceName, clang: &'static str) {
    let image = compiled(clang, &kernels::source()).unwrap();
    for (name, check) in CHECKS {
        println!("{name}");
        let rig = rig::open(device, &image).unwrap();
        check(&rig);
        rig.close().unwrap();
    }
}

fn are_refused(device: &DeviceName, clang: &'static str) {
    let image = compiled(clang, &kernels::source()).unwrap();
    let device = vulkan::open(device, vulkan::environment()).unwrap();
    let error = device.load_trusted(image).err().expect("the device lacks the feature");
    assert_eq!(error.code(), ErrorCode::Unsupported, "{error:?}");
    assert!(error.message().contains("shaderInt64"), "{error:?}");
    device.close().unwrap();
}

fn random_kernels_are_right(device: &DeviceName, clang: &'static str) {
    let count =
        number("LONGSHORE_RANDOM_KERNELS").unwrap_or(if effort::is_all() { 400 } else { 20 });
    let first = number("LONGSHORE_RANDOM_SEED").unwrap_or(0);
    let device = vulkan::open(device, vulkan::environment()).unwrap();
    let queue = device.queue().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("random.c");
    std::fs::write(&file, WIDTH).unwrap();
    let program = device.load_trusted(compiled(clang, &file).unwrap()).unwrap();
    let width = subgroup_width(&program, &queue);
    let interpret = |kernel: Kernel| Some((kernel.interpret_with(width).ok()?, kernel));
    let kernels = (first..first + count).map(Kernel::from_seed);
    // Drivers for CPUs make sub-groups of rows, which are not whole.
    let kernels = kernels.filter(|it| it.has_whole_subgroups(width)).filter_map(interpret);
    let kernels: Vec<_> = kernels.map(|(output, kernel)| (kernel, output)).collect();
    assert!(!kernels.is_empty(), "no kernel has a defined result");
    for batch in kernels.chunks(BATCH) {
        std::fs::write(&file, source(batch.iter().map(|(kernel, _)| kernel))).unwrap();
        let program = device.load_trusted(compiled(clang, &file).unwrap()).unwrap();
        for (difference, (kernel, _)) in compare_on(&program, &queue, batch).into_iter().zip(batch)
        {
            if let Some(difference) = difference {
                panic!("{clang}, {kernel}: {difference}\n{}", source([kernel]));
            }
        }
    }
    println!("{} of {count} kernels are right", kernels.len());
}

/// Returns the number of items in a sub-group.
fn subgroup_width(program: &Program, queue: &Queue) -> usize {
    let launch = Launch {
        kernel: "width".to_owned(),
        groups: [1; 3],
        items: [64, 1, 1],
        shared_bytes: 0,
        arguments: vec![Argument::Buffer(vec![0; 4])],
    };
    // SAFETY: the kernel writes to the first element of its buffer.
    let buffers = unsafe { launch.run(program, queue) }.unwrap();
    u32::from_ne_bytes(buffers[0].as_slice().try_into().unwrap()) as usize
}

fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable}={value} is no number")))
}

/// Returns the SPIR-V module of a source, or the messages of the compilation.
fn compiled(clang: &str, source: &Path) -> Result<Vec<u8>, String> {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("kernels.spv");
    let mut compile = Command::new(command());
    compile.arg("cc").arg(source).args(["--clang", clang, "--target", "spirv", "--raw", "-o"]);
    let output = compile.arg(&image).output().unwrap();
    match output.status.success() {
        true => Ok(std::fs::read(image).unwrap()),
        false => Err(format!("{clang}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}
