//! `longshore __passes`: the child process in which LLVM makes loops of work-items, or adds checks,
//! for `longshore cc`.
//!
//! LLVM ends its process on some errors, so it runs in one of its own.

use clap::Args;
use std::ffi::OsString;
use std::process::ExitCode;

/// A pass over files of bitcode.
#[derive(Args)]
pub(crate) struct Passes {
    /// The pass, as `longshore cc` passes it to itself
    #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
    arguments: Vec<OsString>,
}

impl Passes {
    pub(crate) fn execute(self) -> ExitCode {
        let (code, printed, said) = longshore_cc::run_passes(self.arguments);
        print!("{printed}");
        eprint!("{said}");
        ExitCode::from(code)
    }
}
