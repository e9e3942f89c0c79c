//! The number of pieces that were sent, which the process that sends them shares with the one that has forked it.

use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Memory that a forked process shares.
pub(super) struct Progress(NonNull<AtomicU64>);

// SAFETY: it is an atomic number.
unsafe impl Send for Progress {}
// SAFETY: as above.
unsafe impl Sync for Progress {}

/// Set while a piece is being written.
pub(super) const IS_WRITING: u64 = 1 << 63;
const BYTES: usize = size_of::<AtomicU64>();

impl Progress {
    /// The first piece to send is number `next`.
    pub(super) fn new(next: u64) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: new memory at an address that the system chooses.
        let memory = unsafe { mmap_anonymous(null_mut(), BYTES, protection, MapFlags::SHARED) }?;
        let progress = Self(NonNull::new(memory.cast()).expect("nothing is mapped at null"));
        progress.number().store(next, Ordering::Release);
        Ok(progress)
    }

    /// Sends the next piece by `send`, which gets its number. A piece that fails has no successor.
    pub(super) fn send(&self, send: impl FnOnce(u64) -> io::Result<()>) -> io::Result<()> {
        let next = self.next().ok_or(io::ErrorKind::BrokenPipe)?;
        self.number().store(next | IS_WRITING, Ordering::Release);
        send(next)?;
        self.number().store(next + 1, Ordering::Release);
        Ok(())
    }

    /// The number of the next piece, with [`IS_WRITING`] where it may have been written, wholly or in part.
    pub(super) fn reached(&self) -> u64 {
        self.number().load(Ordering::Acquire)
    }

    /// The number of the next piece; `None` if the last one was not written to its end.
    fn next(&self) -> Option<u64> {
        let number = self.number().load(Ordering::Acquire);
        (number & IS_WRITING == 0).then_some(number)
    }

    fn number(&self) -> &AtomicU64 {
        // SAFETY: mapped until this is dropped, aligned to a page, and a number for any bytes.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        // SAFETY: mapped by this, and used by nothing else.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), BYTES) };
    }
}
