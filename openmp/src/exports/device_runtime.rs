//! Functions of LLVM's device runtime, which compilers call in images for CPUs, too. LLVM has them
//! for GPUs only, so such images need this library at link time.

use crate::libomp::{self, MOST_ARGUMENTS};
use crate::message;
use std::ffi::c_void;
use std::ptr;

/// Returns the function to call for a function pointer or an entry of a table of virtual functions:
/// the same function, since images for the CPU run in the program. Clang 23 calls it in C++ code.
/// LLVM: `__llvm_omp_indirect_call_lookup`.
#[unsafe(no_mangle)]
pub extern "C" fn __llvm_omp_indirect_call_lookup(function: *mut c_void) -> *mut c_void {
    function
}

/// Begins a kernel. Returns -1: the calling thread runs the region. Flang calls it. LLVM:
/// `__kmpc_target_init`.
#[unsafe(no_mangle)]
pub extern "C" fn __kmpc_target_init(_kernel: *mut c_void, _launch: *mut c_void) -> i32 {
    -1
}

/// Ends a kernel. LLVM: `__kmpc_target_deinit`.
#[unsafe(no_mangle)]
pub extern "C" fn __kmpc_target_deinit() {}

/// Runs a parallel region in a team of libomp's threads. Flang 19 calls it. LLVM:
/// `__kmpc_parallel_51`.
///
/// # Safety
/// `function` takes two pointers to thread numbers and `count` pointers, which `arguments` has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __kmpc_parallel_51(
    location: *const c_void,
    thread: i32,
    condition: i32,
    most_threads: i32,
    _binding: i32,
    function: *const c_void,
    _wrapper: *const c_void,
    arguments: *const *mut c_void,
    count: i64,
) {
    let mut padded = [ptr::null_mut(); MOST_ARGUMENTS];
    let given = usize::try_from(count).ok().and_then(|count| padded.get_mut(..count));
    let Some(given) = given else {
        message::fatal(1, format_args!("parallel region with {count} arguments"))
    };
    for (index, argument) in given.iter_mut().enumerate() {
        // SAFETY: the caller promises `count` pointers.
        *argument = unsafe { *arguments.add(index) };
    }
    let most_threads = if condition == 0 { 1 } else { most_threads };
    if most_threads > 0 {
        libomp::push_num_threads(location, thread, most_threads);
    }
    // SAFETY: the caller promises that the function takes these arguments.
    if unsafe { libomp::fork_call(location, count as i32, function, padded) }.is_none() {
        message::fatal(1, format_args!("parallel region without LLVM's libomp"))
    }
}

/// Runs a parallel region as `__kmpc_parallel_51` does. Flang 22 calls it. LLVM:
/// `__kmpc_parallel_60`.
///
/// # Safety
/// As for `__kmpc_parallel_51`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __kmpc_parallel_60(
    location: *const c_void,
    thread: i32,
    condition: i32,
    most_threads: i32,
    binding: i32,
    function: *const c_void,
    wrapper: *const c_void,
    arguments: *const *mut c_void,
    count: i64,
    _is_strict: i32,
) {
    // SAFETY: the caller's promise.
    unsafe {
        __kmpc_parallel_51(
            location,
            thread,
            condition,
            most_threads,
            binding,
            function,
            wrapper,
            arguments,
            count,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_run_on_the_calling_thread_and_call_functions_of_the_program() {
        assert_eq!(__kmpc_target_init(ptr::null_mut(), ptr::null_mut()), -1);
        __kmpc_target_deinit();
        let function = __kmpc_target_deinit as *mut c_void;
        assert_eq!(__llvm_omp_indirect_call_lookup(function), function);
    }
}
