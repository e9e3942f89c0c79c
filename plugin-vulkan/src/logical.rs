//! The logical device, and its `VkQueue`s.

use crate::error;
use crate::physical::PhysicalDevice;
use ash::ext::debug_utils;
use ash::vk;
use longshore_plugin_api::{Error, ErrorCode, Result, WorkerGuard, Workers};
use parking_lot::Mutex;
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// Most `VkQueue`s of a family in use; Longshore's queues share them.
const MOST_LANES: u32 = 8;

/// A logical device, destroyed with its last owner: every object of the device holds it.
pub(crate) struct LogicalDevice {
    pub(crate) raw: ash::Device,
    pub(crate) physical: Arc<PhysicalDevice>,
    device_queues: Vec<DeviceQueue>,
    next_device_queue: AtomicUsize,
    transfer: Option<DeviceQueue>,
    lost: OnceLock<Error>,
    /// Objects whose waits end when the device is lost.
    waiters: Mutex<Vec<Weak<dyn DeviceLossListener>>>,
    names: Option<debug_utils::Device>,
    workers: Workers,
}

/// A `VkQueue`, to which one thread at a time may submit.
pub(crate) struct DeviceQueue {
    queue: Mutex<vk::Queue>,
    pub(crate) family: u32,
}

/// An object with waits for work, which a lost device never does.
pub(crate) trait DeviceLossListener: Send + Sync {
    /// Ends all waits. Does not block.
    fn device_is_lost(&self);
}

impl LogicalDevice {
    /// Creates a logical device with every feature that kernels may use.
    ///
    /// # Errors
    /// The driver's errors.
    pub(crate) fn new(physical: &Arc<PhysicalDevice>) -> Result<Arc<LogicalDevice>> {
        let (raw, device_queues, transfer) = create(physical)?;
        let has_names = physical.instance.has_debug_utils;
        let names = has_names.then(|| debug_utils::Device::new(&physical.instance.raw, &raw));
        let device = LogicalDevice {
            raw,
            physical: Arc::clone(physical),
            device_queues,
            next_device_queue: AtomicUsize::new(0),
            transfer,
            lost: OnceLock::new(),
            waiters: Mutex::default(),
            names,
            workers: Workers::default(),
        };
        device.name(device.raw.handle(), "Longshore device");
        Ok(Arc::new(device))
    }

    /// Returns the index of the `VkQueue` for the next queue, in rotation.
    pub(crate) fn next_device_queue(&self) -> usize {
        self.next_device_queue.fetch_add(1, Ordering::Relaxed) % self.device_queues.len()
    }

    pub(crate) fn device_queue(&self, index: usize) -> &DeviceQueue {
        &self.device_queues[index]
    }

    /// Returns the device queue of staged copies.
    pub(crate) fn transfer_queue(&self) -> &DeviceQueue {
        self.transfer.as_ref().unwrap_or(&self.device_queues[0])
    }

    /// Creates a command pool for queues of a family, with its command buffers. The caller must
    /// destroy the pool.
    ///
    /// # Errors
    /// The driver's errors.
    pub(crate) fn command_buffers<const COUNT: usize>(
        &self,
        family: u32,
        flags: vk::CommandPoolCreateFlags,
    ) -> Result<(vk::CommandPool, [vk::CommandBuffer; COUNT])> {
        let doing = "making command buffers";
        let info = vk::CommandPoolCreateInfo::default().flags(flags).queue_family_index(family);
        // SAFETY: the device is live and has the family.
        let pool = self.check(doing, unsafe { self.raw.create_command_pool(&info, None) })?;
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(pool)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(COUNT as u32);
        // SAFETY: the pool is live and this function's own.
        let made = unsafe { self.raw.allocate_command_buffers(&info) };
        let made = self.check(doing, made).inspect_err(|_| {
            // SAFETY: nothing was allocated from the pool.
            unsafe { self.raw.destroy_command_pool(pool, None) };
        })?;
        Ok((pool, made.try_into().expect("Vulkan returns the requested number")))
    }

    /// Converts a result of the driver, and records the loss of the device.
    ///
    /// # Errors
    /// The driver's error; `doing` describes the operation.
    #[inline]
    pub(crate) fn check<T>(&self, doing: &str, result: ash::prelude::VkResult<T>) -> Result<T> {
        result.map_err(|result| self.failed(doing, result))
    }

