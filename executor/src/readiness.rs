//! Waiting for file descriptors.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, Timespec, poll};

/// Waits until one of the files is ready, for at most `limit`, or without end if `limit` is `None`.
/// Returns false at the end of the time, or if the system call fails.
pub(crate) fn is_ready_within(files: &mut [PollFd<'_>], limit: Option<Duration>) -> bool {
    let start = Instant::now();
    loop {
        let left = limit.map(|limit| limit.saturating_sub(start.elapsed()));
        // A time beyond the system's range counts as no limit.
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(files, left.as_ref()) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(count) => return count > 0,
            Err(_) => return false,
        }
    }
}
