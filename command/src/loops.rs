//! `longshore __loops`: the child process in which LLVM makes loops of work-items for
//! `longshore cc`.
//!
//! LLVM ends its process on some errors, so it runs in one of its own.

use clap::Args;
use longshore_llvm::Library;
use std::path::PathBuf;
use std::process::ExitCode;

/// Exit code without a libLLVM of the version.
pub(crate) const NO_LLVM: u8 = 3;

/// Makes loops of the work-items in a file of bitcode. Prints a line for each kernel whose items
/// wait for each other: its name, and if the items keep their stacks, a tab and the reason.
#[derive(Args)]
pub(crate) struct Loops {
    /// The major version of LLVM
    version: u32,
    /// Folders to search for libLLVM before the system's
    #[arg(long)]
    folder: Vec<PathBuf>,
    /// Leave out the source lines
    #[arg(long)]
    strip: bool,
    input: PathBuf,
    output: PathBuf,
}

impl Loops {
    pub(crate) fn execute(&self) -> ExitCode {
        let fail = |code: u8, problem: String| {
            eprintln!("{problem}");
            ExitCode::from(code)
        };
        // SAFETY: the libraries of these names, beside clang or the system's, are LLVM's.
        let library = unsafe { Library::find_in(&self.folder, Some(self.version)) };
        let library = match library {
            Ok(library) => library,
            Err(problem) => return fail(NO_LLVM, problem.to_string()),
        };
        self.make(&library).map_or_else(|problem| fail(1, problem), |()| ExitCode::SUCCESS)
    }

    fn make(&self, library: &Library) -> Result<(), String> {
        let at = |file: &PathBuf, error| format!("'{}': {error}", file.display());
        let bitcode = std::fs::read(&self.input).map_err(|error| at(&self.input, error))?;
        // SAFETY: clang has just written the bitcode.
        let made = unsafe { longshore_work_items::run_on_bitcode(library, &bitcode, self.strip) };
        let (bitcode, report) = made?;
        std::fs::write(&self.output, bitcode).map_err(|error| at(&self.output, error))?;
        for outcome in report.kernels {
            match outcome.result {
                Ok(()) => println!("{}", outcome.kernel),
                Err(reason) => println!("{}\t{reason}", outcome.kernel),
            }
        }
        Ok(())
    }
}
