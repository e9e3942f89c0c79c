//! # Backends whose drivers have streams
//!
//! CUDA and HIP are two drivers of one make: streams, events, modules, memory that is allocated by the
//! driver. This crate is what their backends have in common, which is most of them. A backend brings
//! its driver as a [`Driver`], and what its devices and images are as a [`StreamBackend`]; it gets the
//! types of `longshore-plugin-api`'s `Backend`:
//!
//! - [`StreamPlatform`]: the driver and its devices, of which [`Facts`] are known.
//! - [`StreamDevice`]: a context of the driver, and memory (`memory.rs`).
//! - [`StreamModule`]: an image that the driver has loaded, and its [`StreamKernel`]s.
//! - [`StreamQueue`]: a stream. `line.rs` keeps the order between what the stream does and what a thread
//!   of the host must do, as `step.rs` says; `transfer.rs` copies and fills, `staging.rs` has memory for
//!   small copies from pageable memory.
//! - [`StreamEvent`]: a place in a queue.
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
mod device;
mod driver;
mod error;
mod event;
mod facts;
mod functions;
mod handle;
mod in_flight;
mod kernel;
mod line;
mod memory;
mod module;
mod platform;
mod profile;
mod queue;
mod setting;
mod staging;
mod step;
mod transfer;

pub use backend::{Image, Physical, StreamBackend};
pub use call::{Call, Code, Failure};
pub use device::{DeviceCore, StreamDevice};
pub use driver::{Context, Driver, EventKind, Location};
pub use error::of_driver;
pub use event::StreamEvent;
pub use facts::{Facts, Features, Limits, lines, text};
pub use handle::{DevicePtr, Event, Function, Handle, Module, Pool, Stream};
pub use kernel::StreamKernel;
pub use line::BusyLine;
pub use memory::Registrations;
pub use module::{ModuleCore, StreamModule};
pub use platform::StreamPlatform;
pub use profile::{make_relative, profile_part};
pub use queue::StreamQueue;
pub use setting::Read;
