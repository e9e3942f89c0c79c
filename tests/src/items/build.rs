//! Compilation of kernels of work-items to images for the CPU.

use super::limits::{COMPILE_LIMIT, RUN_LIMIT, Watchdog, output_within};
use crate::world::root;
use longshore::Image;
use longshore_llvm::Library;
use longshore_work_items::Outcome;
use std::path::Path;
use std::process::Command;

/// The execution of items that wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Execution {
    /// Each item on a stack of its own: the image is the compiler's alone.
    Fibers,
    /// Loops over the items, which the pass over work-items makes from bitcode that no other pass
    /// has changed, as `longshore cc` does.
    Loops,
    /// Loops over the items, from bitcode that the compiler has optimized.
    OptimizedLoops,
    /// The loops of `Loops`, and of all kernels whose items do not wait.
    AllLoops,
}

/// A way of compilation.
#[derive(Clone, Debug)]
pub struct Build {
    /// Execution of items that wait for each other.
    pub execution: Execution,
    /// Program name of the compiler.
    pub clang: String,
    /// Flags such as `-O3`.
    pub flags: Vec<String>,
}

impl Build {
    /// Compiles a source to an image for the CPU. Returns the image, and the outcome for each
    /// kernel that the pass over work-items saw. Blocks. `about` names the source's kernels.
    ///
    /// # Errors
    /// The compiler's messages.
    pub fn image(&self, source: &str, about: &str) -> Result<(Image, Vec<Outcome>), String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let (file, image) = (folder.path().join("items.c"), folder.path().join("items.o"));
        std::fs::write(&file, source).map_err(|error| error.to_string())?;
        let outcomes = self.object(&file, &image, about)?;
        let image = Image::read(image).map_err(|error| error.to_string())?;
        Ok((image, outcomes))
    }

    /// Compiles a file to an object, and returns the outcomes as [`Build::image`] does. Blocks.
    /// Prints the reason for each kernel that is not made loops.
    ///
    /// # Errors
    /// The messages of the compiler, or of the pass over work-items.
    pub fn object(&self, source: &Path, to: &Path, about: &str) -> Result<Vec<Outcome>, String> {
        let bitcode = to.with_extension("bc");
        let mut early = vec!["-c", "-emit-llvm"];
        match self.execution {
            Execution::Fibers => {
                return self.compile(&["-c"], source, to).map(|()| Vec::new());
            }
            Execution::Loops | Execution::AllLoops => {
                early.extend(["-Xclang", "-disable-llvm-passes"])
            }
            Execution::OptimizedLoops => {}
        }
        self.compile(&early, source, &bitcode)?;
        let version = self.clang.rsplit_once('-').and_then(|(_, version)| version.parse().ok());
        // SAFETY: the system's library of this name is LLVM's.
        let library = unsafe { Library::find(version) }.map_err(|error| error.to_string())?;
        let bytes = std::fs::read(&bitcode).map_err(|error| error.to_string())?;
        let force_loops = self.execution == Execution::AllLoops;
        let options =
            longshore_work_items::Options { strip: true, force_loops, ..Default::default() };
        let watchdog = Watchdog::aborting(RUN_LIMIT, format!("the pass over {about}, {self:?}"));
        // SAFETY: the bitcode is the compiler's.
        let (bytes, report) =
            unsafe { longshore_work_items::run_on_bitcode(&library, &[&bytes], options) }?;
        drop(watchdog);
        for outcome in &report.kernels {
            if let Err(reason) = &outcome.result {
                println!("{}, {self:?}: {reason}", outcome.kernel);
            }
        }
        std::fs::write(&bitcode, bytes).map_err(|error| error.to_string())?;
        self.compile(&["-c", "-x", "ir"], &bitcode, to)?;
        Ok(report.kernels)
    }

    fn compile(&self, kind: &[&str], source: &Path, to: &Path) -> Result<(), String> {
        let mut command = Command::new(&self.clang);
        command.args(kind).args(["-fPIC", "-w", "-std=gnu17", "-ffp-contract=off", "-I"]);
        command.arg(root().join("include")).args(&self.flags).arg("-o").arg(to).arg(source);
        let output = output_within(&mut command, COMPILE_LIMIT)
            .map_err(|error| format!("{}: {error}", self.clang))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("{self:?}: {}", String::from_utf8_lossy(&output.stderr))),
        }
    }
}

/// Returns compilers' flags for wide vectors, narrow ones first, that this machine's CPU runs.
pub fn wide_vector_flags() -> Vec<&'static str> {
    let mut flags = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            flags.push("-march=haswell");
        }
        let avx512 = is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512cd");
        if avx512 {
            flags.push("-march=skylake-avx512 -mprefer-vector-width=512");
        }
        if avx512 && is_x86_feature_detected!("avx512fp16") {
            flags.push("-march=sapphirerapids -mprefer-vector-width=512");
        }
    }
    flags
}
