//! Functions of LLVM's device runtime, which compilers call in images for CPUs, too. LLVM has them
//! for GPUs only, so such images need this library at link time.

use std::ffi::c_void;

/// Returns the function to call for a function pointer or an entry of a table of virtual functions:
/// the same function, since images for the CPU run in the program. Clang 23 calls it in C++ code.
/// LLVM: `__llvm_omp_indirect_call_lookup`.
#[unsafe(no_mangle)]
pub extern "C" fn __llvm_omp_indirect_call_lookup(function: *mut c_void) -> *mut c_void {
    function
}

/// Begins a kernel. Returns -1: the calling thread runs the region. Flang 19 calls it. LLVM:
/// `__kmpc_target_init`.
#[unsafe(no_mangle)]
pub extern "C" fn __kmpc_target_init(_kernel: *mut c_void, _launch: *mut c_void) -> i32 {
    -1
}

/// Ends a kernel. LLVM: `__kmpc_target_deinit`.
#[unsafe(no_mangle)]
pub extern "C" fn __kmpc_target_deinit() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_run_on_the_calling_thread_and_call_functions_of_the_program() {
        assert_eq!(__kmpc_target_init(std::ptr::null_mut(), std::ptr::null_mut()), -1);
        __kmpc_target_deinit();
        let function = __kmpc_target_deinit as *mut c_void;
        assert_eq!(__llvm_omp_indirect_call_lookup(function), function);
    }
}
