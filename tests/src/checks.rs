//! The collections of wrong and right kernels: `tests/kernels/checks/`, and in CUDA
//! `tests/kernels/cuda_checks.cu`.
//!
//! A line `LAUNCH(...)` before each kernel describes its launch: groups, `x`, items, `shared BYTES`
//! or `cooperative`, a colon, and the arguments:
//!
//! | argument | meaning |
//! | --- | --- |
//! | `f32*8` | device memory of 8 elements 0, 1, 2, ... |
//! | `zero:u32*8`, `raw:u32*8` | zeros; memory that nothing has written |
//! | `freed:f32*8` | memory that is free by the launch |
//! | `host:f32*8` | managed memory, written by the program |
//! | `u32=5`, `null`, `by:scale` | a number, a null pointer, a structure of four floats |
//!
//! A line with an error ends with `// BUG:` and the kinds of errors, as in the setting `CHECK`.

use longshore::{Device, Error, Grid, Kernel, MemoryKind, Queue, RawArguments, Result};
use std::any::Any;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The texts before the name of a kernel, with the header and in CUDA.
const KERNELS: [&str; 2] = ["_KERNEL(", "__global__ void "];

/// A kernel of the collection.
#[derive(Debug)]
pub struct Case {
    /// The kernel's name.
    pub kernel: String,
    /// Path of the kernel's source.
    pub file: PathBuf,
    launch: String,
    /// Lines with errors, and their kinds.
    pub bugs: BTreeSet<(u32, String)>,
}

/// Returns the kernels of a source.
pub fn cases(file: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(file).expect("the repository has the source");
    let mut cases: Vec<Case> = Vec::new();
    let mut launch = String::new();
    // A function before the kernels that call it may have their errors.
    let mut early = BTreeSet::new();
    for (line, number) in text.lines().zip(1_u32..) {
        let found = line.strip_prefix("LAUNCH(").and_then(|line| line.strip_suffix(')'));
        if let Some(found) = found {
            launch = found.to_owned();
        } else if let Some((_, rest)) = KERNELS.iter().find_map(|begin| line.split_once(begin)) {
            let kernel = rest.split([',', '(']).next().expect("a kernel has a name").to_owned();
            let (bugs, file) = (std::mem::take(&mut early), file.to_owned());
            cases.push(Case { kernel, file, launch: std::mem::take(&mut launch), bugs });
        }
        let Some((_, kinds)) = line.split_once("// BUG: ") else { continue };
        let bugs = kinds.split_whitespace().map(|kind| (number, kind.to_owned()));
        let is_in_kernel = !is_in_function(&text, number as usize);
        match cases.last_mut().filter(|_| is_in_kernel) {
            Some(case) => case.bugs.extend(bugs),
            None => early.extend(bugs),
        }
    }
    cases
}

/// Returns whether a line is in a function other than a kernel.
fn is_in_function(text: &str, line: usize) -> bool {
    let before: Vec<&str> = text.lines().take(line).collect();
    let head = before.iter().rev().find(|line| line.ends_with(") {") && !line.starts_with(' '));
    head.is_some_and(|head| !KERNELS.iter().any(|begin| head.contains(begin)))
}

/// An error that a checked launch reports.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    /// The kind as in the setting `CHECK`.
    pub kind: &'static str,
    /// The lines that the report names.
    pub lines: BTreeSet<u32>,
}

/// Returns the errors in a message of a checked launch.
pub fn found(message: &str, file: &str) -> Vec<Found> {
    let mut found = Vec::new();
    for number in 1.. {
        let Some((_, rest)) = message.split_once(&format!(" [{number}] ")) else { break };
        let own = rest.split(&format!(" [{}] ", number + 1)).next().unwrap_or(rest);
        let kind = match own.split(':').next().unwrap_or("") {
            "race" => "races",
            "uninitialized read" => "initialized",
            "barrier" => "barriers",
            "out of bounds" | "use after free" | "misaligned access" | "wrong free" => "memory",
            _ => "unknown",
        };
        let begin = format!("{file}:");
        let places = own.split(&begin).skip(1);
        let line = |place: &str| place.split(':').next()?.parse().ok();
        found.push(Found { kind, lines: places.filter_map(line).collect() });
    }
    found
}

impl Case {
    /// Returns whether the kernel has errors.
    pub fn is_wrong(&self) -> bool {
        self.kernel.starts_with("wrong_")
    }

