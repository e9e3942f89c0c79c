//! # A stand-in for a GPU
//!
//! The common parts of the doubles of vendors' drivers. A double is a library with the functions of
//! a driver, for tests on machines without the vendor's device. The double checks its calls, fails
//! calls on request, and says in its device's name that it is a double. The device behind it is
//! this crate's binary, a process that runs kernels on the CPU.
//!
//! - [`driver`]: a driver without the vendor-specific parts, which are in each double's own crate.
//! - [`window`]: memory, at addresses on which the processes agree.
//! - `gpu.rs` and [`protocol`]: the process, and the requests to it.
//! - `submission_queue.rs`: work in order, on a thread of its own.
//! - `handles.rs`, `calls.rs`, `report.rs`, [`Settings`]: checks, counts and failures of calls.
//! - [`Double`]: the interface of a loaded double for tests.
//! - [`testing`]: tests of the doubles themselves.
//!
//! A kernel runs by its *twin*: the same source, compiled for the CPU as a relocatable object.
//! [`image_hash`] returns the name of the twin's file.

mod calls;
mod control;
pub mod driver;
mod gpu;
mod handles;
mod hash;
pub mod protocol;
mod report;
mod settings;
mod submission_queue;
pub mod testing;
pub mod window;

pub use control::Double;
pub use hash::image_hash;
pub use settings::Settings;

pub(crate) use calls::Calls;
pub(crate) use gpu::{Connection, Gpu};
pub(crate) use handles::{Handles, HasKind};
pub(crate) use report::{Report, set_call};
pub(crate) use submission_queue::{SubmissionQueue, Ticket};
pub(crate) use window::Window;
