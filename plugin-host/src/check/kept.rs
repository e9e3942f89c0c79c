//! Ranges that a launch has checked before.

use super::site::Site;
use std::ptr::null;

/// Ranges whose records stay as they are: reads of words that two items have read since the last
/// barrier. Rows of a group often read the same words.
pub(crate) struct Kept([Known; KEPT]);

const KEPT: usize = 64;

/// A range that was right and changed nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) site: *const Site,
    pub(crate) address: u64,
    pub(crate) stride: i64,
    pub(crate) items: u32,
    pub(crate) stamp: Stamp,
}

/// The part of a launch in which a range stays right. It ends at a barrier, an atomic operation
/// that orders groups, a report, or a copy, which can copy bytes that nothing has written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) epoch: u32,
    pub(crate) older_end: u32,
    pub(crate) changes: u64,
    pub(crate) version: u64,
}

impl Kept {
    pub(crate) fn new() -> Kept {
        let stamp = Stamp { epoch: 0, older_end: 0, changes: 0, version: 0 };
        Kept([Known { site: null(), address: 0, stride: 0, items: 0, stamp }; KEPT])
    }

    pub(crate) fn place(&mut self, known: &Known) -> &mut Known {
        let key = known.address >> 6 ^ known.address >> 2 ^ known.site as u64 >> 4;
        &mut self.0[key as usize % KEPT]
    }
}
