//! An open device.

#[cfg(test)]
mod faults;
#[cfg(test)]
mod tests;

use crate::event::Timestamps;
use crate::memory::Memory;
use crate::physical::Physical;
use crate::pipeline_cache::{CacheFile, Identity};
use crate::timeline::Timeline;
use crate::transfer::Staging;
use crate::validate::Validator;
use crate::{VulkanBackend, VulkanEvent, VulkanKernel, VulkanModule, VulkanQueue, error, module};
use ash::ext::debug_utils;
use ash::vk;
use longshore_plugin_api::{
    Acceptance, AtWork, Device, Error, ErrorCode, ImageBytes, ImageEntry, Loading, MemoryKind,
    Result, Span, Workers,
};
use parking_lot::Mutex;
use std::ffi::{CStr, CString};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// Most `VkQueue`s of a family that are used; queues of ours share them.
const MOST_LANES: u32 = 8;

/// A Vulkan device. Opening one again makes another logical device of the same physical one.
///
/// LLVM: `ol_device_handle_t`.
pub struct VulkanDevice {
    core: Arc<DeviceCore>,
}

/// The user's settings of devices.
#[derive(Clone)]
pub(crate) struct DeviceSettings {
    /// `CACHE`: the folder of pipeline caches and verdicts.
    pub(crate) cache: Option<PathBuf>,
    /// The validator of modules, as `VALIDATOR` has it.
    pub(crate) validator: Arc<Validator>,
    /// `STAGING=always`: copies go through staging memory even where the host reaches the
    /// device's. For tests.
    pub(crate) always_stage: bool,
}

/// A logical device and what all that is on it shares. Whatever was made from it holds it.
pub(crate) struct DeviceCore {
    pub(crate) raw: ash::Device,
    pub(crate) physical: Arc<Physical>,
    pub(crate) memory: Memory,
    pub(crate) timestamps: Timestamps,
    pub(crate) cache: vk::PipelineCache,
    pub(crate) always_stage: bool,
    pub(crate) validator: Arc<Validator>,
    /// Staging memory that no copy uses now.
    pub(crate) staging: Mutex<Vec<Staging>>,
    cache_file: CacheFile,
    lanes: Vec<Lane>,
    next_lane: AtomicUsize,
    transfer: Option<Lane>,
    lost: OnceLock<Error>,
    /// The timelines that lines wait for, or did.
    awaited: Mutex<Vec<Weak<Timeline>>>,
    names: Option<debug_utils::Device>,
    workers: Workers,
}

/// A `VkQueue`: one thread at a time may submit.
pub(crate) struct Lane {
    queue: Mutex<vk::Queue>,
    pub(crate) family: u32,
}

impl VulkanDevice {
    /// Makes a logical device with every feature that kernels may use.
    pub(crate) fn open(
        physical: &Arc<Physical>,
        settings: &DeviceSettings,
    ) -> Result<VulkanDevice> {
        let (raw, lanes, transfer) = create(physical)?;
        let memory = Memory::new(physical, &raw).inspect_err(|_| {
            // SAFETY: nothing was made of it.
            unsafe { raw.destroy_device(None) };
        })?;
        let cache_file = CacheFile::new(settings.cache.as_deref(), &identity(physical));
        let cache = create_cache(physical, &raw, &cache_file);
        let has_names = physical.instance.has_debug_utils;
        let names = has_names.then(|| debug_utils::Device::new(&physical.instance.raw, &raw));
        let core = DeviceCore {
            memory,
            timestamps: Timestamps::default(),
            cache,
            always_stage: settings.always_stage,
            validator: Arc::clone(&settings.validator),
            staging: Mutex::default(),
            cache_file,
            lanes,
            next_lane: AtomicUsize::new(0),
            transfer,
            lost: OnceLock::new(),
            awaited: Mutex::default(),
            names,
            workers: Workers::default(),
            physical: Arc::clone(physical),
            raw,
        };
        core.name(core.raw.handle(), "Longshore device");
        Ok(VulkanDevice { core: Arc::new(core) })
    }

    pub(crate) fn core(&self) -> &Arc<DeviceCore> {
        &self.core
    }
}

impl Device<VulkanBackend> for VulkanDevice {
    fn accepts(&self, image: &[u8]) -> Result<Acceptance> {
        Ok(module::acceptance(&self.core, image))
    }

    /// Device memory is a buffer of its own. Host and managed memory have the address under which
    /// the host reaches them.
    fn allocate(&self, kind: MemoryKind, bytes: u64, alignment: u64) -> Result<u64> {
        self.core.refuse_if_lost()?;
        self.core.memory.allocate(&self.core, kind, bytes, alignment)
    }

    fn free(&self, kind: MemoryKind, address: u64) -> Result<()> {
        self.core.memory.free(kind, address)
    }

    fn load(&self, image: ImageBytes, _: Loading) -> Result<VulkanModule> {
        self.core.refuse_if_lost()?;
        VulkanModule::load(&self.core, image.get())
    }

