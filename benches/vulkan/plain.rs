//! Vulkan without Longshore, as directly as possible. Objects stay until the process ends.

use anyhow::{Context, Result, bail};
use ash::{Entry, vk};
use std::ffi::CStr;

/// A device through `ash` alone, with one queue.
pub(crate) struct Plain {
    pub(crate) raw: ash::Device,
    pub(crate) queue: vk::Queue,
    pub(crate) pool: vk::CommandPool,
    /// Number by which the loader knows the device.
    pub(crate) index: usize,
    memory: vk::PhysicalDeviceMemoryProperties,
    /// The device's name.
    pub(crate) name: String,
    /// The driver's name and version.
    pub(crate) driver: String,
    _instance: ash::Instance,
    _entry: Entry,
}

/// The choice of a device.
pub(crate) enum Which {
    Uuid([u8; 16]),
    Index(usize),
}

/// The signal at the end of submitted work.
#[derive(Clone, Copy)]
pub(crate) enum Signal {
    Fence(vk::Fence),
    /// A timeline semaphore, whose value each submission raises.
    Timeline(vk::Semaphore),
}

/// A buffer and its mapping on the host; null for none.
pub(crate) struct Memory {
    pub(crate) buffer: vk::Buffer,
    pub(crate) mapped: *mut u8,
}

