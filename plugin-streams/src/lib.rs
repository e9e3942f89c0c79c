//! # Backends whose drivers have streams
//!
//! CUDA and HIP are two drivers of one make: streams, events, modules, memory that is allocated by the driver. This crate
//! is the common part of their backends, which is most of them. A backend brings its driver as a [`Driver`], and the
//! particular sides of its devices and images as a [`StreamBackend`]; it gets the types of `longshore-plugin-api`'s
//! `Backend`. From the top down, each floor using only those below it:
//!
//! - `interface.rs` implements the traits of `longshore-plugin-api` for the types of this crate.
//! - [`StreamPlatform`]: the driver and its devices, whose [`Facts`] are known. [`StreamDevice`], [`StreamModule`],
//!   [`StreamKernel`], [`StreamQueue`] and [`StreamEvent`] are the rest of a backend.
//! - `line.rs` keeps the order between the work of a stream and that of a thread of the host, as steps (`step.rs`):
//!   launches, copies and fills (`transfer.rs`), and records of events (`record.rs`).
//! - `lane.rs`: a stream, with the staging memory for small copies from pageable memory (`staging.rs`).
//! - [`DeviceCore`] and [`ModuleCore`]: a device and a module, as all objects on it share it.
//! - `memory.rs`: memory of the device, and of the host for it.
//! - [`RawDevice`]: a context of the driver, calls in it and their errors.
//! - [`Driver`] and [`Facts`], [`Code`]s and [`Handle`]s.
//!
//! **Choices.** Work goes straight to the driver, with no lock that queues share and no allocation, as
//! long as nothing in the queue needs the host; small copies from pageable memory take memory once, and a
//! lock of the device for each 128 KiB. The driver's own host functions may not call the driver, and one
//! that waits holds up those of all streams; so functions of the program, and copies that would block the
//! caller, run on threads that the backend's queues share, and what is queued behind them is kept until they are done. A
//! stream never waits for the host, so queues cannot block each other.
//!
//! Start reading at [`StreamQueue`], then `line.rs`; for a new driver, at [`Driver`].

mod backend;
mod call;
mod crew;
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
mod lane;
mod line;
mod memory;
mod module;
mod module_core;
mod platform;
mod profile;
mod queue;
mod raw_device;
mod record;
mod registrations;
mod setting;
mod staging;
mod step;
mod transfer;

pub use backend::{Image, Physical, StreamBackend};
pub use call::{Call, Code, Failure};
pub use crew::BusyLine;
pub use device::StreamDevice;
pub use device_core::DeviceCore;
pub use driver::{Context, Driver, EventKind, Location};
pub use error::of_driver;
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
pub use setting::Read;
