//! Passes over bitcode by `libLLVM`, which make loops of work-items, add checks, or translate to
//! SPIR-V.
//!
//! LLVM ends its process on some errors. So the command runs each pass in a child process, with the
//! arguments of [`Pass::arguments`]. A build script runs it in its own process.

use longshore_llvm::Library;
use longshore_work_items::{Options, Part, Report, UNDESCRIBED as NOT_DESCRIBED};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Output, Stdio};
use std::thread;

/// Message for sources in CUDA or HIP without kernels.
pub(crate) const NO_KERNELS: &str = "the image has no kernels";
/// Exit code for kernels whose parameters have no descriptions.
pub(crate) const UNDESCRIBED: u8 = 4;
/// Exit code for a module that should be divided into parts, whose number is the output.
pub(crate) const PARTS: u8 = 5;
/// Exit code without a libLLVM of the version.
pub(crate) const NO_LLVM: u8 = 3;

/// Stack of a thread that runs a pass in bytes: as large as that of a process's first thread.
const STACK_BYTES: usize = 8 << 20;

/// The process in which passes run.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Passes {
    /// The own process. An error on which LLVM ends its process ends this one.
    #[default]
    Here,
    /// A child process, which calls [`run_passes`] with the arguments after the given ones.
    Child {
        /// The program.
        program: PathBuf,
        /// The program's first arguments.
        arguments: Vec<OsString>,
    },
}

impl Passes {
    /// Runs a pass. Blocks.
    ///
    /// # Errors
    /// A process or a thread that cannot be started.
    pub(crate) fn run(&self, pass: &Pass) -> io::Result<Output> {
        match self {
            Passes::Here => thread::scope(|scope| {
                let thread = thread::Builder::new().stack_size(STACK_BYTES);
                let running = thread.spawn_scoped(scope, || pass.execute())?;
                Ok(running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            }),
            Passes::Child { program, arguments } => {
                let mut command = Command::new(program);
                command.args(arguments).args(pass.arguments()).stdin(Stdio::null()).output()
            }
        }
    }
}

/// Runs the pass of a child process, by the `arguments` that the parent process added. Returns the
/// exit code, and the texts for standard output and standard error. Blocks.
pub fn run_passes(arguments: impl IntoIterator<Item = OsString>) -> (u8, String, String) {
    let output = match Pass::from_arguments(arguments.into_iter()) {
        Some(pass) => pass.execute(),
        None => output(2, String::new(), "expected the arguments of `longshore cc`".to_owned()),
    };
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let code = output.status.code().and_then(|code| code.try_into().ok()).unwrap_or(1);
    (code, text(output.stdout), text(output.stderr))
}

/// A pass over files of bitcode. It prints a line for each kernel whose items wait for each other:
/// its name, and if the items keep their stacks, a tab and the reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pass {
    /// The major version of LLVM.
    pub(crate) version: u32,
    /// Folder to search for libLLVM before the system's.
    pub(crate) folder: Option<PathBuf>,
    pub(crate) work: Work,
    /// Whether to leave out the source lines.
    pub(crate) strip: bool,
    /// Whether to make no loops.
    pub(crate) keep_stacks: bool,
    /// Whether to report the groups' variables to the runtime, for checks.
    pub(crate) is_checked: bool,
    /// Whether to print the number of parts, and to do nothing else, if the kernels should compile
    /// in several.
    pub(crate) may_divide: bool,
    /// The part whose kernels to make alone: its number, and the number of parts.
    pub(crate) part: Option<(u32, u32)>,
    pub(crate) inputs: Vec<PathBuf>,
    pub(crate) output: PathBuf,
}

/// A field of a pass.
type Flag = fn(&mut Pass) -> &mut bool;

/// The work of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Work {
    /// Makes loops of work-items.
    #[default]
    Loops,
    /// Makes kernels that a CPU can call of sources in CUDA or HIP.
    Cuda,
    /// Adds checks of memory accesses.
    Checks,
    /// Adds descriptions of the arguments of kernels in CUDA or HIP, for a GPU.
    Describe,
    /// Translates to SPIR-V.
    Spirv,
}

impl Work {
    const NAMED: [(Work, &str); 5] = [
        (Work::Loops, "loops"),
        (Work::Cuda, "cuda"),
        (Work::Checks, "checks"),
        (Work::Describe, "describe"),
        (Work::Spirv, "spirv"),
    ];

    fn name(self) -> &'static str {
        let named = Self::NAMED.iter().find(|(work, _)| *work == self);
        named.map_or("", |(_, name)| name)
    }
}

impl Pass {
    const FLAGS: [(&str, Flag); 4] = [
        ("strip", |pass| &mut pass.strip),
        ("keep-stacks", |pass| &mut pass.keep_stacks),
        ("checked", |pass| &mut pass.is_checked),
        ("may-divide", |pass| &mut pass.may_divide),
    ];

    /// Returns the pass as arguments: the version, the work, the flags, the part, the folder, the
    /// output and the inputs. An absent part or folder is empty.
    fn arguments(&self) -> Vec<OsString> {
        let mut pass = self.clone();
        let is_set = Self::FLAGS.iter().filter(|(_, flag)| *flag(&mut pass));
        let flags: Vec<&str> = is_set.map(|(name, _)| *name).collect();
        let part = self.part.map_or_else(String::new, |(number, of)| format!("{number}/{of}"));
        let texts = [self.version.to_string(), self.work.name().to_owned(), flags.join(","), part];
        let folder = self.folder.clone().unwrap_or_default();
        let files = [folder, self.output.clone()].into_iter().chain(self.inputs.clone());
        texts.into_iter().map(OsString::from).chain(files.map(OsString::from)).collect()
    }

