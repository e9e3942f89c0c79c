//! A GPU through Longshore beside the same GPU through its driver alone, CUDA or HIP. Both use the
//! same device, in turns, in one run. The device is the first in the selection `LONGSHORE_DEVICES`.
//! `LONGSHORE_CUDA_DRIVER` or `LONGSHORE_AMDGPU_DRIVER` is the driver of both. The tables show and
//! judge the best times and, in brackets, the medians.
//!
//! CUDA's driver loads the kernels of a cubin at their first use; with `CUDA_MODULE_LOADING=EAGER`,
//! it loads them all at once, for both. Clang compiles the kernels for HIP, for the present device.

mod allocations;
mod copies;
mod cuda;
mod driver;
mod ends;
mod hip;
mod images;
mod launches;
mod loading;
mod opening;
mod ours;
mod queueing;
mod raw;

use anyhow::{Result, bail};
use clap::{Parser, ValueEnum};
use cuda::Cuda;
use hip::Hip;
use longshore_benches::report::Report;
use longshore_benches::{environment, machine};
use opening::Opening;
use ours::Ours;
use raw::{Raw, Which};

/// A comparison of a backend with its driver.
#[derive(Parser)]
struct Arguments {
    #[arg(long)]
    backend: Backend,
    /// Group to measure: launches, copies, allocations, loading, opening.
    filter: Option<String>,
    /// Work of a child process.
    #[arg(long, hide = true)]
    opening: Option<Opening>,
    #[arg(long, hide = true, default_value_t = 0)]
    index: i32,
    /// Flag that cargo passes to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

/// A backend with a driver.
#[derive(Clone, Copy, ValueEnum)]
enum Backend {
    Cuda,
    Amdgpu,
}

/// The device, opened by both contenders.
struct Both<D> {
    plain: D,
    ours: Ours,
}

/// A group of measurements.
type Group<D> = fn(&Both<D>, &mut Report) -> Result<()>;

fn groups<D: Raw>() -> [(&'static str, Group<D>); 5] {
    [
        ("launches", launches::measure),
        ("copies", copies::measure),
        ("allocations", allocations::measure),
        ("loading", loading::measure),
        ("opening", opening::measure),
    ]
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    match arguments.backend {
        Backend::Cuda => run::<Cuda>(arguments),
        Backend::Amdgpu => run::<Hip>(arguments),
    }
}

fn run<D: Raw>(arguments: Arguments) -> Result<()> {
    if let Some(opening) = arguments.opening {
        return opening::run::<D>(opening, arguments.index);
    }
    let filter = arguments.filter.unwrap_or_default();
    let both = Both::<D>::open()?;
    let kind = both.kind()?;
    println!("{kind}\n{}", machine::load());
    let (mut report, mut failures) = (Report::new(), Vec::new());
    for (name, measure) in groups().iter().filter(|(name, _)| name.contains(&filter)) {
        eprintln!("measuring {name}");
        if let Err(error) = measure(&both, &mut report) {
            failures.push(format!("{name} could not be measured: {error:#}"));
        }
    }
    report.print();
    println!("{kind}\n{}", machine::load());
    finish(&failures)
}

/// Repeats the failures after the results, and fails if there are any.
fn finish(failures: &[String]) -> Result<()> {
    if failures.is_empty() {
        return Ok(());
    }
    let text = failures.join("; ");
    println!("{text}");
    bail!(text)
}

impl<D: Raw> Both<D> {
    fn open() -> Result<Both<D>> {
        let environment = environment::without_cpu();
        let library = environment.setting(D::OF.backend, "DRIVER");
        let ours = Ours::new(D::OF, environment)?;
        let plain = D::open(library.as_deref(), Which::Same(&ours.device))?;
        Ok(Both { plain, ours })
    }

    /// Returns the names of the device and the driver.
    fn kind(&self) -> Result<String> {
        let name = self.plain.name()?;
        let kind = format!("{name}, {}, {}", self.ours.arch, self.plain.version()?);
        Ok(match name.contains("double") {
            true => format!("{kind}: A DOUBLE OF THE DRIVER, WHOSE NUMBERS MEAN NOTHING"),
            false => kind,
        })
    }
}
