//! Many lives of images, on the CPU and on every device of CUDA, AMD and Vulkan: none may leave
//! anything behind, on the host or on the device. `LONGSHORE_ROUNDS` sets their number.

use libtest_mimic::Trial;
use longshore::{Device, DeviceInfo, DeviceType, Environment, Grid, InfoValue};
use longshore_conformance::TrustedImages;
use longshore_conformance::amount::TestScale;
use longshore_conformance::{DeviceName, Fixtures};
use longshore_tests::resource_usage::assert_nothing_is_left_by;
use longshore_tests::suites::Suite;
use longshore_tests::world::{World, copy_into, host_plugin};
use longshore_tests::{gpus, vulkan};

/// Number of rounds on the CPU, on CUDA and on AMD.
const ROUNDS: TestScale<usize> = TestScale { usual: 10_000, small: 100 };
/// Number of rounds on a Vulkan device, where each round compiles all pipelines of the image.
const VULKAN_ROUNDS: TestScale<usize> = TestScale { usual: 500, small: 50 };
/// Number of rounds on the double of a driver, which loads each twin into a process of its own.
const DOUBLE_ROUNDS: TestScale<usize> = TestScale { usual: 1_000, small: 50 };
/// Permitted decrease of a GPU's free memory for other reasons, in MiB. A leaked page in each round
/// is more.
const OTHERS_MIB: u64 = 16;

pub(crate) const SUITE: Suite = Suite {
    prepare: gpus::take_drivers,
    // Each trial measures the memory and descriptors of the whole process.
    is_sequential: true,
    ..Suite::new("rounds", trials)
};

fn trials() -> Vec<Trial> {
    let devices = gpus::devices().unwrap_or_else(|error| panic!("{error:?}"));
    let host = Trial::test("host:0: rounds of load, launch, unload leave nothing behind", || {
        on_the_host();
        Ok(())
    });
    devices.into_iter().map(on_gpu).chain([host]).collect()
}

fn on_the_host() {
    let world = World::new();
    copy_into(&world, &host_plugin());
    let device = world.host().build().unwrap().default_device().unwrap();
    leave_nothing_behind(device, ROUNDS.get());
}

fn on_gpu(name: DeviceName) -> Trial {
    let id = format!("{}:{}", name.backend, name.index);
    let said = format!("{id}: rounds of load, launch, unload leave nothing behind");
    Trial::test(said, move || {
        // The validation layer of other tests would be measured too.
        let (environment, rounds) = match &*name.backend {
            "vulkan" => (vulkan::environment_without_layer(), VULKAN_ROUNDS),
            _ if gpus::is_double(&name) => (Environment::from_process(), DOUBLE_ROUNDS),
            _ => (Environment::from_process(), ROUNDS),
        };
        leave_nothing_behind(gpus::host(&name, environment)?.device(&id)?, rounds.get());
        Ok(())
    })
}

fn leave_nothing_behind(device: Device, usual: usize) {
    let asked = std::env::var("LONGSHORE_ROUNDS").ok();
    let rounds = asked.map_or(usual, |text| text.parse().expect("LONGSHORE_ROUNDS: a number"));
    let image = Fixtures::built_in().image(&device, "basic").unwrap().unwrap();
    // Caches and arenas grow to their final size in these rounds.
    let first = rounds.min(usual).min(1_000);
    (0..first).for_each(|_| round(&device, &image));
    let free_before = free_mib(&device);
    println!("measured: {rounds} rounds, free MiB of the device before: {free_before:?}");
    assert_nothing_is_left_by(rounds, || round(&device, &image));
    let free_after = free_mib(&device);
    println!("measured: free MiB of the device after: {free_after:?}");
    if let (Some(before), Some(after)) = (free_before, free_after) {
        assert!(
            after + OTHERS_MIB >= before,
            "{before} MiB of the device were free, now {after} are"
        );
    }
    assert!(device.close().unwrap().leaks.is_empty());
}

fn round(device: &Device, image: &[u8]) {
    let queue = device.queue().unwrap();
    let program = device.load_trusted(image).unwrap();
    let out = device.buffer::<u64>(&queue, 1).unwrap();
    let bump = program.kernel("bump").unwrap();
    let read = program.kernel("read_counter").unwrap();
    // SAFETY: `bump` takes no arguments, `read_counter` a pointer to a u64.
    unsafe {
        queue.launch(&bump, Grid::default(), ()).unwrap();
        queue.launch(&read, Grid::default(), (&out,)).unwrap();
    }
    assert_eq!(out.to_vec(&queue).unwrap(), [6]);
    drop((bump, read));
    program.unload().unwrap();
}

/// Returns the free memory of a device with its own memory, in MiB.
fn free_mib(device: &Device) -> Option<u64> {
    let kind = device.info(DeviceInfo::Type).ok()?;
    match device.info(DeviceInfo::FreeMemory).ok()? {
        InfoValue::U64(bytes) if kind == InfoValue::U32(DeviceType::Gpu as u32) => {
            Some(bytes >> 20)
        }
        _ => None,
    }
}
