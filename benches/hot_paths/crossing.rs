//! The host plugin without the host: only the boundary between them.

use longshore::Environment;
use longshore_conformance::services_for;
use longshore_plugin_api::remote::{RemoteDevice, RemoteEvent, RemotePlatform, RemotePlugin};
use longshore_plugin_api::{Connected, Device as _, Event as _, Platform as _, abi};

/// An event of the plugin. The library stays loaded until the process ends.
pub(crate) struct Crossing {
    // The order of the fields matters: each is dropped before its owner.
    event: RemoteEvent,
    _device: RemoteDevice,
    _platform: RemotePlatform,
}

impl Crossing {
    pub(crate) fn new() -> Crossing {
        // SAFETY: opening our own plugin runs nothing but its loading; it is never closed.
        let plugin = unsafe {
            let library = libloading::Library::new(super::host_plugin()).expect("the plugin opens");
            let library = Box::leak(Box::new(library));
            let entry = library.get::<*const abi::Entry>(abi::ENTRY_SYMBOL).expect("the entry");
            RemotePlugin::new(*entry).expect("our own plugin fits")
        };
        // SAFETY: such services stay valid for the life of the process.
        let connected = unsafe { plugin.connect(services_for("host", Environment::empty())) };
        match connected.expect("the CPU is always there") {
            Connected::Platform(platform) => {
                let device = platform.open(0).expect("the CPU can be opened");
                let event = device.create_event(false).expect("events need no driver");
                Crossing { event, _device: device, _platform: platform }
            }
            _ => panic!("the CPU is always there"),
        }
    }

    /// Makes one call to the plugin, which only reads a field.
    pub(crate) fn call(&self) -> bool {
        self.event.is_complete().expect("an event without a record is complete")
    }
}
