//! The found errors of a launch.

use super::region::{Kind, Region};
use super::site;
use longshore_plugin_api::{Error, ErrorCode, MemoryKind};
use std::fmt::Write;

/// Most different errors of a launch that are reported.
const MOST: usize = 100;

/// An error that was found.
struct Report {
    what: What,
    places: [u32; 2],
    text: String,
    count: u64,
}

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    OutOfBounds,
    UseAfterFree,
    WrongFree,
    Misaligned,
    Uninitialized,
    Race,
    Barrier,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            What::OutOfBounds => "out of bounds",
            What::UseAfterFree => "use after free",
            What::WrongFree => "wrong free",
            What::Misaligned => "misaligned access",
            What::Uninitialized => "uninitialized read",
            What::Race => "race",
            What::Barrier => "barrier",
        }
    }
}

/// The different errors of a launch: one for each kind and pair of source lines.
#[derive(Default)]
pub(crate) struct Reports {
    reports: Vec<Report>,
    left_out: u64,
}

impl Reports {
    /// Adds an error at one or two places; `text` is called for the first of its kind there.
    pub(crate) fn add(&mut self, what: What, places: [u32; 2], text: impl FnOnce() -> String) {
        let [one, other] = places;
        let same = |report: &&mut Report| {
            report.what == what && (report.places == places || report.places == [other, one])
        };
        if let Some(known) = self.reports.iter_mut().find(same) {
            known.count += 1;
            return;
        }
        if self.reports.len() == MOST {
            self.left_out += 1;
            return;
        }
        self.reports.push(Report { what, places, text: text(), count: 1 });
    }

    /// Returns the error of the launch, if there are reports.
    pub(crate) fn into_error(self, kernel: &str) -> Option<Error> {
        let count = self.reports.len();
        if count == 0 {
            return None;
        }
        let plural = if count == 1 { "error" } else { "errors" };
        let mut message = format!("kernel '{kernel}': the check found {count} {plural}:");
        for (index, report) in self.reports.iter().enumerate() {
            let Report { what, text, count, .. } = report;
            let _ = write!(message, " [{}] {}: {text}", index + 1, what.name());
            if *count > 1 {
                let _ = write!(message, "; {count} times");
            }
        }
        if self.left_out > 0 {
            let _ = write!(message, " [{}] and {} more", MOST + 1, self.left_out);
        }
        let error = Error::new(ErrorCode::BackendFailure, message);
        Some(error.with_vendor("LONGSHORE_CHECK", count as i64))
    }
}

/// Returns a place as "at FILE:LINE:COLUMN in 'FUNCTION'".
pub(crate) fn at(place: u32) -> String {
    match site::place(place) {
        Some(place) => format!("at {place}"),
        None => "at an unknown line".to_owned(),
    }
}

/// Returns the name of a region: "the allocation of 64 bytes at 0x7f0000000000".
pub(crate) fn region(region: &Region) -> String {
    let Region { start, bytes, .. } = region;
    match &region.kind {
        Kind::Allocation(kind) => {
            let kind = match kind {
                MemoryKind::Device => "",
                MemoryKind::Host => "host ",
                _ => "managed ",
            };
            let freed = if region.is_freed.get() { "freed " } else { "" };
            format!("the {freed}{kind}allocation of {bytes} bytes at {start:#x}")
        }
        Kind::Heap => {
            let freed = if region.is_freed.get() { "freed " } else { "" };
            format!("the {freed}memory of {bytes} bytes at {start:#x} by malloc")
        }
        Kind::Pinned => format!("the pinned memory of {bytes} bytes at {start:#x}"),
        Kind::Variable(name) => format!("the variable '{name}' of {bytes} bytes"),
        Kind::Shared(name) => format!("the group's variable '{name}' of {bytes} bytes"),
        Kind::DynamicShared => format!("the dynamic shared memory of {bytes} bytes"),
    }
}

/// Returns the place of an access in or near a region.
pub(crate) fn place_in(found: &Region, address: u64, bytes: u64) -> String {
    let name = region(found);
    if address < found.start {
        return format!("{} bytes before {name}", found.start - address);
    }
    let offset = address - found.start;
    match offset.checked_sub(found.bytes) {
        Some(past) => format!("{past} bytes past the end of {name}"),
        None => format!("bytes {offset} to {} of {name}", offset + bytes),
    }
}
