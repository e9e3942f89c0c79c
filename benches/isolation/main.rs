//! The CPU's plugin in a process of its own, beside the same plugin in this process, and beside
//! `memcpy`.
//!
//! The smallest operations show the time of a call between processes: a launch of an empty kernel,
//! queued among others or waited for, and a copy of 8 bytes. Large copies from and to memory of the
//! program alone show the time of the staging memory.

use anyhow::{Context, Result};
use longshore::{Device, Environment, Grid, Host, Kernel, MemoryKind, Queue};
use longshore_benches::report::{Limit, Report};
use longshore_benches::rounds::{Contender, in_rounds};
use longshore_conformance::Fixtures;
use longshore_conformance::TrustedImages;
use longshore_tests::world::{executor, host_plugin};
use std::hint::black_box;
use std::time::Duration;

/// Launches queued before a wait.
const LAUNCHES: usize = 1000;
const LARGE: usize = 64 << 20;
/// Time that isolation may add to a launch among others.
const MORE: Duration = Duration::from_micros(3);

/// A device, a queue and an empty kernel.
struct Side {
    device: Device,
    queue: Queue,
    nop: Kernel,
    _host: Host,
}

impl Side {
    fn new(isolated: bool) -> Result<Self> {
        let builder =
            Host::builder().with_environment(Environment::empty()).with_only_given_plugins();
        let builder = builder.with_plugin(host_plugin()).with_executor(executor());
        let host =
            if isolated { builder.with_isolated_backends("host") } else { builder }.build()?;
        let device = host.default_device()?;
        let image = Fixtures::built_in().image(&device, "basic")?.context("an image")?;
        let nop = device.load_trusted(&*image)?.kernel("nop")?;
        let queue = device.queue()?;
        Ok(Self { device, queue, nop, _host: host })
    }

    fn pipelined(&self) {
        for _ in 0..LAUNCHES {
            // SAFETY: the kernel takes no arguments.
            unsafe { self.queue.launch(&self.nop, Grid::default(), ()) }.expect("a launch");
        }
        self.queue.synchronize().expect("the launches");
    }

    fn waiting(&self) {
        // SAFETY: as above.
        unsafe { self.queue.launch_and_wait(&self.nop, Grid::default(), ()) }.expect("a launch");
    }

    fn each_way(&self, bytes: usize) -> (Contender<'_>, Contender<'_>) {
        let mut memory = vec![1_u8; bytes];
        let buffer = self.device.buffer_of(&self.queue, &memory).expect("memory");
        let (source, count) = (memory.clone(), if bytes < 4096 { 500 } else { 2 });
        let other = self.device.buffer_of(&self.queue, &memory).expect("memory");
        let to = move || other.write(&self.queue, &source).expect("a copy");
        let from = move || buffer.read(&self.queue, &mut memory).expect("a copy");
        (Contender::new(count, to), Contender::new(count, from))
    }
}

fn main() -> Result<()> {
    let (here, isolated) = (Side::new(false)?, Side::new(true)?);
    let mut report = Report::new();
    let launches = [&here, &isolated].map(|side| Some(per_launch(3, || side.pipelined())));
    if let [Some(floor), Some(ours)] = in_rounds(launches) {
        let most = Limit::from_floor("3 us more", &floor, |time| time + MORE);
        report.row("a launch among 1000", Some(&floor), &ours, most);
    }
    let waiting = [&here, &isolated].map(|side| Some(Contender::new(300, || side.waiting())));
    if let [Some(floor), Some(ours)] = in_rounds(waiting) {
        report.note("a launch that is waited for, in this process", &floor);
        report.note("a launch that is waited for, isolated", &ours);
    }
    let (to, from) = isolated.each_way(8);
    if let [Some(to), Some(from)] = in_rounds([Some(to), Some(from)]) {
        report.note("8 bytes to the device", &to);
        report.note("8 bytes from the device", &from);
    }
    let (to, from) = isolated.each_way(LARGE);
    let (source, mut target) = (vec![1_u8; LARGE], vec![0_u8; LARGE]);
    let floor = Contender::new(2, || black_box(&mut target).copy_from_slice(black_box(&source)));
    if let [Some(floor), Some(to), Some(from)] = in_rounds([Some(floor), Some(to), Some(from)]) {
        report.row("64 MiB to the device", Some(&floor), &to, Limit::share(0.5, &floor));
        report.row("64 MiB from the device", Some(&floor), &from, Limit::share(0.5, &floor));
    }
    shared_copies(&isolated, &mut report)?;
    report.print();
    Ok(())
}

/// Creates a contender whose time is that of one launch. A sample has `count` runs of `LAUNCHES`
/// launches each.
fn per_launch<'a>(count: u32, run: impl FnMut() + 'a) -> Contender<'a> {
    let mut all = Contender::new(count, run);
    Contender { sample: Box::new(move || (all.sample)() / LAUNCHES as u32) }
}

/// Measures copies between shared memory and the device, which need no staging.
fn shared_copies(isolated: &Side, report: &mut Report) -> Result<()> {
    let shared = isolated.device.allocate(MemoryKind::Host, LARGE as u64, 1)?;
    let buffer = isolated.device.allocate(MemoryKind::Device, LARGE as u64, 1)?;
    let copy = || {
        // SAFETY: both have `LARGE` bytes, and live until the copy is done.
        unsafe { isolated.queue.copy(buffer.pointer(), shared.pointer(), LARGE as u64) }
            .and_then(|()| isolated.queue.synchronize())
            .expect("a copy");
    };
    if let [Some(times)] = in_rounds([Some(Contender::new(2, copy))]) {
        report.note("64 MiB of host memory to the device", &times);
    }
    Ok(())
}
