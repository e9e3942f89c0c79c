//! Devices for tests: their functions fail on request, and their live objects are counted.

use super::VulkanDevice;
use ash::vk::{self, Handle};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

/// The faults of one device.
pub(crate) struct Faults {
    instance: ash::Instance,
    device: vk::Device,
    lost: AtomicBool,
    /// Locked shared by submissions to the driver, and exclusively while the device is lost.
    submitting: RwLock<()>,
    plan: Mutex<Option<Plan>>,
    calls: AtomicUsize,
    live: AtomicI64,
    destroyed: AtomicBool,
}

/// The calls that fail, and their result.
struct Plan {
    function: Option<&'static CStr>,
    /// Number of successful calls before the failure.
    after: usize,
    times: usize,
    result: vk::Result,
}

/// The faults of devices and of their queues, by their Vulkan handles.
static KNOWN: Mutex<BTreeMap<u64, Arc<Faults>>> = Mutex::new(BTreeMap::new());

/// Returns the device, with functions of this file in front of the driver's.
pub(crate) fn instrumented(instance: &ash::Instance, raw: &ash::Device) -> ash::Device {
    let device = raw.handle();
    let faults = Arc::new(Faults {
        instance: instance.clone(),
        device,
        lost: AtomicBool::new(false),
        submitting: RwLock::new(()),
        plan: Mutex::new(None),
        calls: AtomicUsize::new(0),
        live: AtomicI64::new(0),
        destroyed: AtomicBool::new(false),
    });
    KNOWN.lock().insert(device.as_raw(), Arc::clone(&faults));
    let load = |name: &CStr| {
        let real = faults.real(name);
        replaced(name).filter(|_| !real.is_null()).unwrap_or(real)
    };
    // SAFETY: each function has the type that belongs to its name.
    unsafe { ash::Device::load_with(load, device) }
}

impl Faults {
    pub(super) fn for_device(device: &VulkanDevice) -> Arc<Faults> {
        known(device.core.raw.handle().as_raw())
    }

    /// Loses the device after its submitted work is done: nothing runs on a lost device.
    pub(super) fn lose(&self) {
        let idle: vk::PFN_vkDeviceWaitIdle =
            // SAFETY: the type belongs to the name.
            unsafe { std::mem::transmute(self.real(c"vkDeviceWaitIdle")) };
        // Concurrent calls find the device lost.
        let _alone = self.submitting.write();
        // SAFETY: the device is live; drivers for the CPU lock their queues.
        let _ = unsafe { idle(self.device) };
        self.lost.store(true, Ordering::SeqCst);
    }

    /// Returns whether the device was lost.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::SeqCst)
    }

    /// Makes the next calls of a function fail.
    pub(super) fn fail(&self, function: &'static CStr, times: usize, result: vk::Result) {
        *self.plan.lock() = Some(Plan { function: Some(function), after: 0, times, result });
    }

    /// Makes one call of any function fail, after `calls` successful calls.
    pub(super) fn fail_after(&self, calls: usize, result: vk::Result) {
        *self.plan.lock() = Some(Plan { function: None, after: calls, times: 1, result });
    }

    /// Returns the number of calls of functions that can fail.
    pub(super) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// Returns the number of objects that were created and not destroyed.
    pub(super) fn live(&self) -> i64 {
        self.live.load(Ordering::SeqCst)
    }

    /// Returns whether the device was destroyed.
    pub(super) fn is_destroyed(&self) -> bool {
        self.destroyed.load(Ordering::SeqCst)
    }

    fn real(&self, name: &CStr) -> *const c_void {
        let name: *const c_char = name.as_ptr();
        // SAFETY: the device belongs to the instance.
        let found = unsafe { (self.instance.fp_v1_0().get_device_proc_addr)(self.device, name) };
        found.map_or(std::ptr::null(), |function| function as *const c_void)
    }

    /// Returns the planned failure of a call, if any.
    fn strike(&self, name: &CStr) -> Option<vk::Result> {
        const LOST: vk::Result = vk::Result::ERROR_DEVICE_LOST;
        self.calls.fetch_add(1, Ordering::SeqCst);
        let can_lose = TELL_OF_LOSS.contains(&name);
        let planned = self.planned(name).filter(|result| *result != LOST || can_lose);
        if planned == Some(LOST) {
            self.lose();
        }
        let is_lost = can_lose && self.is_lost();
        if is_lost { Some(LOST) } else { planned }
    }

    fn planned(&self, name: &CStr) -> Option<vk::Result> {
        let mut plan = self.plan.lock();
        let plan = plan.as_mut()?;
        if plan.times == 0 || plan.function.is_some_and(|function| function != name) {
            return None;
        }
        if plan.after > 0 {
            plan.after -= 1;
            return None;
        }
        plan.times -= 1;
        Some(plan.result)
    }
}

