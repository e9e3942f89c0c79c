//! Registration of executables and shared objects.

use crate::abi::{BinaryDescriptor, RpcCallback};
use crate::gpu::rpc;
use crate::runtime;

/// Registers the images and entries of an executable or shared object. Any thread may call it. For
/// a process with a tool, which sees all devices from the start, it lists the devices and blocks
/// while plugins load. Otherwise it opens no plugin. LLVM: `__tgt_register_lib`.
///
/// # Safety
/// The descriptor and all it points at stay readable until `__tgt_unregister_lib`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tgt_register_lib(descriptor: *const BinaryDescriptor) {
    // SAFETY: promised by the caller.
    unsafe { runtime::register(descriptor) }
}

/// Unregisters an executable or shared object, and unloads its images from all devices. Blocks. Any
/// thread may call it. LLVM: `__tgt_unregister_lib`.
///
/// # Safety
/// No thread uses target regions of the object.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tgt_unregister_lib(descriptor: *const BinaryDescriptor) {
    runtime::unregister(descriptor);
}

/// Adds the flags of `requires` directives of a translation unit. Clang 16 and older call it. LLVM:
/// `__tgt_register_requires`.
#[unsafe(no_mangle)]
pub extern "C" fn __tgt_register_requires(flags: i64) {
    runtime::require(flags);
}

/// Lists the devices. Blocks while plugins load. LLVM: `__tgt_init_all_rtls`.
#[unsafe(no_mangle)]
pub extern "C" fn __tgt_init_all_rtls() {
    runtime::devices();
}

/// Counts a user of the library, for debug lines only: the library needs no initialization. LLVM:
/// `__tgt_rtl_init`.
#[unsafe(no_mangle)]
pub extern "C" fn __tgt_rtl_init() {
    runtime::add_user();
}

/// Ends the use that `__tgt_rtl_init` began. The images of a program are unloaded by
/// `__tgt_unregister_lib`. LLVM: `__tgt_rtl_deinit`.
#[unsafe(no_mangle)]
pub extern "C" fn __tgt_rtl_deinit() {
    runtime::remove_user();
}

/// Adds a function that answers calls of device code to the host: it gets the port as LLVM's
/// `rpc::Server::Port` and the number of lanes. Any thread may call it. LLVM:
/// `__tgt_register_rpc_callback`.
///
/// # Safety
/// The function stays callable as long as the process lives.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tgt_register_rpc_callback(callback: Option<RpcCallback>) {
    if let Some(callback) = callback {
        rpc::register(callback);
    }
}
