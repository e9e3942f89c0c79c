//! Comparison of compiled kernels with their expected results.

use super::Kernel;
use super::ast::OUTPUTS;
use super::interpret::{Output, UNWRITTEN, WIDE_UNWRITTEN};
use super::limits::{Watchdog, output_within};
use super::print::source;
use crate::device_code::{Workshop, threads};
use crate::world::root;
use longshore::{Device, Grid, Image, Program, Queue};
use longshore_conformance::TrustedImages;
use longshore_llvm::Library;
use std::fmt::Debug;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Time for a compiler's run, many times that of a full image on a busy machine.
pub(super) const COMPILE_LIMIT: Duration = Duration::from_secs(600);
/// Time for one launch, or one run of the pass over work-items.
pub(super) const RUN_LIMIT: Duration = Duration::from_secs(300);

/// The execution of items that wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Execution {
    /// Each item on a stack of its own: the image is the compiler's alone.
    Fibers,
    /// Loops over the items, made from bitcode by the pass over work-items.
    Loops,
}

/// A build of compilation.
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
    /// Compiles a source to an image for the CPU. Blocks. `about` names the source's kernels.
    ///
    /// # Errors
    /// The compiler's messages.
    fn image(&self, source: &str, about: &str) -> Result<Image, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let (file, image) = (folder.path().join("random.c"), folder.path().join("random.o"));
        std::fs::write(&file, source).map_err(|error| error.to_string())?;
        match self.execution {
            Execution::Fibers => self.compile(&["-c"], &file, &image)?,
            Execution::Loops => self.compile_loops(&file, &image, about)?,
        }
        Image::read(image).map_err(|error| error.to_string())
    }

    /// Compiles a source to bitcode, makes loops of the items, and compiles these.
    pub(super) fn compile_loops(
        &self,
        source: &Path,
        to: &Path,
        about: &str,
    ) -> Result<(), String> {
        let bitcode = to.with_extension("bc");
        let early = ["-c", "-emit-llvm", "-gline-tables-only", "-Xclang", "-disable-llvm-passes"];
        self.compile(&early, source, &bitcode)?;
        let version = self.clang.rsplit_once('-').and_then(|(_, version)| version.parse().ok());
        // SAFETY: the system's library of this name is LLVM's.
        let library = unsafe { Library::find(version) }.map_err(|error| error.to_string())?;
        let bytes = std::fs::read(&bitcode).map_err(|error| error.to_string())?;
        let watchdog = Watchdog::aborting(RUN_LIMIT, format!("the pass over {about}, {self:?}"));
        // SAFETY: the bitcode is the compiler's.
        let (bytes, report) =
            unsafe { longshore_work_items::run_on_bitcode(&library, &bytes, true) }?;
        drop(watchdog);
        for outcome in report.kernels {
            if let Err(reason) = outcome.result {
                println!("{}: {reason}", outcome.kernel);
            }
        }
        std::fs::write(&bitcode, bytes).map_err(|error| error.to_string())?;
        self.compile(&["-c", "-x", "ir"], &bitcode, to)
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

/// The CPU, and a queue on it.
pub struct Bench {
    device: Device,
    queue: Queue,
}

impl Bench {
    /// Opens the CPU with two threads.
    ///
    /// # Panics
    /// If the device does not work.
    #[expect(clippy::new_without_default, reason = "it opens a device")]
    pub fn new() -> Bench {
        let device = Workshop::new().device(threads(2));
        let queue = device.queue().expect("the device works");
        Bench { device, queue }
    }

    /// Compiles kernels as one image, runs each, and compares the results. Returns the description
    /// of each difference, or `None` for a kernel without one.
    ///
    /// # Errors
    /// The message of a failed compilation or load.
    pub fn compare(
        &self,
        build: &Build,
        kernels: &[(Kernel, Output)],
    ) -> Result<Vec<Option<String>>, String> {
        let about = seeds(kernels);
        let text = source(kernels.iter().map(|(kernel, _)| kernel));
        let image = build.image(&text, &about).map_err(|error| format!("{about}: {error}"))?;
        let load = Watchdog::aborting(RUN_LIMIT, format!("the load of {about}, {build:?}"));
        let program = self.device.load_trusted(image).map_err(|error| error.to_string())?;
        drop(load);
        let compared = kernels.iter().map(|(kernel, expected)| {
            let text = format!("the launch of seed {}, {build:?}, {kernel}", kernel.seed);
            let _watchdog = Watchdog::aborting(RUN_LIMIT, text);
            match self.run(&program, kernel) {
                Ok(output) => difference(kernel, &output, expected),
                Err(error) => Some(format!("the launch failed: {error}")),
            }
        });
        Ok(compared.collect())
    }

    fn run(&self, program: &Program, kernel: &Kernel) -> longshore::Result<Output> {
        let entry = program.kernel(&format!("k{}", kernel.seed))?;
        let count = kernel.total() * OUTPUTS as usize;
        let out = self.device.buffer_of(&self.queue, &vec![UNWRITTEN; count])?;
        let wide = self.device.buffer_of(&self.queue, &vec![WIDE_UNWRITTEN; count])?;
        let arguments = &kernel.arguments;
        let input = self.device.buffer_of(&self.queue, &arguments.input)?;
        let grid = Grid::new(kernel.groups, kernel.items);
        let grid = grid.with_shared_bytes(kernel.dynamic_bytes());
        let n = arguments.input.len() as u32;
        let (a, b, c, f) = (arguments.a, arguments.b, arguments.c, arguments.f);
        let all = (&out, &wide, &input, n, a, b, c, f);
        // SAFETY: the kernel's accesses are in bounds, as the interpreter showed: `out` and `wide`
        // have elements for all items, and `input` has `n`.
        unsafe { self.queue.launch_and_wait(&entry, grid, all)? };
        Ok(Output { out: out.to_vec(&self.queue)?, wide: wide.to_vec(&self.queue)? })
    }
}

/// Names the kernels of an image.
pub(super) fn seeds(kernels: &[(Kernel, Output)]) -> String {
    match kernels {
        [] => "no kernels".to_owned(),
        [(kernel, _)] => format!("the kernel of seed {}", kernel.seed),
        [(first, _), .., (last, _)] => {
            format!("the kernels of seeds {} to {}", first.seed, last.seed)
        }
    }
}

/// Describes the first difference.
pub(super) fn difference(kernel: &Kernel, got: &Output, expected: &Output) -> Option<String> {
    fn first<T: PartialEq + Debug>(
        name: &str,
        got: &[T],
        expected: &[T],
    ) -> Option<(usize, String)> {
        let at = got.iter().zip(expected).position(|(got, expected)| got != expected)?;
        let (item, slot) = (at / OUTPUTS as usize, at % OUTPUTS as usize);
        let (got, expected) = (&got[at], &expected[at]);
        Some((item, format!("{name}, slot {slot}: {got:?} instead of {expected:?}")))
    }
    let differences =
        [first("out", &got.out, &expected.out), first("wide", &got.wide, &expected.wide)];
    let (item, text) = differences.into_iter().flatten().min_by_key(|(item, _)| *item)?;
    let volume = kernel.volume() as usize;
    Some(format!("item {} of group {}: {text}", item % volume, item / volume))
}
