//! Vulkan by Longshore beside Vulkan by `ash` alone and, with the feature `wgpu`, beside wgpu: on
//! the same device, in turns, in one run. The device is the first that `LONGSHORE_DEVICES` leaves.
//! Shown and judged are the best times and, in brackets, the medians.
//!
//! Lavapipe hands each dispatch to threads of its own and waits for them, which takes ten times as
//! long as all the rest of a launch, varies by half, and sometimes by luck takes a tenth: there, the
//! medians tell more. `LP_NUM_THREADS=0` leaves the threads out.

mod copies;
mod kernels;
mod launches;
mod opening;
mod ours;
mod plain;
mod recorded;
#[cfg(feature = "wgpu")]
mod webgpu;

use anyhow::Result;
use clap::Parser;
use longshore_benches::report::Report;
use longshore_benches::{environment, machine};
use opening::Opening;
use ours::Ours;
use plain::{Plain, Which};
use recorded::Kernels;

/// Compares the Vulkan backend with plain Vulkan.
#[derive(Parser)]
struct Arguments {
    /// Measure only this: launches, copies, allocations, opening.
    filter: Option<String>,
    /// What this process does if it was started by another one.
    #[arg(long, hide = true)]
    opening: Option<Opening>,
    #[arg(long, hide = true, default_value_t = 0)]
    index: usize,
    /// Cargo says this to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if let Some(opening) = arguments.opening {
        return opening::run(opening, arguments.index);
    }
    let filter = arguments.filter.unwrap_or_default();
    let wants = |name: &str| name.contains(&filter);
    let module = kernels::module()?;
    let environment = environment::without_cpu();
    let ours = Ours::new(environment.clone(), &module)?;
    let plain = Plain::open(Which::Uuid(ours.uuid()?))?;
    println!("{}, driver: {}\n{}", plain.name, plain.driver, machine::load());
    let mut report = Report::new();
    if wants("launches") {
        let kernels = Kernels::new(&plain, &module)?;
        launches::one(&ours, &plain, &kernels, &mut report)?;
        launches::many(&ours, &plain, &kernels, &mut report)?;
    }
    if wants("copies") {
        let (name, floor) = copies::best(&plain)?;
        copies::copies(&ours, (name, &*floor), &mut report)?;
        if name != "staged" {
            let always = environment.with("LONGSHORE_VULKAN_STAGING", "always");
            let floor = copies::staged(&plain)?;
            copies::copies(&Ours::new(always, &module)?, ("staged", &*floor), &mut report)?;
        }
    }
    if wants("allocations") {
        copies::allocations(&ours, &plain, &mut report)?;
    }
    if wants("opening") {
        opening::measure(plain.index, &mut report)?;
    }
    report.print();
    println!("{}", machine::load());
    Ok(())
}
