//! State that a host and its devices share.

use crate::device::core::DeviceCore;
use crate::environment::Environment;
use crate::jit::Jit;
use crate::memory::{AllocationTable, HostTracker};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// State that a host and its devices share.
pub(crate) struct HostShared {
    pub(crate) table: Arc<AllocationTable>,
    pub(crate) environment: Environment,
    pub(crate) jit: Jit,
    pub(crate) cache_limit: u64,
    pub(crate) track: bool,
    /// The tracker; present if `track` is set.
    pub(crate) tracker: Option<Arc<HostTracker>>,
    pub(crate) open_devices: Mutex<HashMap<u64, Weak<DeviceCore>>>,
    /// Length of `open_devices`, readable without the lock.
    pub(crate) open_count: AtomicUsize,
}

impl HostShared {
    pub(crate) fn note_open(&self, id: u64, device: &Arc<DeviceCore>) {
        let mut open = self.open_devices.lock();
        open.insert(id, Arc::downgrade(device));
        self.open_count.store(open.len(), Ordering::Release);
    }

    pub(crate) fn note_closed(&self, id: u64) {
        let mut open = self.open_devices.lock();
        open.remove(&id);
        self.open_count.store(open.len(), Ordering::Release);
    }
}
