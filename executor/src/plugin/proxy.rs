//! The host's side: a platform of another process.

mod accepted_shapes;
mod attached;
mod bulk;
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

pub use attached::Attached;
pub use callbacks::Record;
pub use device::IsolatedDevice;
pub use event::IsolatedEvent;
pub use isolation::{Isolation, OpenOutcome, Refusal};
pub use module::{IsolatedKernel, IsolatedModule};
pub use platform::{IsolatedPlatform, IsolatedProcess};
pub use queue::IsolatedQueue;

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

/// A backend whose devices, and the objects of its devices, belong to other processes.
pub trait Proxies:
    Backend<
        Device = device::IsolatedDevice,
        Module = module::IsolatedModule,
        Kernel = module::IsolatedKernel,
        Queue = queue::IsolatedQueue,
        Event = event::IsolatedEvent,
    >
{
}

impl<B> Proxies for B where
    B: Backend<
            Device = device::IsolatedDevice,
            Module = module::IsolatedModule,
            Kernel = module::IsolatedKernel,
            Queue = queue::IsolatedQueue,
            Event = event::IsolatedEvent,
        >
{
}
