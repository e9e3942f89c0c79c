//! The connection of plugins to the tool of the process.

use crate::ompt;
use std::ffi::c_void;

/// Connects a plugin to the tool of the process: calls the plugin's `initialize` with libomp's
/// look-up function, and keeps its `finalize` for the end of the tool. Does nothing without a tool.
/// LLVM: `ompt_libomptarget_connect`.
///
/// # Safety
/// `result` is null or leads to an `ompt_start_tool_result_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ompt_libomptarget_connect(result: *mut c_void) {
    // SAFETY: promised by the caller.
    unsafe { ompt::connect_plugin(result.cast()) }
}