    /// # Errors
    /// The error that reported the loss of the device.
    #[inline]
    pub(crate) fn refuse_if_lost(&self) -> Result<()> {
        match self.lost.get() {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    /// Returns whether the device was lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.get().is_some()
    }

    /// Names an object for debugging tools.
    pub(crate) fn name<H: vk::Handle>(&self, object: H, name: &str) {
        let Some(names) = &self.names else { return };
        let Ok(name) = CString::new(name) else { return };
        let info = vk::DebugUtilsObjectNameInfoEXT::default().object_handle(object);
        // SAFETY: the object is live. A tool's refusal of the name is harmless.
        let _ = unsafe { names.set_debug_utils_object_name(&info.object_name(&name)) };
    }

    /// Counts the calling thread as at work until the result is dropped.
    pub(crate) fn worker_guard(&self) -> WorkerGuard {
        self.workers.add()
    }

    /// Blocks until no thread counts as at work.
    pub(crate) fn await_workers(&self) {
        self.workers.await_none();
    }

    /// Blocks until the device is idle.
    pub(crate) fn wait_for_lanes(&self) {
        let held: Vec<_> = self.device_queues.iter().chain(&self.transfer).collect();
        let held: Vec<_> = held.into_iter().map(|device_queue| device_queue.queue.lock()).collect();
        // SAFETY: no thread submits, because all device queues are locked.
        let waited = unsafe { self.raw.device_wait_idle() };
        drop(held);
        if let Err(error) = self.check("waiting for the device", waited) {
            log::warn!("{error}");
        }
    }

    #[cold]
    fn failed(&self, doing: &str, result: vk::Result) -> Error {
        let error = error::driver(doing, result)
            .context(format_args!("Vulkan device '{}'", self.physical.name));
        if result == vk::Result::ERROR_DEVICE_LOST {
            let loss = Error::new(
                ErrorCode::BackendFailure,
                format!("{}; nothing works on it any more: close it", error.message()),
            );
            let loss = loss.with_vendor("VK_ERROR_DEVICE_LOST", i64::from(result.as_raw()));
            log::error!("{loss}");
            if self.lost.set(loss).is_ok() {
                self.notify_waiters();
            }
        }
        error
    }

    /// Registers an object that is notified when the device is lost.
    pub(crate) fn notify_on_loss(&self, waiter: Weak<dyn DeviceLossListener>) {
        let mut waiters = self.waiters.lock();
        waiters.retain(|waiter| waiter.strong_count() > 0);
        waiters.push(waiter);
    }

    fn notify_waiters(&self) {
        let waiters = self.waiters.lock().clone();
        waiters.iter().filter_map(Weak::upgrade).for_each(|waiter| waiter.device_is_lost());
    }
}

impl Drop for LogicalDevice {
    fn drop(&mut self) {
        // SAFETY: every object of the device held it, so no object is left; submitted work has been
        // waited for.
        unsafe { self.raw.destroy_device(None) };
    }
}

impl DeviceQueue {
    /// Submits work to the driver; blocks while another thread submits, and until the driver
    /// returns.
    ///
    /// # Safety
    /// As for `vkQueueSubmit`: the objects of the structure live until the work is done.
    pub(crate) unsafe fn submit(
        &self,
        device: &LogicalDevice,
        info: &vk::SubmitInfo<'_>,
    ) -> Result<()> {
        device.refuse_if_lost()?;
        let queue = self.queue.lock();
        // SAFETY: promised by the caller; the lock keeps other threads out.
        let submitted = unsafe {
            device.raw.queue_submit(*queue, std::slice::from_ref(info), vk::Fence::null())
        };
        drop(queue);
        device.check("submitting work", submitted)
    }
}

/// Creates the logical device, its general device queues and its device queue for copies.
fn create(
    physical: &PhysicalDevice,
) -> Result<(ash::Device, Vec<DeviceQueue>, Option<DeviceQueue>)> {
    let families = &physical.families;
    let count = families.compute_queues.clamp(1, MOST_LANES);
    let priorities = [1.0; MOST_LANES as usize];
    let queues = |family: u32, count: u32| {
        vk::DeviceQueueCreateInfo::default()
            .queue_family_index(family)
            .queue_priorities(&priorities[..count as usize])
    };
    let mut wanted = vec![queues(families.compute, count)];
    wanted.extend(families.transfer.map(|family| queues(family, 1)));
    let extensions: Vec<_> = useful(physical).iter().map(|name| name.as_ptr()).collect();
    let raw = physical.features.enabled(|features| {
        let info = vk::DeviceCreateInfo::default()
            .queue_create_infos(&wanted)
            .enabled_extension_names(&extensions)
            .push_next(features);
        // SAFETY: the physical device belongs to this instance. The structure's targets live during
        // the call, and the device has reported all requested features.
        unsafe { physical.instance.raw.create_device(physical.raw, &info, None) }
    });
    let doing = format!("opening Vulkan device '{}'", physical.name);
    let raw = raw.map_err(|result| error::driver(&doing, result))?;
    #[cfg(test)]
    let raw = crate::device::faults::instrumented(&physical.instance.raw, &raw);
    let device_queue = |family: u32, index: u32| {
        // SAFETY: the device was created with at least `index + 1` queues of the family.
        let queue = unsafe { raw.get_device_queue(family, index) };
        DeviceQueue { queue: Mutex::new(queue), family }
    };
    let device_queues = (0..count).map(|index| device_queue(families.compute, index)).collect();
    let transfer = families.transfer.map(|family| device_queue(family, 0));
    Ok((raw, device_queues, transfer))
}

/// Returns the extensions that are enabled if present.
fn useful(physical: &PhysicalDevice) -> Vec<&'static CStr> {
    let features = &physical.features;
    let wanted = [
        (ash::ext::external_memory_host::NAME, true),
        (ash::ext::memory_budget::NAME, true),
        (ash::ext::shader_atomic_float::NAME, features.has_atomic_float()),
        (ash::khr::portability_subset::NAME, true),
        (ash::khr::shader_clock::NAME, features.has_clock()),
        (ash::khr::workgroup_memory_explicit_layout::NAME, features.has_workgroup_layout()),
    ];
    let present = wanted.into_iter().filter(|(name, wanted)| *wanted && physical.has(name));
    present.map(|(name, _)| name).collect()
}
