//! Devices of other processes by the MPI backend, beside MPI itself between the same processes.
//!
//! The benchmark starts jobs of itself with each launcher that is installed. Rank 0 is the program.
//! The last ranks are helpers: processes without devices, which run the other end of MPI's own
//! figures, on a communicator of theirs with rank 0. Floor and Longshore take turns in one process.

mod floor;
mod helper;
mod jobs;
mod nodes;
mod pages;
mod pair;
mod scale;
mod stencil;

use anyhow::{Result, bail};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match &words[..] {
        ["--helper", helpers] => helper::serve(helpers.parse()?),
        ["--pair", helpers] => pair::measure(helpers.parse()?),
        ["--nodes", helpers] => nodes::measure(helpers.parse()?),
        ["--broadcast", helpers] => nodes::measure_broadcast(helpers.parse()?),
        ["--images", _] => nodes::measure_images(),
        ["--scale"] => scale::measure(),
        [] | ["--bench"] => jobs::start_all(""),
        [only] | [only, "--bench"] | ["--bench", only] => jobs::start_all(only),
        other => bail!("unexpected arguments: {other:?}"),
    }
}
