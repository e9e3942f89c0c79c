//! OpenMP programs with `libomptarget.so`. Each module is a suite, and `[module] ` begins the names
//! of its trials.
//!
//! Most programs count their target regions and the regions that ran on a device: a result alone
//! proves nothing, as the host can run every region. `programs.rs` lists the programs, with the
//! compilers that lack something for them and the libraries of LLVM that fail them.

mod compile;
mod damaged;
mod fortran;
mod information;
mod matrix;
mod ompt;
mod peers;
mod programs;
mod run;
mod valgrind;

use longshore_tests::suites;
use std::process::ExitCode;

fn main() -> ExitCode {
    suites::main(&[
        damaged::SUITE,
        fortran::SUITE,
        information::SUITE,
        matrix::SUITE,
        ompt::SUITE,
        peers::SUITE,
        valgrind::SUITE,
    ])
}
