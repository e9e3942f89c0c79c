//! Pages for linked code, on the side on which it runs: reserved, made what they are to be, and given back.

mod executing;
mod low;
mod mapping;

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

pub use executing::{ExecutingSide, Finalized, Table, unknown_allocation};
pub use low::LIMIT;
pub use mapping::{Mapping, Source};

/// What the executing side may do with a segment once it is finalized. Nothing is ever writable and executable.
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

/// Where an allocation should lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Placement {
    /// Wherever the manager likes: best within two gigabytes of the libraries that the code will call.
    #[default]
    Anywhere,
    /// In the first two gigabytes, for code that holds addresses in 32 bits (not position-independent code).
    Low,
}

/// What becomes of a reservation: which of its pages are what, and whose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The objects for which it is: their names appear in errors.
    pub names: Vec<String>,
    /// The pages of each protection, as offsets in bytes.
    pub protections: Vec<(Protection, Range<usize>)>,
    /// All pages, in ascending order, by the objects that have a part of them.
    pub runs: Vec<Run>,
}

/// Pages that all belong to the same objects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Offsets in bytes.
    pub pages: Range<usize>,
    /// Whether they are given back when the finalize actions have run.
    pub is_temporary: bool,
    /// The objects, by their index, in ascending order.
    pub objects: Vec<usize>,
}

impl Plan {
    /// Whether it is one for a reservation of so many bytes, in whole pages. What comes from another process may be anything.
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
