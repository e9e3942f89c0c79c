//! How many instructions of the CUDA backend and of the AMDGPU backend a launch, a copy or an allocation takes, counted
//! by valgrind's callgrind on the doubles of their drivers. Counted is the plugin's own code alone: not the driver, the
//! host or the C library. A count says nothing about how long a GPU takes.
//!
//! Each operation has processes of its own, for each backend some that do it twice as often as others: what is shown is the
//! difference of the two.

mod callgrind;
mod operations;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use comfy_table::Table;
use longshore_tests::doubled::{AMDGPU, CUDA, Doubled};
use operations::OPERATIONS;

/// How often a process does it; another one does it twice as often.
const TIMES: u32 = 1000;
/// Two counts that differ by no more, as a share, are the same. Else threads wait for each other, now in one way and now in
/// another, and the median of so many counts is shown.
const SAME: f64 = 0.01;
const RUNS: usize = 15;
/// How many instructions AMDGPU may need for one of CUDA.
const MOST: f64 = 1.1;

/// Counts instructions of the backends of CUDA and AMDGPU.
#[derive(Parser)]
struct Arguments {
    /// Count only for the operations whose names contain this.
    filter: Option<String>,
    /// What this process does if it was started by another one: an operation of a backend.
    #[arg(long, hide = true, requires = "operation")]
    backend: Option<String>,
    #[arg(long, hide = true)]
    operation: Option<usize>,
    #[arg(long, hide = true, default_value_t = 0)]
    times: u32,
    /// Cargo says this to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if let (Some(backend), Some(operation)) = (arguments.backend, arguments.operation) {
        let of = Doubled::for_backend(&backend).context("a backend with a double")?;
        // SAFETY: there is no other thread yet.
        unsafe { of.take_double("devices=2") };
        return OPERATIONS[operation].repeat(&of, arguments.times);
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

/// Instructions of the plugin that an operation takes once.
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
