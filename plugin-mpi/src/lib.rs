//! # The MPI backend of Longshore
//!
//! This backend makes the devices of other machines devices of the program. An MPI launcher starts
//! the program and the nodes, processes of `longshore-node`. Each node serves the devices that its
//! own plugins find. The MPI library is found at run time. Without MPI or without nodes, the
//! backend reports the reason and provides no device.
//!
//! - [`roles`]: the ranks of programs and of their nodes.
//! - [`bells`]: how processes of one machine wake each other.
//! - [`Endpoint`](endpoint::Endpoint): calls, messages and transfers between the processes.
//! - `cluster.rs`: the nodes of this program. They are the same for all hosts of the process.
//! - [`MpiPlatform`]: the devices of the nodes. The devices themselves, and their queues and
//!   events, are the proxies of isolated plugins, from `longshore-executor`.
//! - [`hello`]: a node's description of itself.
//!
//! The path of a launch starts at `IsolatedQueue` of `longshore-executor`, and goes on in
//! `endpoint/channel.rs`.

pub mod bells;
mod cluster;
pub mod collective;
pub mod endpoint;
pub mod hello;
pub mod images;
pub mod launch;
mod platform;
pub mod roles;
pub mod settings;

pub use platform::MpiPlatform;

use longshore_executor::plugin::{
    IsolatedDevice, IsolatedEvent, IsolatedKernel, IsolatedModule, IsolatedQueue,
};
use longshore_plugin_api::{Backend, Connected, Description, Plugin, Result, Services};

/// The MPI backend.
pub struct MpiBackend;

impl Backend for MpiBackend {
    type Platform = MpiPlatform;
    type Device = IsolatedDevice;
    type Module = IsolatedModule;
    type Kernel = IsolatedKernel;
    type Queue = IsolatedQueue;
    type Event = IsolatedEvent;
}

impl Plugin for MpiBackend {
    const DESCRIPTION: Description = Description::new("mpi")
        .with_name("Longshore MPI backend")
        .with_version(env!("CARGO_PKG_VERSION"))
        .with_vendor("Longshore")
        .with_image_formats(
            "elf-so,elf-o,archive,ops,ptx,cubin,fatbin,code-object,spirv,wgsl,bitcode",
        )
        .with_driver("libmpi.so");

    fn connect(services: Services) -> Result<Connected<MpiPlatform>> {
        if services.setting(settings::IS_NODE).is_some() {
            return Ok(Connected::NoDevice("this process is a node".to_owned()));
        }
        let settings = settings::Settings::read(|name| services.setting(name))?;
        MpiPlatform::connect(&settings)
    }
}
