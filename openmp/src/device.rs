//! The devices of OpenMP programs.

use crate::allocations::Allocations;
use crate::backlog::Backlog;
use crate::gpu::Gpu;
use crate::kernel::RegionKernel;
use crate::library::Loaded;
use crate::mapping::table::MappingTable;
use crate::ompt::DeviceEvents;
use crate::{ompt, settings};
use arc_swap::ArcSwap;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use longshore::{Device, DeviceEntry, Queue, Result};
use parking_lot::Mutex;
use std::sync::Arc;

/// The kernels of a device, by the host address of their regions.
pub(crate) type Kernels = HashMap<usize, Arc<RegionKernel>, FixedState>;

/// A device of OpenMP programs. Lives as long as the process. LLVM: `DeviceTy`.
pub(crate) struct OmpDevice {
    /// The device's number in OpenMP programs.
    pub(crate) number: usize,
    pub(crate) device: Device,
    /// Whether the host reads and writes the device's memory at its addresses.
    pub(crate) is_reachable: bool,
    /// Whether kernels read and write all memory of the host.
    pub(crate) shares_memory: bool,
    pub(crate) table: MappingTable,
    /// Memory that the program has allocated itself.
    pub(crate) allocations: Allocations,
    pub(crate) kernels: ArcSwap<Kernels>,
    /// Images of libraries that the device has loaded, oldest first.
    pub(crate) loaded: Mutex<Vec<Loaded>>,
    pub(crate) events: DeviceEvents,
    /// Properties of a GPU that runs images with LLVM's device runtime.
    pub(crate) gpu: Option<Gpu>,
    /// Registered libraries that the device has not loaded.
    pub(crate) backlog: Backlog,
    /// The queues of constructs.
    queues: Mutex<Vec<Arc<Queue>>>,
}

impl OmpDevice {
    /// Opens a device of the host under a number of OpenMP's. Blocks.
    ///
    /// # Errors
    /// Errors of [`DeviceEntry::open`].
    pub(crate) fn open(number: usize, entry: &DeviceEntry) -> Result<OmpDevice> {
        let device = entry.open()?;
        let threshold = settings::settings().pool_threshold;
        Ok(OmpDevice {
            number,
            is_reachable: device.supports_host_access().unwrap_or(false),
            shares_memory: device.supports_unified_memory().unwrap_or(false),
            allocations: Allocations::default(),
            table: MappingTable::new(device.clone(), threshold),
            kernels: ArcSwap::from_pointee(Kernels::default()),
            loaded: Mutex::default(),
            events: DeviceEvents::default(),
            gpu: Gpu::for_device(&device, entry.is_isolated()),
            backlog: Backlog::new(),
            queues: Mutex::default(),
            device,
        })
    }

    /// Notes that libraries were registered.
    pub(crate) fn note_registered(&self) {
        self.backlog.note();
    }

    /// Creates a queue for constructs.
    ///
    /// # Errors
    /// Errors of [`Device::queue`].
    #[cold]
    pub(crate) fn new_queue(&self) -> Result<Arc<Queue>> {
        let queue = Arc::new(self.device.queue()?);
        let mut queues = self.queues.lock();
        // The other queues belonged to threads that have ended.
        queues.retain(|queue| Arc::strong_count(queue) > 1);
        queues.push(queue.clone());
        Ok(queue)
    }

    /// Returns the queues of constructs.
    pub(crate) fn queues(&self) -> Vec<Arc<Queue>> {
        self.queues.lock().clone()
    }

    /// Reports to a tool that the device is ready, once.
    pub(crate) fn report(&self) {
        if ompt::is_active() && !self.events.is_initialized() {
            let _other_threads_wait = self.loaded.lock();
            self.events.initialize(self.number, &self.device);
        }
    }

    /// Returns the kernel of a region.
    #[inline]
    pub(crate) fn kernel(&self, region: usize) -> Option<Arc<RegionKernel>> {
        self.kernels.load().get(&region).cloned()
    }
}