    fn create_queue(&self) -> Result<VulkanQueue> {
        self.core.refuse_if_lost()?;
        VulkanQueue::new(&self.core)
    }

    /// With timing: `Unsupported` if the device's queues have no timestamps.
    fn create_event(&self, timing: bool) -> Result<VulkanEvent> {
        self.core.refuse_if_lost()?;
        VulkanEvent::new(&self.core, timing)
    }

    /// Waits for what queues that were given up still do, then writes the pipeline cache. With the
    /// setting `VALIDATION=strict`, `BackendFailure` if the validation layer said anything.
    fn close(self) -> Result<()> {
        let core = self.core;
        core.workers.await_none();
        let lost = core.refuse_if_lost();
        // SAFETY: no thread submits any more, as queues are gone and workers have ended.
        let idle = unsafe { core.raw.device_wait_idle() };
        let idle = core.check("waiting for the device", idle).and(lost);
        core.keep_cache();
        let instance = Arc::clone(&core.physical.instance);
        drop(core);
        idle.and(instance.complaint())
    }

    /// Imports the pages of the range by VK_EXT_external_memory_host. `Unsupported` without it.
    fn pin(&self, range: Span) -> Result<u64> {
        self.core.refuse_if_lost()?;
        self.core.memory.pin(&self.core, range)
    }

    fn unpin(&self, address: u64) -> Result<()> {
        self.core.memory.unpin(address)
    }

    /// Imports it by VK_EXT_external_memory_host. `Unsupported` without that.
    fn adopt(&self, kind: MemoryKind, memory: Span) -> Result<()> {
        self.core.refuse_if_lost()?;
        self.core.memory.adopt(&self.core, kind, memory)
    }

    fn set_extent(&self, address: u64, bytes: u64) -> Result<()> {
        self.core.memory.set_extent(address, bytes)
    }

    /// As many items as a group of the kernel has if its size is fixed, else 256 or what the device
    /// allows, in whole sub-groups.
    fn optimal_group_items(&self, kernel: &VulkanKernel, dynamic_shared_bytes: u64) -> Result<u32> {
        kernel.optimal_group_items(dynamic_shared_bytes)
    }

    /// SPIR-V or WGSL that [`Device::accepts`] takes, in an entry for Vulkan or for anything.
    fn rank(&self, entry: &ImageEntry<'_>) -> Result<u32> {
        const SUITABLE: u32 = 100;
        let is_known = |text: &str, known: &[&str]| {
            text.is_empty() || known.iter().any(|start| text.starts_with(start))
        };
        let for_us = is_known(entry.triple, &["spirv", "wgsl"])
            && is_known(entry.arch, &["vulkan", "spirv", "generic"]);
        let suits = for_us && module::acceptance(&self.core, entry.bytes).is_accepted();
        Ok(if suits { SUITABLE } else { 0 })
    }
}

impl DeviceCore {
    /// The `VkQueue` that the next queue uses: they take turns.
    pub(crate) fn next_lane(&self) -> usize {
        self.next_lane.fetch_add(1, Ordering::Relaxed) % self.lanes.len()
    }

    pub(crate) fn lane(&self, index: usize) -> &Lane {
        &self.lanes[index]
    }

    /// Where staged copies go.
    pub(crate) fn transfer_lane(&self) -> &Lane {
        self.transfer.as_ref().unwrap_or(&self.lanes[0])
    }

