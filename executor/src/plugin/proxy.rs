//! The host's side: a platform that is another process's.

mod accepted;
mod callbacks;
mod copy;
mod device;
mod event;
mod functions;
#[cfg(test)]
mod hostile;
mod in_flight;
mod isolation;
mod link;
mod module;
mod platform;
mod queue;
mod scratch;
mod transfers;
mod watchdog;
mod window;
mod words;

pub use callbacks::Record;
pub use isolation::{IsolatedDescription, Isolation, Opened, Refusal};
pub use platform::{IsolatedPlatform, IsolatedProcess};

use longshore_plugin_api::{
    Backend, Connected, Description, Error, ErrorCode, Plugin, Result, Services,
};

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

/// Not a library's: it is wrapped by [`RemotePlatform::of_program`](longshore_plugin_api::remote::RemotePlatform::of_program).
impl Plugin for Isolated {
    const DESCRIPTION: Description = Description {
        backend: "isolated",
        name: "a plugin in another process",
        version: env!("CARGO_PKG_VERSION"),
        vendor: "Longshore",
        image_formats: "",
        driver: "",
        unloadable: false,
    };

    fn connect(_: Services) -> Result<Connected<IsolatedPlatform>> {
        let problem = "an isolated platform is opened by its host, not connected";
        Err(Error::new(ErrorCode::Unsupported, problem))
    }
}
