//! # The plugin interface of Longshore
//!
//! The types that cross the boundary between a host program and a backend's shared library, and
//! helpers for authors of plugins.
//!
//! # A plugin in Rust
//!
//! A plugin is a `cdylib` called `liblongshore_plugin_<backend>.so`. It implements five safe
//! traits:
//!
//! - [`Platform`] counts, describes and opens the devices that a driver has.
//! - [`Device`] allocates memory, loads images, and creates queues and events.
//! - [`Module`] is a loaded image: it finds kernels and globals, and runs constructors.
//! - [`Queue`] runs launches, copies, fills and host functions in order.
//! - [`Event`] is a point in a queue.
//!
//! [`Backend`] names the types that implement them, [`Plugin`] describes the library and connects
//! to the driver, and [`export_plugin!`] exports both:
//!
//! ```
//! use longshore_plugin_api::software::{SoftwareBackend, SoftwareEvent, SoftwareQueue, Work};
//! use longshore_plugin_api::*;
//! use std::collections::HashMap;
//! use std::sync::{Arc, Mutex};
//!
//! /// The backend and its platform, its only image, and the image's only kernel.
//! struct Toy;
//!
//! /// The device: its allocations, by address.
//! #[derive(Default)]
//! struct Memory(Mutex<HashMap<u64, Vec<u8>>>);
//!
//! export_plugin!(Toy);
//!
//! impl Backend for Toy {
//!     type Platform = Toy;
//!     type Device = Memory;
//!     type Module = Toy;
//!     type Kernel = Toy;
//!     // The calls of this driver block, so the crate provides queues and events.
//!     type Queue = SoftwareQueue;
//!     type Event = SoftwareEvent;
//! }
//!
//! impl Plugin for Toy {
//!     const DESCRIPTION: Description = Description::new("toy").with_image_formats("toy");
//!
//!     fn connect(_: Services) -> Result<Connected<Toy>> {
//!         Ok(Connected::Platform(Toy))
//!     }
//! }
//!
//! impl Platform<Toy> for Toy {
//!     fn info(&self, query: PlatformInfo) -> Result<String> {
//!         Err(query.unanswered_by("the toy"))
//!     }
//!
//!     fn device_count(&self) -> u32 {
//!         1
//!     }
//!
//!     fn device_info(&self, _: u32, query: DeviceInfo) -> Result<InfoValue> {
//!         match query {
//!             DeviceInfo::Type => Ok(DeviceType::Gpu.into()),
//!             DeviceInfo::Name => Ok("A toy".into()),
//!             _ => Err(query.unanswered_by("the toy")),
//!         }
//!     }
//!
//!     fn open(&self, _: u32) -> Result<Memory> {
//!         Ok(Memory::default())
//!     }
//! }
//!
//! impl Device<Toy> for Memory {
//!     fn accepts(&self, image: &[u8]) -> Result<Acceptance> {
//!         let refused = || Acceptance::Refused("the image is not the text 'toy'".to_owned());
//!         Ok(if image == b"toy" { Acceptance::Accepted } else { refused() })
//!     }
//!
//!     fn allocate(&self, _: MemoryKind, bytes: u64, alignment: u64) -> Result<u64> {
//!         let mut memory = Vec::new();
//!         let reserved = memory.try_reserve_exact(bytes.saturating_add(alignment) as usize);
//!         reserved.map_err(|error| Error::new(ErrorCode::OutOfResources, error.to_string()))?;
//!         memory.resize(memory.capacity(), 0);
//!         let address = (memory.as_ptr() as u64).next_multiple_of(alignment);
//!         self.0.lock().unwrap().insert(address, memory);
//!         Ok(address)
//!     }
//!
//!     fn free(&self, _: MemoryKind, address: u64) -> Result<()> {
//!         let message = || format!("no allocation begins at {address:#x}");
//!         let unknown = || Error::new(ErrorCode::InvalidArgument, message());
//!         self.0.lock().unwrap().remove(&address).map(drop).ok_or_else(unknown)
//!     }
//!
//!     fn load(&self, image: ImageBytes, _: Loading) -> Result<Toy> {
//!         let Acceptance::Refused(reason) = self.accepts(image.get())? else { return Ok(Toy) };
//!         Err(Error::new(ErrorCode::InvalidBinary, reason))
//!     }
//!
//!     fn create_queue(&self) -> Result<SoftwareQueue> {
//!         SoftwareQueue::new()
//!     }
//!
//!     fn create_event(&self, timing: bool) -> Result<SoftwareEvent> {
//!         Ok(SoftwareEvent::new(0, timing))
//!     }
//! }
//!
//! impl Module<Toy> for Toy {
//!     fn kernel(&self, name: &str) -> Result<(Arc<Toy>, KernelAttributes)> {
//!         match name {
//!             "increment" => Ok((Arc::new(Toy), KernelAttributes::default())),
//!             _ => Err(Error::new(ErrorCode::NotFound, format!("unknown kernel '{name}'"))),
//!         }
//!     }
//!
//!     fn symbols(&self) -> Result<Vec<(String, SymbolKind)>> {
//!         Ok(vec![("increment".to_owned(), SymbolKind::Kernel)])
//!     }
//! }
//!
//! /// The work of the queues, which a thread of each queue runs.
//! impl SoftwareBackend for Toy {
//!     fn launch(_: &Toy, shape: &LaunchShape, arguments: Arguments<'_>) -> Result<Work> {
//!         shape.refuse_clusters()?;
//!         let counter = usize::from_ne_bytes(arguments.bytes(0)?);
//!         Ok(Box::new(move || {
//!             // SAFETY: the program that launches the kernel passes a live number.
//!             unsafe { *(counter as *mut u32) += 1 };
//!             Ok(())
//!         }))
//!     }
//!
//!     fn copy(copy: &CopyRequest<'_, Memory>) -> Result<Work> {
//!         let (to, from) = (copy.destination.address(), copy.source.address());
//!         let bytes = copy.source.bytes() as usize;
//!         Ok(Box::new(move || {
//!             // SAFETY: both spans are memory of this process, valid until the copy is done.
//!             unsafe { (to as *mut u8).copy_from(from as *const u8, bytes) };
//!             Ok(())
//!         }))
//!     }
//!
//!     fn fill(destination: Span, pattern: &[u8]) -> Result<Work> {
//!         let bytes = pattern.repeat(destination.bytes() as usize / pattern.len());
//!         Ok(Box::new(move || {
//!             let to = destination.address() as *mut u8;
//!             // SAFETY: the span is as long as `bytes`, and valid until the fill is done.
//!             unsafe { to.copy_from(bytes.as_ptr(), bytes.len()) };
//!             Ok(())
//!         }))
//!     }
//! }
//!
//! fn main() -> Result<()> {
//!     let device = Platform::open(&Toy, 0)?;
//!     assert_eq!(device.accepts(b"toy")?, Acceptance::Accepted);
//!     let address = device.allocate(MemoryKind::Device, 1000, 256)?;
//!     assert!(address.is_multiple_of(256));
//!     device.free(MemoryKind::Device, address)
//! }
//! ```
//!
//! A panic of a method becomes an error at the boundary. Records of the crate `log` go to the host,
//! and [`Services`] has the user's settings. A driver with queues of its own implements [`Queue`]
//! and [`Event`] itself, and a plugin that accesses no foreign memory contains no `unsafe`.
//! Optional methods of the traits have a default, which mostly answers `Unsupported`.
//!
//! # A plugin in C or C++
//!
//! A plugin in C or C++ includes `longshore_plugin.h`, which is generated from [`abi`].
//!
//! # The host's side
//!
//! A host reaches a plugin through [`remote`]: the same traits, implemented by calls through the
//! plugin's tables.
//!
//! The interface is a C ABI of frozen tables. Layers, from the outside in: [`abi`] (the tables and
//! values), `export` (traits to tables), [`remote`] (tables to traits). Start reading at
//! [`backend`], then [`abi::Entry`]. `docs/plugin-interface.md` numbers the promises of both sides.

