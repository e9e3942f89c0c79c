//! # A stand-in for a GPU
//!
//! What doubles of vendors' drivers share. A double is a library with the functions of a driver, for tests on machines
//! without the vendor's device: it checks how it is called, can be told to fail, and says in its name that it is a
//! double. The device behind it is this crate's binary, a process that runs kernels on the CPU.
//!
//! - [`driver`]: a driver, but for what one vendor has alone. A double's own crate is that.
//! - [`window`]: memory, at addresses on which the processes agree.
//! - `gpu.rs` and [`protocol`]: the process, and what it is asked.
//! - `line.rs`: work in order, on a thread of its own.
//! - `handles.rs`, `calls.rs`, `report.rs`, [`Settings`]: how calls are checked, counted and failed.
//! - [`Double`]: what a test has of a double that is loaded.
//! - [`testing`]: how the doubles themselves are tested.
//!
//! A kernel is run by its *twin*: the same source, compiled for the CPU as a relocatable object, in a file that is
//! called as [`image_hash`] says.

mod calls;
mod control;
pub mod driver;
mod gpu;
mod handles;
mod hash;
mod line;
pub mod protocol;
mod report;
mod settings;
pub mod testing;
pub mod window;

pub use control::Double;
pub use hash::image_hash;
pub use settings::Settings;

pub(crate) use calls::Calls;
pub(crate) use gpu::{Connection, Gpu};
pub(crate) use handles::{Handles, HasKind};
pub(crate) use line::{Line, Ticket};
pub(crate) use report::{Report, set_call};
pub(crate) use window::Window;
