//! Kernels as loops for AArch64, in an emulator.

use super::limits::{COMPILE_LIMIT, RUN_LIMIT, output_within};
use super::{Argument, Build, Ending, Launch};
use crate::world::root;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

const EMULATORS: [&str; 2] = ["qemu-aarch64-static", "qemu-aarch64"];
const LINKER: &str = "aarch64-linux-gnu-gcc";
const TARGET: &str = "--target=aarch64-linux-gnu";

/// The program that launches kernels, but for their table.
const DRIVER: &str = include_str!("emulator.c");

/// The tools that run AArch64's code on this machine.
pub struct Emulator(&'static str);

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

    /// Compiles a source for AArch64 as one program, runs the launches in it, and returns their
    /// endings. Blocks. `about` names the source's kernels.
    ///
    /// # Errors
    /// The message of a failed compilation or launch.
    pub fn run(
        &self,
        build: &Build,
        source: &str,
        launches: &[Launch],
        about: &str,
    ) -> Result<Vec<Ending>, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let [items, object, driver, started, program, input, output] =
            ["items.c", "items.o", "driver.c", "driver.o", "program", "input", "output"]
                .map(|name| folder.path().join(name));
        let write = |file: &Path, bytes: &[u8]| {
            std::fs::write(file, bytes).map_err(|error| format!("{}: {error}", file.display()))
        };
        write(&items, source.as_bytes())?;
        write(&driver, driver_source(launches).as_bytes())?;
        write(&input, &written(launches))?;
        let mut build = build.clone();
        build.flags.push(TARGET.to_owned());
        build.object(&items, &object, about)?;
        let mut compile = Command::new(&build.clang);
        compile.args([TARGET, "-O1", "-w", "-c", "-I"]).arg(root().join("include"));
        succeed(compile.arg("-o").arg(&started).arg(&driver), true)?;
        let mut link = Command::new(LINKER);
        succeed(
            link.args(["-static", "-o"]).arg(&program).args([&started, &object]).arg("-lm"),
            true,
        )?;
        succeed(Command::new(self.0).args([&program, &input, &output]), false)?;
        let bytes = std::fs::read(output).map_err(|error| error.to_string())?;
        endings(launches, &bytes)
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

fn driver_source(launches: &[Launch]) -> String {
    let mut names: Vec<&str> = launches.iter().map(|launch| launch.kernel.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let (mut kernels, mut table) = (String::new(), String::new());
    for name in names {
        writeln!(kernels, "extern longshore_entry {name};").expect("strings grow");
        writeln!(table, "{{\"{name}\", {name}}},").expect("strings grow");
    }
    DRIVER.replace("/* KERNELS */", &kernels).replace("/* TABLE */", &table)
}

/// Returns the launches in the driver's form: words of 8 bytes, and bytes behind their number.
fn written(launches: &[Launch]) -> Vec<u8> {
    fn word(bytes: &mut Vec<u8>, word: u64) {
        bytes.extend(word.to_le_bytes());
    }
    fn counted(bytes: &mut Vec<u8>, added: &[u8]) {
        word(bytes, added.len() as u64);
        bytes.extend(added);
    }
    let mut bytes = Vec::new();
    for launch in launches {
        counted(&mut bytes, format!("{}\0", launch.kernel).as_bytes());
        for number in launch.groups.into_iter().chain(launch.items) {
            word(&mut bytes, number.into());
        }
        word(&mut bytes, launch.shared_bytes);
        word(&mut bytes, launch.arguments.len() as u64);
        for argument in &launch.arguments {
            let (is_buffer, contents) = match argument {
                Argument::Value(contents) => (0, contents),
                Argument::Buffer(contents) => (1, contents),
            };
            word(&mut bytes, is_buffer);
            counted(&mut bytes, contents);
        }
    }
    bytes
}

/// Reads the driver's output: for each launch a status, and the contents of the buffers.
fn endings(launches: &[Launch], mut bytes: &[u8]) -> Result<Vec<Ending>, String> {
    let mut take = |count: usize| {
        let taken = bytes.split_at_checked(count);
        let (taken, rest) = taken.ok_or("the driver has not written all results")?;
        bytes = rest;
        Ok::<_, String>(taken.to_vec())
    };
    let mut endings = Vec::new();
    for launch in launches {
        let status = take(1)?[0];
        let mut results = Vec::new();
        for argument in &launch.arguments {
            if let Argument::Buffer(contents) = argument {
                results.push(take(contents.len())?);
            }
        }
        endings.push(match status {
            0 => Ending::Results(results),
            1 => Ending::NeedsStacks,
            other => return Err(format!("{} ended with status {other}", launch.kernel)),
        });
    }
    match bytes.len() {
        0 => Ok(endings),
        rest => Err(format!("{rest} bytes after the last launch's results")),
    }
}