impl Plain {
    /// Loads the loader, creates an instance and opens the device.
    pub(crate) fn open(which: Which) -> Result<Plain> {
        // SAFETY: the loader's initialisers have no requirements.
        let entry = unsafe { Entry::load() }?;
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_2);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: the objects that the structure refers to live during the call.
        let instance = unsafe { entry.create_instance(&info, None) }?;
        // SAFETY: the instance is live.
        let devices = unsafe { instance.enumerate_physical_devices() }?;
        let index = match which {
            Which::Index(index) => Some(index),
            Which::Uuid(uuid) => {
                devices.iter().position(|device| uuid_of(&instance, *device) == uuid)
            }
        };
        let index = index.context("the loader has no such device")?;
        let physical = *devices.get(index).context("the loader has no such device")?;
        // SAFETY: the physical device belongs to the instance.
        let families = unsafe { instance.get_physical_device_queue_family_properties(physical) };
        let computes = |family: &vk::QueueFamilyProperties| {
            family.queue_flags.contains(vk::QueueFlags::COMPUTE)
        };
        let family = families.iter().position(computes).context("no queue computes")? as u32;
        let queues = [vk::DeviceQueueCreateInfo::default()
            .queue_family_index(family)
            .queue_priorities(&[1.0])];
        let mut features = vk::PhysicalDeviceVulkan12Features::default().timeline_semaphore(true);
        let info =
            vk::DeviceCreateInfo::default().queue_create_infos(&queues).push_next(&mut features);
        let pool = vk::CommandPoolCreateInfo::default()
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER)
            .queue_family_index(family);
        let (name, driver) = names(&instance, physical);
        // SAFETY: the physical device belongs to the instance, has the family, and by Vulkan 1.2
        // the feature; the new objects are live.
        unsafe {
            let raw = instance.create_device(physical, &info, None)?;
            Ok(Plain {
                queue: raw.get_device_queue(family, 0),
                pool: raw.create_command_pool(&pool, None)?,
                index,
                memory: instance.get_physical_device_memory_properties(physical),
                name,
                driver,
                raw,
                _instance: instance,
                _entry: entry,
            })
        }
    }

    pub(crate) fn command_buffer(&self) -> Result<vk::CommandBuffer> {
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(self.pool)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(1);
        // SAFETY: the pool is live.
        Ok(unsafe { self.raw.allocate_command_buffers(&info) }?[0])
    }

    /// Records a command buffer anew.
    pub(crate) fn record(
        &self,
        commands: vk::CommandBuffer,
        flags: vk::CommandBufferUsageFlags,
        body: impl FnOnce(),
    ) -> Result<()> {
        let info = vk::CommandBufferBeginInfo::default().flags(flags);
        // SAFETY: the command buffer belongs to the pool, which resets it, and is not in use.
        unsafe {
            self.raw.begin_command_buffer(commands, &info)?;
            body();
            Ok(self.raw.end_command_buffer(commands)?)
        }
    }

    pub(crate) fn fence(&self) -> Result<Signal> {
        let info = vk::FenceCreateInfo::default();
        // SAFETY: the device is live.
        Ok(Signal::Fence(unsafe { self.raw.create_fence(&info, None) }?))
    }

    pub(crate) fn timeline(&self) -> Result<Signal> {
        let mut kind =
            vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: the device is live and has the feature.
        Ok(Signal::Timeline(unsafe { self.raw.create_semaphore(&info, None) }?))
    }

    /// Submits a command buffer. `value` is the value of a timeline after the work.
    pub(crate) fn submit(&self, commands: vk::CommandBuffer, signal: Signal, value: u64) {
        let (commands, values) = ([commands], [value]);
        let info = vk::SubmitInfo::default().command_buffers(&commands);
        // SAFETY: the command buffer is recorded and not in use, nor is the fence or the value; one
        // thread submits.
        let submitted = unsafe {
            match signal {
                Signal::Fence(fence) => self.raw.queue_submit(self.queue, &[info], fence),
                Signal::Timeline(semaphore) => {
                    let semaphores = [semaphore];
                    let mut timeline =
                        vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&values);
                    let info = info.signal_semaphores(&semaphores).push_next(&mut timeline);
                    self.raw.queue_submit(self.queue, &[info], vk::Fence::null())
                }
            }
        };
        submitted.expect("the driver takes it");
    }

    /// Blocks until the work is done. A fence is reusable afterwards.
    pub(crate) fn wait(&self, signal: Signal, value: u64) {
        // SAFETY: fence and semaphore are live, and the fence is not in use after the wait.
        let waited = unsafe {
            match signal {
                Signal::Fence(fence) => self
                    .raw
                    .wait_for_fences(&[fence], true, u64::MAX)
                    .and_then(|()| self.raw.reset_fences(&[fence])),
                Signal::Timeline(semaphore) => {
                    let (semaphores, values) = ([semaphore], [value]);
                    let info =
                        vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
                    self.raw.wait_semaphores(&info, u64::MAX)
                }
            }
        };
        waited.expect("it ends");
    }

    /// Returns the number of a memory type with all of `flags`.
    pub(crate) fn memory_type(&self, flags: vk::MemoryPropertyFlags) -> Option<u32> {
        let types = self.memory.memory_types_as_slice();
        types.iter().position(|kind| kind.property_flags.contains(flags)).map(|at| at as u32)
    }

    /// Allocates memory of a type, with a buffer over all of it.
    pub(crate) fn memory(&self, kind: u32, bytes: u64) -> Result<Memory> {
        use vk::BufferUsageFlags as Usage;
        let usage = Usage::STORAGE_BUFFER | Usage::TRANSFER_SRC | Usage::TRANSFER_DST;
        let info = vk::BufferCreateInfo::default().size(bytes).usage(usage);
        let flags = self.memory.memory_types[kind as usize].property_flags;
        // SAFETY: the device is live and has the type; buffer and memory are live and used for
        // nothing else.
        unsafe {
            let buffer = self.raw.create_buffer(&info, None)?;
            let needed = self.raw.get_buffer_memory_requirements(buffer);
            if needed.memory_type_bits & (1 << kind) == 0 {
                bail!("memory type {kind} has no buffers");
            }
            let memory = self.allocate(kind, needed.size)?;
            self.raw.bind_buffer_memory(buffer, memory, 0)?;
            let mapped = match flags.contains(vk::MemoryPropertyFlags::HOST_VISIBLE) {
                true => {
                    let none = vk::MemoryMapFlags::empty();
                    self.raw.map_memory(memory, 0, vk::WHOLE_SIZE, none)?.cast()
                }
                false => std::ptr::null_mut(),
            };
            Ok(Memory { buffer, mapped })
        }
    }

    pub(crate) fn allocate(&self, kind: u32, bytes: u64) -> Result<vk::DeviceMemory> {
        let info = vk::MemoryAllocateInfo::default().allocation_size(bytes).memory_type_index(kind);
        // SAFETY: the device is live and has the type.
        Ok(unsafe { self.raw.allocate_memory(&info, None) }?)
    }
}

fn uuid_of(instance: &ash::Instance, physical: vk::PhysicalDevice) -> [u8; 16] {
    let mut id = vk::PhysicalDeviceIDProperties::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut id);
    // SAFETY: the physical device belongs to the instance.
    unsafe { instance.get_physical_device_properties2(physical, &mut properties) };
    id.device_uuid
}

/// Returns the device's name, and the driver's name and version.
fn names(instance: &ash::Instance, physical: vk::PhysicalDevice) -> (String, String) {
    let mut driver = vk::PhysicalDeviceDriverProperties::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut driver);
    // SAFETY: the physical device belongs to the instance.
    unsafe { instance.get_physical_device_properties2(physical, &mut properties) };
    let properties = properties.properties;
    let text = |text: Option<&CStr>| text.unwrap_or_default().to_string_lossy().into_owned();
    let device = text(properties.device_name_as_c_str().ok());
    let name = text(driver.driver_name_as_c_str().ok());
    let info = text(driver.driver_info_as_c_str().ok());
    (device, format!("{name}, {info}"))
}