    /// Launches the kernel.
    ///
    /// # Errors
    /// The library's error, of the launch or before it.
    pub fn run(&self, device: &Device, queue: &Queue, kernel: &Kernel) -> Result<()> {
        let (shape, arguments) = self.launch.split_once(':').expect("a launch has a colon");
        let mut words = shape.split_whitespace();
        let groups = numbers(words.next().expect("a launch has groups"));
        let items = numbers(words.nth(1).expect("a launch has items"));
        let mut grid = Grid::new(groups, items);
        while let Some(word) = words.next() {
            grid = match word {
                "cooperative" => grid.with_cooperative(true),
                _ => {
                    let bytes = words.next().and_then(|bytes| bytes.parse().ok());
                    grid.with_shared_bytes(bytes.expect("shared has a number"))
                }
            };
        }
        let mut memory = Vec::new();
        let values =
            arguments.split_whitespace().map(|text| value(device, queue, text, &mut memory));
        let values: Vec<Vec<u8>> = values.collect::<Result<_>>()?;
        let pointers: Vec<_> = values.iter().map(|value| value.as_ptr().cast()).collect();
        let sizes: Vec<_> = values.iter().map(Vec::len).collect();
        // SAFETY: the kernel takes these values; its wrong accesses are found and not made.
        unsafe {
            let arguments = RawArguments::new(&pointers, &sizes)?;
            queue.launch_and_wait(kernel, grid, arguments)
        }
    }

    /// Compares the outcome of the launch with the errors in the source.
    ///
    /// # Errors
    /// The difference.
    pub fn compare(&self, result: Result<()>) -> std::result::Result<(), String> {
        let message = result.as_ref().err().map(Error::message).unwrap_or_default();
        let file = self.file.file_name().expect("a source has a name").to_string_lossy();
        let found = found(message, &file);
        let about = |what: &str| {
            Err(format!("{file}: {}: {what}, expected {:?}: {message}", self.kernel, self.bugs))
        };
        if result.is_err() && found.is_empty() {
            return about("another error");
        }
        for Found { kind, lines } in &found {
            let is_bug = |line: &u32| self.bugs.contains(&(*line, (*kind).to_owned()));
            if lines.is_empty() || !lines.iter().all(is_bug) {
                return about(&format!("a false report of {kind} at {lines:?}"));
            }
        }
        let is_found = |(line, kind): &&(u32, String)| {
            found.iter().any(|found| found.kind == kind && found.lines.contains(line))
        };
        match self.bugs.iter().find(|bug| !is_found(bug)) {
            Some(missed) => about(&format!("no report of {missed:?}")),
            None => Ok(()),
        }
    }
}

fn numbers(text: &str) -> [u32; 3] {
    let mut numbers = [1; 3];
    for (number, text) in numbers.iter_mut().zip(text.trim_end_matches(':').split(',')) {
        *number = text.parse().expect("a shape has numbers");
    }
    numbers
}

/// Returns an argument's bytes; its memory goes to `memory`.
fn value(
    device: &Device,
    queue: &Queue,
    text: &str,
    memory: &mut Vec<Box<dyn Any>>,
) -> Result<Vec<u8>> {
    if text == "null" {
        return Ok(vec![0; 8]);
    }
    if text.starts_with("by:") {
        return Ok([2.0_f32, 1.0, 2.0, 3.0].into_iter().flat_map(f32::to_ne_bytes).collect());
    }
    if let Some((kind, number)) = text.split_once('=') {
        let number: u64 = number.parse().expect("an argument is a number");
        let bytes = if kind == "u64" { 8 } else { 4 };
        return Ok(number.to_ne_bytes()[..bytes].to_vec());
    }
    let (contents, array) = text.split_once(':').unwrap_or(("iota", text));
    let (element, count) = array.split_once('*').expect("an array has a length");
    let count: usize = count.parse().expect("a length is a number");
    let bytes = elements(element, count, contents == "zero");
    let address = match contents {
        "host" => {
            let allocation = device.allocate(MemoryKind::Managed, bytes.len() as u64, 16)?;
            let address = allocation.pointer().address();
            // SAFETY: the memory is the test's own, and the host's as well.
            unsafe {
                (address as *mut u8).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            }
            memory.push(Box::new(allocation));
            address
        }
        "raw" => {
            // SAFETY: reads of the memory are found, and concern no result.
            let buffer = unsafe { device.buffer_uninit::<u8>(bytes.len()) }?;
            let address = buffer.pointer().address();
            memory.push(Box::new(buffer));
            address
        }
        _ => {
            let buffer = device.buffer_of(queue, &bytes)?;
            let address = buffer.pointer().address();
            if contents != "freed" {
                memory.push(Box::new(buffer));
            }
            address
        }
    };
    Ok(address.to_ne_bytes().to_vec())
}

fn elements(element: &str, count: usize, is_zero: bool) -> Vec<u8> {
    let number = |index: usize| if is_zero { 0 } else { index };
    let all = (0..count).map(number);
    match element {
        "u8" => all.map(|index| index as u8).collect(),
        "u16" => all.flat_map(|index| (index as u16).to_ne_bytes()).collect(),
        "u32" => all.flat_map(|index| (index as u32).to_ne_bytes()).collect(),
        "u64" => all.flat_map(|index| (index as u64).to_ne_bytes()).collect(),
        "f32" => all.flat_map(|index| (index as f32).to_ne_bytes()).collect(),
        "f64" => all.flat_map(|index| (index as f64).to_ne_bytes()).collect(),
        other => panic!("the element {other} is unknown"),
    }
}
