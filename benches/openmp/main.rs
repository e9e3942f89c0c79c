//! OpenMP programs of clang on Longshore's libomptarget and on LLVM's, in turns.
//!
//! The programs measure themselves, and each prints the least time of several rounds. The floors
//! are measured by the same programs: plain copies, and a program without offloading.

mod programs;
mod results;

use anyhow::{Result, bail};
use longshore_benches::machine;
use programs::{Library, Programs};
use results::Results;

/// Number of runs of each program with each library.
const TURNS: usize = 7;
/// Number of starts of each program with each library.
const STARTS: usize = 41;

fn main() -> Result<()> {
    let Some(programs) = Programs::compile()? else {
        bail!("this benchmark needs clang-19 and libomp-19-dev");
    };
    let mut results = Results::default();
    for _ in 0..TURNS {
        for library in [Library::Longshore, Library::Llvm] {
            for (name, ns) in programs.run(library)? {
                results.add(library, &name, ns);
            }
        }
    }
    for _ in 0..STARTS {
        for library in [Library::Longshore, Library::Llvm] {
            results.add(library, "start", programs.start(library, true)?);
            results.add(library, "start_without_offloading", programs.start(library, false)?);
        }
    }
    println!("{}", results.table());
    println!("{}", machine::load());
    Ok(())
}
