//! Copies, fills and prefetches on a stream.

use crate::call::{Call, Code, Failure};
use crate::device_core::DeviceCore;
use crate::driver::{Driver, Location};
use crate::handle::DevicePtr;
use crate::memory::Locked;
use crate::queue_stream::QueueStream;
use crate::staging::STAGED_BYTES;
use longshore_plugin_api::{Error, PrefetchTarget, Result, Span};
use std::sync::Arc;

/// Number of bytes copied at a time if the host memory is page-locked in part.
const PIECE_BYTES: u64 = 1 << 20;

/// One end of a copy.
pub(crate) enum End<D: Driver> {
    /// Host memory.
    Host(u64),
    /// Memory of the queue's own device, or host memory allocated for it.
    Own(DevicePtr),
    /// Memory of another device.
    Other(Arc<DeviceCore<D>>, DevicePtr),
}

/// A copy. The caller that queued it vouches for both ranges until it is done.
pub(crate) struct Copy<D: Driver> {
    pub(crate) to: End<D>,
    pub(crate) from: End<D>,
    pub(crate) bytes: u64,
}

/// The addresses and the size of a part of a copy.
#[derive(Clone, Copy)]
struct Part {
    to: u64,
    from: u64,
    bytes: u64,
}

impl<D: Driver> End<D> {
    fn address(&self) -> u64 {
        match self {
            End::Host(address) | End::Own(address) | End::Other(_, address) => *address,
        }
    }

    /// Returns whether the end is certainly in host memory; managed memory may be anywhere.
    pub(crate) fn is_of_host(&self, device: &DeviceCore<D>) -> bool {
        match self {
            End::Host(_) => true,
            End::Own(address) => device.memory.is_of_host(*address),
            End::Other(device, address) => device.memory.is_of_host(*address),
        }
    }
}

impl<D: Driver> Copy<D> {
    /// Hands the copy to the stream if that does not block and reads no host memory later than
    /// allowed. Returns whether the stream has the copy. The context is current.
    ///
    /// # Errors
    /// Errors of the driver.
    pub(crate) fn hand(&self, queue_stream: &QueueStream<D>) -> Result<bool> {
        let device = queue_stream.device();
        let as_it_is = || self.queue(queue_stream, self.whole());
        // The driver copies from host memory to host memory while the caller waits.
        let handed = match (&self.to, &self.from) {
            (to, from) if to.is_of_host(device) && from.is_of_host(device) => None,
            (End::Host(to), _) => {
                (queue_stream.locked(*to, self.bytes) == Locked::All).then(as_it_is)
            }
            (_, End::Host(_)) if self.is_captured(device) => Some(as_it_is()),
            (_, End::Host(from)) => match queue_stream.locked(*from, self.bytes) {
                Locked::All => Some(as_it_is()),
                Locked::None if self.bytes <= D::CAPTURED_BYTES => Some(as_it_is()),
                Locked::None if self.bytes <= STAGED_BYTES => {
                    queue_stream.stage(*from, self.bytes, |staged| {
                        self.queue(queue_stream, Part { from: staged, ..self.whole() })
                    })
                }
                Locked::None | Locked::Some => None,
            },
            _ => Some(as_it_is()),
        };
        let Some(handed) = handed else { return Ok(false) };
        handed.map(|()| true).map_err(|failure| self.failed(device, failure))
    }

