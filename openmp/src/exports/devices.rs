//! Queries about devices.

use crate::runtime;
use crate::settings;

/// Returns the number of devices. The first call blocks while plugins load. LLVM:
/// `omp_get_num_devices`.
#[unsafe(no_mangle)]
pub extern "C" fn omp_get_num_devices() -> i32 {
    runtime::devices().len() as i32
}

/// Returns the number of devices: the name by which libomp looks first.
#[unsafe(no_mangle)]
pub extern "C" fn __tgt_get_num_devices() -> i32 {
    omp_get_num_devices()
}

/// Returns the number of the host, which is the number of devices. LLVM:
/// `omp_get_initial_device`.
#[unsafe(no_mangle)]
pub extern "C" fn omp_get_initial_device() -> i32 {
    omp_get_num_devices()
}

/// Returns the number of the calling device; on the host, the number of the host. LLVM:
/// `omp_get_device_num`.
#[unsafe(no_mangle)]
pub extern "C" fn omp_get_device_num() -> i32 {
    omp_get_initial_device()
}

/// Sets the kinds of information that are printed, as `LIBOMPTARGET_INFO` does. LLVM:
/// `__tgt_set_info_flag`.
#[unsafe(no_mangle)]
pub extern "C" fn __tgt_set_info_flag(level: u32) {
    settings::set_info(level);
}
