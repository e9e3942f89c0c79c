//! # The Vulkan backend of Longshore
//!
//! Makes every Vulkan device of version 1.2 or later that has buffer device addresses and timeline
//! semaphores a Longshore device. Vulkan's loader is found at run time; without one, or without such
//! a device, the backend says so and stays out of the way.
//!
//! The types, in the order in which a program meets them:
//!
//! - [`VulkanPlatform`]: an instance and its physical devices (`instance.rs`, `physical.rs`, `features.rs`).
//! - [`VulkanDevice`]: an open device. `logical.rs` is the driver's device, on which all else stands; `memory.rs` has its
//!   allocations: buffers whose device addresses are the pointers that the rest of Longshore sees; `device_core.rs` is
//!   both with the caches, as modules and queues hold it.
//! - [`VulkanModule`]: SPIR-V or WGSL, reflected by `longshore-format-spirv`, checked by `validate.rs`, and its
//!   [`VulkanKernel`]s; `pipeline.rs` builds what runs.
//! - [`VulkanQueue`]: an order of work. `line.rs` keeps it and hands it to the driver, on the threads of `crew.rs` where
//!   nobody waits; `batch.rs` records what is handed over together, with what `arena.rs` and `descriptors.rs` keep
//!   for it; `transfer.rs` copies what the device cannot, through `staging.rs`; `timeline.rs` is how far it has come.
//! - [`VulkanEvent`]: a place in a queue.
//!
//! **Choices.** Work is recorded when it is queued, into a command buffer that is open until somebody
//! hands it to the driver: a thread that waits for the queue, or one that all queues share. So a launch
//! costs a recording, what is queued together is submitted together, and a driver that runs work
//! inside of `vkQueueSubmit`, as those on CPUs do, blocks nobody who did not ask to wait. Only work
//! whose dependencies the driver has already, or that is done, is handed over: queues that share a
//! `VkQueue` cannot block each other for good.
//!
//! Start reading at [`VulkanQueue`], then `line.rs`.

mod arena;
mod batch;
mod crew;
mod descriptors;
mod device;
mod device_core;
mod error;
mod event;
mod features;
mod globals;
mod instance;
mod kernel;
mod line;
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
mod staging;
mod timeline;
mod timestamps;
mod transfer;
mod validate;

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
