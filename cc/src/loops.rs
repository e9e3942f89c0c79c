//! Work-items that wait for each other as loops: a pass of `longshore-work-items` over the bitcode
//! of a source, between two runs of clang.

use crate::clang::Clang;
use crate::passes::{NO_KERNELS, NO_LLVM, PARTS, Pass, Passes, UNDESCRIBED, Work};
use crate::source::Source;
use crate::target::Target;
use longshore_work_items::Part;
use signal_hook::consts::SIGKILL;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// Options by which clang instruments code: the pass would change the counts and the checks.
const INSTRUMENTS: [&str; 6] = [
    "-fprofile-",
    "-fcoverage-",
    "-fsanitize",
    "-fcs-profile-",
    "-fxray",
    "-finstrument-functions",
];

/// Hint for sources whose kernels are templates.
const TEMPLATES: &str = ": templates become kernels by --kernel 'NAME<ARGUMENTS>' (with_instance \
     in a build script), or by a launch in the source";

/// Options that make clang write bitcode as it is before all optimisations, with source lines for
/// messages.
pub(crate) const TO_BITCODE: [&str; 5] =
    ["-c", "-emit-llvm", "-Xclang", "-disable-llvm-passes", "-gline-tables-only"];
/// The same for sources in CUDA and HIP.
pub(crate) const TO_BITCODE_OF_CUDA: [&str; 4] =
    ["-c", "-emit-llvm", "-Xclang", "-disable-llvm-passes"];
/// Options that make clang compile bitcode.
pub(crate) const FROM_BITCODE: [&str; 3] = ["-c", "-x", "ir"];

/// The outcome of the pass over a source.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    /// New bitcode with loops.
    Loops,
    /// No new bitcode: no kernel needs loops, or there is no libLLVM.
    Nothing,
    /// No new bitcode yet: clang must describe the parameters of the kernels of gpuintrin.h first.
    Undescribed,
}

/// The pass for one target.
pub(crate) struct Loops {
    passes: Passes,
    version: u32,
    /// Folder with the compiler's libraries, if it is not the system's.
    folder: Option<PathBuf>,
    /// Whether source lines are only for messages.
    strip: bool,
    /// Whether each item of a kernel in CUDA or HIP keeps its stack.
    keep_stacks: bool,
    /// Whether the pass of checks follows.
    is_checked: bool,
    /// Whether kernels in CUDA or HIP are templates.
    has_templates: bool,
}

impl Loops {
    /// Returns the pass for a target; `None` for GPUs, for instrumented code, and for code to be
    /// followed in a debugger: the pass keeps no variables, but values.
    pub(crate) fn new(
        target: &Target,
        clang: &Clang,
        options: &[OsString],
        passes: &Passes,
    ) -> Option<Loops> {
        let is_instrumented = options.iter().any(|option| begins(option, &INSTRUMENTS));
        let loops = Loops::for_kernels(clang, options, passes);
        (!target.is_gpu() && !is_instrumented && !loops.keep_stacks).then_some(loops)
    }

    /// Returns the pass that makes kernels for a CPU of sources in CUDA and HIP. It makes loops
    /// too, but not for instrumented code and for code to be followed in a debugger.
    pub(crate) fn for_kernels(clang: &Clang, options: &[OsString], passes: &Passes) -> Loops {
        let debugging = options.iter().rfind(|option| begins(option, &["-g"]));
        let strip = debugging.is_none_or(|option| option == "-g0");
        let level = options.iter().rfind(|option| begins(option, &["-O"]));
        let is_plain = level.is_some_and(|level| level == "-O0");
        let is_instrumented = options.iter().any(|option| begins(option, &INSTRUMENTS));
        let keep_stacks = !strip && is_plain || is_instrumented;
        Loops {
            passes: passes.clone(),
            version: clang.major,
            folder: clang.libraries(),
            strip,
            keep_stacks,
            is_checked: false,
            has_templates: false,
        }
    }

    /// Takes note of templates in these sources.
    pub(crate) fn for_sources(self, sources: &[Source]) -> Loops {
        let mut texts = sources.iter().filter_map(|source| std::fs::read(&source.file).ok());
        let has = |text: Vec<u8>| {
            let text = String::from_utf8_lossy(&text);
            text.split("template").skip(1).any(|rest| rest.contains("__global__"))
        };
        Loops { has_templates: texts.any(has), ..self }
    }

    /// Keeps the code as the pass of checks expects it: no loops, but source lines.
    pub(crate) fn for_checks(self) -> Loops {
        Loops { keep_stacks: true, strip: false, is_checked: true, ..self }
    }

    /// Makes kernels of a CPU from the bitcode of sources in CUDA and HIP. Blocks.
    ///
    /// # Errors
    /// The pass's message, or that of a missing libLLVM.
    pub(crate) fn make_kernels(&self, bitcode: &[&Path], to: &Path) -> Result<(), String> {
        self.make_some_kernels(self.kernels(bitcode, to)).map(|_| ())
    }

    /// Makes kernels as [`Loops::make_kernels`] does. For kernels that should compile in parts,
    /// makes none, but returns the number of parts. Blocks.
    ///
    /// # Errors
    /// As for [`Loops::make_kernels`].
    pub(crate) fn make_if_few(&self, bitcode: &[&Path], to: &Path) -> Result<Option<u32>, String> {
        self.make_some_kernels(Pass { may_divide: true, ..self.kernels(bitcode, to) })
    }

    /// Makes the kernels of one part. Blocks.
    ///
    /// # Errors
    /// As for [`Loops::make_kernels`].
    pub(crate) fn make_part(&self, bitcode: &[&Path], to: &Path, part: Part) -> Result<(), String> {
        let part = Some((part.number, part.of));
        self.make_some_kernels(Pass { part, ..self.kernels(bitcode, to) }).map(|_| ())
    }

