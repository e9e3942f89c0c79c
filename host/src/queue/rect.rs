//! Rectangular copies of a queue.

use super::Queue;
use super::core::Open;
use super::transfer::BOUNCED_BYTES;
use crate::backend::AnyDevice;
use crate::device::Device;
use crate::memory::DevicePointer;
use longshore_plugin_api::{
    CopyRequest, Error, ErrorCode, Extent, Pitch, PitchedSpan, Place, Queue as _, RectRequest,
    Result, Span,
};
use std::ffi::c_void;

/// One end of a rectangular copy.
#[derive(Clone, Copy)]
pub(crate) struct RectEnd<'a> {
    pub(crate) address: u64,
    /// The device; `None` for host memory.
    pub(crate) device: Option<&'a Device>,
    pub(crate) pitch: Pitch,
}

impl Queue {
    /// Queues a copy of rows of bytes from host memory to memory of any device of this queue's
    /// platform. Does not wait for the copy. The pitches are the distances between rows and slices
    /// at both ends. If the plugin does not copy rectangles, the library queues a copy for each
    /// row.
    ///
    /// ```
    /// # let host = longshore::Host::new()?;
    /// # if host.devices().is_empty() { return Ok(()) }
    /// # let device = host.default_device()?;
    /// # let queue = device.queue()?;
    /// use longshore::{Extent, Pitch};
    ///
    /// let image = device.buffer::<u8>(&queue, 8 * 4)?;
    /// let tile = *b"abcdef";
    /// // Two rows of 3 bytes, at row 1 and column 2 of an image with 8 bytes in a row.
    /// let (to, extent) = (image.pointer().offset(8 + 2), Extent::new(3, 2));
    /// // SAFETY: `tile` and the buffer live until `to_vec` has waited.
    /// unsafe {
    ///     let from = tile.as_ptr().cast();
    ///     queue.copy_rect_from_host(to, Pitch::new(8, 4), from, Pitch::new(3, 2), extent)?;
    /// }
    /// let image = image.to_vec(&queue)?;
    /// assert_eq!((&image[10..13], &image[18..21]), (&b"abc"[..], &b"def"[..]));
    /// # Ok::<(), longshore::Error>(())
    /// ```
    ///
    /// # Errors
    /// - `InvalidArgument` for a row pitch smaller than a row. The same for a slice pitch that is
    ///   no multiple of the row pitch, or smaller than the rows of a slice.
    /// - `InvalidArgument` if `to` is not in a live allocation of a device.
    /// - `InvalidSize` if the last row exceeds the allocation or 64 bits.
    /// - `InvalidQueue` if the allocation's device belongs to another platform, `Uninitialized` if
    ///   the device was closed; errors of the driver.
    ///
    /// # Safety
    /// As for [`Queue::copy_from_host`], for each row.
    pub unsafe fn copy_rect_from_host(
        &self,
        to: DevicePointer,
        to_pitch: Pitch,
        from: *const c_void,
        from_pitch: Pitch,
        extent: Extent,
    ) -> Result<()> {
        let owner = self.owner(to, reach(extent, to_pitch)?)?;
        let to = RectEnd { address: to.address(), device: Some(&owner), pitch: to_pitch };
        let from = RectEnd { address: from as u64, device: None, pitch: from_pitch };
        self.queue_rect(to, from, extent)
    }

    /// Queues a copy of rows of bytes from memory of any device of this queue's platform to host
    /// memory. Does not wait for the copy. [`Queue::copy_rect_from_host`] has an example.
    ///
    /// # Errors
    /// As for [`Queue::copy_rect_from_host`], with `from` in place of `to`.
    ///
    /// # Safety
    /// As for [`Queue::copy_to_host`], for each row.
    pub unsafe fn copy_rect_to_host(
        &self,
        to: *mut c_void,
        to_pitch: Pitch,
        from: DevicePointer,
        from_pitch: Pitch,
        extent: Extent,
    ) -> Result<()> {
        let owner = self.owner(from, reach(extent, from_pitch)?)?;
        let to = RectEnd { address: to as u64, device: None, pitch: to_pitch };
        let from = RectEnd { address: from.address(), device: Some(&owner), pitch: from_pitch };
        self.queue_rect(to, from, extent)
    }

