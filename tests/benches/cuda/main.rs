//! CUDA by Longshore beside CUDA by the driver alone: on the same device, in turns, in one run. The
//! device is the first that `LONGSHORE_DEVICES` leaves; `LONGSHORE_CUDA_DRIVER` is the driver of both.
//! Shown and judged are the best times and, in brackets, the medians.
//!
//! The driver loads the kernels of a cubin when they are first used; `CUDA_MODULE_LOADING=EAGER` makes it
//! load them all at once, for both.

mod allocations;
mod copies;
mod driver;
mod ends;
#[path = "../common/environment.rs"]
mod environment;
mod images;
mod launches;
mod loading;
#[path = "../common/machine.rs"]
mod machine;
mod opening;
mod ours;
mod plain;
mod queueing;
#[path = "../common/report.rs"]
mod report;
#[path = "../common/steps.rs"]
mod steps;
#[path = "../common/turns.rs"]
mod turns;

use anyhow::{Result, bail};
use clap::Parser;
use opening::Opening;
use ours::Ours;
use plain::{Plain, Which};
use report::Report;

/// Compares the CUDA backend with the driver.
#[derive(Parser)]
struct Arguments {
    /// Measure only this: launches, copies, allocations, loading, opening.
    filter: Option<String>,
    /// What this process does if it was started by another one.
    #[arg(long, hide = true)]
    opening: Option<Opening>,
    #[arg(long, hide = true, default_value_t = 0)]
    index: i32,
    /// Cargo says this to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

/// The device, twice.
struct Both {
    plain: Plain,
    ours: Ours,
}

/// Something that is measured.
type Group = fn(&Both, &mut Report) -> Result<()>;

const GROUPS: [(&str, Group); 5] = [
    ("launches", launches::measure),
    ("copies", copies::measure),
    ("allocations", allocations::measure),
    ("loading", loading::measure),
    ("opening", opening::measure),
];

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if let Some(opening) = arguments.opening {
        return opening::run(opening, arguments.index);
    }
    let filter = arguments.filter.unwrap_or_default();
    let both = Both::open()?;
    let kind = both.kind()?;
    println!("{kind}\n{}", machine::load());
    let (mut report, mut failures) = (Report::new(), Vec::new());
    for (name, measure) in GROUPS.iter().filter(|(name, _)| name.contains(&filter)) {
        eprintln!("measuring {name}");
        if let Err(error) = measure(&both, &mut report) {
            failures.push(format!("{name} could not be measured: {error:#}"));
        }
    }
    report.print();
    println!("{kind}\n{}", machine::load());
    finish(&failures)
}

/// What could not be measured stands last where the results stand, too.
fn finish(failures: &[String]) -> Result<()> {
    if failures.is_empty() {
        return Ok(());
    }
    let text = failures.join("; ");
    println!("{text}");
    bail!(text)
}

impl Both {
    fn open() -> Result<Both> {
        let environment = environment::without_cpu();
        let library = environment.setting("cuda", "DRIVER");
        let ours = Ours::new(environment)?;
        let plain = Plain::open(library.as_deref(), Which::Uuid(ours.uuid()?))?;
        Ok(Both { plain, ours })
    }

    /// The device and the driver.
    fn kind(&self) -> Result<String> {
        let (name, plain) = (self.plain.name()?, &self.plain);
        let kind = format!("{name}, {}, CUDA {}", plain.arch()?, plain.version()?);
        Ok(match name.contains("double") {
            true => format!("{kind}: A DOUBLE OF THE DRIVER, WHOSE NUMBERS MEAN NOTHING"),
            false => kind,
        })
    }
}