#![cfg_attr(docsrs, feature(doc_cfg))]

// First, as the modules below use its macro `with_interface!`.
#[macro_use]
mod interface;

pub mod abi;
mod argument_type;
pub mod backend;
pub mod bounds;
mod collective;
mod description;
mod error;
mod export;
mod golden;
mod image;
mod info;
mod kernel_description;
mod layout;
mod linked;
pub mod profile;
mod raw;
mod rect;
pub mod remote;
mod request;
mod services;
pub mod software;
mod text;
mod worker_pool;
mod workers;

pub use argument_type::{ArgumentKind, ArgumentType};
pub use backend::{
    Acceptance, Backend, CodeTarget, Connected, Device, Event, ImageBytes, ImageEntry, Module,
    Platform, Plugin, Queue, is_bitcode,
};
pub use collective::{
    CollectiveElement, CollectiveKind, CollectiveMember, CollectiveOperation, CollectiveRequest,
    CollectiveRoot,
};
pub use description::{Description, NOTE_OWNER, NOTE_SECTION, NOTE_TYPE, Note};
pub use error::{Error, ErrorCode, Result, VendorError};
pub use golden::describe_layouts;
pub use info::{DeviceInfo, DeviceType, FpCapability, InfoType, InfoValue, PlatformInfo};
pub use kernel_description::{
    ArgumentDescription, ItemLoops, KERNEL_BODY_PREFIX, KERNEL_DESCRIPTION_PREFIX, KERNEL_NOTE,
    KernelDescription, KernelForm, KernelNote, NoteOwner, note_owner,
};
pub use linked::LinkedPlugin;
pub use rect::{Extent, Pitch, PitchedSpan, RectRequest};
pub use request::{
    ArgumentPassing, Arguments, CopyRequest, GlobalAddress, HostFunction, KernelAttributes,
    LaunchShape, Loading, MemoryKind, Place, PoolTracker, PrefetchTarget, ProfileSection,
    ProfileSectionKind, Span, SymbolKind,
};
pub use services::{Services, level as log_level, level_filter as log_level_filter};
pub use text::printable;
pub use worker_pool::{Wake, WorkerPool};
pub use workers::{WorkerGuard, Workers};

/// Code for the expansion of [`export_plugin!`]; not for direct use.
#[doc(hidden)]
pub mod macro_support {
    pub use crate::description::{AlignedNote, encode_note, note_bytes};
    pub use crate::export::entry;
}
