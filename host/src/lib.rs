//! # Longshore
//!
//! A GPU offload runtime: a program opens a device, loads compiled kernels, launches them and reads
//! their results. Each backend (CUDA, AMDGPU, Vulkan, the CPU) is a separate shared library, a
//! plugin, that the runtime finds when the program starts.
//!
//! ```no_run
//! use longshore::{Grid, Host, Image};
//!
//! fn main() -> longshore::Result<()> {
//!     // Made by `longshore cc`, with code for each kind of device.
//!     let image = Image::read("saxpy.img")?;
//!     let device = Host::new()?.device_for(&image)?;
//!
//!     // SAFETY: saxpy.img contains the kernel alone, without constructors.
//!     let program = unsafe { device.load(image)? };
//!     let saxpy = program.kernel("saxpy")?;
//!
//!     let queue = device.queue()?;
//!     let x = device.buffer_of(&queue, &[1.0f32; 1024])?;
//!     let y = device.buffer_of(&queue, &[2.0f32; 1024])?;
//!     // SAFETY: the kernel takes (u64, f32, pointer, pointer) and stays within 1024 elements.
//!     unsafe { queue.launch(&saxpy, Grid::linear(8, 128), (1024u64, 2.5f32, &x, &y))? };
//!     assert_eq!(y.to_vec(&queue)?[0], 4.5);
//!     Ok(())
//! }
//! ```
//!
//! # Main types
//!
//! - [`Host`] finds plugins and devices; a [`HostBuilder`] configures it.
//! - [`DeviceEntry`] describes a device before it is opened; [`Device`] is an open device.
//! - [`Image`] is device code; a [`Program`] is an image loaded on a device, with its [`Kernel`]s
//!   and [`Global`]s.
//! - [`Queue`] runs launches, copies and fills in order; an [`Event`] is a point in that order.
//! - [`Buffer`] is typed device memory, and a [`BufferSlice`] a part of it; an [`Allocation`] is
//!   untyped memory of any kind.
//! - [`Grid`] is the shape of a launch, and a tuple of [`Argument`]s its arguments.
//! - [`Error`] has a code of LLVM's `ol_errc_t` and a message.
//!
//! All handles are `Send + Sync`, and a drop releases the object. A call with a handle whose device
//! was closed, or whose program was unloaded, returns the error `Uninitialized`.
//!
//! The guide explains [memory](guide::memory), [queues and events](guide::queues_and_events),
//! [images](guide::images) and [errors](guide::errors).
//!
//! # The choice of a backend
//!
//! By default, discrete GPUs come before integrated GPUs, and these before the CPU. The first
//! device is opened by [`Host::default_device`], the first that a selection such as `cuda:1` names
//! by [`Host::device`], and the first for which an image has code by [`Host::device_for`].
//!
//! The user restricts and orders backends by the environment variable `LONGSHORE_BACKEND`
//! (`cuda,host`), and devices by `LONGSHORE_DEVICES` (`cuda:0;!vulkan:*llvmpipe*`). A program does
//! the same by [`HostBuilder::with_backends`] and [`HostBuilder::with_devices`]; a device must pass
//! both.
//!
//! A plugin is a file `liblongshore_plugin_<backend>.so`. The runtime searches these places in
//! order, and [`Host::candidates`] has the outcome for each file:
//!
//! 1. paths that the program gives by [`HostBuilder::with_plugin`],
//! 2. files and folders in `LONGSHORE_PLUGIN_PATH`, separated by `:`,
//! 3. plugins that are part of the program, by [`HostBuilder::with_linked_plugin`] and by the
//!    feature `host`,
//! 4. the folders of the executable and of the library, each with `../lib/longshore` beside it; for
//!    a library in `lib/longshore/openmp`, `lib/longshore`,
//! 5. `/usr/local/lib/longshore` and `/usr/lib/longshore`.
//!
//! # Features
//!
//! - `bytemuck`: implements [`Element`] for each type that implements `bytemuck::NoUninit` and
//!   `bytemuck::AnyBitPattern`, hence for each `bytemuck::Pod`. Without this feature, elements are
//!   numbers, arrays of numbers, and types for which the program implements [`Element`].
//! - `host`: links the CPU backend into the program, which then needs no plugin for the CPU.
//!   [`DeviceEntry::is_linked`] is true for its devices.
//! - `svg`: draws timelines of memory.
//!
//! # Platforms
//!
//! The crate runs on Linux, on x86-64 and AArch64. It contains no code for a particular vendor and
//! links no driver.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod absence;
mod backend;
mod collective;
mod device;
mod discovery;
mod environment;
mod event;
#[cfg(any(doc, doctest))]
pub mod guide;
mod host;
mod host_function;
mod image;
mod jit;
mod launch;
mod memory;
mod polling;
mod profile;
mod program;
mod queue;
mod rundown;
mod selection;
mod services;
#[doc(hidden)]
pub mod serving;
mod sync;
#[doc(hidden)]
pub mod units;