    /// Queues a copy of rows of bytes between memory of any two devices, whose rows do not overlap.
    /// If both devices belong to this queue's platform, the call does not wait for the copy.
    /// Otherwise it waits for all queued work, copies through host memory, and blocks until the
    /// copy is done. [`Queue::copy_rect_from_host`] has an example.
    ///
    /// # Errors
    /// As for [`Queue::copy_rect_from_host`], for both ends. A blocking copy also has the errors of
    /// [`Queue::synchronize`].
    ///
    /// # Safety
    /// As for [`Queue::copy`], for each row.
    pub unsafe fn copy_rect(
        &self,
        to: DevicePointer,
        to_pitch: Pitch,
        from: DevicePointer,
        from_pitch: Pitch,
        extent: Extent,
    ) -> Result<()> {
        let to_device = self.owner(to, reach(extent, to_pitch)?)?;
        let from_device = self.owner(from, reach(extent, from_pitch)?)?;
        let to = RectEnd { address: to.address(), device: Some(&to_device), pitch: to_pitch };
        let from =
            RectEnd { address: from.address(), device: Some(&from_device), pitch: from_pitch };
        self.queue_rect(to, from, extent)
    }
}

impl Queue {
    /// Queues a copy between live memory. The callers guarantee that the rows are valid until the
    /// copy is done.
    ///
    /// # Errors
    /// As for [`Queue::copy_rect`].
    fn queue_rect(&self, to: RectEnd<'_>, from: RectEnd<'_>, extent: Extent) -> Result<()> {
        let Some(rect) = Rect::new(to, from, extent)? else { return Ok(()) };
        if self.is_beyond(to) || self.is_beyond(from) {
            return self.bounce_rect(&rect);
        }
        let (open, _queued) = self.open_to_queue()?;
        self.queue_in(&open, &rect)
    }

    /// Copies between live memory, and waits. The callers guarantee that the rows are valid.
    ///
    /// # Errors
    /// As for [`Queue::copy_rect`], and errors of [`Queue::synchronize`].
    pub(crate) fn rect_and_wait(
        &self,
        to: RectEnd<'_>,
        from: RectEnd<'_>,
        extent: Extent,
    ) -> Result<()> {
        self.refuse_inside("copying memory and waiting for it")?;
        let Some(rect) = Rect::new(to, from, extent)? else { return self.synchronize() };
        if self.is_beyond(to) || self.is_beyond(from) {
            return self.bounce_rect(&rect);
        }
        // Held until the end: without it, the wait would not cover a queue that is being closed.
        let open = self.open()?;
        let queued = self.queue_in(&open, &rect);
        let synchronized = open.queue.synchronize();
        synchronized.map_err(|error| self.device.core().explain(error)).and(queued)?;
        self.core.take_pending_error()
    }

    /// Queues a copy as one command, or row by row if the plugin does not copy such rectangles.
    fn queue_in(&self, open: &Open, rect: &Rect<'_>) -> Result<()> {
        let to_guard = rect.to.device.map(|device| self.reach(device)).transpose()?.flatten();
        let from_guard = rect.from.device.map(|device| self.reach(device)).transpose()?.flatten();
        let place = |end: &RectEnd<'_>, other| -> Place<'_, AnyDevice> {
            end.device.map_or(Place::Host, |_| Place::Device(other))
        };
        let to_device: &AnyDevice = to_guard.as_deref().map_or(&open.device, |device| device);
        let from_device: &AnyDevice = from_guard.as_deref().map_or(&open.device, |device| device);
        let (to, from) = (rect.to, rect.from);
        // SAFETY: the callers guarantee the rows until the copy is done.
        let request = unsafe {
            RectRequest::new(
                PitchedSpan::new(to.address, to.pitch),
                place(&to, to_device),
                PitchedSpan::new(from.address, from.pitch),
                place(&from, from_device),
                rect.extent,
            )
        };
        if !rect.is_linear() {
            match open.queue.copy_rect(&request) {
                Err(error) if error.code() == ErrorCode::Unsupported => {}
                queued => return queued,
            }
        }
        let bytes = rect.extent.row_bytes;
        rect.extent.offsets(to.pitch, from.pitch).try_for_each(|(to_offset, from_offset)| {
            // SAFETY: as above.
            let (destination, source) = unsafe {
                (
                    Span::new(to.address + to_offset, bytes),
                    Span::new(from.address + from_offset, bytes),
                )
            };
            let (to, from) = (place(&to, to_device), place(&from, from_device));
            open.queue.copy(&CopyRequest::new(destination, to, source, from))
        })
    }

