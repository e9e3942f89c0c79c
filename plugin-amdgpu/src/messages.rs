//! Messages of kernels: the ring that `longshore_printf` of `include/longshore_device.h` writes to.
//! The header documents the ring's layout.

mod format;

use longshore_plugin_streams::DevicePtr;
use std::io::Write;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Size in bytes of the ring's head: its capacity and the number of used bytes.
const HEAD_BYTES: usize = 8;
/// Size in bytes of an argument in front of the texts.
const ARGUMENT_BYTES: usize = 16;

/// A ring of messages, which kernels fill.
pub(crate) struct Ring {
    address: DevicePtr,
    /// Number of bytes for records.
    capacity: u32,
    /// Position in bytes after the last printed record.
    printed: u32,
}

/// The ring's counter of used bytes, which every wait reads without a lock on the ring.
pub(crate) struct UsedBytes(AtomicPtr<AtomicU32>);

impl UsedBytes {
    /// Creates a counter without a ring, which is always 0.
    pub(crate) fn none() -> UsedBytes {
        static NOTHING: AtomicU32 = AtomicU32::new(0);
        UsedBytes((&raw const NOTHING).cast_mut().into())
    }

    /// Switches to the counter of a ring, which must live as long as this value.
    pub(crate) fn look_at(&self, ring: &Ring) {
        self.0.store((ring.address + 4) as *mut AtomicU32, Ordering::Release);
    }

    /// Returns whether no kernel has written a message that is not yet printed.
    #[inline]
    pub(crate) fn is_nothing(&self) -> bool {
        // SAFETY: the ring's memory lives until its device is closed, and all accesses to the word
        // are atomic.
        unsafe { &*self.0.load(Ordering::Acquire) }.load(Ordering::Acquire) == 0
    }
}

/// An argument of a message; the first is the format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Argument<'a> {
    /// An integer of 4 bytes.
    Word(u32),
    /// An integer of 8 bytes.
    Long(u64),
    /// A floating-point number.
    Float(f64),
    /// An address.
    Pointer(u64),
    /// A text, without the NUL at its end.
    Text(&'a [u8]),
}

impl Ring {
    /// Creates an empty ring.
    ///
    /// # Safety
    /// `address` is host memory of `bytes` bytes, aligned to 8 bytes, which lives until the ring is
    /// dropped. Only the ring and kernels use it.
    pub(crate) unsafe fn new(address: DevicePtr, bytes: usize) -> Ring {
        let capacity = (bytes - HEAD_BYTES) / 8 * 8;
        // SAFETY: promised by the caller.
        unsafe { std::ptr::write_bytes(address as *mut u8, 0, bytes) };
        let ring = Ring { address, capacity: capacity as u32, printed: 0 };
        ring.word(0).store(ring.capacity, Ordering::Relaxed);
        ring
    }

    pub(crate) fn address(&self) -> DevicePtr {
        self.address
    }

    /// Prints the complete records. Then empties the ring if all records were printed, or if the
    /// ring is full and `is_idle` returns that no kernel can be writing a record.
    pub(crate) fn print(&mut self, is_idle: impl FnOnce() -> bool) {
        let used = self.word(4).load(Ordering::Acquire);
        let text = self.take(used.min(self.capacity));
        if !text.is_empty() {
            // An error means that the reader of the output is gone.
            let mut out = std::io::stdout().lock();
            let _ = out.write_all(&text).and_then(|()| out.flush());
        }
        let is_full = used > self.capacity;
        if used > 0 && (self.printed == used || (is_full && is_idle())) {
            self.empty(used);
        }
    }

    /// Returns the text of the records up to `end`, or up to the first incomplete record.
    fn take(&mut self, end: u32) -> Vec<u8> {
        let mut text = Vec::new();
        while self.printed < end {
            let bytes = self.word(HEAD_BYTES + self.printed as usize).load(Ordering::Acquire);
            if bytes == 0 {
                break;
            }
            let record = self.record(bytes).and_then(Arguments::parse);
            match record {
                Some(arguments) => format::write(&mut text, arguments),
                None => {
                    log::warn!("a message of a kernel is malformed: its record has {bytes} bytes");
                }
            }
            // An invalid size makes the remaining records unreadable.
            self.printed = match bytes.is_multiple_of(8) && bytes <= end - self.printed {
                true => self.printed + bytes,
                false => end,
            };
        }
        text
    }

    /// Empties the ring. The caller guarantees that every record is complete, or that no kernel
    /// writes one.
    fn empty(&mut self, mut used: u32) {
        if used > self.capacity {
            log::warn!(
                "messages of kernels are lost: they have {used} bytes, the ring holds {}: increase \
                 LONGSHORE_AMDGPU_PRINTF_BYTES",
                self.capacity
            );
        }
        let filled = used.min(self.capacity) as usize;
        // SAFETY: the range lies in the ring's memory, as the caller of `new` promised. Until
        // `used` is 0, kernels claim space after the range, or find none.
        unsafe {
            std::ptr::write_bytes((self.address as *mut u8).add(HEAD_BYTES), 0, filled);
        }
        while let Err(more) =
            self.word(4).compare_exchange(used, 0, Ordering::Release, Ordering::Relaxed)
        {
            // A record that found space in between is still there; one that did not is lost.
            if more <= self.capacity {
                return;
            }
            used = more;
        }
        self.printed = 0;
    }

    /// Returns the next record, without its size.
    fn record(&self, bytes: u32) -> Option<&[u8]> {
        let at = self.printed as usize;
        let bytes = (bytes as usize).min(self.capacity as usize - at);
        let start = (self.address as *const u8).wrapping_add(HEAD_BYTES + at + 4);
        // SAFETY: the range lies within the ring; kernels do not write a complete record again.
        (bytes >= 8).then(|| unsafe { std::slice::from_raw_parts(start, bytes - 4) })
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: the word lies within the ring, at a multiple of 4 bytes, and all accesses are
        // atomic.
        unsafe { AtomicU32::from_ptr((self.address as *mut u8).add(at).cast()) }
    }
}

/// The arguments of a record.
pub(crate) struct Arguments<'a> {
    heads: &'a [u8],
    texts: &'a [u8],
}

impl<'a> Arguments<'a> {
    /// Parses the arguments of a record without its size; `None` if they do not fit into the
    /// record.
    fn parse(record: &'a [u8]) -> Option<Arguments<'a>> {
        let (count, rest) = record.split_first_chunk::<4>()?;
        let count = u32::from_le_bytes(*count) as usize;
        let (heads, texts) = rest.split_at_checked(count.checked_mul(ARGUMENT_BYTES)?)?;
        Some(Arguments { heads, texts })
    }
}

impl<'a> Iterator for Arguments<'a> {
    type Item = Argument<'a>;

    fn next(&mut self) -> Option<Argument<'a>> {
        let (head, rest) = self.heads.split_first_chunk::<ARGUMENT_BYTES>()?;
        self.heads = rest;
        let [kind, text_bytes] = [0, 4].map(|at| word(head, at));
        let value = u64::from(word(head, 8)) | u64::from(word(head, 12)) << 32;
        let (text, texts) = self.texts.split_at_checked(text_bytes as usize)?;
        self.texts = texts;
        Some(match kind {
            1 => Argument::Word(value as u32),
            2 => Argument::Long(value),
            3 => Argument::Float(f64::from_bits(value)),
            5 => Argument::Text(text.strip_suffix(&[0]).unwrap_or(text)),
            _ => Argument::Pointer(value),
        })
    }
}

fn word(bytes: &[u8; ARGUMENT_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests;
