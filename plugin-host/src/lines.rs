//! Source lines of addresses in images, for the messages of faults.
//!
//! The debug information is read after a fault, outside of the handler of its signal. It may be
//! damaged, so the search has a time limit, and a panic in it counts as no result.

mod place;
mod sections;

use bytes::Bytes;
use parking_lot::Mutex;
use place::Frame;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Time limit of one search.
const LIMIT: Duration = Duration::from_secs(1);
/// Names of the device headers, and their folders: their lines are left out where the kernel's own
/// lines are known.
const HEADERS: [&str; 2] = ["longshore_device.h", "longshore_cuda.h"];
const FOLDERS: [&str; 3] = ["longshore_cuda", "longshore_gpu", "longshore_math"];
/// Prefixes of the header's functions that stand for the kernel.
const OF_KERNEL: [&str; 4] =
    ["__longshore_body_", "longshore_run_", "longshore_item_of_", "longshore_traced_"];

/// The debug information of an image, by its parts.
#[derive(Default)]
pub(crate) struct Lines {
    parts: Mutex<Vec<Part>>,
}

/// A file with debug information, and its place in memory.
pub(crate) enum Part {
    /// A relocatable object, with the addresses of its sections by their index.
    Object { bytes: Bytes, sections: Vec<(usize, u64)> },
    /// A shared object that is loaded at `base` and has these addresses.
    SharedObject { bytes: Bytes, base: u64, addresses: Range<u64> },
}

impl Part {
    fn bytes(&self) -> &Bytes {
        match self {
            Part::Object { bytes, .. } | Part::SharedObject { bytes, .. } => bytes,
        }
    }
}

impl Lines {
    /// Adds parts. Keeps only parts with debug information.
    pub(crate) fn add(&self, parts: impl IntoIterator<Item = Part>) {
        let with_lines = parts.into_iter().filter(|part| sections::has_lines(part.bytes()));
        self.parts.lock().extend(with_lines);
    }

    /// Returns the place of the first of these addresses that has debug information.
    pub(crate) fn first_place(&self, addresses: impl Iterator<Item = u64>) -> Option<Place> {
        let deadline = Instant::now() + LIMIT;
        let parts = self.parts.lock();
        for address in addresses {
            let search = || parts.iter().find_map(|part| frames(part, address, deadline));
            let frames = catch_unwind(AssertUnwindSafe(search)).ok().flatten();
            if let Some(place) = frames.and_then(|frames| Place::new(shown(frames))) {
                return Some(place);
            }
        }
        None
    }
}

/// A place in the source, in words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// "blur.c:5".
    pub(crate) line: String,
    /// "in clamp, inlined in blur at blur.c:12".
    pub(crate) functions: String,
}

impl Place {
    /// Creates a place; `None` if the innermost function or its file is unknown.
    fn new(frames: Vec<Frame>) -> Option<Place> {
        let mut frames = frames.into_iter();
        let innermost = frames.next()?;
        let line = format!("{}:{}", innermost.file?, innermost.line);
        let mut functions = format!("in {}", innermost.function?);
        for Frame { function, file, line } in frames {
            let function = function.as_deref().unwrap_or("a function");
            functions.push_str(&match file {
                Some(file) => format!(", inlined in {function} at {file}:{line}"),
                None => format!(", inlined in {function}"),
            });
        }
        Some(Place { line, functions })
    }
}

/// Returns the functions at an address, innermost first.
fn frames(part: &Part, address: u64, deadline: Instant) -> Option<Vec<Frame>> {
    match part {
        Part::Object { bytes, sections } => {
            let debug = sections::object_debug(bytes, sections, address, deadline)?;
            place::find(&debug, address, deadline)
        }
        Part::SharedObject { bytes, base, addresses } => {
            addresses.contains(&address).then_some(())?;
            let debug = sections::shared_object_debug(bytes)?;
            place::find(&debug, address.wrapping_sub(*base), deadline)
        }
    }
    .filter(|frames| !frames.is_empty())
}

/// Returns the frames in terms of the kernel's author: without functions of the header, and with
/// the kernel's name for the functions that its macros define.
fn shown(mut frames: Vec<Frame>) -> Vec<Frame> {
    if let Some(first) = frames.iter().position(|frame| !is_of_header(frame)) {
        frames.drain(..first);
    }
    let mut kernel = None;
    for (index, frame) in frames.iter_mut().enumerate() {
        let name = OF_KERNEL.iter().find_map(|start| frame.function.as_ref()?.strip_prefix(start));
        if let Some(name) = name.map(str::to_owned) {
            frame.function = Some(name);
            kernel = Some(index);
            break;
        }
    }
    frames.truncate(kernel.map_or(frames.len(), |index| index + 1));
    // A kernel in CUDA is part of a loop of the header, and that of a function without source.
    if let Some(before) = kernel.and_then(|index| index.checked_sub(1))
        && is_of_header(&frames[before])
    {
        let own = frames[..before].iter().rposition(|frame| !is_of_header(frame));
        frames.truncate(own.map_or(frames.len(), |own| own + 1));
    }
    frames
}

fn is_of_header(frame: &Frame) -> bool {
    let Some(file) = &frame.file else { return false };
    let folder = file.rsplit('/').nth(1);
    HEADERS.iter().any(|header| file.ends_with(header))
        || folder.is_some_and(|folder| FOLDERS.contains(&folder))
}

#[cfg(test)]
mod tests;
