//! The core of an open device, which all handles to it share.

use super::events::{EventCore, Events};
use super::pool_totals::PoolTotals;
use crate::backend::AnyDevice;
use crate::discovery::LoadedPlugin;
use crate::host::shared::HostShared;
use crate::memory::{DeviceMemory, DeviceTracker};
use crate::program::core::ProgramCore;
use crate::queue::core::{Point, QueueCore};
use crate::rundown::{Rundown, RundownGuard};
use crate::selection::DeviceFacts;
use longshore_plugin_api::{
    CodeTarget, Device as _, DeviceInfo, Error, ErrorCode, InfoValue, Platform as _, Result,
};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A guard that keeps a device open: closing the device waits until the guard is dropped.
pub(crate) type DeviceGuard<'a> = RundownGuard<'a, Arc<AnyDevice>, 8>;

/// An open device of a plugin, with its programs, memory, queues and events.
pub(crate) struct DeviceCore {
    pub(super) id: u64,
    pub(super) facts: DeviceFacts,
    pub(crate) plugin: Arc<LoadedPlugin>,
    pub(crate) host: Arc<HostShared>,
    pub(crate) remote: Rundown<Arc<AnyDevice>, 8>,
    pub(crate) totals: Mutex<PoolTotals>,
    /// Loaded programs, in the order of their loading.
    pub(crate) programs: Mutex<Vec<Arc<ProgramCore>>>,
    pub(super) memory: DeviceMemory,
    pub(super) queues: Mutex<Vec<Arc<QueueCore>>>,
    pub(super) events: Mutex<Events>,
    /// Result of [`DeviceCore::most_group_items`].
    most_group_items: OnceLock<u32>,
    /// Result of [`DeviceCore::code_target`].
    code_target: OnceLock<Result<CodeTarget>>,
}

impl DeviceCore {
    /// Opens a device of a plugin.
    ///
    /// # Errors
    /// Errors of the driver.
    pub(super) fn open(
        host: &Arc<HostShared>,
        plugin: &Arc<LoadedPlugin>,
        facts: &DeviceFacts,
    ) -> Result<Arc<DeviceCore>> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let remote = plugin.platform().open(facts.index)?;
        let tracker = host.tracker.as_ref().map(|tracker| DeviceTracker::new(Arc::clone(tracker)));
        // A backend that checks accesses has to see each allocation, and its end.
        let is_checked = host.environment.setting(plugin.backend(), "CHECK").is_some();
        let (table, limit) = (Arc::clone(&host.table), host.cache_limit);
        let memory = DeviceMemory::new(id, table, limit, tracker, is_checked);
        let device = Arc::new(DeviceCore {
            id,
            facts: facts.clone(),
            plugin: Arc::clone(plugin),
            host: Arc::clone(host),
            remote: Rundown::new(Arc::new(remote)),
            totals: Mutex::default(),
            programs: Mutex::default(),
            memory,
            queues: Mutex::default(),
            events: Mutex::default(),
            most_group_items: OnceLock::new(),
            code_target: OnceLock::new(),
        });
        host.note_open(id, &device);
        Ok(device)
    }

    /// Returns a guard of the plugin's device. Closing the device waits until the guard is dropped.
    ///
    /// # Errors
    /// `Uninitialized` if the device was closed.
    pub(crate) fn remote(&self) -> Result<DeviceGuard<'_>> {
        self.remote.enter(0).ok_or_else(|| self.closed())
    }

    /// Returns the answer to a query about the device.
    ///
    /// # Errors
    /// `Unimplemented` if the device has no answer.
    pub(super) fn info(&self, query: DeviceInfo) -> Result<InfoValue> {
        self.plugin.platform().device_info(self.facts.index, query)
    }

    /// Returns the largest number of work-items of a group, 0 if the device has no answer. The
    /// first call queries the device, later calls do not.
    pub(crate) fn most_group_items(&self) -> u32 {
        *self.most_group_items.get_or_init(|| {
            let answer = self.info(DeviceInfo::MaxWorkGroupSize).ok();
            let most = answer.and_then(|answer| answer.as_u64()).unwrap_or(0);
            u32::try_from(most).unwrap_or(u32::MAX)
        })
    }

    /// Returns the target of the device's code. The first call queries the plugin's device, later
    /// calls do not.
    ///
    /// # Errors
    /// `Unsupported` for a device that LLVM does not compile for; errors of the plugin.
    pub(crate) fn code_target(&self, remote: &AnyDevice) -> Result<CodeTarget> {
        self.code_target.get_or_init(|| remote.code_target()).clone()
    }

    /// Returns whether the backend checks the accesses of kernels.
    pub(crate) fn checks_accesses(&self) -> bool {
        self.memory.is_checked()
    }

    /// Returns an error of work on the device, with the origins of allocations.
    pub(crate) fn explain(&self, error: Error) -> Error {
        self.memory.explain(error)
    }

    /// Returns the error for a device that is not open any more.
    #[cold]
    pub(crate) fn closed(&self) -> Error {
        Error::new(ErrorCode::Uninitialized, format!("device {} was closed", self.facts))
    }

    /// Returns a parked queue, or creates one.
    ///
    /// # Errors
    /// `Uninitialized` if the device was closed; errors of the driver.
    pub(crate) fn queue(&self) -> Result<Arc<QueueCore>> {
        let mut queues = self.queues.lock();
        if let Some(parked) = queues.iter().find(|core| core.unpark()) {
            return Ok(Arc::clone(parked));
        }
        let remote = self.remote()?;
        let queue = remote.create_queue()?;
        let core = Arc::new(QueueCore::new(queue, Arc::clone(&remote), queues.len()));
        queues.push(Arc::clone(&core));
        Ok(core)
    }

    /// Creates an event, which is destroyed before the device.
    ///
    /// # Errors
    /// `Uninitialized` if the device was closed; errors of the driver.
    pub(crate) fn event(&self, timing: bool) -> Result<Arc<EventCore>> {
        // The guard makes closing wait until the event is in the list.
        let remote = self.remote()?;
        let core = Arc::new(Rundown::new(remote.create_event(timing)?));
        self.events.lock().add(&core);
        Ok(core)
    }

    /// Returns a point behind the queued work of each busy queue.
    pub(super) fn busy_points(&self) -> Vec<Point> {
        let queues = self.queues.lock();
        let busy: Vec<_> = queues.iter().filter(|queue| !queue.is_known_idle()).cloned().collect();
        drop(queues);
        busy.iter().filter_map(QueueCore::point).collect()
    }

    /// Caches, or returns to the plugin, the freed blocks that no queued work uses any more.
    pub(super) fn collect_freed(&self) {
        if let Some(remote) = self.remote.enter(0) {
            self.memory.collect_freed(&remote);
        }
    }

    /// Returns the number of blocks kept for reuse, and their size in bytes.
    pub(crate) fn cached(&self) -> (u64, u64) {
        self.collect_freed();
        self.memory.cached()
    }

    pub(crate) fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    /// Waits for all queued work of the queues that use a program.
    ///
    /// # Errors
    /// The first error of the queues' work, after waiting for all queues.
    pub(crate) fn wait_for_users(&self, program: u64) -> Result<()> {
        let queues = self.queues.lock().clone();
        let results: Vec<_> = queues.iter().map(|queue| queue.wait_for_program(program)).collect();
        results.into_iter().collect()
    }

    /// Removes a program from the queues' records of used programs. No launch may use the program
    /// any more.
    pub(crate) fn forget_users(&self, program: u64) {
        self.queues.lock().iter().for_each(|queue| queue.forget_program(program));
    }
}
