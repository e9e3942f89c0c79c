//! The host plugin reached without the host: only the boundary between.

use longshore::Environment;
use longshore_plugin_api::remote::{RemotePlatform, RemotePlugin};
use longshore_plugin_api::{Connected, Platform as _, abi};
use longshore_tests::services_for;

/// A connected platform of the plugin. The library stays loaded for good.
pub(crate) struct Crossing {
    platform: RemotePlatform,
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
            Connected::Platform(platform) => Crossing { platform },
            _ => panic!("the CPU is always there"),
        }
    }

    /// One call across and back, answered from a field.
    pub(crate) fn call(&self) -> u32 {
        self.platform.device_count()
    }
}
