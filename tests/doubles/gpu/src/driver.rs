//! # What drivers do alike
//!
//! The state, the objects and the work of a driver's double. A double's own crate is thin: it implements [`Vendor`], lists
//! the driver's functions with [`driver_functions!`](crate::driver_functions), and makes itself a library with
//! [`export_double!`](crate::export_double).
//!
//! A call is entered and checked in `state.rs`; then it is a plain function of the module whose subject it is. A
//! contract that was broken is noted with [`broken`]. Handles are looked up in `object.rs`, pointers in `blocks.rs`. What is
//! made belongs to a [`Context`](context::Context), of which a device may have several or, where the vendor knows none,
//! one.

mod blocks;
mod code;
pub mod context;
pub mod device;
pub mod event;
#[doc(hidden)]
pub mod exports;
pub mod fill;
pub mod function;
pub mod functions;
pub mod host_memory;
pub mod image;
pub mod launch;
mod life;
mod loader;
pub mod machine;
pub mod memory;
pub mod module;
pub mod object;
pub mod occupancy;
pub mod pointer;
pub mod pool;
mod registration;
mod state;
pub mod stream;
pub mod transfer;
pub mod twin;
mod value;
mod vendor;

pub use code::{Answer, Code, Named, describe};
pub use functions::{Address, Known};
pub use machine::{Device, Limits, Machine};
pub use state::{
    Driver, Needs, Returned, broken, driver, enter, initialize, machine, take_last_error,
};
pub use value::{In, Out, Text, Untyped};
pub use vendor::{Misfit, Scope, Vendor, Work};
