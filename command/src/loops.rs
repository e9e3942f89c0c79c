//! `longshore __loops`: the child process in which LLVM makes loops of work-items, or adds checks,
//! for `longshore cc`.
//!
//! LLVM ends its process on some errors, so it runs in one of its own.

use clap::Args;
use longshore_llvm::Library;
use std::path::PathBuf;
use std::process::ExitCode;

/// Message for sources in CUDA or HIP without kernels.
pub(crate) const NO_KERNELS: &str = "the image has no kernels";
/// Exit code for kernels whose parameters have no descriptions.
pub(crate) const UNDESCRIBED: u8 = 4;
/// Exit code for a module that should be divided into parts, whose number is the output.
pub(crate) const PARTS: u8 = 5;
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
    /// Add checks of memory accesses
    #[arg(long)]
    checks: bool,
    /// The sources are CUDA or HIP: make kernels that a CPU can call first
    #[arg(long)]
    cuda: bool,
    /// Make no loops
    #[arg(long)]
    keep_stacks: bool,
    /// The sources are CUDA or HIP for a GPU: add descriptions of the kernels' arguments
    #[arg(long)]
    describe: bool,
    /// Translate to SPIR-V
    #[arg(long)]
    spirv: bool,
    /// Report the groups' variables to the runtime, for checks
    #[arg(long)]
    checked: bool,
    /// Print the number of parts if the kernels should compile in several, and do nothing else
    #[arg(long)]
    may_divide: bool,
    /// Make the kernels of one part alone: its number, and the number of parts
    #[arg(long, num_args = 2)]
    part: Vec<u32>,
    /// Files of bitcode, and the file to write
    #[arg(num_args = 2.., required = true)]
    files: Vec<PathBuf>,
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
        let fail = |problem: String| match problem == longshore_work_items::UNDESCRIBED {
            true => fail(UNDESCRIBED, problem),
            false => fail(1, problem),
        };
        self.make(&library).unwrap_or_else(fail)
    }

    /// Adds checks, and makes loops of the checked code.
    ///
    /// # Safety
    /// The bitcode is a compiler's.
    unsafe fn add_checks(&self, library: &Library, bitcode: &[u8]) -> Result<Vec<u8>, String> {
        // SAFETY: promised by the caller; the module is that of the checks.
        unsafe {
            longshore_checks::run_on_bitcode(library, bitcode, self.strip, |context, module| {
                longshore_work_items::run_checked(library, context, module).map(print)
            })
        }
    }

    fn make(&self, library: &Library) -> Result<ExitCode, String> {
        let at = |file: &PathBuf, error| format!("'{}': {error}", file.display());
        let (output, inputs) = self.files.split_last().expect("the command line has files");
        let read = |file: &PathBuf| std::fs::read(file).map_err(|error| at(file, error));
        let bitcode = inputs.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let bitcode: Vec<&[u8]> = bitcode.iter().map(Vec::as_slice).collect();
        let write = |made: Vec<u8>| match std::fs::write(output, made) {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(error) => Err(at(output, error)),
        };
        if self.spirv {
            // SAFETY: clang has just written the bitcode.
            let made = unsafe { longshore_spirv::translate_bitcode(library, &bitcode) }?;
            return write(made);
        }
        if self.checks || self.describe {
            let [bitcode] = bitcode.as_slice() else { return Err("expected one input".to_owned()) };
            // SAFETY: clang has just written the bitcode.
            let made = unsafe {
                match self.checks {
                    true => self.add_checks(library, bitcode),
                    false => {
                        longshore_work_items::describe_in_bitcode(library, bitcode, self.strip)
                    }
                }
            }?;
            return write(made);
        }
        let options = longshore_work_items::Options {
            strip: self.strip,
            is_cuda: self.cuda,
            keep_stacks: self.keep_stacks,
            is_checked: self.checked,
            may_divide: self.may_divide,
            part: match self.part[..] {
                [number, of] => Some(longshore_work_items::Part { number, of }),
                _ => None,
            },
            ..Default::default()
        };
        // SAFETY: clang has just written the bitcode.
        let made = unsafe { longshore_work_items::run_on_bitcode(library, &bitcode, options) };
        let (bitcode, report) = made?;
        if report.parts > 1 {
            println!("{}", report.parts);
            return Ok(ExitCode::from(PARTS));
        }
        let written = write(bitcode)?;
        if self.cuda && report.made == 0 {
            eprintln!("{NO_KERNELS}");
        }
        print(report);
        Ok(written)
    }
}

fn print(report: longshore_work_items::Report) {
    for outcome in report.kernels {
        match outcome.result {
            Ok(()) => println!("{}", outcome.kernel),
            Err(reason) => println!("{}\t{reason}", outcome.kernel),
        }
    }
}
