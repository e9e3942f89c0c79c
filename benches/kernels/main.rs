//! Kernels on the CPU beside their peers, on the same memory, in turns, in one run:
//!
//! - *ours*: `kernels/kernels.c`, made with `longshore_device.h` and compiled by clang 19 for this
//!   CPU;
//! - *PoCL*: the same kernels in OpenCL C, compiled by PoCL's LLVM;
//! - *OpenMP*: plain loops in C, compiled by clang 19 for this CPU.
//!
//! A second table has kernels that are written per item, with barriers. It shows the *items* form,
//! compiled by `longshore cc`, beside the same algorithm in group form and in OpenCL C, on PoCL and
//! on Intel's runtime.
//!
//! A third table has kernels from bitcode beside their variants, in which arguments and group sizes
//! are constants.
//!
//! All results are checked before the measurements. The tables show the best times, and the medians
//! after them. A peer that is not installed is left out.

mod groups;
mod items;
mod launches;
mod opencl;
mod openmp;
mod ours;
mod report;
mod streams;
mod variants;
mod workload;

use anyhow::Result;
use clap::Parser;
use longshore_benches::machine;
use longshore_benches::rounds::{Contender, in_rounds};
use longshore_tests::kernels::Form;
use opencl::{GROUP_KERNELS, OpenCl, Runtime};
use openmp::OpenMp;
use ours::Ours;
use report::Aim;
use workload::{Row, Workload, measure};

const COMPILER_FLAGS: &[&str] = &["-O3", "-march=native"];
const MIB: usize = 1 << 20;
/// Target for kernels whose speed is the memory's, as a factor of OpenMP's speed.
const STREAM_AIM: f64 = 0.95;
const SCALING_AIM: f64 = 1.9;

/// A comparison of kernels on the CPU with PoCL and OpenMP.
#[derive(Parser)]
struct Arguments {
    /// Part of the names of the kernels to measure.
    filter: Option<String>,
    /// Flag that cargo passes to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    // SAFETY: no thread was started yet.
    unsafe { openmp::be_polite() };
    let filter = Arguments::parse().filter.unwrap_or_default();
    // SAFETY: no thread was started yet.
    let _drivers = unsafe { opencl::add_intel() }?;
    let image = ours::image();
    let ours = Ours::new(&image, None)?;
    let opencl = there("PoCL", OpenCl::new(Runtime::Pocl, GROUP_KERNELS));
    let openmp = there("OpenMP", OpenMp::new());
    if let Some(opencl) = &opencl {
        println!("PoCL: {}", opencl.description);
    }
    println!("{}", machine::load());
    let rows = workloads(&ours, opencl.as_ref(), openmp.as_ref(), &filter)?;
    if !rows.is_empty() {
        println!("{}", report::workloads(&rows));
    }
    if let Some(table) = items::measure(&filter)? {
        println!("{table}");
    }
    if let Some(table) = variants::measure(&ours, &filter)? {
        println!("{table}");
    }
    if "launches".contains(&filter) {
        let mut rows = launches::small(&ours, opencl.as_ref())?;
        rows.extend(launches::empty(&ours));
        println!("{}", report::launches(&rows));
    }
    if "scaling".contains(&filter) {
        println!("{}", scaling(&image)?);
    }
    println!("{}", machine::load());
    Ok(())
}

fn there<T>(name: &str, peer: Result<T>) -> Option<T> {
    peer.inspect_err(|error| println!("without {name}: {error:#}")).ok()
}

type Make = fn(&Ours) -> Box<dyn Workload>;

/// Names and constructors of the workloads, which are created when their turns come.
const WORKLOADS: [(&str, Make); 11] = [
    ("saxpy large", |ours| Box::new(streams::Saxpy::new(ours, Form::Group, 64 * MIB))),
    ("triad large", |ours| Box::new(streams::Triad::new(ours, 64 * MIB))),
    ("saxpy", |ours| Box::new(streams::Saxpy::new(ours, Form::Group, 8 * MIB))),
    ("saxpy of items", |ours| Box::new(streams::Saxpy::new(ours, Form::Items, 8 * MIB))),
    ("triad", |ours| Box::new(streams::Triad::new(ours, 8 * MIB))),
    ("stencil", |ours| Box::new(streams::Stencil::new(ours, 8 * MIB))),
    ("matrix multiply", |ours| Box::new(groups::Matmul::new(ours, 1024))),
    ("reduction", |ours| Box::new(groups::Reduce::new(ours, 16 * MIB))),
    ("histogram", |ours| Box::new(groups::Histogram::new(ours, 8 * MIB))),
    ("prefix sum", |ours| Box::new(groups::PrefixSum::new(ours, 8 * MIB))),
    ("n-body", |ours| Box::new(groups::NBody::new(ours, 4096))),
];

fn workloads(
    ours: &Ours,
    opencl: Option<&OpenCl>,
    openmp: Option<&OpenMp>,
    filter: &str,
) -> Result<Vec<(Row, Aim)>> {
    let mut rows = Vec::new();
    for (name, make) in WORKLOADS.iter().filter(|(name, _)| name.contains(filter)) {
        eprintln!("measuring {name}");
        let workload = make(ours);
        let row = measure(&*workload, ours, opencl, openmp)?;
        let (pocl, is_large) = (if row.has_barriers { 2.0 } else { 1.0 }, name.ends_with("large"));
        rows.push((row, Aim { pocl: Some(pocl), openmp: is_large.then_some(STREAM_AIM) }));
    }
    Ok(rows)
}

/// Measures the scaling of a matrix multiply from one thread to two.
fn scaling(image: &[u8]) -> Result<String> {
    let [one, two] = [1, 2].map(|threads| Ours::new(image, Some(threads)));
    let (one, two) = (one?, two?);
    let [on_one, on_two] = [&one, &two].map(|ours| (groups::Matmul::new(ours, 1024), ours));
    let run = |(workload, ours): &(groups::Matmul, &Ours)| ours.finish(workload.launch(ours));
    let times = in_rounds([
        Some(Contender::new(1, || run(&on_one))),
        Some(Contender::new(1, || run(&on_two))),
    ]);
    let [Some(one), Some(two)] = times else { unreachable!("both are there") };
    Ok(report::scaling(&one, &two, SCALING_AIM))
}