    /// Returns whether an end belongs to a device of another platform.
    fn is_beyond(&self, end: RectEnd<'_>) -> bool {
        end.device.is_some_and(|device| !self.reaches(device))
    }

    /// Copies between devices of two platforms, through host memory.
    ///
    /// # Errors
    /// `InvalidQueue` for a copy with host memory; errors of the copies.
    fn bounce_rect(&self, rect: &Rect<'_>) -> Result<()> {
        let (Some(to_device), Some(from_device)) = (rect.to.device, rect.from.device) else {
            let device = rect.to.device.or(rect.from.device).unwrap_or(&self.device);
            return Err(self.unreached(device));
        };
        let (to, from) = (rect.to, rect.from);
        let Extent { row_bytes, rows, slices } = rect.extent;
        if row_bytes > BOUNCED_BYTES {
            let mut offsets = rect.extent.offsets(to.pitch, from.pitch);
            return offsets.try_for_each(|(to_offset, from_offset)| {
                let (to, from) = (to.address + to_offset, from.address + from_offset);
                let (to, from) = (DevicePointer(to), DevicePointer(from));
                self.bounce(to, to_device, from, from_device, row_bytes)
            });
        }
        self.synchronize()?;
        let (from_queue, to_queue) = (from_device.queue()?, to_device.queue()?);
        let at_once = (BOUNCED_BYTES / row_bytes).min(rows);
        let mut staged = vec![0u8; (at_once * row_bytes) as usize];
        let between = RectEnd {
            address: staged.as_mut_ptr() as u64,
            device: None,
            pitch: Pitch::new(row_bytes, at_once),
        };
        for slice in 0..slices {
            for row in (0..rows).step_by(at_once as usize) {
                let part = Extent::new(row_bytes, at_once.min(rows - row));
                from_queue.rect_and_wait(between, from.further(slice, row), part)?;
                to_queue.rect_and_wait(to.further(slice, row), between, part)?;
            }
        }
        Ok(())
    }
}

impl<'a> RectEnd<'a> {
    /// Returns the end that begins at this row of this slice.
    fn further(self, slice: u64, row: u64) -> RectEnd<'a> {
        let offset = slice * self.pitch.slice + row * self.pitch.row;
        RectEnd { address: self.address + offset, ..self }
    }
}

/// A copy of at least one byte, in its simplest form.
struct Rect<'a> {
    to: RectEnd<'a>,
    from: RectEnd<'a>,
    extent: Extent,
}

impl<'a> Rect<'a> {
    /// Checks a copy, and joins rows that lie side by side. `None` for a copy of no bytes.
    ///
    /// # Errors
    /// `InvalidArgument` for pitches that do not fit, `InvalidSize` for rows beyond 64 bits.
    fn new(to: RectEnd<'a>, from: RectEnd<'a>, extent: Extent) -> Result<Option<Rect<'a>>> {
        for end in [to, from] {
            let bytes = reach(extent, end.pitch)?;
            if end.address.checked_add(bytes).is_none() {
                return Err(beyond(extent, end.pitch));
            }
        }
        if is_empty(extent) {
            return Ok(None);
        }
        let mut rect = Rect { to, from, extent };
        rect.join_slices();
        rect.join_rows();
        // The slices of joined rows may lie side by side, too.
        rect.join_rows();
        Ok(Some(rect))
    }

    /// Makes one row of each slice whose rows lie side by side at both ends.
    fn join_rows(&mut self) {
        let Extent { row_bytes, rows, slices } = self.extent;
        let is_joined = |end: RectEnd<'_>| rows == 1 || end.pitch.row == row_bytes;
        if is_joined(self.to) && is_joined(self.from) {
            // The slices become the rows of a single slice.
            self.extent = Extent::new(row_bytes * rows, slices);
            for end in [&mut self.to, &mut self.from] {
                end.pitch = Pitch::new(end.pitch.slice, slices);
            }
        }
    }

    /// Makes one slice of slices that follow each other at the distance of their rows.
    fn join_slices(&mut self) {
        let Extent { row_bytes, rows, slices } = self.extent;
        let is_joined = |end: RectEnd<'_>| end.pitch.slice == end.pitch.row * rows;
        if slices > 1 && is_joined(self.to) && is_joined(self.from) {
            self.extent = Extent::new(row_bytes, rows * slices);
            for end in [&mut self.to, &mut self.from] {
                end.pitch = Pitch::new(end.pitch.row, rows * slices);
            }
        }
    }

    /// Returns whether the copy is one range of bytes.
    fn is_linear(&self) -> bool {
        self.extent.rows == 1 && self.extent.slices == 1
    }
}

