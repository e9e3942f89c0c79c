//! The kernels of `kernels/values.c` on a Vulkan device and on the CPU.

use super::compiled;
use longshore::{Environment, Image};
use longshore_conformance::{DeviceName, TrustedImages};
use longshore_tests::device_code::Workshop;
use longshore_tests::items::{Argument, Launch};
use longshore_tests::vulkan;
use longshore_tests::world::{command, root};
use std::process::Command;

/// Items of most launches.
const ITEMS: usize = 256;

/// Compares all buffers after a launch of each kernel.
pub(super) fn compare(device: &DeviceName, clang: &'static str) {
    let source = root().join("tests/kernels/values.c");
    let device = vulkan::open(device, vulkan::environment()).unwrap();
    let there = device.load_trusted(compiled(clang, &source).unwrap()).unwrap();
    let workshop = Workshop::new();
    let cpu = workshop.device(Environment::empty());
    let here = cpu.load_trusted(for_cpu(clang)).unwrap();
    let (queue, own) = (device.queue().unwrap(), cpu.queue().unwrap());
    for launch in launches() {
        println!("{}", launch.kernel);
        if here.kernel(&launch.kernel).is_err() {
            println!("{clang} does not compile it for the CPU");
            continue;
        }
        // SAFETY: the buffers have elements for all items.
        let [expected, got] =
            unsafe { [launch.run(&here, &own), launch.run(&there, &queue)] }.map(Result::unwrap);
        for (index, (expected, got)) in expected.iter().zip(&got).enumerate() {
            let at = expected.iter().zip(got).position(|(expected, got)| expected != got);
            assert_eq!(at, None, "{clang}: {}, buffer {index}", launch.kernel);
        }
    }
}

/// Returns the image of the kernels for this machine.
fn for_cpu(clang: &str) -> Image {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("values.img");
    let mut compile = Command::new(command());
    compile.arg("cc").arg(root().join("tests/kernels/values.c"));
    let output = compile.args(["--clang", clang, "-o"]).arg(&image).output().unwrap();
    assert!(output.status.success(), "{clang}: {}", String::from_utf8_lossy(&output.stderr));
    Image::read(image).unwrap()
}

fn launches() -> Vec<Launch> {
    let words = || random(ITEMS * 4);
    let longs = || random(ITEMS * 8);
    let floats =
        || bytes((0..ITEMS).map(|it| ((it * 37 % 401) as f32 - 200.0) / 8.0), f32::to_ne_bytes);
    let doubles =
        || bytes((0..ITEMS).map(|it| ((it * 53 % 997) as f64 - 500.0) / 7.0), f64::to_ne_bytes);
    let zeros = |bytes: usize| vec![0; bytes];
    let structure: Vec<u8> = [
        &7i32.to_ne_bytes()[..],
        &6f32.to_ne_bytes(),
        &[1, 2, 3, 4, 5, 0],
        &(-16i16).to_ne_bytes(),
        &2.5f64.to_ne_bytes(),
    ]
    .concat();
    let numbers = |count: usize| bytes((0..count).map(|_| 9), u32::to_ne_bytes);
    vec![
        launch(
            "values",
            vec![
                Argument::Value(structure),
                Argument::Value(vec![-3i8 as u8]),
                Argument::Value(60_000u16.to_ne_bytes().to_vec()),
                Argument::Value(0.5f64.to_ne_bytes().to_vec()),
                Argument::Buffer(zeros(ITEMS * 8)),
            ],
        ),
        buffers("globals", [zeros(ITEMS * 4), zeros(ITEMS * 8)]),
        buffers("hits_are", [zeros(8)]),
        launch(
            "bytes_of",
            vec![
                Argument::Buffer(random(ITEMS)),
                Argument::Buffer(zeros(ITEMS)),
                Argument::Value(256u32.to_ne_bytes().to_vec()),
            ],
        ),
        buffers("integers", [words(), longs(), zeros(ITEMS * 8)]),
        buffers("floats", [floats(), doubles(), zeros(ITEMS * 4), zeros(ITEMS * 8)]),
        buffers("atomics", [numbers(8), zeros(8), zeros(16), zeros(8)]),
        Launch { shared_bytes: 256, ..buffers("dynamic", [words(), zeros(ITEMS * 4)]) },
        launch(
            "control",
            vec![
                Argument::Buffer(words()),
                Argument::Buffer(zeros(ITEMS * 4)),
                Argument::Value(250u32.to_ne_bytes().to_vec()),
            ],
        ),
        buffers("private_array", [words(), zeros(ITEMS * 4)]),
        buffers("mixed", [words(), zeros(ITEMS * 4)]),
        Launch { groups: [3, 2, 1], items: [32, 2, 1], ..buffers("sized", [zeros(384 * 4)]) },
        launch(
            "halves",
            vec![
                Argument::Value(0x3e00u16.to_ne_bytes().to_vec()),
                Argument::Buffer(bytes((0..ITEMS).map(|it| 0x4000 + it as u16), u16::to_ne_bytes)),
                Argument::Buffer(zeros(ITEMS * 2)),
            ],
        ),
        buffers("vectors", [floats().repeat(4), zeros(ITEMS * 16)]),
        buffers("subgroups", [words(), zeros(ITEMS * 4)]),
        buffers("shuffles", [words(), zeros(ITEMS * 4)]),
    ]
}

fn launch(kernel: &str, arguments: Vec<Argument>) -> Launch {
    let (kernel, groups, items) = (kernel.to_owned(), [4, 1, 1], [64, 1, 1]);
    Launch { kernel, groups, items, shared_bytes: 0, arguments }
}

fn buffers<const N: usize>(kernel: &str, contents: [Vec<u8>; N]) -> Launch {
    launch(kernel, contents.into_iter().map(Argument::Buffer).collect())
}

fn bytes<T, const N: usize>(values: impl Iterator<Item = T>, of: fn(T) -> [u8; N]) -> Vec<u8> {
    values.flat_map(of).collect()
}

/// Returns bytes without a pattern, the same each time.
fn random(count: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    std::iter::repeat_with(next).take(count).collect()
}
