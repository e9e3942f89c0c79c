//! The glue from tables to traits: the host's view of a plugin.
//!
//! [`RemotePlugin`] checks an entry and its tables once; after that every method is one indirect
//! call. [`Remote`] is the [`Backend`] with the types that make these calls.

mod calls;
mod module;
mod object;
mod platform;
mod receive;
mod request;
mod tables;

pub use module::RemoteKernel;
pub use object::{RemoteDevice, RemoteEvent, RemoteModule, RemoteQueue};
pub use platform::{RemotePlatform, RemotePlugin};
pub use tables::Incompatible;

use crate::backend::Backend;
use crate::error::{Error, ErrorCode};

/// The family of types that reach a backend through its plugin's tables.
pub struct Remote;

impl Backend for Remote {
    type Platform = RemotePlatform;
    type Device = RemoteDevice;
    type Module = RemoteModule;
    type Kernel = RemoteKernel;
    type Queue = RemoteQueue;
    type Event = RemoteEvent;
}

/// Creates the error of a call that needs an optional table.
fn lacks_table(name: &str) -> Error {
    Error::new(ErrorCode::Unsupported, format!("the plugin has no table \"longshore.{name}\""))
}