    /// A command pool for queues of a family, with its command buffers. Whoever gets the pool destroys
    /// it.
    ///
    /// # Errors
    /// Those of the driver.
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
        // SAFETY: the pool is live and ours.
        let made = unsafe { self.raw.allocate_command_buffers(&info) };
        let made = self.check(doing, made).inspect_err(|_| {
            // SAFETY: nothing was made from the pool.
            unsafe { self.raw.destroy_command_pool(pool, None) };
        })?;
        Ok((pool, made.try_into().expect("as many as were asked for")))
    }

    /// Turns a result of the driver into one of ours, and remembers if the device was lost.
    ///
    /// # Errors
    /// The driver's; `doing` is what was asked for.
    #[inline]
    pub(crate) fn check<T>(&self, doing: &str, result: ash::prelude::VkResult<T>) -> Result<T> {
        result.map_err(|result| self.failed(doing, result))
    }

    /// # Errors
    /// The error by which the device was lost.
    #[inline]
    pub(crate) fn refuse_if_lost(&self) -> Result<()> {
        match self.lost.get() {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    /// Whether the device was lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.get().is_some()
    }

    /// Names an object for debugging tools.
    pub(crate) fn name<H: vk::Handle>(&self, object: H, name: &str) {
        let Some(names) = &self.names else { return };
        let Ok(name) = CString::new(name) else { return };
        let info = vk::DebugUtilsObjectNameInfoEXT::default().object_handle(object);
        // SAFETY: the object is live. A tool that cannot take the name is no reason to stop.
        let _ = unsafe { names.set_debug_utils_object_name(&info.object_name(&name)) };
    }

    /// Counts the calling thread in until the answer is dropped.
    pub(crate) fn at_work(&self) -> AtWork {
        self.workers.add()
    }

    /// Blocks until the device does nothing any more.
    pub(crate) fn wait_for_lanes(&self) {
        let held: Vec<_> = self.lanes.iter().chain(&self.transfer).collect();
        let held: Vec<_> = held.into_iter().map(|lane| lane.queue.lock()).collect();
        // SAFETY: no thread submits, as all lanes are locked.
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
            let told = Error::new(
                ErrorCode::BackendFailure,
                format!("{}; nothing works on it any more: close it", error.message()),
            );
            let told = told.with_vendor("VK_ERROR_DEVICE_LOST", i64::from(result.as_raw()));
            log::error!("{told}");
            if self.lost.set(told).is_ok() {
                self.tell_of_loss();
            }
        }
        error
    }

    /// Has a timeline that lines wait for told when the device is lost.
    pub(crate) fn will_be_told(&self, timeline: &Arc<Timeline>) {
        let mut awaited = self.awaited.lock();
        awaited.retain(|timeline| timeline.strong_count() > 0);
        awaited.push(Arc::downgrade(timeline));
    }

    fn tell_of_loss(&self) {
        let awaited = self.awaited.lock().clone();
        awaited.iter().filter_map(Weak::upgrade).for_each(|timeline| timeline.release_all());
    }

    /// Writes the pipeline cache to its file.
    fn keep_cache(&self) {
        if self.cache == vk::PipelineCache::null() || self.is_lost() {
            return;
        }
        // SAFETY: the cache is live.
        if let Ok(data) = unsafe { self.raw.get_pipeline_cache_data(self.cache) } {
            self.cache_file.store(&data);
        }
    }
}

impl Drop for DeviceCore {
    fn drop(&mut self) {
        // SAFETY: whoever made something of the device held it, so all of that is gone; work that
        // was submitted has been waited for. The last things go before the device.
        unsafe {
            for staging in self.staging.get_mut().drain(..) {
                staging.destroy(&self.raw, &self.memory);
            }
            self.timestamps.destroy(&self.raw);
            self.memory.destroy();
            self.raw.destroy_pipeline_cache(self.cache, None);
            self.raw.destroy_device(None);
        }
    }
}

impl Lane {
    /// Hands work to the driver; blocks while another thread does, and as long as the driver does.
    ///
    /// # Safety
    /// As for `vkQueueSubmit`: what the structure names is live until the work is done.
    pub(crate) unsafe fn submit(
        &self,
        device: &DeviceCore,
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

/// The logical device, its lanes for everything and that for copies.
fn create(physical: &Physical) -> Result<(ash::Device, Vec<Lane>, Option<Lane>)> {
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
        // SAFETY: the physical device is of this instance; what the structure names lives during
        // the call, and the device has said that it has all of it.
        unsafe { physical.instance.raw.create_device(physical.raw, &info, None) }
    });
    let doing = format!("opening Vulkan device '{}'", physical.name);
    let raw = raw.map_err(|result| error::driver(&doing, result))?;
    #[cfg(test)]
    let raw = faults::instrumented(&physical.instance.raw, &raw);
    let lane = |family: u32, index: u32| {
        // SAFETY: so many queues of the family were asked for.
        let queue = unsafe { raw.get_device_queue(family, index) };
        Lane { queue: Mutex::new(queue), family }
    };
    let lanes = (0..count).map(|index| lane(families.compute, index)).collect();
    let transfer = families.transfer.map(|family| lane(family, 0));
    Ok((raw, lanes, transfer))
}

/// The pipeline cache, or none. SwiftShader gets none: its keys are a pipeline's own layout and shader,
/// so that it finds nothing again and keeps all code for as long as the cache lives.
fn create_cache(physical: &Physical, device: &ash::Device, file: &CacheFile) -> vk::PipelineCache {
    if physical.driver_name == "SwiftShader driver" {
        return vk::PipelineCache::null();
    }
    let kept = file.load();
    let info = vk::PipelineCacheCreateInfo::default().initial_data(&kept);
    // SAFETY: the device is live; the data was checked.
    unsafe { device.create_pipeline_cache(&info, None) }.unwrap_or_else(|result| {
        log::warn!("{}: no pipeline cache: VK_{result:?}", physical.name);
        vk::PipelineCache::null()
    })
}

/// The extensions that are used where they are present, or must be enabled then.
fn useful(physical: &Physical) -> Vec<&'static CStr> {
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

fn identity(physical: &Physical) -> Identity {
    Identity {
        vendor_id: physical.properties.vendor_id,
        device_id: physical.properties.device_id,
        driver_version: physical.properties.driver_version,
        pipeline_cache_uuid: physical.properties.pipeline_cache_uuid,
        driver_name: physical.driver_name.clone(),
    }
}
