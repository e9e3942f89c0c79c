//! Memory tracking, for a program and its user.

use longshore::{Device, Environment, Host, MemoryKind, MemoryUse};
use longshore_tests::world::{World, copy_into, host_plugin};
use std::process::Command;

fn tracking() -> (World, Host) {
    let world = World::new();
    copy_into(&world, &host_plugin());
    let host = world.host().with_tracking(true).build().unwrap();
    (world, host)
}

/// Returns the memory use of a line of this file.
fn at(device: &Device, line: u32) -> Option<MemoryUse> {
    let report = device.memory_report();
    let here = |site: &&longshore::CallSite| {
        (site.location.file(), site.location.line()) == (file!(), line)
    };
    report.sites.iter().find(here).map(|site| site.memory)
}

#[test]
fn a_block_from_the_cache_counts_for_its_new_owner() {
    let (_world, host) = tracking();
    let device = host.default_device().unwrap();
    let queue = device.queue().unwrap();
    let first = line!() + 1;
    drop(device.allocate(MemoryKind::Device, 1000, 1).unwrap());
    assert_eq!(device.memory_report().cached_blocks, 1);
    let second = line!() + 1;
    let held = device.buffer::<u16>(&queue, 450).unwrap();
    assert_eq!(device.memory_report().cached_blocks, 0, "it came from the cache");
    let [first, second] = [first, second].map(|line| at(&device, line).unwrap());
    assert_eq!((first.live_count, first.total_count, first.peak_bytes), (0, 1, 1000));
    assert_eq!((second.live_count, second.live_bytes, second.total_bytes), (1, 900, 900));
    drop(held);
    let total = device.memory_report().total;
    assert_eq!((total.live_bytes, total.peak_bytes, total.total_bytes), (0, 1000, 1900));
}

#[test]
fn small_blocks_take_the_place_of_larger_ones_in_a_full_cache() {
    const LARGE: u64 = 1 << 20;
    let world = World::new();
    copy_into(&world, &host_plugin());
    let host = world.host().with_cache_limit(2 * LARGE).build().unwrap();
    let device = host.default_device().unwrap();
    let allocate = |bytes| device.allocate(MemoryKind::Device, bytes, 1).unwrap();
    let cached = || {
        let report = device.memory_report();
        (report.cached_blocks, report.cached_bytes)
    };
    drop([LARGE, LARGE, LARGE].map(allocate));
    assert_eq!(cached(), (2, 2 * LARGE), "of equal blocks the first stay");
    drop([1024, 1024].map(allocate));
    assert_eq!(cached(), (3, LARGE + 2048));
    drop(allocate(1024));
    assert_eq!(cached(), (3, LARGE + 2048), "it came from the cache");
}

#[test]
fn a_hosts_report_counts_closed_devices_and_their_leaks() {
    let (_world, host) = tracking();
    let device = host.default_device().unwrap();
    let lost = device.allocate(MemoryKind::Host, 300, 1).unwrap().into_raw();
    // SAFETY: `into_raw` has just given the allocation up.
    unsafe { host.free(device.allocate(MemoryKind::Host, 20, 1).unwrap().into_raw()).unwrap() };
    let report = device.clone().close().unwrap();
    assert_eq!(report.leaks[0].address, lost.address());
    let stack = report.leaks[0].stack.as_ref().unwrap().to_string();
    assert!(stack.starts_with("   0: ") && stack.contains("closed_devices_and_their"), "{stack}");
    for report in [host.memory_report(), device.memory_report()] {
        let host_memory = report.kind(MemoryKind::Host);
        assert_eq!((host_memory.live_count, host_memory.live_bytes), (0, 0));
        assert_eq!((host_memory.leaked_count, host_memory.leaked_bytes), (1, 300));
        let over_time: Vec<_> = report.timeline.iter().map(|point| point.total_bytes()).collect();
        assert_eq!(over_time, [300, 320, 300, 0]);
        assert!(report.timeline.windows(2).all(|pair| pair[0].at <= pair[1].at));
    }
}

#[test]
fn without_tracking_no_past_and_no_call_stack_is_known() {
    let world = World::new();
    copy_into(&world, &host_plugin());
    let host = world.host().build().unwrap();
    let device = host.default_device().unwrap();
    drop(device.allocate(MemoryKind::Device, 1 << 20, 1).unwrap());
    let held = device.allocate(MemoryKind::Device, 100, 1).unwrap();
    for report in [device.memory_report(), host.memory_report()] {
        assert!(!report.tracked);
        assert_eq!((report.total.live_bytes, report.total.total_count), (100, 1));
        assert_eq!((report.cached_blocks, report.cached_bytes), (1, 1 << 20));
        assert_eq!((report.sites.len(), report.timeline.len()), (1, 0));
    }
    assert_eq!(device.close().unwrap().leaks[0].stack, None);
    drop(held);
}

/// The variable of the process that leaks.
const CHILD: &str = "MEMORY_TRACKING_CHILD";

#[inline(never)]
fn a_function_that_leaks(device: &Device) {
    device.allocate(MemoryKind::Device, 4096, 1).unwrap().into_raw();
}

#[test]
fn leaks_are_printed_with_call_stacks_when_the_device_closes() {
    if std::env::var_os(CHILD).is_some() {
        let world = World::new();
        copy_into(&world, &host_plugin());
        let environment = Environment::from_process();
        let host = world.host().with_environment(environment).build().unwrap();
        let device = host.default_device().unwrap();
        (0..3).for_each(|_| a_function_that_leaks(&device));
        return;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "--nocapture"]);
    child.arg("memory_tracking::leaks_are_printed_with_call_stacks_when_the_device_closes");
    let output = child.env(CHILD, "1").env("LONGSHORE_TRACK", "1").output().unwrap();
    let printed = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{printed}");
    let texts =
        ["host:0 ", ": 3 allocations leaked, 12 KiB in all\n", file!(), "a_function_that_leaks"];
    for text in texts {
        assert!(printed.contains(text), "no '{text}' in: {printed}");
    }
    assert!(!printed.contains("Device::allocate"), "{printed}");
}
