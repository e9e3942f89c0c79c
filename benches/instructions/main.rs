//! Numbers of instructions that the CUDA and AMDGPU backends need for a launch, a copy or an
//! allocation. Valgrind's callgrind counts them on the doubles of the drivers. Only the plugin's
//! own code counts: not the driver, the host or the C library. A count says nothing about the time
//! on a GPU.
//!
//! Each operation runs in processes of its own. For each backend, some processes repeat it twice as
//! often as others, and the table shows the difference.

mod callgrind;
mod operations;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use comfy_table::Table;
use longshore_tests::doubled::{AMDGPU, CUDA, Doubled};
use operations::OPERATIONS;

/// Repetitions in a process; another process has twice as many.
const TIMES: u32 = 1000;
/// Relative difference up to which two counts are equal. Otherwise threads have waited for each
/// other in varying ways, and the median of `RUNS` counts is shown.
const SAME: f64 = 0.01;
const RUNS: usize = 15;
/// Limit for the instructions of AMDGPU, relative to CUDA.
const MOST: f64 = 1.1;

/// A count of the instructions in the backends for CUDA and AMDGPU.
#[derive(Parser)]
struct Arguments {
    /// Part of the names of the operations to count.
    filter: Option<String>,
    /// Work of a child process: an operation of a backend.
    #[arg(long, hide = true, requires = "operation")]
    backend: Option<String>,
    #[arg(long, hide = true)]
    operation: Option<usize>,
    #[arg(long, hide = true, default_value_t = 0)]
    times: u32,
    /// Flag that cargo passes to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if let (Some(backend), Some(operation)) = (arguments.backend, arguments.operation) {
        let doubled = Doubled::for_backend(&backend).context("a backend with a double")?;
        // SAFETY: there is no other thread yet.
        unsafe { doubled.take_double("devices=2") };
        return OPERATIONS[operation].repeat(&doubled, arguments.times);
    }
    let filter = arguments.filter.unwrap_or_default();
    println!("{}, on doubles of the drivers", callgrind::version()?);
    let table = table(&filter)?;
    println!("{table}\ncallgrind's files are in {}", callgrind::FOLDER);
    Ok(())
}

fn table(filter: &str) -> Result<Table> {
    let mut table = Table::new();
    let most = format!("at most {MOST:.2}");
    table.set_header(["instructions of the plugin", "cuda", "amdgpu", "amdgpu / cuda", &most]);
    let operations = OPERATIONS.iter().enumerate();
    for (number, operation) in operations.filter(|(_, known)| known.name.contains(filter)) {
        eprintln!("counting: {}", operation.name);
        let (cuda, amdgpu) = (count(&CUDA, number)?, count(&AMDGPU, number)?);
        let (ratio, met) = (amdgpu / cuda, amdgpu <= cuda * MOST);
        table.add_row([
            operation.name.to_owned(),
            format!("{cuda:.0}"),
            format!("{amdgpu:.0}"),
            format!("{ratio:.3}"),
            if met { "met" } else { "missed" }.to_owned(),
        ]);
    }
    Ok(table)
}

/// Returns the plugin's instructions for one operation.
fn count(of: &Doubled, operation: usize) -> Result<f64> {
    let plugin = of.plugin().context("the plugin is not built")?;
    ensure!(of.double().is_some(), "the double of {}'s driver is not built", of.backend);
    let count = |times: u32| {
        let name = format!("{}-{operation}-{times}", of.backend);
        let (operation, times) = (operation.to_string(), times.to_string());
        let arguments = ["--backend", of.backend, "--operation", &operation, "--times", &times];
        callgrind::instructions(&name, &plugin, &arguments)
    };
    let once = || -> Result<f64> {
        let (once, twice) = (count(TIMES)?, count(2 * TIMES)?);
        Ok((twice as f64 - once as f64) / f64::from(TIMES))
    };
    let mut counts = vec![once()?, once()?];
    if (counts[0] - counts[1]).abs() > counts[0] * SAME {
        let more = (counts.len()..RUNS).map(|_| once());
        counts.extend(more.collect::<Result<Vec<_>>>()?);
    }
    counts.sort_by(f64::total_cmp);
    Ok(counts[counts.len() / 2])
}
