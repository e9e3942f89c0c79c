//! The time from a new process to an open device. Each measurement has a process of its own,
//! without warm caches.

use crate::raw::{Raw, Which};
use crate::{Both, ours};
use anyhow::{Context, Result};
use clap::ValueEnum;
use longshore_benches::report::{Limit, Report};
use longshore_benches::rounds::Times;
use longshore_benches::{environment, steps};
use std::ffi::c_int;
use std::time::{Duration, Instant};

const ROUNDS: usize = 20;
const EXTRA: Duration = Duration::from_millis(1);

/// The work of a child process, which reports the times of its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Opening {
    /// The driver alone.
    Floor,
    /// Longshore.
    Ours,
}

/// Measures in new processes, in rounds. This process keeps the device open, so that the system
/// does not restart it for each of them.
pub(crate) fn measure<D: Raw>(both: &Both<D>, report: &mut Report) -> Result<()> {
    let mut all = [const { Vec::new() }; 2];
    for _ in 0..ROUNDS {
        for (opening, all) in [Opening::Floor, Opening::Ours].iter().zip(&mut all) {
            all.push(child::<D>(*opening, both.plain.index())?);
        }
    }
    let [floor, ours] = all;
    let whole = |times: &[Vec<Duration>]| times.iter().map(|steps| steps.iter().sum()).collect();
    let step = |at: usize| ours.iter().map(|steps| steps[at]).collect();
    let times = |times: Vec<Duration>| Times::new(times).context("there were rounds");
    let (floor, opened) = (times(whole(&floor))?, times(whole(&ours))?);
    let limit = Limit::from_floor("floor + 1 ms", &floor, |floor| floor + EXTRA);
    report.row("from nothing to an open device", Some(&floor), &opened, limit);
    report.note("plugin, driver and devices found, which is part of that", &times(step(0))?);
    report.note("device opened, which is part of that", &times(step(1))?);
    Ok(())
}

/// Runs the work of a child process, and prints the times of its steps.
pub(crate) fn run<D: Raw>(opening: Opening, index: c_int) -> Result<()> {
    let environment = environment::without_cpu();
    let mut steps = vec![Instant::now()];
    match opening {
        Opening::Floor => {
            let library = environment.setting(D::OF.backend, "DRIVER");
            let plain = D::open(library.as_deref(), Which::Index(index))?;
            steps.push(Instant::now());
            drop(plain);
        }
        Opening::Ours => {
            let host = ours::host(D::OF, environment)?;
            steps.push(Instant::now());
            let device = host.default_device()?;
            steps.push(Instant::now());
            drop(device);
        }
    }
    steps::print(&steps);
    Ok(())
}

/// Returns the times of the steps in a child process.
fn child<D: Raw>(opening: Opening, index: c_int) -> Result<Vec<Duration>> {
    let name = opening.to_possible_value().expect("every value has a name");
    let (backend, index) = (D::OF.backend, index.to_string());
    steps::time_child(&["--backend", backend, "--opening", name.get_name(), "--index", &index])
}
