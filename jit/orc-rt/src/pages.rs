//! Pages for linked code in the process that runs it: reserved, filled and protected, and given
//! back.

mod executing;
mod low;
mod mapping;

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

pub use executing::{Finalized, ReservedPages, Table, unknown_allocation};
pub use low::LIMIT;
pub use mapping::{Mapping, Source};

/// The access of the executor to a segment after finalization. No segment is both writable and
/// executable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Protection {
    /// `r-x`
    ReadExecute,
    /// `r--`
    Read,
    /// `rw-`
    ReadWrite,
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReadExecute => "r-x",
            Self::Read => "r--",
            Self::ReadWrite => "rw-",
        })
    }
}

/// The requested place of an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Placement {
    /// Any place: preferably within 2 GiB of the libraries that the code will call.
    #[default]
    Anywhere,
    /// The first 2 GiB, for code that holds addresses in 32 bits (not position-independent code).
    Low,
}

/// The plan for a reservation: the protections and the owners of its pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Names of the objects in the reservation, for errors.
    pub names: Vec<String>,
    /// The pages of each protection, as offsets in bytes.
    pub protections: Vec<(Protection, Range<usize>)>,
    /// All pages, in ascending order, grouped by the objects that share them.
    pub runs: Vec<Run>,
}

/// Pages that all belong to the same objects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Offsets in bytes.
    pub pages: Range<usize>,
    /// Whether the pages are given back after the finalize actions.
    pub is_temporary: bool,
    /// Indices of the objects, in ascending order.
    pub objects: Vec<usize>,
}

impl Plan {
    /// Returns whether the plan is valid for a reservation of `size` bytes, in whole pages. A plan
    /// from another process may contain anything.
    pub(crate) fn fits(&self, size: usize) -> bool {
        let page = rustix::param::page_size();
        let is_whole = |range: &Range<usize>| {
            range.start <= range.end
                && range.end <= size
                && range.start.is_multiple_of(page)
                && range.end.is_multiple_of(page)
        };
        let mut end = 0;
        let follows = |run: &Run| std::mem::replace(&mut end, run.pages.end) == run.pages.start;
        self.protections.iter().all(|(_, range)| is_whole(range))
            && self.runs.iter().all(|run| is_whole(&run.pages))
            && self.runs.iter().all(follows)
            && self
                .runs
                .iter()
                .flat_map(|run| &run.objects)
                .all(|object| *object < self.names.len())
    }
}
