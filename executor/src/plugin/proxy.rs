//! The host's side: a platform of another process.

mod accepted_shapes;
mod callbacks;
mod copy;
mod device;
mod event;
mod functions;
#[cfg(test)]
mod hostile;
mod in_flight;
mod isolation;
mod last_records;
mod link;
mod module;
pub(super) mod objects;
mod platform;
mod queue;
mod scratch;
mod transfers;
mod watchdog;
mod window;

pub use callbacks::Record;
pub use isolation::{Isolation, OpenOutcome, Refusal};
pub use platform::{IsolatedPlatform, IsolatedProcess};

use longshore_plugin_api::Backend;

/// The family of types that reach a plugin in another process.
pub struct Isolated;

impl Backend for Isolated {
    type Platform = IsolatedPlatform;
    type Device = device::IsolatedDevice;
    type Module = module::IsolatedModule;
    type Kernel = module::IsolatedKernel;
    type Queue = queue::IsolatedQueue;
    type Event = event::IsolatedEvent;
}
