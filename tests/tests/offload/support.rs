//! The C API, with results that are looked at.

use longshore_capi::*;
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;

/// Returns the devices of the library.
pub(crate) fn devices() -> Vec<ol_device_handle_t> {
    unsafe extern "C" fn add(device: ol_device_handle_t, found: *mut c_void) -> bool {
        // SAFETY: it is the list below.
        unsafe { (*found.cast::<Vec<ol_device_handle_t>>()).push(device) };
        true
    }
    let mut devices = Vec::new();
    // SAFETY: the callback writes to the list.
    ok(unsafe { olIterateDevices(Some(add), (&raw mut devices).cast()) });
    devices
}

/// Returns an event at the end of a queue.
pub(crate) fn event(queue: ol_queue_handle_t) -> ol_event_handle_t {
    let mut event = null_mut();
    // SAFETY: the event is written to the variable.
    ok(unsafe { olCreateEvent(queue, OL_EVENT_FLAGS_NONE, &mut event) });
    event
}

/// Returns a kernel of a program.
pub(crate) fn kernel(program: ol_program_handle_t, name: &CStr) -> ol_symbol_handle_t {
    let mut kernel = null_mut();
    // SAFETY: the symbol is written to the variable.
    ok(unsafe { olGetSymbol(program, name.as_ptr(), OL_SYMBOL_KIND_KERNEL, &mut kernel) });
    kernel
}

/// Returns the size of a launch of one item.
pub(crate) fn one_item() -> ol_kernel_launch_size_args_t {
    let one = ol_dimensions_t { x: 1, y: 1, z: 1 };
    ol_kernel_launch_size_args_t {
        Dimensions: 1,
        NumGroups: one,
        GroupSize: one,
        DynSharedMemory: 0,
    }
}

/// # Panics
/// If a call has failed.
pub(crate) fn ok(result: ol_result_t) {
    assert!(result.is_null(), "{:?}: {}", code(result), said(result));
}

/// Returns the code of a result.
pub(crate) fn code(result: ol_result_t) -> ol_errc_t {
    // SAFETY: results live as long as the process.
    unsafe { result.as_ref() }.map_or(OL_ERRC_SUCCESS, |error| error.Code)
}

/// Returns the details of a result.
pub(crate) fn said(result: ol_result_t) -> String {
    // SAFETY: as in `code`; details are texts.
    let text = unsafe { result.as_ref().map(|error| CStr::from_ptr(error.Details)) };
    text.map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
}
