//! Copies of rectangles.

use super::range::{Range, any_range, device_range, host_range};
use super::transfer::{delay, prepare, transfer};
use super::{Code, DriverResult, broken, stream};

/// Greatest distance between two rows in bytes.
const MAX_PITCH: u64 = i32::MAX as u64;

/// The kind of memory that a program states for an end.
#[derive(Clone, Copy)]
pub enum Memory {
    /// Host memory.
    Host,
    /// Memory of a device.
    Device,
    /// Memory of the kind that follows from the address.
    Any,
}

/// One end of a copy.
#[derive(Clone, Copy)]
pub struct End {
    /// The kind of memory.
    pub memory: Memory,
    /// Address of the first row.
    pub address: u64,
    /// Bytes between the starts of two rows.
    pub pitch: usize,
    /// Rows between the starts of two slices.
    pub height: usize,
}

/// The extent of a copy.
#[derive(Clone, Copy)]
pub struct Extent {
    /// Bytes of a row.
    pub row_bytes: usize,
    /// Rows of a slice.
    pub rows: usize,
    /// Slices.
    pub slices: usize,
}

/// Copies rows of bytes in a stream. With pageable memory, blocks the caller until the copy is
/// done.
pub fn copy(to: End, from: End, extent: Extent, stream: usize) -> DriverResult {
    let (context, stream) = stream::for_work(stream)?;
    if [extent.row_bytes, extent.rows, extent.slices].contains(&0) {
        return Ok(());
    }
    let (to_range, from_range) = (to.range(extent)?, from.range(extent)?);
    let holds_up = to_range.is_pageable || from_range.is_pageable;
    let ticket = stream.push(move |context| {
        delay();
        prepare(&to_range);
        let rows = to.offsets(extent).zip(from.offsets(extent));
        for (to_offset, from_offset) in rows {
            let bytes = extent.row_bytes as u64;
            let (to, from) = (to_range.part(to_offset, bytes), from_range.part(from_offset, bytes));
            if let Err(fault) = transfer(&to, &from) {
                return context.fail(&fault);
            }
        }
    })?;
    if holds_up {
        ticket.wait();
        context.check()?;
    }
    Ok(())
}

impl End {
    /// Returns the range from the first row to the last.
    ///
    /// # Errors
    /// `INVALID_VALUE`, a violation, for rows or slices that overlap, and for a range that is not
    /// in memory of the stated kind.
    fn range(&self, extent: Extent) -> DriverResult<Range> {
        let (pitch, height) = (self.pitch as u64, self.height as u64);
        let fits = self.pitch >= extent.row_bytes && self.height >= extent.rows;
        let last = pitch.checked_mul(height).and_then(|slice| {
            let slices = slice.checked_mul(extent.slices as u64 - 1)?;
            slices
                .checked_add(pitch * (extent.rows as u64 - 1))?
                .checked_add(extent.row_bytes as u64)
        });
        let Some(bytes) = last.filter(|_| fits && pitch <= MAX_PITCH) else {
            let what = format!(
                "rows of {} bytes every {pitch} bytes, slices of {} rows every {height} rows",
                extent.row_bytes, extent.rows
            );
            return Err(broken(Code::INVALID_VALUE, what));
        };
        match self.memory {
            Memory::Host => host_range(self.address as usize, bytes),
            Memory::Device => device_range(self.address, bytes),
            Memory::Any => any_range(self.address, bytes),
        }
    }

    fn offsets(self, extent: Extent) -> impl Iterator<Item = u64> {
        let row = move |slice, row| (slice * self.height + row) as u64 * self.pitch as u64;
        (0..extent.slices).flat_map(move |slice| (0..extent.rows).map(move |at| row(slice, at)))
    }
}
