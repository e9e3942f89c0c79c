//! Staging memory for small copies from pageable host memory, for drivers that do not promise to
//! capture such memory when a copy is queued.

use crate::call::{Call, Code, Failure};
use crate::driver::{Driver, EventKind};
use crate::handle::{Event, Stream};
use crate::raw_device::RawDevice;

/// Most bytes of a copy that is staged.
pub(crate) const STAGED_BYTES: u64 = 64 << 10;
/// Number of parts, which are filled in turn; the stream is done with a part before it is filled
/// again.
const PARTS: usize = 4;
const PART_BYTES: u64 = 2 * STAGED_BYTES;
/// Alignment of copies in staging memory, in bytes: a cache line of the processor.
const ALIGNMENT: u64 = 64;

/// The staging memory of a stream: page-locked, and allocated at the first copy that needs it.
#[derive(Default)]
pub(crate) struct Staging {
    /// Address of the memory; 0 before it is allocated.
    start: u64,
    /// The part that is being filled, and the number of bytes of it that are filled.
    part: usize,
    filled: u64,
    /// Events of the parts, each recorded after the last copy out of its part.
    ends: [Option<Event>; PARTS],
}

impl Staging {
    /// Returns the address of `bytes` bytes of staging memory, for a copy that the caller hands to
    /// the stream before it stages anything else. `None` if earlier copies are not done yet, or the
    /// driver has no memory left. The context is current.
    ///
    /// # Errors
    /// Errors of the driver.
    #[inline]
    pub(crate) fn take<D: Driver>(
        &mut self,
        device: &RawDevice<D>,
        stream: Stream,
        bytes: u64,
    ) -> Result<Option<u64>, Failure> {
        let has_room = self.start != 0 && self.filled + bytes <= PART_BYTES;
        if !has_room && !self.make_room(device, stream)? {
            return Ok(None);
        }
        let address = self.start + self.part as u64 * PART_BYTES + self.filled;
        self.filled += bytes.next_multiple_of(ALIGNMENT);
        Ok(Some(address))
    }

    /// Destroys the driver's objects of the staging memory. The stream is done with its work; the
    /// context is current.
    pub(crate) fn destroy<D: Driver>(self, driver: &D) {
        for event in self.ends.into_iter().flatten() {
            // SAFETY: nothing uses the event.
            let _ = unsafe { driver.destroy_event(event) };
        }
        if self.start != 0 {
            // SAFETY: `allocate_host` returned the memory, and nothing reads it any more.
            let _ = unsafe { driver.free_host(self.start) };
        }
    }

    #[cold]
    fn make_room<D: Driver>(
        &mut self,
        device: &RawDevice<D>,
        stream: Stream,
    ) -> Result<bool, Failure> {
        let made = match self.start {
            0 => self.allocate(device.driver()),
            _ => self.turn(device, stream),
        };
        match made {
            Ok(()) => Ok(true),
            // The caller then waits for the copy.
            Err(failure) if is_no_room(&failure) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    fn allocate<D: Driver>(&mut self, driver: &D) -> Call {
        // SAFETY: the context is current.
        unsafe { driver.allocate_host(&mut self.start, PARTS * PART_BYTES as usize) }
    }

    /// Goes on to the next part, if the stream is done with that part.
    fn turn<D: Driver>(&mut self, device: &RawDevice<D>, stream: Stream) -> Call {
        let (driver, next) = (device.driver(), (self.part + 1) % PARTS);
        let end =
            self.ends[self.part].map_or_else(|| device.try_take_event(EventKind::Plain), Ok)?;
        self.ends[self.part] = Some(end);
        // SAFETY: events and stream are live and of one context.
        unsafe {
            driver.record_event(end, stream)?;
            if let Some(end) = self.ends[next] {
                driver.query_event(end)?;
            }
        }
        (self.part, self.filled) = (next, 0);
        Ok(())
    }
}

/// Returns whether the driver reports that no memory is available, or not yet.
fn is_no_room(failure: &Failure) -> bool {
    const EXPECTED: [Code; 3] = [Code::NOT_READY, Code::OUT_OF_MEMORY, Code::NOT_SUPPORTED];
    failure.result.is_none_or(|result| EXPECTED.contains(&result))
}
