//! Rectangular copies.

use crate::batch::Batch;
use crate::memory::RegionPosition;
use crate::transfer::CopyJob;
use ash::vk;
use longshore_plugin_api::{Extent, Pitch, Result};

/// Most rows in one command of the driver.
const COMMAND_ROWS: usize = 1 << 12;

/// The rows of both ends of a copy, by their distances from the first rows.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    pub(crate) extent: Extent,
    pub(crate) to: Pitch,
    pub(crate) from: Pitch,
}

/// A rectangular copy by a host thread, which reaches both ends by pointers.
pub(crate) struct RectJob {
    to: u64,
    from: u64,
    rows: Rows,
    /// Ends of the copy, which keep their regions.
    _ends: CopyJob,
}

impl RectJob {
    /// Creates a copy whose first rows are the ends of `ends`. Returns `ends` if a host thread
    /// does not reach both.
    pub(crate) fn new(ends: CopyJob, rows: Rows) -> Result<RectJob, CopyJob> {
        match ends.pointers() {
            Some((to, from)) => Ok(RectJob { to, from, rows, _ends: ends }),
            None => Err(ends),
        }
    }

    /// Copies the rows. All other uses of the memory must be done.
    pub(crate) fn run(&self) {
        let bytes = self.rows.extent.row_bytes as usize;
        for (to, from) in self.rows.offsets() {
            // SAFETY: the host can access all rows, by the mapping or because the copy's caller
            // vouches for them.
            unsafe {
                let (to, from) = ((self.to + to) as *mut u8, (self.from + from) as *const u8);
                std::ptr::copy(from, to, bytes);
            }
        }
    }
}

impl Rows {
    fn offsets(self) -> impl Iterator<Item = (u64, u64)> {
        self.extent.offsets(self.to, self.from)
    }

    /// Records a copy between two buffers of the device.
    ///
    /// # Errors
    /// The driver's errors.
    pub(crate) fn record(
        self,
        batch: &mut Batch,
        to: &RegionPosition,
        from: &RegionPosition,
    ) -> Result<()> {
        let (to_start, from_start) = (to.buffer_offset(), from.buffer_offset());
        let size = self.extent.row_bytes;
        let mut regions = self.offsets().map(|(to, from)| vk::BufferCopy {
            src_offset: from_start + from,
            dst_offset: to_start + to,
            size,
        });
        loop {
            let some: Vec<_> = regions.by_ref().take(COMMAND_ROWS).collect();
            if some.is_empty() {
                return Ok(());
            }
            batch.copy_regions(to.region.buffer, from.region.buffer, &some)?;
        }
    }
}
