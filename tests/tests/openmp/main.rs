//! OpenMP programs with `libomptarget.so`. Each module is a suite, and `[module] ` begins the names
//! of its trials.

mod ompt;

use longshore_tests::suites;
use std::process::ExitCode;

fn main() -> ExitCode {
    suites::main(&[ompt::SUITE])
}
