//! One program and four nodes: copies and events between nodes, and images.

use crate::floor::Kind;
use crate::pages::Pages;
use crate::pair::{Side, World, add, shown};
use anyhow::{Context, Result};
use longshore::{Group, MemoryKind};
use longshore_benches::report::{Limit, Report};
use longshore_benches::rounds::{Contender, Times, in_rounds};
use longshore_conformance::{Fixtures, TrustedImages};
use std::time::{Duration, Instant};

const IMAGE: usize = 16 << 20;

/// Measures copies and events between nodes.
pub(crate) fn measure(helpers: usize) -> Result<()> {
    let world = World::new(helpers)?;
    let sides = sides(&world)?;
    let mut report = Report::new();
    copies(&world, &sides, &mut report)?;
    events(&sides, &mut report);
    report.print();
    world.peers.dismiss()
}

/// Measures a broadcast of 64 MiB to four nodes.
pub(crate) fn measure_broadcast(helpers: usize) -> Result<()> {
    const BYTES: usize = 64 << 20;
    const COUNT: usize = 3;
    let world = World::new(helpers)?;
    let sides = sides(&world)?;
    let data = Pages::new(BYTES);
    let buffer = |side: &Side| side.device.buffer::<u8>(&side.queue, BYTES);
    let buffers = sides.iter().map(buffer).collect::<longshore::Result<Vec<_>>>()?;
    let slices: Vec<_> = buffers.iter().map(|buffer| buffer.as_slice()).collect();
    let group = Group::new(sides.iter().map(|side| &side.queue))?;
    let floor = Contender {
        sample: Box::new(|| {
            world.peers.measure_all(Kind::Broadcast, BYTES, COUNT).expect("a figure of MPI")
        }),
    };
    let ours = Contender::new(COUNT as u32, || {
        group.broadcast_from_host(&data, &slices).expect("a broadcast");
    });
    let mut report = Report::new();
    if let [Some(floor), Some(ours)] = in_rounds([Some(floor), Some(ours)]) {
        let most = Limit::from_floor("1.2 times", &floor, |time| time.mul_f64(1.2));
        report.row("64 MiB broadcast to 4 nodes", Some(&floor), &ours, most);
    }
    report.print();
    world.peers.dismiss()
}

/// Measures the loading of images.
pub(crate) fn measure_images() -> Result<()> {
    let world = World::new(0)?;
    let sides = sides(&world)?;
    let mut report = Report::new();
    images(&sides, &mut report)?;
    report.print();
    Ok(())
}

fn sides(world: &World) -> Result<Vec<Side>> {
    (0..4).map(|index| Side::new(&world.host, index)).collect()
}

fn copies(world: &World, sides: &[Side], report: &mut Report) -> Result<()> {
    const MOST: usize = 64 << 20;
    let (one, other) = (&sides[0], &sides[1]);
    let from = one.device.allocate(MemoryKind::Device, MOST as u64, 1)?;
    let to = other.device.allocate(MemoryKind::Device, MOST as u64, 1)?;
    for bytes in [4 << 10, 64 << 10, 1 << 20, 16 << 20, MOST] {
        let count = ((4 << 20) / bytes).clamp(2, 100);
        let floor = Contender {
            sample: Box::new(move || {
                let took = world.peers.measure_between(Kind::To, bytes, count, (1, 2));
                took.expect("a figure of MPI")
            }),
        };
        let ours = Contender::new(count as u32, || {
            // SAFETY: both have `bytes` bytes, and live until the copy is done.
            unsafe { other.queue.copy(to.pointer(), from.pointer(), bytes as u64) }
                .and_then(|()| other.queue.synchronize())
                .expect("a copy");
        });
        let [floor, ours] = in_rounds([Some(floor), Some(ours)]);
        add(report, &format!("{} from node to node", shown(bytes)), bytes, floor, ours);
    }
    Ok(())
}

fn events(sides: &[Side], report: &mut Report) {
    let (one, other) = (&sides[0], &sides[1]);
    let ours = Contender::new(100, || {
        one.launch();
        let event = one.queue.record().expect("an event");
        other.queue.wait_for(&event).expect("a wait");
        other.launch();
        other.synchronize();
    });
    if let [Some(ours)] = in_rounds([Some(ours)]) {
        report.note("a launch after a launch of another node, done", &ours);
    }
}

fn images(sides: &[Side], report: &mut Report) -> Result<()> {
    let basic = Fixtures::built_in().image(&sides[0].device, "basic")?.context("an image")?;
    let mut image = basic.to_vec();
    image.resize(IMAGE, 0);
    let mut number = 0_u64;
    let mut load = |is_new: bool| {
        number += u64::from(is_new);
        let at = image.len() - 8;
        image[at..].copy_from_slice(&number.to_le_bytes());
        let start = Instant::now();
        let load = |side: &Side| side.device.load_trusted(&*image).expect("the image");
        let programs: Vec<_> = sides.iter().map(load).collect();
        let took = start.elapsed();
        drop(programs);
        took
    };
    let (mut first, mut again) = (Vec::<Duration>::new(), Vec::new());
    for _ in 0..7 {
        first.push(load(true));
        again.push(load(false));
    }
    if let (Some(first), Some(again)) = (Times::new(first), Times::new(again)) {
        report.note("16 MiB of image on 4 nodes, first", &first);
        report.note("16 MiB of image on 4 nodes, again", &again);
    }
    Ok(())
}
