//! # The Vulkan backend of Longshore
//!
//! This backend makes every Vulkan device of version 1.2 or later with buffer device addresses and
//! timeline semaphores a Longshore device. Vulkan's loader is found at run time. Without a loader
//! or a usable device, the backend reports the reason and provides no device.
//!
//! The types, in the order in which a program meets them:
//!
//! - [`VulkanPlatform`]: an instance and its physical devices (`instance.rs`, `physical.rs`,
//!   `features.rs`).
//! - [`VulkanDevice`]: an open device. `logical.rs` is the driver's device, the base of all other
//!   objects. `memory.rs` holds its allocations: buffers whose device addresses are the pointers
//!   that the rest of Longshore uses. `device_core.rs` combines both with the caches, for modules
//!   and queues.
//! - [`VulkanModule`]: SPIR-V or WGSL, reflected by `longshore-format-spirv`, checked by
//!   `validate.rs`, and its [`VulkanKernel`]s; `pipeline.rs` builds their pipelines.
//! - [`VulkanQueue`]: work in order. `submission_queue.rs` keeps the work and submits it to the
//!   driver, on threads of `worker_pool.rs` if no caller waits. `batch.rs` records the commands of
//!   one submission, with resources from `arena.rs` and `descriptors.rs`. `transfer.rs` performs
//!   copies that the device cannot, through `staging.rs`. `timeline.rs` tracks the progress.
//! - [`VulkanEvent`]: a record in a queue.
//!
//! **Choices.** A queued command is recorded at once, into an open command buffer. A thread that
//! waits for the queue, or a shared thread, submits that buffer to the driver. So a launch costs
//! one recording, and commands that are queued together are submitted together. A CPU driver, which
//! runs work inside of `vkQueueSubmit`, blocks only callers that wait. Work is submitted only if
//! its dependencies are done or already submitted, so queues that share a `VkQueue` cannot block
//! each other permanently. Once its pipeline is built, a launch takes its queue's lock and no
//! other.
//!
//! The path of a launch starts at [`VulkanQueue`] and goes on in `submission_queue.rs`.

mod arena;
mod batch;
mod descriptors;
mod device;
mod device_core;
mod error;
mod event;
mod features;
mod globals;
mod instance;
mod kernel;
mod logical;
mod memory;
mod module;
mod physical;
mod pipeline;
mod pipeline_cache;
mod place;
mod platform;
mod private_file;
mod queue;
mod rect;
mod staging;
mod submission_queue;
mod timeline;
mod timestamps;
mod transfer;
mod validate;
mod worker_pool;

pub use device::VulkanDevice;
pub use event::VulkanEvent;
pub use kernel::VulkanKernel;
pub use module::VulkanModule;
pub use platform::VulkanPlatform;
pub use queue::VulkanQueue;

use longshore_plugin_api::{
    Backend, Connected, Description, Plugin, Result, Services, export_plugin,
};

/// The Vulkan backend.
pub struct VulkanBackend;

impl Backend for VulkanBackend {
    type Platform = VulkanPlatform;
    type Device = VulkanDevice;
    type Module = VulkanModule;
    type Kernel = VulkanKernel;
    type Queue = VulkanQueue;
    type Event = VulkanEvent;
}

impl Plugin for VulkanBackend {
    const DESCRIPTION: Description = Description::new("vulkan")
        .with_name("Longshore Vulkan backend")
        .with_version(env!("CARGO_PKG_VERSION"))
        .with_vendor("Longshore")
        .with_image_formats("spirv,wgsl")
        .with_driver("libvulkan.so.1");

    fn connect(services: Services) -> Result<Connected<VulkanPlatform>> {
        VulkanPlatform::connect(&platform::Settings::read(|name| services.setting(name))?)
    }
}

export_plugin!(VulkanBackend);
