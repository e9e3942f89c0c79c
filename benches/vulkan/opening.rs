//! The time from a new process to an open device. Each measurement has a process of its own,
//! without warm caches.

use crate::ours;
use crate::plain::{Plain, Which};
use anyhow::{Context, Result};
use clap::ValueEnum;
use longshore_benches::report::{Limit, Report};
use longshore_benches::rounds::Times;
use longshore_benches::{environment, steps};
use longshore_tests::vulkan;
use std::time::{Duration, Instant};

const ROUNDS: usize = 40;
const EXTRA: Duration = Duration::from_millis(2);

/// The work of a child process, which reports the times of its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Opening {
    /// The driver alone.
    Floor,
    /// Longshore.
    Ours,
    /// Only the load of the plugin's file.
    Plugin,
}

/// Measures in new processes, in rounds. `index` is the number by which the loader
/// knows the device.
pub(crate) fn measure(index: usize, report: &mut Report) -> Result<()> {
    let openings = [Opening::Floor, Opening::Ours, Opening::Plugin];
    let mut all = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        for (opening, all) in openings.iter().zip(&mut all) {
            all.push(child(*opening, index)?);
        }
    }
    let [floor, ours, plugin] = all;
    let whole = |times: &[Vec<Duration>]| times.iter().map(|steps| steps.iter().sum()).collect();
    let step = |at: usize| ours.iter().map(|steps| steps[at]).collect();
    let times = |times: Vec<Duration>| Times::new(times).context("there were rounds");
    let (floor, opened) = (times(whole(&floor))?, times(whole(&ours))?);
    let limit = Limit::from_floor("floor + 2 ms", &floor, |floor| floor + EXTRA);
    report.row("from nothing to an open device", Some(&floor), &opened, limit);
    report.note("the plugin's file loaded, which is part of that", &times(whole(&plugin))?);
    report.note("plugin, driver and devices found, which is part of that", &times(step(0))?);
    report.note("device opened, which is part of that", &times(step(1))?);
    Ok(())
}

/// Runs the work of a child process, and prints the times of its steps in nanoseconds.
pub(crate) fn run(opening: Opening, index: usize) -> Result<()> {
    let mut steps = vec![Instant::now()];
    match opening {
        Opening::Floor => {
            let plain = Plain::open(Which::Index(index))?;
            steps.push(Instant::now());
            drop(plain);
        }
        Opening::Ours => {
            let host = ours::host(environment::without_cpu())?;
            steps.push(Instant::now());
            let device = host.default_device()?;
            steps.push(Instant::now());
            drop(device);
        }
        Opening::Plugin => {
            let plugin = vulkan::plugin().context("the plugin is not built")?;
            // SAFETY: loading our own plugin runs nothing but its loading.
            let library = unsafe { libloading::Library::new(plugin) }?;
            steps.push(Instant::now());
            drop(library);
        }
    }
    steps::print(&steps);
    Ok(())
}

/// Returns the times of the steps in a child process.
fn child(opening: Opening, index: usize) -> Result<Vec<Duration>> {
    let name = opening.to_possible_value().expect("every value has a name");
    steps::time_child(&["--opening", name.get_name(), "--index", &index.to_string()])
}
