//! Memory in which small copies from pageable memory of the host wait for the device, for drivers that
//! do not promise to take such memory along when a copy is queued.

use crate::call::{Call, Code, Failure};
use crate::driver::{Driver, EventKind};
use crate::handle::{Event, Stream};
use crate::raw_device::RawDevice;

/// Copies of at most so many bytes are staged.
pub(crate) const STAGED_BYTES: u64 = 64 << 10;
/// So many parts are filled in turn; what is in one is done before it is filled again.
const PARTS: usize = 4;
const PART_BYTES: u64 = 2 * STAGED_BYTES;
/// Copies begin at multiples of so many bytes: at lines of the processor's cache.
const ALIGNMENT: u64 = 64;

/// The staging memory of a stream: page-locked, and there from the first copy that wants it.
#[derive(Default)]
pub(crate) struct Staging {
    /// 0 if there is none.
    start: u64,
    /// Which part is being filled, and how many bytes of it are.
    part: usize,
    filled: u64,
    /// By parts, what is recorded behind the last copy out of it.
    ends: [Option<Event>; PARTS],
}

impl Staging {
    /// So many bytes at the address of the answer, for what the stream is handed before anything else is
    /// staged. None if what was staged before is not done yet, or the driver has no memory for it. The context
    /// is current.
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

    /// Gives back what the driver holds of it. The stream has done what it was handed; the context is
    /// current.
    pub(crate) fn destroy<D: Driver>(self, driver: &D) {
        for event in self.ends.into_iter().flatten() {
            // SAFETY: nobody uses it.
            let _ = unsafe { driver.destroy_event(event) };
        }
        if self.start != 0 {
            // SAFETY: it was allocated so, and nothing reads it any more.
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
            // Then copies are waited for.
            Err(failure) if is_no_room(&failure) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    fn allocate<D: Driver>(&mut self, driver: &D) -> Call {
        // SAFETY: the context is current.
        unsafe { driver.allocate_host(&mut self.start, PARTS * PART_BYTES as usize) }
    }

    /// Goes on to the next part, if the stream has done what was in it.
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

/// Whether a driver says that there is nothing to be had, or not yet.
fn is_no_room(failure: &Failure) -> bool {
    const ANSWERS: [Code; 3] = [Code::NOT_READY, Code::OUT_OF_MEMORY, Code::NOT_SUPPORTED];
    failure.result.is_none_or(|result| ANSWERS.contains(&result))
}