#[doc(hidden)]
pub use collective::combine_elements;
pub use collective::{Group, Reducible};
pub use device::{CloseReport, Device, Leak};
pub use discovery::{Candidate, IsolateLimits, IsolateSandbox, Outcome, Probe, probe_main};
pub use environment::Environment;
pub use event::{Event, EventFuture};
pub use host::{DeviceEntry, Host, HostBuilder};
pub use image::{
    ContainerEntry, Format, Image, ImageKind, OffloadImage, OffloadKind, write_offload_binary,
};
#[doc(hidden)]
pub use image::{WholeFile, read_at_most};
pub use launch::{Argument, ArgumentList, Grid, PointerTo, RawArguments, Untyped};
pub use longshore_macros::{Argument, Element};
pub use memory::{
    Allocation, AllocationInfo, AllocationOwner, Buffer, BufferSlice, CallSite, CallStack,
    DevicePointer, Element, MemoryReport, MemoryUse, Region, TimelinePoint,
};
pub use profile::FunctionCounters;
pub use program::{
    Global, Kernel, KernelVariant, LoadOptions, Program, UnloadReport, source_name,
    source_signature,
};
pub use queue::{OwnedCopy, OwnedCopyFuture, Queue, Scope};
pub use selection::{BackendSelection, DeviceFacts, DeviceSelection};

/// Includes the typed functions for the kernels that a build script has compiled by
/// `longshore_build::Kernels`, under the name that the script gives.
///
/// The macro defines a type `Kernels`, so it has a module of its own for each name:
///
/// ```ignore
/// mod kernels {
///     longshore::include_kernels!("saxpy");
/// }
///
/// // SAFETY: the sources contain the kernels alone.
/// let kernels = unsafe { kernels::Kernels::load(&device)? };
/// // SAFETY: the kernel stays within 1024 elements.
/// unsafe { kernels.saxpy(&queue, Grid::linear(8, 128), 1024, 2.5, &x, &y)? };
/// ```
///
/// A call with a wrong number of arguments, a number of another type, or a buffer of other elements
/// does not compile. The documentation of `longshore-build` has more.
#[macro_export]
macro_rules! include_kernels {
    ($name:literal) => {
        include!(concat!(
            env!(
                "OUT_DIR",
                "include_kernels! expects a build script with longshore_build::Kernels"
            ),
            "/",
            $name,
            ".kernels.rs"
        ));
    };
}

/// A plugin's description of itself: backend, name, version, vendor, image formats and driver.
pub type PluginDescription = longshore_plugin_api::Description<String>;
pub use longshore_plugin_api::{
    Acceptance, ArgumentKind, ArgumentPassing, ArgumentType, CollectiveElement,
    CollectiveOperation, DeviceInfo, DeviceType, Error, ErrorCode, Extent, FpCapability, InfoType,
    InfoValue, KernelAttributes, LinkedPlugin, MemoryKind, Pitch, PlatformInfo, PoolTracker,
    PrefetchTarget, ProfileSection, ProfileSectionKind, Result, SymbolKind, VendorError,
};

/// The types that any thread may use: a compile-time check of `Send + Sync`.
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
    any_thread::<BufferSlice<'_, f32>>();
    any_thread::<EventFuture>();
    any_thread::<OwnedCopy<f32>>();
    any_thread::<OwnedCopyFuture<f32>>();
};
