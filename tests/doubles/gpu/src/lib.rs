//! # A stand-in for a GPU
//!
//! What doubles of vendors' drivers share. A double is a library with the functions of a driver, for tests on machines
//! without the vendor's device: it checks how it is called, can be told to fail, and says in its name that it is a
//! double. The device behind it is this crate's binary, [`Gpu`], a process that runs kernels on the CPU.
//!
//! - [`Window`]: memory, at addresses on which the processes agree.
//! - [`Gpu`] and [`protocol`]: the process, and what it is asked.
//! - [`Line`]: work in order, on a thread of its own.
//! - [`Handles`], [`Calls`], [`Report`], [`Settings`]: how calls are checked, counted and failed.
//! - [`Double`]: what a test has of a double that is loaded.
//!
//! A kernel is run by its *twin*: the same source, compiled for the CPU as a relocatable object, in a file that is
//! called as [`image_hash`] says.

mod calls;
mod control;
mod gpu;
mod handles;
mod hash;
mod line;
pub mod protocol;
mod report;
mod settings;
pub mod window;

pub use calls::Calls;
pub use control::Double;
pub use gpu::{Connection, Gpu};
pub use handles::{Handles, Object};
pub use hash::image_hash;
pub use line::{Job, Line, Ticket};
pub use report::{Report, call, set_call};
pub use settings::Settings;
pub use window::Window;
