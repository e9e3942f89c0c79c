//! Kernels as loops for AArch64 in an emulator, compared with their expected results.

use super::Kernel;
use super::compare::{Build, COMPILE_LIMIT, RUN_LIMIT, difference, seeds};
use super::interpret::{Output, UNWRITTEN, WIDE_UNWRITTEN};
use super::limits::output_within;
use super::print::source;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

const EMULATORS: [&str; 2] = ["qemu-aarch64-static", "qemu-aarch64"];
const LINKER: &str = "aarch64-linux-gnu-gcc";

/// The part of the driver that is the same for all kernels.
const DRIVER: &str = include_str!("emulated.c");

/// The tools that run AArch64's code on this machine.
pub struct Emulator(&'static str);

/// The end of a kernel without a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The kernel has the expected results.
    Same,
    /// The items have called the runtime's barrier or `gather`: it was not made loops.
    NeedsStacks,
}

impl Emulator {
    /// Finds the tools.
    ///
    /// # Errors
    /// The missing tool.
    pub fn find() -> Result<Emulator, String> {
        let works = |name: &str| {
            Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
        };
        if !works(LINKER) {
            return Err(format!("{LINKER} is not installed"));
        }
        let found = EMULATORS.into_iter().find(|name| works(name));
        found.map(Emulator).ok_or_else(|| format!("none of {EMULATORS:?} is installed"))
    }

    /// Compiles kernels as one program, runs it, and compares the results. Returns each kernel's
    /// ending, or the description of its difference. Blocks.
    ///
    /// # Errors
    /// The message of a failed compilation or run.
    pub fn compare(
        &self,
        build: &Build,
        kernels: &[(Kernel, Output)],
    ) -> Result<Vec<Result<Ending, String>>, String> {
        let about = seeds(kernels);
        let bytes =
            self.run(build, kernels, &about).map_err(|error| format!("{about}: {error}"))?;
        let mut bytes = bytes.as_slice();
        let compared = kernels.iter().map(|(kernel, expected)| {
            let [status] = words(&mut bytes, 1, u32::from_le_bytes)[..] else { unreachable!() };
            let output = Output {
                out: words(&mut bytes, expected.out.len(), u32::from_le_bytes),
                wide: words(&mut bytes, expected.wide.len(), u64::from_le_bytes),
            };
            match status {
                0 => difference(kernel, &output, expected).map_or(Ok(Ending::Same), Err),
                1 => Ok(Ending::NeedsStacks),
                other => Err(format!("the kernel ended with status {other}")),
            }
        });
        let compared = compared.collect();
        assert!(bytes.is_empty(), "{} bytes after the last kernel's output", bytes.len());
        Ok(compared)
    }

    /// Returns the output of the driver.
    fn run(
        &self,
        build: &Build,
        kernels: &[(Kernel, Output)],
        about: &str,
    ) -> Result<Vec<u8>, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let [source_file, object, driver, program, output] =
            ["random.c", "random.o", "driver.c", "program", "output"]
                .map(|name| folder.path().join(name));
        let write = |file: &Path, text: String| {
            std::fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
        };
        write(&source_file, source(kernels.iter().map(|(kernel, _)| kernel)))?;
        write(&driver, driver_source(kernels))?;
        build.compile_loops(&source_file, &object, about)?;
        let mut link = Command::new(LINKER);
        link.args(["-static", "-O1", "-w"]);
        succeed(link.arg("-o").arg(&program).args([&driver, &object]), true)?;
        succeed(Command::new(self.0).args([&program, &output]), false)?;
        std::fs::read(output).map_err(|error| error.to_string())
    }
}

fn succeed(command: &mut Command, is_compiler: bool) -> Result<(), String> {
    let limit = if is_compiler { COMPILE_LIMIT } else { RUN_LIMIT };
    let output = output_within(command, limit).map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let text = String::from_utf8_lossy(&output.stderr);
            Err(format!("{command:?}: {}: {text}", output.status))
        }
    }
}

/// Takes numbers from the begin of `bytes`.
fn words<const SIZE: usize, T>(
    bytes: &mut &[u8],
    count: usize,
    number: fn([u8; SIZE]) -> T,
) -> Vec<T> {
    let (taken, rest) =
        bytes.split_at_checked(count * SIZE).expect("the driver writes all elements");
    *bytes = rest;
    taken.chunks_exact(SIZE).map(|chunk| number(chunk.try_into().expect("chunks fit"))).collect()
}

fn driver_source(kernels: &[(Kernel, Output)]) -> String {
    let (mut data, mut table) = (String::new(), String::new());
    for (kernel, expected) in kernels {
        let (seed, arguments) = (kernel.seed, &kernel.arguments);
        let numbers: Vec<_> = arguments.input.iter().map(u32::to_string).collect();
        let input = numbers.join("u,");
        writeln!(data, "extern longshore_entry k{seed};").expect("strings grow");
        writeln!(data, "static const uint32_t in{seed}[] = {{{input}u}};").expect("strings grow");
        let [[gx, gy, gz], [x, y, z]] = [kernel.groups, kernel.items];
        let (n, a, b, c, f) =
            (arguments.input.len(), arguments.a, arguments.b, arguments.c, arguments.f.to_bits());
        let (bytes, count) = (kernel.dynamic_bytes(), expected.out.len());
        writeln!(
            table,
            "{{k{seed}, in{seed}, {n}, {a}u, (int32_t){b}ll, {c}ull, {f}u, \
             {{{gx}, {gy}, {gz}}}, {{{x}, {y}, {z}}}, {bytes}, {count}}},"
        )
        .expect("strings grow");
    }
    let unwritten =
        format!("#define UNWRITTEN {UNWRITTEN}u\n#define WIDE_UNWRITTEN {WIDE_UNWRITTEN}ull\n");
    DRIVER.replace("/* DATA */", &(unwritten + &data)).replace("/* TABLE */", &table)
}
