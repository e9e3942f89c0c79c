//! Events of devices: initialization, loaded images, finalization.

use super::callbacks::callbacks;
use longshore::Device;
use std::ffi::{CString, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The type of the CPU backend's devices in LLVM's library.
const HOST_TYPE: &str = "generic-64bit";

/// The events of a device so far.
#[derive(Debug, Default)]
pub(crate) struct DeviceEvents {
    is_initialized: AtomicBool,
    /// Number of loaded images.
    modules: AtomicU64,
}

impl DeviceEvents {
    /// Returns whether a tool knows that the device is ready, or wants no such event.
    pub(crate) fn is_initialized(&self) -> bool {
        self.is_initialized.load(Ordering::Acquire)
    }

    /// Reports that a device is ready, once.
    pub(crate) fn initialize(&self, number: usize, device: &Device) {
        let Some(tool) = callbacks() else { return };
        if self.is_initialized.swap(true, Ordering::AcqRel) {
            return;
        }
        let Some(callback) = tool.device_initialize else { return };
        let kind = match device.backend() {
            "host" => HOST_TYPE.to_owned(),
            _ => device.architecture().unwrap_or_else(|_| device.backend().to_owned()),
        };
        let kind = CString::new(kind).unwrap_or_default();
        let handle = std::ptr::from_ref(self).cast_mut().cast();
        // SAFETY: the callback has this type; the handle is opaque to tools.
        unsafe { callback(number as c_int, kind.as_ptr(), handle, tool.lookup, null()) };
    }

    /// Reports a loaded image. `image` is its address in this process.
    pub(crate) fn load(&self, number: usize, image: &[u8]) {
        let module = self.modules.fetch_add(1, Ordering::Relaxed);
        let Some(callback) = callbacks().and_then(|tool| tool.device_load) else { return };
        let (number, start) = (number as c_int, image.as_ptr().cast::<c_void>());
        // SAFETY: the callback has this type.
        unsafe { callback(number, null(), 0, null_mut(), image.len(), start, null_mut(), module) };
    }

    /// Reports that the program has no image for a device any more.
    pub(crate) fn finalize(&self, number: usize) {
        let was_initialized = self.is_initialized.swap(false, Ordering::AcqRel);
        let Some(callback) = callbacks().and_then(|tool| tool.device_finalize) else { return };
        if was_initialized {
            // SAFETY: the callback has this type.
            unsafe { callback(number as c_int) };
        }
    }
}