fn is_empty(extent: Extent) -> bool {
    extent.row_bytes == 0 || extent.rows == 0 || extent.slices == 0
}

/// Returns the number of bytes from the first byte of the first row to the last byte of the last.
///
/// # Errors
/// As for [`Rect::new`].
fn reach(extent: Extent, pitch: Pitch) -> Result<u64> {
    if is_empty(extent) {
        return Ok(0);
    }
    let Extent { row_bytes, rows, slices } = extent;
    let slice = pitch.row.checked_mul(rows).ok_or_else(|| beyond(extent, pitch))?;
    if pitch.row < row_bytes || pitch.slice < slice || !pitch.slice.is_multiple_of(pitch.row) {
        let message = format!(
            "{slices} slices of {rows} rows of {row_bytes} bytes, with the row pitch {} and the \
             slice pitch {}; expected at least {row_bytes}, and a multiple of it from {slice} on",
            pitch.row, pitch.slice
        );
        return Err(Error::new(ErrorCode::InvalidArgument, message));
    }
    let last = pitch.slice.checked_mul(slices - 1).and_then(|slice| {
        slice.checked_add(pitch.row * (rows - 1)).and_then(|last| last.checked_add(row_bytes))
    });
    last.ok_or_else(|| beyond(extent, pitch))
}

#[cold]
fn beyond(extent: Extent, pitch: Pitch) -> Error {
    let Extent { row_bytes, rows, slices } = extent;
    let message = format!(
        "{slices} slices of {rows} rows of {row_bytes} bytes, {} and {} bytes apart; expected a \
         last row within 64 bits of address",
        pitch.slice, pitch.row
    );
    Error::new(ErrorCode::InvalidSize, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(extent: Extent, to: Pitch, from: Pitch) -> (Extent, Pitch, Pitch) {
        let end = |pitch| RectEnd { address: 0x1000, device: None, pitch };
        let rect = Rect::new(end(to), end(from), extent).unwrap().unwrap();
        (rect.extent, rect.to.pitch, rect.from.pitch)
    }

    #[test]
    fn rows_that_lie_side_by_side_become_one() {
        let volume = Extent::new(8, 4).with_slices(3);
        let packed = Pitch::new(8, 4);
        assert_eq!(joined(volume, packed, packed).0, Extent::new(96, 1));
        let (extent, to, from) = joined(volume, packed, Pitch::new(8, 6));
        assert_eq!((extent, to.row, from.row), (Extent::new(32, 3), 32, 48));
        let (extent, to, from) = joined(volume, packed, Pitch::new(10, 4));
        assert_eq!((extent, to.row, from.row), (Extent::new(8, 12), 8, 10));
        let pitch = Pitch::new(10, 5);
        assert_eq!(joined(volume, packed, pitch), (volume, packed, pitch));
        assert_eq!(joined(Extent::new(8, 1), packed, pitch).0, Extent::new(8, 1));
    }

    #[test]
    fn pitches_that_do_not_fit_are_refused() {
        let extent = Extent::new(8, 4).with_slices(2);
        for (row, slice, code) in [
            (7, 28, ErrorCode::InvalidArgument),
            (8, 24, ErrorCode::InvalidArgument),
            (8, 36, ErrorCode::InvalidArgument),
            (1 << 62, u64::MAX, ErrorCode::InvalidSize),
            (1 << 61, 7 << 61, ErrorCode::InvalidSize),
        ] {
            let pitch = Pitch { row, slice };
            assert_eq!(reach(extent, pitch).unwrap_err().code(), code, "{pitch:?}");
        }
        assert_eq!(reach(extent, Pitch::new(8, 4)), Ok(64));
        assert_eq!(reach(extent, Pitch::new(10, 5)), Ok(50 + 30 + 8));
        assert_eq!(reach(Extent::new(0, 4), Pitch::new(0, 0)), Ok(0));
    }
}
