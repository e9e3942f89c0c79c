//! # The CPU backend of Longshore
//!
//! Shows the CPU that the program runs on as a device like any other: images, queues, events,
//! memory. Everything happens in the program's own process and address space, so a device address
//! is an ordinary pointer and no driver is needed; the plugin always connects.
//!
//! The types, in the order in which a program meets them:
//!
//! - [`HostPlatform`]: one CPU, shown as one device or, for tests of programs that want several,
//!   as up to 64 (setting `DEVICES`). The facts about it are read once, by `cpu.rs`.
//! - [`HostDevice`]: allocations, pinned ranges, and the maker of the rest.
//! - [`HostModule`]: an image: an ELF shared object, opened from memory, or relocatable objects, linked
//!   in memory. `device_library.rs` says what the latter may use of the process ([`AllowedNames`]).
//! - [`HostQueue`]: commands in order. `command.rs` is the memory that queued commands and what
//!   they captured lie in, `line.rs` decides which thread runs them.
//! - [`HostEvent`]: a place in a queue (`record.rs`) that was or was not reached yet.
//!
//! Kernels are work-group kernels, made with `longshore_device.h`, or have LLVM's host form, `void kernel(void
//! **args)`: called once per launch whatever the size of the grid, each `args[i]` pointing at that argument's value,
//! which the kernel must not write to. A launch runs on the thread that waits for it where one does, else on the
//! queue's own, and on helpers that all queues share: `execute/`.
//!
//! Start reading at [`HostQueue`], then `line.rs` and `execute.rs`: that is the path of a launch.

mod command;
mod cpu;
mod crew;
mod device;
mod device_library;
#[doc(hidden)]
pub mod elf;
mod event;
mod execute;
mod fences;
mod guard;
mod kernel;
mod line;
mod memory;
mod module;
mod physical;
mod platform;
mod provided;
mod queue;
mod record;
mod spin;
mod suitability;

pub use device::HostDevice;
pub use device_library::AllowedNames;
pub use event::HostEvent;
pub use module::{HostKernel, HostModule};
pub use platform::HostPlatform;
pub use queue::HostQueue;

use longshore_plugin_api::{
    Backend, Connected, Description, Plugin, Result, Services, export_plugin,
};
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
        };
        HostPlatform::connect(&settings).map(Connected::Platform)
    }
}

export_plugin!(HostBackend);
