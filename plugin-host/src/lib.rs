//! # The CPU backend of Longshore
//!
//! This backend makes the CPU of the program a device like any other: images, queues, events,
//! memory. All work happens in the program's own process and address space. So a device address is
//! an ordinary pointer and no driver is needed; the plugin always connects.
//!
//! The types, in the order in which a program meets them:
//!
//! - [`HostPlatform`]: one CPU, shown as one device or, for tests of programs with several devices,
//!   as up to 64 devices (setting `DEVICES`). `cpu.rs` reads the facts about the CPU once.
//! - [`HostDevice`]: allocations and pinned ranges; creates modules, queues and events.
//! - [`HostModule`]: an image: an ELF shared object, opened from memory, or relocatable objects,
//!   linked in memory. `device_library.rs` decides which names of the process ([`AllowedNames`])
//!   relocatable objects may use.
//! - [`HostQueue`]: commands in order. `command.rs` holds the memory of queued commands and their
//!   captured values; `submission_queue.rs` decides which thread runs them.
//! - [`HostEvent`]: a record in a queue (`record.rs`), reached or not.
//!
//! Kernels are work-group kernels, made with `longshore_device.h`, or have LLVM's host form, `void
//! kernel(void **args)`. A kernel of the host form is called once per launch, with any size of the
//! grid. Each `args[i]` points at that argument's value, which the kernel must not change. A launch
//! runs on a thread that waits for it, else on the queue's own thread, and on helpers that all
//! queues share: `execute/`.
//!
//! The path of a launch starts at [`HostQueue`], and goes on in `submission_queue.rs` and
//! `execute.rs`.

mod check;
mod command;
mod cpu;
mod device;
mod device_library;
#[doc(hidden)]
pub mod elf;
mod event;
mod execute;
mod fences;
mod guard;
mod kernel;
mod lines;
mod link_settings;
mod memory;
mod module;
mod physical;
mod platform;
mod provided;
mod queue;
mod ranges;
mod record;
mod rect;
mod spin;
mod submission_queue;
mod suitability;
mod worker_pool;

pub use device::HostDevice;
pub use device_library::AllowedNames;
pub use event::HostEvent;
pub use link_settings::LinkSettings;
pub use module::{HostKernel, HostModule};
pub use platform::HostPlatform;
pub use queue::HostQueue;

use longshore_plugin_api::{Backend, Connected, Description, Plugin, Result, Services};
use platform::Settings;

/// The CPU backend.
pub struct HostBackend;

impl Backend for HostBackend {
    type Platform = HostPlatform;
    type Device = HostDevice;
    type Module = HostModule;
    type Kernel = HostKernel;
    type Queue = HostQueue;
    type Event = HostEvent;
}

impl Plugin for HostBackend {
    const DESCRIPTION: Description = Description::new("host")
        .with_name("Longshore CPU backend")
        .with_version(env!("CARGO_PKG_VERSION"))
        .with_vendor("Longshore")
        .with_image_formats("elf-so,elf-o,archive");

    fn connect(services: Services) -> Result<Connected<HostPlatform>> {
        let settings = Settings {
            devices: services.setting("DEVICES"),
            symbols: services.setting("SYMBOLS"),
            threads: services.setting("THREADS"),
            pin: services.setting("PIN"),
            debug: services.setting("DEBUG"),
            check: services.setting("CHECK"),
        };
        HostPlatform::connect(&settings).map(Connected::Platform)
    }
}