/// Functions that report the loss of a device.
const TELL_OF_LOSS: [&CStr; 5] = [
    c"vkQueueSubmit",
    c"vkWaitSemaphores",
    c"vkGetSemaphoreCounterValue",
    c"vkGetQueryPoolResults",
    c"vkDeviceWaitIdle",
];

fn known(handle: u64) -> Arc<Faults> {
    Arc::clone(&KNOWN.lock()[&handle])
}

/// Defines functions that may fail: the number of created objects, the name, the parameters.
macro_rules! fallible {
    ($($made:literal $name:literal $hook:ident $real:ident($of:ident: $handle:ty
        $(, $argument:ident: $kind:ty)*);)*) => {
        $(unsafe extern "system" fn $hook($of: $handle $(, $argument: $kind)*) -> vk::Result {
            let faults = known($of.as_raw());
            if let Some(result) = faults.strike($name) {
                return result;
            }
            let submitting = ($name == c"vkQueueSubmit").then(|| faults.submitting.read());
            if submitting.is_some() && faults.is_lost() {
                return vk::Result::ERROR_DEVICE_LOST;
            }
            // SAFETY: the type belongs to the name, and the caller keeps to the function's rules.
            let result = unsafe {
                let real: vk::$real = std::mem::transmute(faults.real($name));
                real($of $(, $argument)*)
            };
            if result == vk::Result::SUCCESS {
                faults.live.fetch_add($made, Ordering::SeqCst);
            }
            result
        })*

        fn fallible(name: &CStr) -> Option<*const c_void> {
            $(if name == $name {
                return Some($hook as vk::$real as *const c_void);
            })*
            None
        }
    };
}

/// Defines functions that destroy an object.
macro_rules! destroying {
    ($($name:literal $hook:ident $real:ident $handle:ty;)*) => {
        $(unsafe extern "system" fn $hook(
            device: vk::Device,
            object: $handle,
            callbacks: *const vk::AllocationCallbacks<'_>,
        ) {
            let faults = known(device.as_raw());
            // SAFETY: the type belongs to the name, and the caller keeps to the function's rules.
            unsafe {
                let real: vk::$real = std::mem::transmute(faults.real($name));
                real(device, object, callbacks);
            }
            faults.live.fetch_sub(i64::from(!object.is_null()), Ordering::SeqCst);
        })*

        fn destroying(name: &CStr) -> Option<*const c_void> {
            $(if name == $name {
                return Some($hook as vk::$real as *const c_void);
            })*
            None
        }
    };
}

type Callbacks<'a> = *const vk::AllocationCallbacks<'a>;

