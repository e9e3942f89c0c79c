//! Handles used or dropped at unusual moments: after the unloading of their program, in a host
//! function, during the closing of their device.

use longshore::{Device, Environment, ErrorCode, Grid, MemoryKind};
use longshore_conformance::Fixtures;
use longshore_conformance::TrustedImages;
use longshore_tests::world::{World, copy_into, host_plugin};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(30);

fn device() -> (World, Device) {
    let world = World::new();
    copy_into(&world, &host_plugin());
    let device = world.host().build().unwrap().default_device().unwrap();
    (world, device)
}

fn basic(device: &Device) -> Arc<[u8]> {
    Fixtures::built_in().image(device, "basic").unwrap().unwrap()
}

/// Returns a host function that waits for a message from the sender.
fn gate() -> (Sender<()>, impl FnOnce() + Send + 'static) {
    let (open, opened): (Sender<()>, Receiver<()>) = channel();
    (open, move || assert_eq!(opened.recv(), Ok(())))
}

#[test]
fn occupancy_of_an_unloaded_programs_kernel_is_uninitialized() {
    let (_world, device) = device();
    let program = device.load_trusted(&basic(&device)[..]).unwrap();
    let kernel = program.kernel("saxpy").unwrap();
    assert!(device.optimal_group_items(&kernel, 0).is_ok());
    program.unload().unwrap();
    let groups = device.max_cooperative_groups(&kernel, [1; 3], 0);
    assert_eq!(groups.unwrap_err().code(), ErrorCode::Uninitialized);
    let items = device.optimal_group_items(&kernel, 0);
    assert_eq!(items.unwrap_err().code(), ErrorCode::Uninitialized);
}

#[test]
fn a_program_dropped_in_a_host_function_outlives_the_kernels_behind_it() {
    let (_world, device) = device();
    let queue = device.queue().unwrap();
    let program = device.load_trusted(&basic(&device)[..]).unwrap();
    let saxpy = program.kernel("saxpy").unwrap();
    let x = device.buffer_of(&queue, &[1.0f32; 64]).unwrap();
    let y = device.buffer_of(&queue, &[0.0f32; 64]).unwrap();
    let (open, wait) = gate();
    queue.host_function(wait).unwrap();
    let last = saxpy.clone();
    queue
        .host_function(move || {
            let unloaded = last.program().clone().unload();
            assert_eq!(unloaded.unwrap_err().code(), ErrorCode::Unsupported);
            drop(last);
        })
        .unwrap();
    for _ in 0..100 {
        // SAFETY: saxpy takes these arguments and stays within the elements.
        unsafe { queue.launch(&saxpy, Grid::default(), (64u64, 1.0f32, &x, &y)) }.unwrap();
    }
    drop((saxpy, program));
    open.send(()).unwrap();
    assert_eq!(y.to_vec(&queue).unwrap(), [100.0; 64]);
}

#[test]
fn a_device_dropped_in_a_host_function_is_closed_behind_the_queues_work() {
    let (_world, device) = device();
    let queue = device.queue().unwrap();
    let (open, wait) = gate();
    let (said, saying) = channel();
    queue.host_function(wait).unwrap();
    let held = device.clone();
    queue
        .host_function(move || {
            let closed = held.clone().close();
            assert_eq!(closed.unwrap_err().code(), ErrorCode::Unsupported);
            drop(held);
        })
        .unwrap();
    queue.host_function(move || said.send(()).unwrap()).unwrap();
    drop((queue, device));
    open.send(()).unwrap();
    saying.recv_timeout(LIMIT).unwrap();
}

#[test]
fn a_buffer_is_not_filled_after_the_fill_was_refused() {
    let world = World::new();
    copy_into(&world, &host_plugin());
    let host =
        world.host().with_environment(Environment::empty()).with_cache_limit(0).build().unwrap();
    let device = host.default_device().unwrap();
    let queue = Arc::new(device.queue().unwrap());
    let buffer = Arc::new(device.buffer_of(&queue, &[1u32; 64]).unwrap());
    let (own, filled) = (Arc::clone(&queue), Arc::clone(&buffer));
    queue
        .host_function(move || {
            let refused = filled.fill(&own, 2).unwrap_err();
            assert_eq!(refused.code(), ErrorCode::Unsupported);
        })
        .unwrap();
    assert_eq!(buffer.to_vec(&queue).unwrap(), [1; 64]);
}

#[test]
fn closing_a_device_races_with_everything_else_on_it() {
    let world = World::new();
    copy_into(&world, &host_plugin());
    let environment = Environment::empty().with("LONGSHORE_HOST_DEVICES", "2");
    let host = world.host().with_environment(environment).build().unwrap();
    for _ in 0..50 {
        let devices: Vec<_> = host.devices().iter().map(|entry| entry.open().unwrap()).collect();
        let buffer = devices[1].buffer::<u8>(&devices[1].queue().unwrap(), 1 << 20).unwrap();
        let queue = devices[0].queue().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| while buffer.write(&queue, &[7; 1 << 20]).is_ok() {});
            scope.spawn(|| while devices[1].trim().is_ok() {});
            scope.spawn(|| while churn(&devices[1]).is_ok() {});
            std::thread::sleep(Duration::from_millis(2));
            assert_eq!(devices[1].clone().close().unwrap().tracker, None);
        });
    }
}

fn churn(device: &Device) -> longshore::Result<()> {
    drop(device.allocate(MemoryKind::Device, 100, 1)?);
    drop(device.queue()?.record()?);
    Ok(())
}