    /// Hands the copy to the stream. Between two ranges of host memory, and if the host memory is
    /// page-locked in part, waits for the stream and then copies.
    ///
    /// # Errors
    /// Errors of the driver; a lost device.
    pub(crate) fn submit(&self, queue_stream: &QueueStream<D>) -> Result<()> {
        let device = queue_stream.device();
        let host = match (&self.to, &self.from) {
            (End::Host(to), End::Host(from)) => {
                queue_stream.synchronize_stream()?;
                // SAFETY: the caller that queued the copy vouches for both ranges, which may
                // overlap.
                unsafe {
                    std::ptr::copy(*from as *const u8, *to as *mut u8, self.bytes as usize);
                }
                return Ok(());
            }
            (End::Host(host), _) | (_, End::Host(host)) => Some(*host),
            _ => None,
        };
        let _current = device.enter()?;
        let is_locked_in_part =
            || host.is_some_and(|host| queue_stream.locked(host, self.bytes) == Locked::Some);
        if device.memory.may_be_locked::<D>() && is_locked_in_part() {
            return self.copy_in_pieces(queue_stream);
        }
        match self.queue(queue_stream, self.whole()) {
            // Other code of the process may have page-locked some of it.
            Err(failure) if failure.is(Code::INVALID_VALUE) && is_locked_in_part() => {
                self.copy_in_pieces(queue_stream)
            }
            queued => queued.map_err(|failure| self.failed(device, failure)),
        }
    }

    /// Hands the copy to the stream, and waits for it if handing it over may block anyway.
    ///
    /// # Errors
    /// As for [`Copy::submit`].
    pub(crate) fn run(self, queue_stream: &QueueStream<D>) -> Result<()> {
        let current = queue_stream.device().enter()?;
        if self.hand(queue_stream)? {
            return Ok(());
        }
        drop(current);
        self.run_blocking(queue_stream)
    }

    /// Hands the copy to the stream and waits for it.
    ///
    /// # Errors
    /// As for [`Copy::submit`].
    pub(crate) fn run_blocking(self, queue_stream: &QueueStream<D>) -> Result<()> {
        self.submit(queue_stream)?;
        queue_stream.sleep_until_stream_is_done()
    }

    /// Copies through memory of which no part is page-locked: drivers refuse memory that is
    /// page-locked in part, and earlier work of the stream may have to write there first. Blocks
    /// until the copy is done. The context is current.
    #[cold]
    fn copy_in_pieces(&self, queue_stream: &QueueStream<D>) -> Result<()> {
        let mut piece = vec![0u8; self.bytes.min(PIECE_BYTES) as usize];
        let ours = piece.as_mut_ptr();
        queue_stream.synchronize_stream()?;
        let mut done = 0;
        while done < self.bytes {
            let bytes = (self.bytes - done).min(PIECE_BYTES);
            let whole = self.whole();
            let part = Part { to: whole.to + done, from: whole.from + done, bytes };
            let is_to_host = matches!(self.to, End::Host(_));
            let part_of_ours = match is_to_host {
                true => Part { to: ours as u64, ..part },
                false => Part { from: ours as u64, ..part },
            };
            // SAFETY: the caller that queued the copy vouches for both ranges; `piece` is a local
            // buffer, and the wait for the stream ends the driver's use of it.
            unsafe {
                if !is_to_host {
                    ours.copy_from_nonoverlapping(part.from as *const u8, bytes as usize);
                }
                let queued = self.queue(queue_stream, part_of_ours);
                let waited = queue_stream.synchronize_stream();
                queued
                    .map_err(|failure| self.failed(queue_stream.device(), failure))
                    .and(waited)?;
                if is_to_host {
                    (part.to as *mut u8).copy_from_nonoverlapping(ours, bytes as usize);
                }
            }
            done += bytes;
        }
        Ok(())
    }

    /// Returns whether the driver captures the source when the copy is queued, and no earlier work
    /// can write there later, as nothing is page-locked.
    #[inline]
    fn is_captured(&self, device: &DeviceCore<D>) -> bool {
        self.bytes <= D::CAPTURED_BYTES && !device.memory.may_be_locked::<D>()
    }

    fn whole(&self) -> Part {
        Part { to: self.to.address(), from: self.from.address(), bytes: self.bytes }
    }