fallible! {
    1 c"vkAllocateMemory" allocate_memory PFN_vkAllocateMemory(device: vk::Device,
        info: *const vk::MemoryAllocateInfo<'_>, by: Callbacks<'_>, made: *mut vk::DeviceMemory);
    1 c"vkCreateBuffer" create_buffer PFN_vkCreateBuffer(device: vk::Device,
        info: *const vk::BufferCreateInfo<'_>, by: Callbacks<'_>, made: *mut vk::Buffer);
    0 c"vkBindBufferMemory" bind_buffer_memory PFN_vkBindBufferMemory(device: vk::Device,
        buffer: vk::Buffer, memory: vk::DeviceMemory, offset: vk::DeviceSize);
    0 c"vkMapMemory" map_memory PFN_vkMapMemory(device: vk::Device, memory: vk::DeviceMemory,
        offset: vk::DeviceSize, bytes: vk::DeviceSize, flags: vk::MemoryMapFlags,
        mapped: *mut *mut c_void);
    1 c"vkCreateSemaphore" create_semaphore PFN_vkCreateSemaphore(device: vk::Device,
        info: *const vk::SemaphoreCreateInfo<'_>, by: Callbacks<'_>, made: *mut vk::Semaphore);
    1 c"vkCreateCommandPool" create_command_pool PFN_vkCreateCommandPool(device: vk::Device,
        info: *const vk::CommandPoolCreateInfo<'_>, by: Callbacks<'_>, made: *mut vk::CommandPool);
    0 c"vkAllocateCommandBuffers" allocate_command_buffers PFN_vkAllocateCommandBuffers(
        device: vk::Device, info: *const vk::CommandBufferAllocateInfo<'_>,
        made: *mut vk::CommandBuffer);
    1 c"vkCreateDescriptorPool" create_descriptor_pool PFN_vkCreateDescriptorPool(
        device: vk::Device, info: *const vk::DescriptorPoolCreateInfo<'_>, by: Callbacks<'_>,
        made: *mut vk::DescriptorPool);
    0 c"vkAllocateDescriptorSets" allocate_descriptor_sets PFN_vkAllocateDescriptorSets(
        device: vk::Device, info: *const vk::DescriptorSetAllocateInfo<'_>,
        made: *mut vk::DescriptorSet);
    1 c"vkCreateDescriptorSetLayout" create_set_layout PFN_vkCreateDescriptorSetLayout(
        device: vk::Device, info: *const vk::DescriptorSetLayoutCreateInfo<'_>, by: Callbacks<'_>,
        made: *mut vk::DescriptorSetLayout);
    1 c"vkCreatePipelineLayout" create_pipeline_layout PFN_vkCreatePipelineLayout(
        device: vk::Device, info: *const vk::PipelineLayoutCreateInfo<'_>, by: Callbacks<'_>,
        made: *mut vk::PipelineLayout);
    1 c"vkCreateShaderModule" create_shader_module PFN_vkCreateShaderModule(device: vk::Device,
        info: *const vk::ShaderModuleCreateInfo<'_>, by: Callbacks<'_>,
        made: *mut vk::ShaderModule);
    1 c"vkCreateComputePipelines" create_compute_pipelines PFN_vkCreateComputePipelines(
        device: vk::Device, cache: vk::PipelineCache, count: u32,
        info: *const vk::ComputePipelineCreateInfo<'_>, by: Callbacks<'_>, made: *mut vk::Pipeline);
    1 c"vkCreatePipelineCache" create_pipeline_cache PFN_vkCreatePipelineCache(device: vk::Device,
        info: *const vk::PipelineCacheCreateInfo<'_>, by: Callbacks<'_>,
        made: *mut vk::PipelineCache);
    1 c"vkCreateQueryPool" create_query_pool PFN_vkCreateQueryPool(device: vk::Device,
        info: *const vk::QueryPoolCreateInfo<'_>, by: Callbacks<'_>, made: *mut vk::QueryPool);
    0 c"vkGetQueryPoolResults" get_query_pool_results PFN_vkGetQueryPoolResults(device: vk::Device,
        pool: vk::QueryPool, first: u32, count: u32, bytes: usize, data: *mut c_void,
        stride: vk::DeviceSize, flags: vk::QueryResultFlags);
    0 c"vkDeviceWaitIdle" device_wait_idle PFN_vkDeviceWaitIdle(device: vk::Device);
    0 c"vkWaitSemaphores" wait_semaphores PFN_vkWaitSemaphores(device: vk::Device,
        info: *const vk::SemaphoreWaitInfo<'_>, timeout: u64);
    0 c"vkGetSemaphoreCounterValue" get_counter PFN_vkGetSemaphoreCounterValue(device: vk::Device,
        semaphore: vk::Semaphore, value: *mut u64);
    0 c"vkSignalSemaphore" signal_semaphore PFN_vkSignalSemaphore(device: vk::Device,
        info: *const vk::SemaphoreSignalInfo<'_>);
    0 c"vkQueueSubmit" queue_submit PFN_vkQueueSubmit(queue: vk::Queue, count: u32,
        submits: *const vk::SubmitInfo<'_>, fence: vk::Fence);
}

destroying! {
    c"vkFreeMemory" free_memory PFN_vkFreeMemory vk::DeviceMemory;
    c"vkDestroyBuffer" destroy_buffer PFN_vkDestroyBuffer vk::Buffer;
    c"vkDestroySemaphore" destroy_semaphore PFN_vkDestroySemaphore vk::Semaphore;
    c"vkDestroyCommandPool" destroy_command_pool PFN_vkDestroyCommandPool vk::CommandPool;
    c"vkDestroyDescriptorPool" destroy_pool PFN_vkDestroyDescriptorPool vk::DescriptorPool;
    c"vkDestroyDescriptorSetLayout" destroy_set_layout PFN_vkDestroyDescriptorSetLayout
        vk::DescriptorSetLayout;
    c"vkDestroyPipelineLayout" destroy_layout PFN_vkDestroyPipelineLayout vk::PipelineLayout;
    c"vkDestroyShaderModule" destroy_shader_module PFN_vkDestroyShaderModule vk::ShaderModule;
    c"vkDestroyPipeline" destroy_pipeline PFN_vkDestroyPipeline vk::Pipeline;
    c"vkDestroyPipelineCache" destroy_pipeline_cache PFN_vkDestroyPipelineCache vk::PipelineCache;
    c"vkDestroyQueryPool" destroy_query_pool PFN_vkDestroyQueryPool vk::QueryPool;
}

fn replaced(name: &CStr) -> Option<*const c_void> {
    if name == c"vkGetDeviceQueue" {
        return Some(get_device_queue as vk::PFN_vkGetDeviceQueue as *const c_void);
    }
    if name == c"vkDestroyDevice" {
        return Some(destroy_device as vk::PFN_vkDestroyDevice as *const c_void);
    }
    fallible(name).or_else(|| destroying(name))
}

unsafe extern "system" fn get_device_queue(
    device: vk::Device,
    family: u32,
    index: u32,
    queue: *mut vk::Queue,
) {
    let faults = known(device.as_raw());
    // SAFETY: the type belongs to the name, and the caller keeps to the function's rules.
    let queue = unsafe {
        let real: vk::PFN_vkGetDeviceQueue = std::mem::transmute(faults.real(c"vkGetDeviceQueue"));
        real(device, family, index, queue);
        *queue
    };
    KNOWN.lock().insert(queue.as_raw(), faults);
}

unsafe extern "system" fn destroy_device(device: vk::Device, callbacks: Callbacks<'_>) {
    let faults = known(device.as_raw());
    // Removed before another device can get the handle.
    KNOWN.lock().retain(|_, other| !Arc::ptr_eq(other, &faults));
    // SAFETY: the type belongs to the name, and the caller keeps to the function's rules.
    unsafe {
        let real: vk::PFN_vkDestroyDevice = std::mem::transmute(faults.real(c"vkDestroyDevice"));
        real(device, callbacks);
    }
    faults.destroyed.store(true, Ordering::SeqCst);
}
