//! # Longshore
//!
//! A GPU offload runtime whose backends (CUDA, AMDGPU, Vulkan, the CPU itself) are shared-library
//! plugins, found at run time. A program asks for a device, hands over a device image, launches
//! kernels and gets its results:
//!
//! ```no_run
//! # fn main() -> longshore::Result<()> {
//! let host = longshore::Host::new()?;
//! let image = longshore::Image::read("saxpy.so")?;
//! let device = host.device_for(&image)?;
//! // SAFETY: saxpy.so was made for this program, and its constructors are as sound as the program.
//! let program = unsafe { device.load(image)? };
//! let saxpy = program.kernel("saxpy")?;
//! let queue = device.queue()?;
//! let x = device.buffer_of(&queue, &[1.0f32; 1024])?;
//! let y = device.buffer_of(&queue, &[2.0f32; 1024])?;
//! // SAFETY: the kernel takes (u64, f32, pointer, pointer) and stays within 1024 elements.
//! unsafe { queue.launch(&saxpy, longshore::Grid::linear(8, 128), (1024u64, 2.5f32, &x, &y))? };
//! assert_eq!(y.to_vec(&queue)?[0], 4.5);
//! # Ok(()) }
//! ```
//!
//! The types that matter: [`Host`] finds plugins and devices; [`Device`] is an open one; a
//! [`Program`] is an image loaded on it, a [`Kernel`] a function of that; work goes through a
//! [`Queue`], memory is a [`Buffer`]. All handles are `Send + Sync`. Dropping a handle releases
//! what it stands for; using one whose device was closed or whose program was unloaded is the
//! error `Uninitialized`.
//!
//! The feature `bytemuck` makes an [`Element`] of each type that implements `bytemuck::NoUninit` and
//! `bytemuck::AnyBitPattern`, so of each `bytemuck::Pod`. Without the feature, numbers and arrays of
//! them are elements, and types for which a program implements [`Element`]. The feature `svg` draws
//! timelines of memory.
//!
//! Which backend is used is the user's choice, by `LONGSHORE_BACKEND` and `LONGSHORE_DEVICES`.
//! The crate knows no vendor. Start reading at [`host`](Host), then follow `program::life`, which
//! holds the order in which an image lives and dies.

mod absence;
mod backend;
mod device;
mod discovery;
mod environment;
mod event;
mod host;
mod host_function;
mod image;
mod launch;
mod memory;
mod polling;
mod profile;
mod program;
mod queue;
mod rundown;
mod selection;
mod services;
mod sync;
#[doc(hidden)]
pub mod units;

pub use device::{CloseReport, Device, Leak};
pub use discovery::{Candidate, IsolateLimits, IsolateSandbox, Outcome, Probe, probe_main};
pub use environment::Environment;
pub use event::Event;
pub use host::{DeviceEntry, Host, HostBuilder};
pub use image::{
    ContainerEntry, Format, Image, ImageKind, OffloadImage, OffloadKind, write_offload_binary,
};
#[doc(hidden)]
pub use image::{WholeFile, read_at_most};
pub use launch::{Argument, ArgumentList, Grid, RawArguments, Untyped};
pub use memory::{
    Allocation, AllocationInfo, AllocationOwner, Buffer, CallSite, CallStack, DevicePointer,
    Element, MemoryReport, MemoryUse, TimelinePoint,
};
pub use profile::FunctionCounters;
pub use program::{Global, Kernel, LoadOptions, Program, UnloadReport};
pub use queue::Queue;
pub use selection::{BackendSelection, DeviceFacts, DeviceSelection};

/// What a plugin says of itself.
pub type PluginDescription = longshore_plugin_api::Description<String>;
pub use longshore_plugin_api::{
    Acceptance, ArgumentKind, ArgumentType, DeviceInfo, DeviceType, Error, ErrorCode, FpCapability,
    InfoType, InfoValue, KernelAttributes, MemoryKind, PlatformInfo, PoolTracker, PrefetchTarget,
    ProfileSection, ProfileSectionKind, Result, SymbolKind, VendorError,
};

/// What any thread may use.
const _: () = {
    const fn any_thread<T: Send + Sync>() {}
    any_thread::<Host>();
    any_thread::<Device>();
    any_thread::<Program>();
    any_thread::<Kernel>();
    any_thread::<Global>();
    any_thread::<Queue>();
    any_thread::<Event>();
    any_thread::<Allocation>();
    any_thread::<Buffer<f32>>();
};

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
