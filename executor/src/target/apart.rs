//! An executor that is no child of the program that has started it.
//!
//! A program may wait until it has no children left, and must not wait for an executor that stays.
//! So the started process ends at once. Its child waits for the process that serves, and reports
//! the status of that process through a pipe, since the program cannot wait for it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{BorrowedFd, FromRawFd};
use std::os::unix::process::ExitStatusExt;

use super::hygiene::close_from;
use super::waiting::{BlockedSignals, ForkSide, Role, attend, fork};

/// Forks twice, and returns in the process that serves the controller over `socket`. The started
/// process ends. The one between them ends with the serving one, whose status it writes to
/// `report`.
///
/// # Errors
/// Every error of the system.
///
/// # Safety
/// The process has one thread, and nothing else uses the two descriptors.
pub(super) unsafe fn leave_starter(report: i32, socket: i32) -> io::Result<()> {
    let held = BlockedSignals::hold();
    // SAFETY: guaranteed by the caller.
    if let ForkSide::Parent(_) = unsafe { fork(&held)? } {
        super::leave(0);
    }
    // SAFETY: as above: a forked process has one thread.
    let ForkSide::Parent(child) = (unsafe { fork(&held)? }) else { return Ok(()) };
    if let Err(error) = close_from(0, &[report, socket]) {
        super::fail(1, &format!("closing inherited descriptors: {error}"));
    }
    // SAFETY: both descriptors are open and belong to this process, as the caller guarantees.
    let (mut report, socket) =
        unsafe { (File::from_raw_fd(report), BorrowedFd::borrow_raw(socket)) };
    let status = attend(child, Role::Work, Some(socket), held);
    // Without a reader the program is gone.
    let _ = report.write_all(&status.into_raw().to_le_bytes());
    super::leave(0)
}
