//! Services for the CPU's backend: no settings, and a log that is discarded.

use longshore_plugin_api::{Services, abi};
use std::ffi::c_void;

static NONE: Offer = Offer(abi::Services {
    context: std::ptr::null_mut(),
    interface_major: abi::INTERFACE_MAJOR,
    interface_minor: abi::INTERFACE_MINOR,
    log_level,
    log,
    setting,
    table,
});

/// Returns services without any setting or table.
pub(super) fn none() -> Services {
    // SAFETY: a constant of the process.
    unsafe { Services::from_raw(&raw const NONE.0) }
}

struct Offer(abi::Services);

// SAFETY: the functions use nothing, so they may be called from any thread.
unsafe impl Sync for Offer {}

unsafe extern "C" fn log_level(_: *mut c_void) -> u32 {
    0
}

unsafe extern "C" fn log(_: *mut c_void, _level: u32, _target: abi::Text, _message: abi::Text) {}

unsafe extern "C" fn setting(_: *mut c_void, _name: abi::Text, _value: abi::Sink) -> u32 {
    0
}

unsafe extern "C" fn table(_: *mut c_void, _name: abi::Text, _version: u32) -> abi::TableRef {
    abi::TableRef { table: std::ptr::null(), layout: std::ptr::null() }
}
