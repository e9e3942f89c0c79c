//! From tables to traits: how the host sees a plugin.
//!
//! [`RemotePlugin`] checks an entry and its tables once; after that every method is one indirect
//! call. [`Remote`] is the [`Backend`] whose types do that.

mod device;
mod module;
mod platform;
mod queue;
mod tables;

pub use device::RemoteDevice;
pub use module::{RemoteKernel, RemoteModule};
pub use platform::{RemoteDescription, RemotePlatform, RemotePlugin};
pub use queue::{RemoteEvent, RemoteQueue};
pub use tables::Incompatible;

use crate::backend::Backend;
use crate::error::{Error, ErrorCode, Result};

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

/// A handle that a successful call handed out; a plugin that hands out null is at fault.
fn handed_out<H>(what: &str, handle: *mut H) -> Result<*mut H> {
    if !handle.is_null() {
        return Ok(handle);
    }
    let message = format!("the plugin reported success but handed out no {what}");
    Err(Error::new(ErrorCode::BackendFailure, message))
}

fn lacks_table(what: &str) -> Error {
    Error::new(ErrorCode::Unsupported, format!("the plugin has no table \"longshore.{what}\""))
}
