//! One program and one node: launches and copies.

use crate::floor::{Kind, Peers, WINDOW};
use crate::jobs::{includes, release};
use crate::pages::Pages;
use anyhow::{Context, Result};
use longshore::{Device, Environment, Grid, Host, Kernel, Queue};
use longshore_benches::report::{Limit, Report};
use longshore_benches::rounds::{Contender, Times, in_rounds};
use longshore_conformance::{Fixtures, TrustedImages};
use longshore_mpi::Mpi;
use std::time::Duration;

/// Launches queued before a wait.
const LAUNCHES: usize = 10_000;
/// Bytes of a message with one launch of a kernel without arguments.
const LAUNCH_BYTES: usize = 48;
/// Time that a launch may take above MPI's round trip.
const MORE: Duration = Duration::from_micros(3);
/// The limit of a measurement without one.
const NO_LIMIT: Duration = Duration::from_secs(3600);
const HELPER: i32 = 1;

/// The devices of the nodes, and MPI's own processes.
pub(crate) struct World {
    pub host: Host,
    pub peers: Peers,
}

/// A device, a queue and an empty kernel.
pub(crate) struct Side {
    pub device: Device,
    pub queue: Queue,
    pub nop: Kernel,
}

impl World {
    pub(crate) fn new(helpers: usize) -> Result<Self> {
        let environment = Environment::from_process().with("LONGSHORE_BACKEND", "mpi");
        let plugin = release()?.join("liblongshore_plugin_mpi.so");
        let builder = Host::builder().with_environment(environment).with_only_given_plugins();
        let host = builder.with_plugin(plugin).build()?;
        let mpi = Mpi::already_loaded().context("the backend has loaded MPI")?;
        Ok(Self { host, peers: Peers::join(mpi, helpers)? })
    }

    /// Creates a contender whose samples are figures of MPI with a helper, divided by `parts`.
    pub(crate) fn floor(
        &self,
        kind: Kind,
        bytes: usize,
        count: usize,
        parts: u32,
    ) -> Contender<'_> {
        let sample = move || {
            self.peers.measure(kind, bytes, count, HELPER).expect("a figure of MPI") / parts
        };
        Contender { sample: Box::new(sample) }
    }
}

impl Side {
    pub(crate) fn new(host: &Host, index: usize) -> Result<Self> {
        let device = host.device(&format!("mpi:{index}"))?;
        let image = Fixtures::built_in().image(&device, "basic")?.context("an image")?;
        let nop = device.load_trusted(&*image)?.kernel("nop")?;
        let queue = device.queue()?;
        Ok(Self { device, queue, nop })
    }

    pub(crate) fn launch(&self) {
        // SAFETY: the kernel takes no arguments.
        unsafe { self.queue.launch(&self.nop, Grid::default(), ()) }.expect("a launch");
    }

    pub(crate) fn synchronize(&self) {
        self.queue.synchronize().expect("the launches");
    }

    fn pipelined(&self) {
        (0..LAUNCHES).for_each(|_| self.launch());
        self.synchronize();
    }
}

pub(crate) fn measure(helpers: usize) -> Result<()> {
    let world = World::new(helpers)?;
    let side = Side::new(&world.host, 0)?;
    let mut report = Report::new();
    if includes("launches") {
        launches(&world, &side, &mut report);
    }
    if includes("copies") {
        copies(&world, &side, &mut report)?;
    }
    report.print();
    world.peers.dismiss()
}

fn launches(world: &World, side: &Side, report: &mut Report) {
    let windows = LAUNCHES / WINDOW;
    let mut all = Contender::new(1, || side.pipelined());
    let ours = Contender { sample: Box::new(move || (all.sample)() / LAUNCHES as u32) };
    let floor = world.floor(Kind::Windows, LAUNCH_BYTES, windows, WINDOW as u32);
    let small = world.floor(Kind::Windows, 8, windows, WINDOW as u32);
    if let [Some(floor), Some(ours), Some(small)] =
        in_rounds([Some(floor), Some(ours), Some(small)])
    {
        let most = Limit::from_floor("1.5 times", &floor, |time| time.mul_f64(1.5));
        report.row("a launch among 10000", Some(&floor), &ours, most);
        report.note("an MPI message of 8 bytes in a window of 64", &small);
    }
    let ours = Contender::new(300, || {
        side.launch();
        side.synchronize();
    });
    let at_once = Contender::new(300, || {
        // SAFETY: the kernel takes no arguments.
        unsafe { side.queue.launch_and_wait(&side.nop, Grid::default(), ()) }.expect("a launch");
    });
    let floor = world.floor(Kind::RoundTrip, LAUNCH_BYTES, 300, 1);
    let all = [Some(floor), Some(ours), Some(at_once)];
    if let [Some(floor), Some(ours), Some(at_once)] = in_rounds(all) {
        let most = || Limit::from_floor("3 us more", &floor, |time| time + MORE);
        report.row("launch, synchronize", Some(&floor), &ours, most());
        report.row("launch_and_wait", Some(&floor), &at_once, most());
    }
    let ours = Contender::new(300, || {
        side.queue.host_function(|| {}).expect("a function");
        side.synchronize();
    });
    let [floor, ours] = in_rounds([Some(world.floor(Kind::RoundTrip, 8, 300, 1)), Some(ours)]);
    if let (Some(floor), Some(ours)) = (floor, ours) {
        report.note("an MPI round trip of 8 bytes", &floor);
        report.note("host_function, synchronize", &ours);
    }
}

fn copies(world: &World, side: &Side, report: &mut Report) -> Result<()> {
    for bytes in [8, 1 << 10, 4 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20] {
        let count = ((4 << 20) / bytes).clamp(2, 200);
        let (source, mut target) = (Pages::new(bytes), Pages::new(bytes));
        let buffer = side.device.buffer_of(&side.queue, &source)?;
        let write = || buffer.write(&side.queue, &source).expect("a copy");
        let floor = world.floor(Kind::To, bytes, count, 1);
        let [floor, to] = in_rounds([Some(floor), Some(Contender::new(count as u32, write))]);
        add(report, &format!("{} to the device", shown(bytes)), bytes, floor, to);
        let read = || buffer.read(&side.queue, &mut target).expect("a copy");
        let floor = world.floor(Kind::From, bytes, count, 1);
        let [floor, from] = in_rounds([Some(floor), Some(Contender::new(count as u32, read))]);
        add(report, &format!("{} from the device", shown(bytes)), bytes, floor, from);
    }
    Ok(())
}

/// Adds a copy: from 1 MiB on, with the limit.
pub(crate) fn add(
    report: &mut Report,
    name: &str,
    bytes: usize,
    floor: Option<Times>,
    ours: Option<Times>,
) {
    let (Some(floor), Some(ours)) = (floor, ours) else { return };
    let limit = match bytes >= 1 << 20 {
        true => Limit::share(0.9, &floor),
        false => Limit::from_floor("none", &floor, |_| NO_LIMIT),
    };
    report.row(name, Some(&floor), &ours, limit);
}

pub(crate) fn shown(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}