    /// Parses [`Pass::arguments`].
    fn from_arguments(mut arguments: impl Iterator<Item = OsString>) -> Option<Pass> {
        let mut text = || arguments.next()?.into_string().ok();
        let (version, work, flags, part) = (text()?, text()?, text()?, text()?);
        let work = Work::NAMED.into_iter().find(|(_, name)| *name == work)?.0;
        let part = match part.split_once('/') {
            Some((number, of)) => Some((number.parse().ok()?, of.parse().ok()?)),
            None => None,
        };
        let folder = PathBuf::from(arguments.next()?);
        let folder = (!folder.as_os_str().is_empty()).then_some(folder);
        let output = arguments.next()?.into();
        let (version, inputs) = (version.parse().ok()?, arguments.map(PathBuf::from).collect());
        let mut pass = Pass { version, folder, work, part, inputs, output, ..Pass::default() };
        for flag in flags.split(',').filter(|flag| !flag.is_empty()) {
            let (_, field) = Self::FLAGS.iter().find(|(name, _)| *name == flag)?;
            *field(&mut pass) = true;
        }
        Some(pass)
    }

    fn execute(&self) -> Output {
        // SAFETY: the libraries of these names, beside clang or the system's, are LLVM's.
        let library = unsafe { Library::find_in(self.folder.as_slice(), Some(self.version)) };
        let library = match library {
            Ok(library) => library,
            Err(problem) => return output(NO_LLVM, String::new(), problem.to_string()),
        };
        self.make(&library).unwrap_or_else(|problem| {
            let code = if problem == NOT_DESCRIBED { UNDESCRIBED } else { 1 };
            output(code, String::new(), problem)
        })
    }

    fn make(&self, library: &Library) -> Result<Output, String> {
        let read = |file: &PathBuf| {
            std::fs::read(file).map_err(|error| format!("'{}': {error}", file.display()))
        };
        let bitcode = self.inputs.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let bitcode: Vec<&[u8]> = bitcode.iter().map(Vec::as_slice).collect();
        let one = || match bitcode.as_slice() {
            [one] => Ok(*one),
            others => Err(format!("expected one file of bitcode, found {}", others.len())),
        };
        let mut printed = String::new();
        let mut said = String::new();
        // SAFETY: clang has just written the bitcode.
        let made = unsafe {
            match self.work {
                Work::Spirv => longshore_spirv::translate_bitcode(library, &bitcode)?,
                Work::Describe => {
                    longshore_work_items::describe_in_bitcode(library, one()?, self.strip)?
                }
                Work::Checks => {
                    let add = longshore_checks::run_on_bitcode;
                    add(library, one()?, self.strip, |context, module| {
                        let report = longshore_work_items::run_checked(library, context, module);
                        report.map(|report| printed = lines(report))
                    })?
                }
                Work::Loops | Work::Cuda => {
                    let options = self.options();
                    let run = longshore_work_items::run_on_bitcode;
                    let (made, report) = run(library, &bitcode, options)?;
                    if report.parts > 1 {
                        return Ok(output(PARTS, report.parts.to_string(), said));
                    }
                    if self.work == Work::Cuda && report.made == 0 {
                        said = NO_KERNELS.to_owned();
                    }
                    printed = lines(report);
                    made
                }
            }
        };
        std::fs::write(&self.output, made)
            .map_err(|error| format!("'{}': {error}", self.output.display()))?;
        Ok(output(0, printed, said))
    }

    fn options(&self) -> Options {
        Options {
            strip: self.strip,
            is_cuda: self.work == Work::Cuda,
            keep_stacks: self.keep_stacks,
            is_checked: self.is_checked,
            may_divide: self.may_divide,
            part: self.part.map(|(number, of)| Part { number, of }),
            ..Options::default()
        }
    }
}

fn output(code: u8, stdout: String, stderr: String) -> Output {
    // The status of a process that exits with this code.
    let status = ExitStatus::from_raw(i32::from(code) << 8);
    Output { status, stdout: stdout.into_bytes(), stderr: stderr.into_bytes() }
}

/// Returns a line for each kernel.
fn lines(report: Report) -> String {
    let line = |(kernel, result): (String, Result<(), String>)| match result {
        Ok(()) => format!("{kernel}\n"),
        Err(reason) => format!("{kernel}\t{reason}\n"),
    };
    report.kernels.into_iter().map(|outcome| line((outcome.kernel, outcome.result))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_comes_back_from_its_arguments() {
        let passes = [
            Pass { version: 19, inputs: vec!["a b".into()], output: "c".into(), ..Pass::default() },
            Pass {
                version: 14,
                folder: Some("/usr/lib".into()),
                work: Work::Cuda,
                strip: true,
                keep_stacks: true,
                is_checked: true,
                may_divide: true,
                part: Some((3, 8)),
                inputs: vec!["x".into(), "y".into()],
                output: "z".into(),
            },
        ];
        for pass in passes {
            assert_eq!(Pass::from_arguments(pass.arguments().into_iter()), Some(pass));
        }
        for wrong in
            [&["19"][..], &["19", "bread", "", "", "", "o"], &["19", "cuda", "x", "", "", "o"]]
        {
            let arguments = wrong.iter().map(OsString::from);
            assert_eq!(Pass::from_arguments(arguments), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_pass_of_a_missing_version_says_so_in_this_process() {
        let pass = Pass { version: 3, output: "o".into(), ..Pass::default() };
        let output = Passes::Here.run(&pass).unwrap();
        assert_eq!(output.status.code(), Some(NO_LLVM.into()));
        assert!(!output.stderr.is_empty());
    }
}
