//! The operations.

use anyhow::Context;
use longshore::{Device, Environment, Grid, Host, Kernel, MemoryKind, Program, Queue, Result};
use longshore_conformance::TrustedImages;
use longshore_tests::doubled::{Doubled, image};
use std::ffi::c_void;

/// Size of copies and fills in bytes.
const BYTES: u64 = 64;
/// Size of an allocation in bytes.
const ALLOCATED_BYTES: u64 = 1 << 20;

/// An operation that programs repeat often.
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    /// Number of the device. The first device is current in the driver.
    device: u32,
    prepare: fn(&Rig) -> Result<Step<'_>>,
}

/// A function that runs the operation once.
type Step<'a> = Box<dyn Fn() -> Result<()> + 'a>;

/// Objects for all operations.
struct Rig {
    device: Device,
    queue: Queue,
    basic: Program,
}

macro_rules! operations {
    ($($name:literal on $device:literal: $prepare:ident;)*) => {
        pub(crate) const OPERATIONS: &[Operation] =
            &[$(Operation { name: $name, device: $device, prepare: $prepare },)*];
    };
}

operations! {
    "null kernel, queued" on 0: null_kernel;
    "null kernel, queued, second device" on 1: null_kernel;
    "kernel with a pointer and a number, queued" on 0: kernel_with_arguments;
    "null kernel, launched and waited for" on 0: kernel_waited_for;
    "64 B to the device and back, each waited for" on 0: copies_waited_for;
    "64 B to the device and back, queued, queue waited for" on 0: copies_queued;
    "64 B to the device and back, pinned, queued, queue waited for" on 0: copies_of_pinned;
    "64 B between buffers, queued" on 0: copy_between;
    "64 B between buffers, queued, second device" on 1: copy_between;
    "64 B filled, queued" on 0: fill;
    "1 MiB allocated and freed, not cached" on 0: allocation;
    "event created, recorded, queried" on 0: event;
    "idle queue waited for" on 0: idle_queue;
}

impl Operation {
    /// Repeats the operation `times` times, on the double in place of this process's driver.
    pub(crate) fn repeat(&self, of: &Doubled, times: u32) -> anyhow::Result<()> {
        let rig = Rig::new(of, self.device)?;
        let step = (self.prepare)(&rig)?;
        let done = (0..times).try_for_each(|_| step());
        // Queued work uses objects of the step.
        rig.queue.synchronize().and(done)?;
        Ok(())
    }
}

impl Rig {
    fn new(of: &Doubled, device: u32) -> anyhow::Result<Rig> {
        let plugin = of.plugin().context("the plugin is not built")?;
        let host =
            Host::builder().with_environment(Environment::from_process()).with_cache_limit(0);
        let host = host.with_only_given_plugins().with_plugin(plugin).build()?;
        let device = host.device(&format!("{}:{device}", of.backend))?;
        let (queue, basic) = (device.queue()?, device.load_trusted(&*image(&device, "basic")?)?);
        Ok(Rig { device, queue, basic })
    }

    fn kernel(&self, name: &str) -> Result<Kernel> {
        self.basic.kernel(name)
    }
}

fn null_kernel(rig: &Rig) -> Result<Step<'_>> {
    let nop = rig.kernel("nop")?;
    // SAFETY: the kernel takes no arguments.
    Ok(Box::new(move || unsafe { rig.queue.launch(&nop, Grid::default(), ()) }))
}

fn kernel_with_arguments(rig: &Rig) -> Result<Step<'_>> {
    let (iota, out) = (rig.kernel("iota")?, rig.device.buffer::<u32>(&rig.queue, 1)?);
    // SAFETY: the kernel takes a pointer and a count of numbers.
    Ok(Box::new(move || unsafe { rig.queue.launch(&iota, Grid::default(), (&out, 1u64)) }))
}

fn kernel_waited_for(rig: &Rig) -> Result<Step<'_>> {
    let nop = rig.kernel("nop")?;
    // SAFETY: the kernel takes no arguments.
    Ok(Box::new(move || unsafe { rig.queue.launch_and_wait(&nop, Grid::default(), ()) }))
}

fn copies_waited_for(rig: &Rig) -> Result<Step<'_>> {
    let there = rig.device.buffer::<u8>(&rig.queue, BYTES as usize)?;
    Ok(Box::new(move || {
        let mut here = [1; BYTES as usize];
        there.write(&rig.queue, &here)?;
        there.read(&rig.queue, &mut here)
    }))
}

fn copies_queued(rig: &Rig) -> Result<Step<'_>> {
    there_and_back(rig, host_memory())
}

fn copies_of_pinned(rig: &Rig) -> Result<Step<'_>> {
    let here = host_memory();
    // SAFETY: the memory is never freed.
    unsafe { rig.device.pin(here, BYTES)? };
    there_and_back(rig, here)
}

fn there_and_back(rig: &Rig, here: *mut c_void) -> Result<Step<'_>> {
    let (there, queue) = (rig.device.buffer::<u8>(&rig.queue, BYTES as usize)?, &rig.queue);
    Ok(Box::new(move || {
        // SAFETY: both have `BYTES` bytes and live until the wait for the queue.
        unsafe {
            queue.copy_from_host(there.pointer(), here, BYTES)?;
            queue.copy_to_host(here, there.pointer(), BYTES)?;
        }
        queue.synchronize()
    }))
}

/// Returns memory of this process, which is never freed.
fn host_memory() -> *mut c_void {
    Box::into_raw(Box::new([1u8; BYTES as usize])).cast()
}

fn copy_between(rig: &Rig) -> Result<Step<'_>> {
    // SAFETY: the contents are never read.
    let buffer = || unsafe { rig.device.buffer_uninit::<u8>(BYTES as usize) };
    let (to, from) = (buffer()?, buffer()?);
    // SAFETY: both have `BYTES` bytes and live until the wait for the queue.
    Ok(Box::new(move || unsafe { rig.queue.copy(to.pointer(), from.pointer(), BYTES) }))
}

fn fill(rig: &Rig) -> Result<Step<'_>> {
    let to = rig.device.buffer::<u8>(&rig.queue, BYTES as usize)?;
    // SAFETY: the buffer has `BYTES` bytes and lives until the wait for the queue.
    Ok(Box::new(move || unsafe { rig.queue.fill(to.pointer(), &[1], BYTES) }))
}

fn allocation(rig: &Rig) -> Result<Step<'_>> {
    let allocate = || rig.device.allocate(MemoryKind::Device, ALLOCATED_BYTES, 64);
    Ok(Box::new(move || allocate().map(drop)))
}

fn event(rig: &Rig) -> Result<Step<'_>> {
    Ok(Box::new(|| rig.queue.record()?.is_complete().map(drop)))
}

fn idle_queue(rig: &Rig) -> Result<Step<'_>> {
    Ok(Box::new(|| rig.queue.synchronize()))
}
