//! Ranges that a launch has checked before.

use super::site::Site;
use std::ptr::null;

/// Ranges whose records stay as they are: reads of words that two items have read since the last
/// barrier. Rows of a group often read the same words.
pub(crate) struct Kept {
    known: [Known; KEPT],
    /// The part of a launch with the last range.
    pub(crate) stamp: Stamp,
    /// The last addresses of sites.
    last: [(*const Site, u64); KEPT],
}

const KEPT: usize = 64;

/// A range that was right and changed nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) site: *const Site,
    pub(crate) address: u64,
    pub(crate) stride: i64,
    pub(crate) distance: i64,
    pub(crate) items: u32,
    pub(crate) rows: u32,
    pub(crate) row_items: u32,
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
        let (site, address) = (null(), 0);
        let known =
            Known { site, address, stride: 0, distance: 0, items: 0, rows: 0, row_items: 0, stamp };
        Kept { known: [known; KEPT], stamp, last: [(site, address); KEPT] }
    }

    pub(crate) fn place(&mut self, known: &Known) -> &mut Known {
        let key = known.address >> 6 ^ known.address >> 2 ^ known.site as u64 >> 4;
        &mut self.known[key as usize % KEPT]
    }

    /// Enters the address of a range. Returns the address that the next range of this site has if
    /// its ranges have a fixed distance.
    #[inline]
    pub(crate) fn next_address(&mut self, site: *const Site, address: u64) -> Option<u64> {
        let place = &mut self.last[site.addr() / 16 % KEPT];
        let (former, before) = std::mem::replace(place, (site, address));
        let distance = address.wrapping_sub(before);
        (former == site && distance != 0).then(|| address.wrapping_add(distance))
    }
}
