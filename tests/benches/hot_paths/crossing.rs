//! The host plugin reached without the host: only the boundary between.

use longshore_plugin_api::remote::{RemotePlatform, RemotePlugin};
use longshore_plugin_api::{Connected, Platform as _, abi};
use std::ffi::c_void;

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
        // SAFETY: the services are static.
        let connected = unsafe { plugin.connect(&raw const SERVICES.0) };
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

struct Static(abi::Services);

// SAFETY: constant, and its functions may be called from any thread.
unsafe impl Sync for Static {}

static SERVICES: Static = Static(abi::Services {
    context: std::ptr::null_mut(),
    interface_major: abi::INTERFACE_MAJOR,
    interface_minor: abi::INTERFACE_MINOR,
    log_level,
    log,
    setting,
    table,
});

unsafe extern "C" fn log_level(_context: *mut c_void) -> u32 {
    0
}

unsafe extern "C" fn log(_: *mut c_void, _level: u32, _target: abi::Text, _message: abi::Text) {}

unsafe extern "C" fn setting(_: *mut c_void, _name: abi::Text, _value: abi::Sink) -> u32 {
    0
}

unsafe extern "C" fn table(_: *mut c_void, _name: abi::Text, _version: u32) -> abi::TableRef {
    abi::TableRef { table: std::ptr::null(), layout: std::ptr::null() }
}
