//! Vulkan through Longshore beside Vulkan through `ash` alone and, with the feature `wgpu`, beside
//! wgpu. All use the same device, in turns, in one run. The device is the first in the selection
//! `LONGSHORE_DEVICES`. The tables show and judge the best times and, in brackets, the medians.
//!
//! Lavapipe hands each dispatch to its own threads and waits for them. This takes ten times as long
//! as the rest of a launch and varies by half; sometimes it takes only a tenth. There, the medians
//! say more. `LP_NUM_THREADS=0` removes the threads.

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

/// A comparison of the Vulkan backend with plain Vulkan.
#[derive(Parser)]
struct Arguments {
    /// Group to measure: launches, copies, allocations, opening.
    filter: Option<String>,
    /// Work of a child process.
    #[arg(long, hide = true)]
    opening: Option<Opening>,
    #[arg(long, hide = true, default_value_t = 0)]
    index: usize,
    /// Flag that cargo passes to every benchmark.
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
