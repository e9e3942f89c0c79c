//! The launches that servers wait for.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Launches under way on a device with servers. Without launches the servers' threads sleep.
#[derive(Debug, Default)]
pub(crate) struct Users {
    servers: AtomicU32,
    count: AtomicU32,
    lock: Mutex<()>,
    changed: Condvar,
}

/// A launch under way.
pub(crate) struct Serving(Arc<Users>);

impl Users {
    /// Notes a launch, until the result is dropped; `None` if there is no server.
    #[inline]
    pub(crate) fn begin(self: &Arc<Users>) -> Option<Serving> {
        if self.servers.load(Ordering::Relaxed) == 0 {
            return None;
        }
        if self.count.fetch_add(1, Ordering::AcqRel) == 0 {
            self.wake();
        }
        Some(Serving(Arc::clone(self)))
    }

    pub(super) fn add_server(&self) {
        self.servers.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn remove_server(&self) {
        self.servers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns whether a launch is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Wakes the servers' threads.
    pub(super) fn wake(&self) {
        drop(self.lock.lock());
        self.changed.notify_all();
    }

    /// Blocks until a launch is under way; returns false if `stop` is set.
    pub(super) fn wait(&self, stop: &AtomicBool) -> bool {
        let mut locked = self.lock.lock();
        while !self.is_busy() && !stop.load(Ordering::Acquire) {
            self.changed.wait(&mut locked);
        }
        !stop.load(Ordering::Acquire)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::AcqRel);
    }
}