    /// Calls the driver for a part of the copy. The part's address at the host's end may be that of
    /// a buffer in place of the copy's memory.
    fn queue(&self, queue_stream: &QueueStream<D>, Part { to, from, bytes }: Part) -> Call {
        let (driver, bytes, stream) =
            (queue_stream.device().driver(), bytes as usize, queue_stream.stream());
        let (memory, own) = (&queue_stream.device().memory, queue_stream.device().context());
        // SAFETY: the caller that queued the copy vouches for both ranges; the stream is live.
        unsafe {
            match (&self.to, &self.from) {
                (End::Own(_), End::Host(_)) if !memory.is_of_host(to) => {
                    driver.copy_to_device(to, from as *const _, bytes, stream)
                }
                (End::Host(_), End::Own(_)) if !memory.is_of_host(from) => {
                    driver.copy_to_host(to as *mut _, from, bytes, stream)
                }
                (End::Own(_), End::Other(device, _)) if !device.memory.is_of_host(from) => {
                    driver.copy_between((to, own), (from, device.context()), bytes, stream)
                }
                (End::Other(device, _), End::Own(_)) if !device.memory.is_of_host(to) => {
                    driver.copy_between((to, device.context()), (from, own), bytes, stream)
                }
                // The driver infers the kind of memory from the addresses.
                _ => driver.copy(to, from, bytes, stream),
            }
        }
    }

    #[cold]
    fn failed(&self, device: &DeviceCore<D>, failure: Failure) -> Error {
        let doing = format_args!("copying {} bytes", self.bytes);
        match (&self.to, &self.from) {
            (End::Other(other, _), _) | (_, End::Other(other, _)) => {
                device.failed_with(other, doing, failure)
            }
            _ => device.failed(doing, failure),
        }
    }
}

/// A fill of device memory with a pattern.
pub(crate) struct Fill {
    to: DevicePtr,
    bytes: u64,
    /// The shortest equivalent pattern.
    pattern: Vec<u8>,
}

impl Fill {
    /// Captures the pattern, whose length divides that of the range.
    pub(crate) fn new(destination: Span, pattern: &[u8]) -> Fill {
        let period = period(pattern);
        let pattern = pattern[..period].to_vec();
        Fill { to: destination.address(), bytes: destination.bytes(), pattern }
    }

    /// Hands the fill to the stream if that does not block. Returns whether the stream has the
    /// fill. The context is current.
    ///
    /// # Errors
    /// Errors of the driver, after a wait for the stream.
    pub(crate) fn hand<D: Driver>(&self, queue_stream: &QueueStream<D>) -> Result<bool> {
        let (start, length) = (self.pattern.as_ptr() as u64, self.pattern.len() as u64);
        let as_it_is = || self.queue(queue_stream, start);
        let is_set = matches!(length, 1 | 2 | 4) && self.to.is_multiple_of(length);
        let handed = match length {
            _ if is_set => Some(as_it_is()),
            _ if queue_stream.device().memory.is_of_host(self.to) => None,
            _ if length <= D::CAPTURED_BYTES => Some(as_it_is()),
            _ if length <= STAGED_BYTES => {
                queue_stream.stage(start, length, |staged| self.queue(queue_stream, staged))
            }
            _ => None,
        };
        let Some(handed) = handed else { return Ok(false) };
        // The driver may have queued a part of the fill.
        let handed = self.check(queue_stream, handed);
        handed.or_else(|error| queue_stream.synchronize_stream().and(Err(error))).map(|()| true)
    }

    /// Hands the fill to the stream; blocks if the stream may not read the pattern later.
    ///
    /// # Errors
    /// Errors of the driver; a lost device.
    pub(crate) fn submit<D: Driver>(self, queue_stream: &QueueStream<D>) -> Result<()> {
        let _current = queue_stream.device().enter()?;
        if self.hand(queue_stream)? {
            return Ok(());
        }
        let queued =
            self.check(queue_stream, self.queue(queue_stream, self.pattern.as_ptr() as u64));
        queue_stream.synchronize_stream().and(queued)
    }

    fn check<D: Driver>(&self, queue_stream: &QueueStream<D>, call: Call) -> Result<()> {
        queue_stream.device().check(format_args!("filling {} bytes", self.bytes), call)
    }

