//! Code objects for generic targets: the devices that run them, and the conditions.

use super::{Case, ROUND};
use longshore::{Acceptance, Device, DeviceInfo, ErrorCode, Grid, write_offload_binary};
use longshore_conformance::Fixtures;
use longshore_conformance::TrustedImages;
use longshore_tests::amdgpu;
use longshore_tests::amdgpu::entry;
use longshore_tests::doubled::Double;
use longshore_tests::doubled::cases::assert_clean;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "code for a generic target runs on the devices that it stands for",
        driver: DEVICES,
        check: generic_code_runs,
    },
    Case {
        name: "of a container with both, the image for the exact processor is loaded",
        driver: DEVICES,
        check: the_exact_image_is_loaded,
    },
    Case {
        name: "code for a generic target of others is refused, and both targets are named",
        driver: DEVICES,
        check: both_targets_are_named,
    },
    Case {
        name: "the suite has images for devices of which none is for the very processor",
        driver: "devices=6;target=gfx906,gfx950,gfx1010,gfx1031,gfx1101,gfx1152",
        check: the_suite_has_generic_images,
    },
];

const DEVICES: &str = "devices=2;target=gfx1100,gfx942:sramecc+:xnack-";
/// Devices, with the generic targets that include them.
const TARGETS: [[&str; 2]; 2] = [["gfx1100", "gfx11-generic"], ["gfx942", "gfx9-4-generic"]];
const SOURCE: &str = "#include \"longshore_device.h\"
LONGSHORE_KERNEL(answer, (uint64_t *out)) { (void)longshore_self; *out = ANSWER; }
";

/// Returns code whose kernel returns `answer`. Without a compiler for the target, prints that and
/// returns `None`.
fn answering(answer: u64, target: &str) -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("answer.c");
    std::fs::write(&source, SOURCE).unwrap();
    let answer = format!("-DANSWER={answer}");
    amdgpu::compiled(&source, target, &["-mcode-object-version=6", &answer])
}

fn answer(device: &Device, image: &[u8]) -> u64 {
    let program = device.load_trusted(image).unwrap();
    let queue = device.queue().unwrap();
    let out = device.buffer::<u64>(&queue, 1).unwrap();
    // SAFETY: `answer` takes a pointer to a u64.
    unsafe {
        queue.launch(&program.kernel("answer").unwrap(), Grid::default(), (&out,)).unwrap();
    }
    let answer = out.to_vec(&queue).unwrap()[0];
    program.unload().unwrap();
    answer
}

/// Calls `check` for each device, with the processor and the generic target of [`TARGETS`].
fn on_each(double: &Double, check: impl Fn(&Device, [&str; 2])) {
    let host = ROUND.host().unwrap();
    for (index, targets) in TARGETS.into_iter().enumerate() {
        let device = host.device(&format!("amdgpu:{index}")).unwrap();
        check(&device, targets);
        device.close().unwrap();
    }
    assert_clean(double);
}

fn generic_code_runs(double: &Double) {
    on_each(double, |device, [_, generic]| {
        let Some(image) = answering(7, generic) else { return };
        assert_eq!(answer(device, &image), 7, "{generic}");
    });
}

fn the_exact_image_is_loaded(double: &Double) {
    on_each(double, |device, [exact, generic]| {
        let images = [answering(1, exact), answering(2, generic)];
        let [Some(for_exact), Some(for_generic)] = images else { return };
        let entries = [entry(exact, &for_exact), entry(generic, &for_generic)];
        let [first, second] = entries;
        assert_eq!(answer(device, &write_offload_binary(&[first, second])), 1, "{exact}");
        assert_eq!(answer(device, &write_offload_binary(&[second, first])), 1, "{exact}");
        assert_eq!(answer(device, &write_offload_binary(&[second])), 2, "{generic}");
    });
}

fn both_targets_are_named(double: &Double) {
    on_each(double, |device, [exact, _]| {
        for other in ["gfx9-generic", "gfx10-3-generic", "gfx12-generic"] {
            let Some(image) = answering(3, other) else { return };
            let Acceptance::Refused(why) = device.accepts(&image[..]).unwrap() else {
                panic!("code for {other} is accepted by {exact}");
            };
            assert!(why.contains(other) && why.contains(exact), "{why}");
            let error = device.load_trusted(&image[..]).map(drop).unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidBinary, "{error}");
            assert!(error.message().contains(other) && error.message().contains(exact), "{error}");
        }
    });
}

fn the_suite_has_generic_images(double: &Double) {
    let host = ROUND.host().unwrap();
    for index in 0..host.devices().len() {
        let device = host.device(&format!("amdgpu:{index}")).unwrap();
        match Fixtures::built_in().image(&device, "basic").unwrap() {
            Some(basic) => run_basic(&device, &basic),
            None => only_clang_22_knows(&device),
        }
        device.close().unwrap();
    }
    assert_clean(double);
}

/// Asserts that only clang 22 compiles code for the device, and prints that the test is skipped.
fn only_clang_22_knows(device: &Device) {
    let arch = device.info(DeviceInfo::Architecture).unwrap();
    assert_eq!(arch.as_text(), Some("gfx950"), "the suite has no image for it");
    eprintln!("not tried: clang-22 is not installed");
}

fn run_basic(device: &Device, image: &[u8]) {
    const ITEMS: usize = 100;
    let program = device.load_trusted(image).unwrap();
    let queue = device.queue().unwrap();
    let [nop, bump, read, saxpy, iota] =
        ["nop", "bump", "read_counter", "saxpy", "iota"].map(|name| program.kernel(name).unwrap());
    let count = device.buffer::<u64>(&queue, 1).unwrap();
    let [x, y] = [1.0f32, 2.0].map(|value| device.buffer_of(&queue, &[value; ITEMS]).unwrap());
    let numbers = device.buffer::<u32>(&queue, ITEMS).unwrap();
    // SAFETY: the kernels have these arguments.
    unsafe {
        queue.launch(&nop, Grid::default(), ()).unwrap();
        queue.launch(&bump, Grid::default(), ()).unwrap();
        queue.launch(&read, Grid::default(), (&count,)).unwrap();
        queue.launch(&saxpy, Grid::default(), (ITEMS as u64, 3.0f32, &x, &y)).unwrap();
        queue.launch(&iota, Grid::default(), (&numbers, ITEMS as u64)).unwrap();
    }
    assert_eq!(count.to_vec(&queue).unwrap(), [6]);
    assert_eq!(y.to_vec(&queue).unwrap(), [5.0; ITEMS]);
    assert!(numbers.to_vec(&queue).unwrap().into_iter().eq(0..ITEMS as u32));
    drop((nop, bump, read, saxpy, iota));
    program.unload().unwrap();
}
