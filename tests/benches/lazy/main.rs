//! Lazy re-exports beside the same work without them: calls beside direct calls, and an archive of ten thousand kernels, of which
//! one is called, beside the same archive linked whole. In turns, in one run; shown and judged are the best times and, in
//! brackets, the medians.

mod archive;
mod calls;
#[path = "../common/machine.rs"]
mod machine;
#[path = "../common/report.rs"]
mod report;
#[path = "../common/turns.rs"]
mod turns;

use anyhow::Result;
use clap::Parser;
use report::Report;

/// Measures lazy re-exports.
#[derive(Parser)]
struct Arguments {
    /// Measure only this: calls, archive.
    filter: Option<String>,
    /// Cargo says this to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let filter = arguments.filter.unwrap_or_default();
    let wants = |name: &str| name.contains(&filter);
    let mut report = Report::new();
    if wants("calls") {
        calls::measure(&mut report)?;
    }
    if wants("archive") {
        archive::measure(&mut report)?;
    }
    report.print();
    println!("{}", machine::load());
    Ok(())
}
