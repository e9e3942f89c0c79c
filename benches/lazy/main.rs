//! Lazy re-exports beside the same work without them. Calls are beside direct calls. An archive of
//! ten thousand kernels, of which one is called, is beside the same archive linked as a whole.
//! Functions that are compiled at their first call are beside `lli`, and cached bitcode images
//! beside their objects. All take turns in one run. The tables show and judge the best times and,
//! in brackets, the medians.

mod archive;
mod bitcode;
mod cached;
mod calls;
mod executors;
mod image;

use anyhow::{Result, ensure};
use bytes::Bytes;
use clap::Parser;
use longshore_benches::machine;
use longshore_benches::report::Report;
use std::fs;
use std::process::Command;

/// A benchmark of lazy re-exports.
#[derive(Parser)]
struct Arguments {
    /// Group to measure: calls, executors, archive, bitcode, cached.
    filter: Option<String>,
    /// Flag that cargo passes to every benchmark.
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
    if wants("executors") {
        executors::measure(&mut report)?;
    }
    if wants("archive") {
        archive::measure(&mut report)?;
        archive::measure_image(&mut report)?;
    }
    if wants("bitcode") {
        bitcode::measure(&mut report)?;
    }
    if wants("cached") {
        cached::measure(&mut report)?;
    }
    report.print();
    println!("{}", machine::load());
    Ok(())
}

/// Compiles C.
fn compile(source: &str) -> Result<Bytes> {
    let folder = tempfile::tempdir_in("/dev/shm")?;
    let [source_file, object] = ["it.c", "it.o"].map(|name| folder.path().join(name));
    fs::write(&source_file, source)?;
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-fPIC", "-c", "-o"]).args([&object, &source_file]);
    ensure!(gcc.status()?.success(), "gcc does not compile");
    Ok(fs::read(object)?.into())
}
