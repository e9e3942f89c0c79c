//! Minimal services of a host for a plugin: the settings of the user. Used where a test calls a
//! plugin without the host.

use longshore::Environment;
use longshore_plugin_api::abi;
use std::ffi::c_void;

/// Returns services with the settings of `environment` for this backend, and without a log. They
/// stay valid until the end of the process, on any thread.
pub fn services_for(
    backend: impl Into<String>,
    environment: Environment,
) -> &'static abi::Services {
    let settings = Box::leak(Box::new(Settings { backend: backend.into(), environment }));
    Box::leak(Box::new(abi::Services {
        context: std::ptr::from_mut(settings).cast(),
        interface_major: abi::INTERFACE_MAJOR,
        interface_minor: abi::INTERFACE_MINOR,
        log_level,
        log,
        setting,
        table,
    }))
}

struct Settings {
    backend: String,
    environment: Environment,
}

unsafe extern "C" fn log_level(_: *mut c_void) -> u32 {
    0
}

unsafe extern "C" fn log(_: *mut c_void, _level: u32, _target: abi::Text, _message: abi::Text) {}

unsafe extern "C" fn setting(context: *mut c_void, name: abi::Text, value: abi::Sink) -> u32 {
    if name.data.is_null() {
        return 0;
    }
    // SAFETY: the plugin passes back the context, which is never freed, and a string that is
    // readable during the call.
    let (settings, name) = unsafe {
        (&*context.cast::<Settings>(), std::slice::from_raw_parts(name.data, name.bytes))
    };
    let name = String::from_utf8_lossy(name);
    let Some(found) = settings.environment.setting(&settings.backend, &name) else { return 0 };
    // SAFETY: `value` is the sink of this call.
    unsafe { (value.write)(value.context, found.as_ptr(), found.len()) };
    1
}

unsafe extern "C" fn table(_: *mut c_void, _name: abi::Text, _version: u32) -> abi::TableRef {
    abi::TableRef { table: std::ptr::null(), layout: std::ptr::null() }
}
