//! Rectangular copies.

use crate::HostDevice;
use crate::command::copy_bytes;
use longshore_plugin_api::{Extent, PitchedSpan, RectRequest};

/// A copy of rows of bytes.
#[derive(Clone, Copy)]
pub(crate) struct Rect {
    destination: PitchedSpan,
    source: PitchedSpan,
    extent: Extent,
}

impl Rect {
    pub(crate) fn new(request: &RectRequest<'_, HostDevice>) -> Rect {
        let RectRequest { destination, source, extent, .. } = *request;
        Rect { destination, source, extent }
    }

    /// Returns the number of bytes of all rows.
    pub(crate) fn bytes(&self) -> u64 {
        let Extent { row_bytes, rows, slices } = self.extent;
        row_bytes.saturating_mul(rows).saturating_mul(slices)
    }

    /// Copies the rows.
    ///
    /// # Safety
    /// The rows are valid, as the spans' makers promised until the copy is done.
    pub(crate) unsafe fn copy(&self) {
        let (to, from) = (self.destination, self.source);
        for (to_offset, from_offset) in self.extent.offsets(to.pitch(), from.pitch()) {
            let (to, from) = (to.address() + to_offset, from.address() + from_offset);
            // SAFETY: promised by the caller.
            unsafe { copy_bytes(to, from, self.extent.row_bytes) };
        }
    }
}
