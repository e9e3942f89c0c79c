//! Waiting for descriptors.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, Timespec, poll};

/// Waits until one of the files is ready, for this time at most: without one, until then. `false` after that time, or if the system
/// fails to wait.
pub(crate) fn is_ready_within(files: &mut [PollFd<'_>], limit: Option<Duration>) -> bool {
    let start = Instant::now();
    loop {
        let left = limit.map(|limit| limit.saturating_sub(start.elapsed()));
        // A time that is too long for the system is as good as none.
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(files, left.as_ref()) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(count) => return count > 0,
            Err(_) => return false,
        }
    }
}
