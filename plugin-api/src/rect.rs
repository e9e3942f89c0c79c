//! Requests of rectangular copies.

use crate::error::Result;
use crate::request::{Place, Span};

/// The extent of a rectangular copy: slices of rows of bytes, each number at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Extent {
    /// Number of bytes in a row.
    pub row_bytes: u64,
    /// Number of rows in a slice.
    pub rows: u64,
    /// Number of slices.
    pub slices: u64,
}

impl Extent {
    /// Creates the extent of a copy in two dimensions.
    pub const fn new(row_bytes: u64, rows: u64) -> Extent {
        Extent { row_bytes, rows, slices: 1 }
    }

    /// Returns the same extent with a number of slices.
    #[must_use]
    pub const fn with_slices(mut self, slices: u64) -> Extent {
        self.slices = slices;
        self
    }

    /// Returns the distances of each row from the first row, in bytes, at the two ends of a copy.
    /// The rows come in the order of their addresses.
    pub fn offsets(self, to: Pitch, from: Pitch) -> impl Iterator<Item = (u64, u64)> {
        (0..self.slices).flat_map(move |slice| {
            let (to_slice, from_slice) = (slice * to.slice, slice * from.slice);
            (0..self.rows).map(move |row| (to_slice + row * to.row, from_slice + row * from.row))
        })
    }
}

/// The distances, in bytes, between rows and slices in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Pitch {
    /// Distance between the starts of two rows, at least the bytes of a row.
    pub row: u64,
    /// Distance between the starts of two slices: a multiple of [`Pitch::row`], at least that of
    /// all rows.
    pub slice: u64,
}

impl Pitch {
    /// Creates the pitch of an array whose rows have `row` bytes, and whose slices have `rows`
    /// rows. A product beyond 64 bits becomes the largest number, which every copy refuses.
    pub const fn new(row: u64, rows: u64) -> Pitch {
        Pitch { row, slice: row.saturating_mul(rows) }
    }
}

/// Memory of one end of a rectangular copy. The creator of this value vouches for all bytes of the
/// rows until the copy is complete, as for a [`Span`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PitchedSpan {
    address: u64,
    pitch: Pitch,
}

impl PitchedSpan {
    /// Creates memory that the caller vouches for.
    ///
    /// # Safety
    /// As for [`Span::new`], for each row of the copy's extent.
    pub unsafe fn new(address: u64, pitch: Pitch) -> PitchedSpan {
        PitchedSpan { address, pitch }
    }

    /// Returns the address of the first row.
    pub fn address(self) -> u64 {
        self.address
    }

    /// Returns the distances between rows and slices.
    pub fn pitch(self) -> Pitch {
        self.pitch
    }

    /// Returns the memory from the first byte of the first row to the last byte of the last row.
    pub fn span(self, extent: &Extent) -> Span {
        let last = (extent.slices - 1) * self.pitch.slice + (extent.rows - 1) * self.pitch.row;
        // SAFETY: `new`'s caller vouched for the rows; a callee accesses no byte between them.
        unsafe { Span::new(self.address, last + extent.row_bytes) }
    }
}

/// A rectangular copy between two places. The rows of both ends do not overlap.
#[non_exhaustive]
pub struct RectRequest<'a, D> {
    /// Memory to copy to.
    pub destination: PitchedSpan,
    /// Place of `destination`.
    pub destination_place: Place<'a, D>,
    /// Memory to copy from.
    pub source: PitchedSpan,
    /// Place of `source`.
    pub source_place: Place<'a, D>,
    /// Extent of both.
    pub extent: Extent,
}

impl<'a, D> RectRequest<'a, D> {
    /// Creates a copy from `source` to `destination`.
    pub fn new(
        destination: PitchedSpan,
        destination_place: Place<'a, D>,
        source: PitchedSpan,
        source_place: Place<'a, D>,
        extent: Extent,
    ) -> RectRequest<'a, D> {
        RectRequest { destination, destination_place, source, source_place, extent }
    }

    /// Returns the same copy with its devices converted by `device`.
    ///
    /// # Errors
    /// Errors of `device`.
    pub fn with_devices<E>(
        &self,
        device: impl Fn(&'a D) -> Result<&'a E>,
    ) -> Result<RectRequest<'a, E>> {
        Ok(RectRequest {
            destination: self.destination,
            destination_place: self.destination_place.with_device(&device)?,
            source: self.source,
            source_place: self.source_place.with_device(&device)?,
            extent: self.extent,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_in_the_order_of_their_addresses() {
        let extent = Extent::new(4, 2).with_slices(2);
        let found: Vec<_> = extent.offsets(Pitch::new(4, 2), Pitch::new(10, 3)).collect();
        assert_eq!(found, [(0, 0), (4, 10), (8, 30), (12, 40)]);
    }

    #[test]
    fn a_span_ends_with_the_last_row() {
        // SAFETY: the memory is not accessed.
        let memory = unsafe { PitchedSpan::new(0x1000, Pitch::new(10, 3)) };
        let span = memory.span(&Extent::new(4, 2).with_slices(2));
        assert_eq!((span.address(), span.bytes()), (0x1000, 44));
        assert_eq!(memory.span(&Extent::new(4, 1)).bytes(), 4);
    }
}
