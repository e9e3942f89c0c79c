//! The calling convention of kernels. The arguments of a work-group kernel must match
//! `longshore_device.h`.

use std::ffi::{c_char, c_void};

/// A kernel of LLVM's host form: `arguments[i]` is the address of the `i`-th argument's value.
pub(crate) type HostEntry = unsafe extern "C" fn(arguments: *mut *mut c_void);

/// A work-group kernel, which runs the groups that `work` specifies.
pub(crate) type GroupEntry = unsafe extern "C" fn(arguments: *const *const c_void, work: *mut Work);

/// `struct longshore_calls`: the runtime functions for kernels.
#[repr(C)]
pub(crate) struct Calls {
    pub(crate) barrier: unsafe extern "C" fn(*mut Work),
    pub(crate) grid_barrier: unsafe extern "C" fn(*mut Work),
    pub(crate) gather: unsafe extern "C" fn(*mut Work, u64, *mut u64) -> *const u64,
    pub(crate) write: unsafe extern "C" fn(*mut Work, *const c_char, u64),
    pub(crate) fail: unsafe extern "C" fn(*mut Work, *const c_char, *const c_char, u32, u64),
    pub(crate) barrier_of_rest: unsafe extern "C" fn(*mut Work),
    pub(crate) gather_of: unsafe extern "C" fn(*mut Work, u64, u32, *mut u64) -> *const u64,
}

/// `struct longshore_work`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Work {
    /// The groups to run, numbered in x, then y, then z.
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) groups: [u32; 3],
    pub(crate) items: [u32; 3],
    /// The items to run if `traced`, and the last started item.
    pub(crate) first: [u32; 3],
    pub(crate) last: [u32; 3],
    pub(crate) item: [u32; 3],
    pub(crate) traced: u32,
    /// The last started group.
    pub(crate) group: u64,
    /// Declared shared memory of kernels of items, and dynamic shared memory.
    pub(crate) fixed: *mut c_void,
    pub(crate) dynamic: *mut c_void,
    pub(crate) fixed_bytes: u64,
    pub(crate) dynamic_bytes: u64,
    pub(crate) calls: &'static Calls,
}
