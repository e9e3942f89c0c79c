//! Many lives of images: nothing may be left of any.

use longshore::{Device, Grid};
use longshore_tests::Fixtures;
use longshore_tests::world::{World, copy_into, host_plugin};

const ROUNDS: usize = 10_000;
/// Rounds until caches and arenas have grown to what they keep.
const FIRST_ROUNDS: usize = 500;

#[derive(Debug)]
struct Held {
    resident_kib: usize,
    descriptors: usize,
    mappings: usize,
}

impl Held {
    fn now() -> Held {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/self/{file}")).unwrap();
        let status = read("status");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        Held {
            resident_kib: resident.trim().trim_end_matches(" kB").parse().unwrap(),
            descriptors: std::fs::read_dir("/proc/self/fd").unwrap().count(),
            mappings: read("maps").lines().count(),
        }
    }
}

fn round(device: &Device, image: &[u8]) {
    let queue = device.queue().unwrap();
    let program = device.load(image).unwrap();
    let out = device.buffer::<u64>(1).unwrap();
    let bump = program.kernel("bump").unwrap();
    let read = program.kernel("read_counter").unwrap();
    // SAFETY: `bump` takes nothing, `read_counter` a pointer to a u64.
    unsafe {
        queue.launch(&bump, Grid::default(), ()).unwrap();
        queue.launch(&read, Grid::default(), (&out,)).unwrap();
    }
    assert_eq!(out.to_vec(&queue).unwrap(), [6]);
    drop((bump, read));
    program.unload().unwrap();
}

#[test]
fn ten_thousand_rounds_of_load_launch_unload_leave_nothing_behind() {
    let world = World::new();
    copy_into(&world, &host_plugin());
    let device = world.host().build().unwrap().default_device().unwrap();
    let image = Fixtures::built_in().image(&device, "basic").unwrap().unwrap();
    (0..FIRST_ROUNDS).for_each(|_| round(&device, &image));
    let before = Held::now();
    (0..ROUNDS).for_each(|_| round(&device, &image));
    let after = Held::now();
    println!("before {before:?}, after {after:?}");
    assert_eq!(after.descriptors, before.descriptors);
    // The C library's allocator may map a little more or less; a leak of one per round is 10,000.
    assert!(after.mappings <= before.mappings + 8, "before {before:?}, after {after:?}");
    assert!(after.resident_kib <= before.resident_kib + 1024, "before {before:?}, after {after:?}");
    assert!(device.close().unwrap().leaks.is_empty());
}
