//! The number of sent pieces, shared by the sending process and the process that has forked it.

use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// A counter in memory that a forked process shares.
pub(super) struct Progress(NonNull<AtomicU64>);

// SAFETY: the memory holds an atomic number.
unsafe impl Send for Progress {}
// SAFETY: as for `Send`.
unsafe impl Sync for Progress {}

/// A flag in the number, set while a piece is written.
pub(super) const IS_WRITING: u64 = 1 << 63;
const BYTES: usize = size_of::<AtomicU64>();

impl Progress {
    /// Creates a counter; the first piece to send has the number `next`.
    pub(super) fn new(next: u64) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: new memory at an address that the system chooses.
        let memory = unsafe { mmap_anonymous(null_mut(), BYTES, protection, MapFlags::SHARED) }?;
        let progress = Self(NonNull::new(memory.cast()).expect("nothing is mapped at null"));
        progress.number().store(next, Ordering::Release);
        Ok(progress)
    }

    /// Calls `send` with the number of the next piece. After a failure no further piece is sent.
    pub(super) fn send(&self, send: impl FnOnce(u64) -> io::Result<()>) -> io::Result<()> {
        let next = self.next().ok_or(io::ErrorKind::BrokenPipe)?;
        self.number().store(next | IS_WRITING, Ordering::Release);
        send(next)?;
        self.number().store(next + 1, Ordering::Release);
        Ok(())
    }

    /// Returns the number of the next piece, with [`IS_WRITING`] if it may have been written,
    /// wholly or in part.
    pub(super) fn reached(&self) -> u64 {
        self.number().load(Ordering::Acquire)
    }

    /// Returns the number of the next piece; `None` if the last piece was not written to its end.
    fn next(&self) -> Option<u64> {
        let number = self.number().load(Ordering::Acquire);
        (number & IS_WRITING == 0).then_some(number)
    }

    fn number(&self) -> &AtomicU64 {
        // SAFETY: mapped until this is dropped, aligned to a page, and a valid number for any
        // bytes.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and used by nothing else.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), BYTES) };
    }
}
