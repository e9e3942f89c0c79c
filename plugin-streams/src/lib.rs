//! # Backends whose drivers have streams
//!
//! CUDA and HIP are similar drivers: both have streams, events, modules, and memory that the driver
//! allocates. This crate is the common part of their backends, which is most of their code. A
//! backend supplies its driver as a [`Driver`], and the code for its own devices and images as a
//! [`StreamBackend`]. In return it gets the types of `longshore-plugin-api`'s `Backend`. The
//! layers, from the top down; each uses only the layers below it:
//!
//! - `interface.rs` implements the traits of `longshore-plugin-api` for the types of this crate.
//! - [`StreamPlatform`]: the driver and its devices, with their [`Facts`]. [`StreamDevice`],
//!   [`StreamModule`], [`StreamKernel`], [`StreamQueue`] and [`StreamEvent`] are the other objects
//!   of a backend.
//! - `submission_queue.rs` keeps the order between the work of a stream and that of a thread of the
//!   host. Its commands (`command.rs`) are launches, copies and fills (`transfer.rs`), and records
//!   of events (`record.rs`).
//! - `queue_stream.rs`: a stream, with the staging memory for small copies from pageable memory
//!   (`staging.rs`).
//! - [`DeviceCore`] and [`ModuleCore`]: the parts of a device and of a module that all their
//!   objects share.
//! - `memory.rs`: device memory, and host memory for the device.
//! - [`RawDevice`]: a context of the driver, calls in it and their errors.
//! - [`Driver`] and [`Facts`], [`Code`]s and [`Handle`]s.
//!
//! **Choices.** Work goes straight to the driver, without an allocation or a lock that queues
//! share, unless something in the queue needs the host. Small copies from pageable memory allocate
//! once, and take a lock of the device for each 128 KiB. The driver's own host functions may not
//! call the driver, and one that waits delays the host functions of all streams. Therefore
//! functions of the program, and copies that would block the caller, run on threads that the
//! backend's queues share. Work queued after them is kept until they are done. A stream never
//! waits for the host, so queues cannot block each other.
//!
//! Start reading at [`StreamQueue`], then `submission_queue.rs`; for a new driver, at [`Driver`].

mod backend;
mod call;
mod command;
mod device;
mod device_core;
mod driver;
mod error;
mod event;
mod facts;
mod functions;
mod handle;
mod in_flight;
mod interface;
mod kernel;
mod memory;
mod module;
mod module_core;
mod platform;
mod profile;
mod queue;
mod queue_stream;
mod raw_device;
mod record;
mod rect;
mod registrations;
mod setting;
mod staging;
mod submission_queue;
mod transfer;
mod worker_pool;

pub use backend::{Image, Physical, StreamBackend};
pub use call::{Call, Code, Failure};
pub use device::StreamDevice;
pub use device_core::DeviceCore;
pub use driver::{Context, Driver, EventKind, Location, RectCopy, RectEnd};
pub use error::driver_error;
pub use event::StreamEvent;
pub use facts::{Facts, Features, Limits, lines, text};
pub use handle::{DevicePtr, Event, Function, Handle, Module, Pool, Stream};
pub use interface::Complete;
pub use kernel::StreamKernel;
pub use module::StreamModule;
pub use module_core::ModuleCore;
pub use platform::StreamPlatform;
pub use profile::{make_relative, profile_part};
pub use queue::StreamQueue;
pub use raw_device::RawDevice;
pub use registrations::Registrations;
pub use setting::SettingReader;
pub use worker_pool::BusyQueue;
