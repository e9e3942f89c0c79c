//! The time of launches.

use crate::opencl::{Argument, OpenCl};
use crate::ours::Ours;
use anyhow::{Result, ensure};
use longshore::Grid;
use longshore_benches::rounds::{Contender, Times, in_rounds};
use longshore_tests::kernels::{saxpy, small_floats};

const ITEMS: u32 = 64;
/// Launches in a sample.
const LAUNCHES: u32 = 1000;
/// Launches queued before a wait.
const QUEUED: u32 = 100;

/// A row of the table: Longshore's times, then PoCL's.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) times: [Option<Times>; 2],
    pub(crate) target: Target,
}

/// The target of a row.
pub(crate) enum Target {
    /// Factor of PoCL's speed.
    TimesPocl(f64),
    /// Maximum time in nanoseconds.
    Ns(f64),
}

/// Measures saxpy in one group of 64 items.
pub(crate) fn small(ours: &Ours, opencl: Option<&OpenCl>) -> Result<Vec<Row>> {
    let n = u64::from(ITEMS);
    let host = [small_floats(1, ITEMS as usize), small_floats(2, ITEMS as usize)];
    let (x, y) = (ours.buffer(&host[0]), ours.buffer(&host[1]));
    let kernel = ours.kernels.kernel("saxpy");
    let grid = Grid::linear(1, ITEMS);
    let queue = ours.kernels.queue();
    let factor = 0.0;
    // SAFETY: both buffers have n elements.
    let wait = || unsafe { queue.launch_and_wait(kernel, grid, (factor, &x, &y, n)) }.unwrap();
    let many = || {
        for _ in 0..QUEUED {
            // SAFETY: both buffers have n elements.
            unsafe { queue.launch(kernel, grid, (factor, &x, &y, n)) }.unwrap();
        }
        queue.synchronize().unwrap();
    };
    let arguments = [
        Argument::Float(factor),
        Argument::from_buffer(&x),
        Argument::from_buffer(&y),
        Argument::Long(n),
    ];
    let command = |opencl: &OpenCl| opencl.command("saxpy", ([1; 3], [ITEMS, 1, 1]), &arguments);
    let commands = opencl.map(command).transpose()?.into_iter().collect::<Vec<_>>();
    let wait_opencl = opencl.map(|opencl| || opencl.run(&commands));
    let many_opencl = opencl.map(|opencl| {
        || {
            (1..QUEUED).for_each(|_| opencl.enqueue(&commands));
            opencl.run(&commands);
        }
    });
    let runs: [Option<&dyn Fn()>; 2] =
        [Some(&wait), wait_opencl.as_ref().map(|run| run as &dyn Fn())];
    for run in runs.into_iter().flatten() {
        ours.write(&y, &host[1]);
        run();
        ensure!(ours.read(&y) == saxpy(factor, &host[0], &host[1]), "a small saxpy is wrong");
    }
    let one = [
        Some(Contender::new(LAUNCHES, wait)),
        wait_opencl.map(|run| Contender::new(LAUNCHES / 10, run)),
    ];
    let hundred = [
        Some(Contender::new(LAUNCHES / QUEUED, many)),
        many_opencl.map(|run| Contender::new(LAUNCHES / QUEUED, run)),
    ];
    Ok(vec![
        Row {
            name: "64 items, launched and waited for",
            times: in_rounds(one),
            target: Target::TimesPocl(2.0),
        },
        Row {
            name: "100 launches of 64 items, then wait",
            times: in_rounds(hundred),
            target: Target::TimesPocl(2.0),
        },
    ])
}

/// Measures an empty kernel in one group.
pub(crate) fn empty(ours: &Ours) -> Vec<Row> {
    let (queue, kernel, grid) =
        (ours.kernels.queue(), ours.kernels.kernel("empty"), Grid::default());
    // SAFETY: the kernel takes no arguments.
    let wait = || unsafe { queue.launch_and_wait(kernel, grid, ()) }.unwrap();
    let queued = || {
        // SAFETY: the kernel takes no arguments.
        unsafe { queue.launch(kernel, grid, ()) }.unwrap();
        queue.synchronize().unwrap();
    };
    let row = |name, run: &dyn Fn(), ns| Row {
        name,
        times: in_rounds([Some(Contender::new(LAUNCHES, run)), None]),
        target: Target::Ns(ns),
    };
    vec![
        row("empty, launched while waiting", &wait, 200.0),
        row("empty, queued, then waited for", &queued, 1000.0),
    ]
}
