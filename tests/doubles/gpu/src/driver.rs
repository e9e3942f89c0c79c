//! # Behaviour that all drivers share
//!
//! State, objects and work of a driver's double. A double's own crate is thin: it implements
//! [`Vendor`], lists the driver's functions with [`driver_functions!`](crate::driver_functions),
//! and becomes a library by [`export_double!`](crate::export_double).
//!
//! `entry.rs` enters and checks a call, which then is a plain function of the module for its
//! subject. [`broken`] records a violation of the contract. `object.rs` looks up handles,
//! `range.rs` looks up pointers. Each object belongs to a [`Context`](context::Context). A device
//! may have several contexts, or has one if the vendor's interface has no contexts.
//!
//! The modules depend on each other in this order:
//!
//! 1. The state of the driver and the table of its objects (`state.rs`, `object.rs`).
//! 2. Contexts and the channels of their streams.
//! 3. The blocks of memory, and the machine with all contexts and blocks.
//! 4. Ranges, streams and events.
//! 5. Memory, pools and copies.
//! 6. Creation and end of contexts.
//! 7. Modules, functions and launches.

mod blocks;
mod channel;
mod code;
pub mod context;
pub mod contexts;
pub mod device;
mod entry;
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
pub mod location;
pub mod machine;
pub mod memory;
pub mod module;
pub mod object;
pub mod occupancy;
pub mod ordered_memory;
pub mod pointer;
pub mod pool;
mod range;
pub mod rect;
mod registration;
mod state;
pub mod stream;
pub mod transfer;
pub mod twin;
mod value;
mod vendor;

pub use code::{Code, DriverResult, Named, describe};
pub use entry::{RequiredState, ReturnType, enter, take_last_error};
pub use functions::{Address, DriverFunction};
pub use machine::{Device, Limits, Machine, initialize, machine};
pub use state::{Driver, broken, driver};
pub use value::{In, Out, Text, Untyped};
pub use vendor::{LaunchRefusal, Scope, Vendor, Work};
