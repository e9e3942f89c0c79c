//! The linker beside its peers and its floor: from objects in the page cache to callable code.
//!
//! Every workload is measured in rounds. In a round each contender runs once, so that other work of
//! the machine affects all of them alike. The tables show the best time, and the median after it.
//!
//! - *floor*: copying the allocated sections into new memory and protecting it, on one thread.
//! - *ours*: see [`ours`].
//! - *JITLink*, *RuntimeDyld*: the timers of their tools, so without the start of a process.
//! - *lld*, *mold*, *wild*: the time of the process that writes a shared object to `/dev/shm`, less
//!   the best time of the same process for an empty object. Each runs on one thread, and on its own
//!   choice of threads.

mod contenders;
mod floor;
mod memory;
mod ours;
mod peers;
mod report;
mod survey;
mod synthetic;
mod workloads;

use anyhow::Result;
use clap::Parser;
use contenders::Contender;
use report::Row;
use std::path::{Path, PathBuf};
use std::slice;
use survey::Survey;
use workloads::Workload;

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

/// A comparison of the linker with its peers.
#[derive(Parser)]
struct Arguments {
    /// Part of the names of the workloads to measure.
    filter: Option<String>,
    /// Flag that cargo passes to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let filter = arguments.filter.unwrap_or_default();
    let folder = workloads::folder()?;
    let scratch = tempfile::tempdir_in("/dev/shm")?;
    let linkers = peers::file_linkers();
    let empty = peers::empty_object(&folder)?;

    let (mut surveys, mut rows, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for kind in workloads::KINDS.iter().filter(|kind| kind.name.contains(&filter)) {
        match kind.prepare(&folder) {
            Ok(workload) => {
                let survey = Survey::new(&workload)?;
                let row = measure(&workload, &survey, &linkers, &empty, scratch.path())?;
                eprintln!("{}", report::times(slice::from_ref(&row)));
                rows.push(row);
                surveys.push((kind.name, survey));
            }
            Err(error) => missing.push(format!("{}: {error:#}", kind.name)),
        }
    }
    println!("{}\n", report::surveys(&surveys));
    println!("{}", report::times(&rows));
    report::notes(&rows, &missing);
    Ok(())
}

/// Times all contenders on one workload.
fn measure(
    workload: &Workload,
    survey: &Survey,
    linkers: &[peers::FileLinker],
    empty: &PathBuf,
    scratch: &Path,
) -> Result<Row> {
    eprintln!("measuring {}", workload.name);
    let jit = peers::JitInputs::prepare(workload, survey)?;
    let output = scratch.join("output");
    let mut contenders = vec![
        Contender::new("floor", || floor::run(workload, survey)),
        Contender::new("ours, 1 thread", || ours::run(workload, 1)),
        Contender::new("ours, 2 threads", || ours::run(workload, 2)),
        Contender::new("JITLink", || peers::jitlink(&jit)),
        Contender::new("RuntimeDyld", || peers::runtime_dyld(&jit)),
    ];
    contenders.extend(linkers.iter().map(|linker| {
        Contender::new(linker.column(), || linker.run(&workload.objects, &output))
            .less(|| linker.run(slice::from_ref(empty), &output))
    }));
    contenders::run_in_rounds(&mut contenders);
    Ok(Row {
        workload: workload.name,
        target_ms: workload.target_ms,
        results: contenders.into_iter().map(Contender::finish).collect(),
        peak: ours::peak(workload)?,
        allocated: survey.allocated(),
    })
}
