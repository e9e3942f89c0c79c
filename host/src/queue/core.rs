//! The plugin's queue behind a [`Queue`](super::Queue).

use crate::gated::{Gated, Pass};
use longshore_plugin_api::remote::{RemoteDevice, RemoteQueue};
use longshore_plugin_api::{Error, Queue as _, Result};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A queue of the plugin and what the host knows of it. It outlives the [`Queue`](super::Queue): a dropped one
/// is parked on its device and used again.
pub(crate) struct QueueCore {
    shard: usize,
    remote: Gated<Open>,
    parked: AtomicBool,
    last_program: AtomicU64,
    programs: Mutex<HashSet<u64>>,
    /// The error of work that the unloading of a program waited for, until the queue's own user
    /// hears of it.
    untold: Mutex<Option<Error>>,
}

/// An open queue holds its device open: the device's close takes all queues first.
pub(super) struct Open {
    pub(super) queue: RemoteQueue,
    pub(super) device: Arc<RemoteDevice>,
}

impl QueueCore {
    pub(crate) fn new(queue: RemoteQueue, device: Arc<RemoteDevice>, shard: usize) -> QueueCore {
        QueueCore {
            shard,
            remote: Gated::new(Open { queue, device }),
            parked: AtomicBool::new(false),
            last_program: AtomicU64::new(0),
            programs: Mutex::default(),
            untold: Mutex::default(),
        }
    }

    #[inline]
    pub(super) fn open(&self) -> Option<Pass<'_, Open>> {
        self.remote.enter(0)
    }

    /// By which shard of a program's gate its launches go.
    #[inline]
    pub(super) fn shard(&self) -> usize {
        self.shard
    }

    /// The error that [`QueueCore::wait_for_program`] met.
    pub(super) fn take_untold(&self) -> Result<()> {
        self.untold.lock().take().map_or(Ok(()), Err)
    }

    /// Nobody uses it any more; what is queued still runs.
    pub(super) fn park(&self) {
        self.parked.store(true, Ordering::Release);
    }

    /// Takes a parked queue into use again, if it is idle.
    pub(crate) fn unpark(&self) -> bool {
        if !self.parked.load(Ordering::Acquire) {
            return false;
        }
        let Some(open) = self.remote.enter(0) else {
            return false;
        };
        if !open.queue.is_idle().unwrap_or(false) {
            return false;
        }
        if let Err(error) = open.queue.synchronize() {
            log::error!("work of a dropped queue failed: {error}");
        }
        self.untold.lock().take();
        self.parked.store(false, Ordering::Release);
        true
    }

    /// Remembers that a program is used, before work of it is queued.
    #[inline]
    pub(super) fn note_program(&self, program: u64) {
        if self.last_program.load(Ordering::Relaxed) != program {
            self.programs.lock().insert(program);
            self.last_program.store(program, Ordering::Relaxed);
        }
    }

    /// Waits until nothing of a program is queued, which nobody queues any more.
    pub(crate) fn wait_for_program(&self, program: u64) -> Result<()> {
        if !self.programs.lock().remove(&program) {
            return Ok(());
        }
        let waited = self.remote.enter(0).map_or(Ok(()), |open| open.queue.synchronize());
        waited.inspect_err(|error| {
            self.untold.lock().get_or_insert_with(|| error.clone());
        })
    }

    /// Waits for what is queued, then gives the plugin's queue up.
    pub(crate) fn close(&self) -> Result<()> {
        let Some(open) = self.remote.take() else {
            return Ok(());
        };
        open.queue.synchronize()
    }
}