    /// Calls the driver. `pattern` is the present address of the pattern.
    fn queue<D: Driver>(&self, queue_stream: &QueueStream<D>, pattern: u64) -> Call {
        let (to, bytes, stream) = (self.to, self.bytes as usize, queue_stream.stream());
        let driver = queue_stream.device().driver();
        // SAFETY: the caller that queued the fill vouches for the range; the stream is live.
        unsafe {
            match self.pattern[..] {
                [a] => driver.fill_8(to, a, bytes, stream),
                [a, b] if to.is_multiple_of(2) => {
                    driver.fill_16(to, u16::from_le_bytes([a, b]), bytes / 2, stream)
                }
                [a, b, c, d] if to.is_multiple_of(4) => {
                    driver.fill_32(to, u32::from_le_bytes([a, b, c, d]), bytes / 4, stream)
                }
                _ => self.double(queue_stream, pattern),
            }
        }
    }

    /// Copies the pattern to the start of the range, and then appends the filled part to itself
    /// until the range is full.
    fn double<D: Driver>(&self, queue_stream: &QueueStream<D>, pattern: u64) -> Call {
        let (length, stream) = (self.pattern.len(), queue_stream.stream());
        let driver = queue_stream.device().driver();
        // SAFETY: the driver captures the pattern, or the pattern is staged or waited for. The
        // caller that queued the fill vouches for the range, and both parts of each copy are
        // disjoint in it.
        unsafe {
            match queue_stream.device().memory.is_of_host(self.to) {
                true => driver.copy(self.to, pattern, length, stream)?,
                false => driver.copy_to_device(self.to, pattern as *const _, length, stream)?,
            }
            let mut filled = length as u64;
            while filled < self.bytes {
                let more = filled.min(self.bytes - filled);
                driver.copy(self.to + filled, self.to, more as usize, stream)?;
                filled += more;
            }
        }
        Ok(())
    }
}

/// Returns the length in bytes of the shortest prefix of 1, 2 or 4 bytes whose repetition is the
/// pattern; otherwise the pattern's length.
fn period(pattern: &[u8]) -> usize {
    let repeats = |length: &usize| {
        pattern.len().is_multiple_of(*length)
            && pattern.chunks(*length).all(|part| part == &pattern[..*length])
    };
    [1, 2, 4].into_iter().find(repeats).unwrap_or(pattern.len())
}

/// Hints where memory will be used. Memory that cannot move stays.
///
/// # Errors
/// Failures by which the device is lost.
pub(crate) fn prefetch<D: Driver>(
    queue_stream: &QueueStream<D>,
    range: Span,
    target: PrefetchTarget,
) -> Result<()> {
    let device = queue_stream.device();
    let current = device.enter()?;
    if !device.memory.is_managed(device.driver(), range.address()) {
        return Ok(());
    }
    let to = match target {
        PrefetchTarget::Device => Location::Device(device.ordinal()),
        PrefetchTarget::Host => Location::Host,
        // A hint that this version does not know moves nothing.
        _ => return Ok(()),
    };
    let (start, bytes, stream) = (range.address(), range.bytes() as usize, queue_stream.stream());
    // SAFETY: the range is live managed memory, the stream is live.
    let hinted = unsafe { device.driver().prefetch(start, bytes, to, stream) };
    drop(current);
    match hinted {
        Err(failure) if failure.result.is_some_and(D::is_sticky) => {
            Err(device.failed("prefetching memory", failure))
        }
        hinted => {
            if let Err(failure) = hinted {
                log::debug!("memory is not prefetched: {failure:?}");
            }
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::period;

    #[test]
    fn patterns_are_as_short_as_the_driver_takes_them() {
        assert_eq!(period(&[7; 64]), 1);
        assert_eq!(period(&[1, 2, 1, 2]), 2);
        assert_eq!(period(&[1, 2, 3, 4, 1, 2, 3, 4]), 4);
        assert_eq!(period(&[1, 2, 3]), 3);
        assert_eq!(period(&[1, 2, 3, 4, 5, 6, 7, 8]), 8);
    }
}
