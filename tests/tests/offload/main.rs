//! LLVM Offload's C API. Each module is a suite, and `[module] ` begins the names of its trials. A
//! process shares one library, and suites set different variables for it.

mod allocations;
mod calls;
mod crowds;
mod errors;
mod programs;
mod results;
mod stress;
mod support;

use longshore_tests::suites;
use std::process::ExitCode;

fn main() -> ExitCode {
    suites::main(&[
        allocations::SUITE,
        results::SUITE,
        calls::SUITE,
        crowds::SUITE,
        errors::SUITE,
        programs::SUITE,
        stress::SUITE,
    ])
}