    fn kernels(&self, bitcode: &[&Path], to: &Path) -> Pass {
        let (keep_stacks, is_checked) = (self.keep_stacks, self.is_checked);
        Pass { keep_stacks, is_checked, ..self.pass(Work::Cuda, bitcode, to) }
    }

    fn make_some_kernels(&self, pass: Pass) -> Result<Option<u32>, String> {
        let output = self.passes.run(&pass);
        let output = output.map_err(|error| format!("cannot run LLVM's passes: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.code() == Some(NO_LLVM.into()) {
            return Err(format!(
                "kernels in CUDA and HIP for a CPU need libLLVM {}: {}; install it, on Debian and \
                 Ubuntu: apt install libllvm{}",
                self.version,
                said.trim(),
                self.version
            ));
        }
        if output.status.code() == Some(PARTS.into()) {
            let parts = String::from_utf8_lossy(&output.stdout).trim().parse();
            return parts.map(Some).map_err(|error| format!("no number of parts: {error}"));
        }
        if !output.status.success() {
            return Err(failed(output.status, said.trim()));
        }
        if said.contains(NO_KERNELS) {
            log::warn!("{NO_KERNELS}{}", if self.has_templates { TEMPLATES } else { "" });
        }
        log_kernels(&output.stdout);
        Ok(None)
    }

    /// Adds descriptions of the arguments of kernels for a GPU. Blocks. Returns whether it did; the
    /// log has the reason.
    pub(crate) fn describe(&self, bitcode: &Path, to: &Path) -> bool {
        match self.passes.run(&self.pass(Work::Describe, &[bitcode], to)) {
            Ok(output) if output.status.success() => true,
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                log::info!("the arguments of kernels are not described: {}", said.trim());
                false
            }
            Err(error) => {
                log::warn!("the arguments of kernels are not described: {error}");
                false
            }
        }
    }

    /// Translates the bitcode of sources to SPIR-V. Blocks.
    ///
    /// # Errors
    /// The translator's message, or that of a missing libLLVM.
    pub(crate) fn translate(&self, bitcode: &[PathBuf], to: &Path) -> Result<(), String> {
        let bitcode: Vec<&Path> = bitcode.iter().map(PathBuf::as_path).collect();
        let output = self.passes.run(&self.pass(Work::Spirv, &bitcode, to));
        let output = output.map_err(|error| format!("cannot run LLVM's passes: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(0) => Ok(()),
            Some(code) if code == i32::from(NO_LLVM) => Err(format!(
                "kernels in SPIR-V need libLLVM {version}: {}; install it, on Debian and Ubuntu: \
                 apt install libllvm{version}",
                said.trim(),
                version = self.version
            )),
            _ => Err(format!("translating to SPIR-V failed: {}", said.trim())),
        }
    }

    fn pass(&self, work: Work, bitcode: &[&Path], to: &Path) -> Pass {
        Pass {
            version: self.version,
            folder: self.folder.clone(),
            work,
            strip: self.strip,
            inputs: bitcode.iter().map(|file| file.to_path_buf()).collect(),
            output: to.to_owned(),
            ..Pass::default()
        }
    }

    /// Runs the pass. Blocks. The log has the reasons why it made nothing.
    pub(crate) fn make(&self, bitcode: &Path, to: &Path) -> Made {
        let output = match self.passes.run(&self.pass(Work::Loops, &[bitcode], to)) {
            Ok(output) => output,
            Err(error) => {
                log::warn!("work-items keep their stacks: no process for LLVM: {error}");
                return Made::Nothing;
            }
        };
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.code() == Some(NO_LLVM.into()) {
            log::info!("work-items that wait for each other keep their stacks: {}", said.trim());
            return Made::Nothing;
        }
        if output.status.code() == Some(UNDESCRIBED.into()) {
            return Made::Undescribed;
        }
        if !output.status.success() {
            let status = output.status;
            log::warn!("work-items keep their stacks: LLVM failed ({status}): {}", said.trim());
            return Made::Nothing;
        }
        match log_kernels(&output.stdout) {
            true => Made::Loops,
            false => Made::Nothing,
        }
    }
}

/// Returns the message for a process with LLVM that has failed. The system, or a crash, ended a
/// process without a message.
fn failed(status: ExitStatus, said: &str) -> String {
    let end = match said {
        "" => format!("LLVM's passes ended without a message ({status})"),
        said => said.to_owned(),
    };
    let memory = match status.signal() {
        Some(SIGKILL) => {
            "; the system may lack memory: instances of large kernels need less of it in several \
             images"
        }
        _ => "",
    };
    format!("making kernels for a CPU failed: {end}{memory}")
}

fn begins(option: &OsString, names: &[&str]) -> bool {
    names.iter().any(|name| option.as_encoded_bytes().starts_with(name.as_bytes()))
}

/// Logs the outcome for each kernel. Returns whether there was one.
fn log_kernels(printed: &[u8]) -> bool {
    let kernels = String::from_utf8_lossy(printed);
    for line in kernels.lines() {
        match line.split_once('\t') {
            None => log::debug!("the items of kernel '{line}' are loops"),
            Some((kernel, reason)) => {
                log::info!("each item of kernel '{kernel}' keeps a stack: {reason}");
            }
        }
    }
    !kernels.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_the_system_ended_is_described() {
        let killed = failed(ExitStatus::from_raw(SIGKILL), "");
        assert!(killed.contains("signal: 9") && killed.contains("memory"), "{killed}");
        let failed = failed(ExitStatus::from_raw(1 << 8), "no kernel");
        assert_eq!(failed, "making kernels for a CPU failed: no kernel");
    }
}
