//! The callbacks of a tool, with the types of `omp-tools.h`.

use crate::libomp;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A value of a tool: `ompt_data_t`.
pub(super) type Data = u64;

/// A function that finds functions of libomp by name: `ompt_function_lookup_t`.
pub(crate) type Lookup = unsafe extern "C" fn(name: *const c_char) -> *const c_void;

/// `ompt_get_callback_t`.
pub(super) type GetCallback =
    unsafe extern "C" fn(event: c_int, callback: *mut *const c_void) -> c_int;
/// `ompt_get_task_data_t` and `ompt_get_target_task_data_t`.
pub(super) type GetData = unsafe extern "C" fn() -> *mut Data;
/// The function of newer libomps that returns all data of the current target task.
pub(super) type GetTaskInfo = unsafe extern "C" fn() -> *mut TaskInfo;

/// The first members of libomp's `ompt_task_info_t`.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct TaskInfo {
    pub(super) task: Data,
    pub(super) target: Data,
}

type DeviceInitialize = unsafe extern "C" fn(
    device: c_int,
    kind: *const c_char,
    handle: *mut c_void,
    lookup: Lookup,
    documentation: *const c_char,
);
type DeviceFinalize = unsafe extern "C" fn(device: c_int);
type DeviceLoad = unsafe extern "C" fn(
    device: c_int,
    file: *const c_char,
    file_offset: i64,
    file_address: *mut c_void,
    bytes: usize,
    host_address: *const c_void,
    device_address: *mut c_void,
    module: u64,
);
type Target = unsafe extern "C" fn(
    kind: c_int,
    endpoint: c_int,
    device: c_int,
    task: *mut Data,
    target: u64,
    code: *const c_void,
);
type TargetEmi = unsafe extern "C" fn(
    kind: c_int,
    endpoint: c_int,
    device: c_int,
    task: *mut Data,
    target_task: *mut Data,
    target: *mut Data,
    code: *const c_void,
);
type DataOp = unsafe extern "C" fn(
    target: u64,
    operation: u64,
    kind: c_int,
    from: *mut c_void,
    from_device: c_int,
    to: *mut c_void,
    to_device: c_int,
    bytes: usize,
    code: *const c_void,
);
type DataOpEmi = unsafe extern "C" fn(
    endpoint: c_int,
    target_task: *mut Data,
    target: *mut Data,
    operation: *mut u64,
    kind: c_int,
    from: *mut c_void,
    from_device: c_int,
    to: *mut c_void,
    to_device: c_int,
    bytes: usize,
    code: *const c_void,
);
type Submit = unsafe extern "C" fn(target: u64, operation: u64, teams: c_uint);
type SubmitEmi =
    unsafe extern "C" fn(endpoint: c_int, target: *mut Data, operation: *mut u64, teams: c_uint);

/// The callbacks of the connected tool, and the functions of libomp that events need.
pub(super) struct Callbacks {
    pub(super) lookup: Lookup,
    pub(super) task_data: Option<GetData>,
    pub(super) target_task_data: Option<GetData>,
    pub(super) target_task_info: Option<GetTaskInfo>,
    pub(super) device_initialize: Option<DeviceInitialize>,
    pub(super) device_finalize: Option<DeviceFinalize>,
    pub(super) device_load: Option<DeviceLoad>,
    pub(super) target: Option<Target>,
    pub(super) target_emi: Option<TargetEmi>,
    pub(super) data_op: Option<DataOp>,
    pub(super) data_op_emi: Option<DataOpEmi>,
    pub(super) submit: Option<Submit>,
    pub(super) submit_emi: Option<SubmitEmi>,
}

/// The callbacks; null without a tool. They are never freed.
static CALLBACKS: AtomicPtr<Callbacks> = AtomicPtr::new(null_mut());

/// Returns the callbacks of the connected tool.
#[inline(always)]
pub(super) fn callbacks() -> Option<&'static Callbacks> {
    // SAFETY: a pointer that is not null leads to callbacks that are never freed.
    unsafe { CALLBACKS.load(Ordering::Acquire).as_ref() }
}

/// Sets the callbacks that events call from now on.
pub(super) fn set(callbacks: Option<Callbacks>) {
    let new = callbacks.map_or(null_mut(), |callbacks| Box::into_raw(Box::new(callbacks)));
    CALLBACKS.store(new, Ordering::Release);
}

impl Callbacks {
    /// Returns whether libomp is of LLVM 23 or later. Its tools expect the events of that library.
    #[inline]
    pub(super) fn is_recent(&self) -> bool {
        self.target_task_info.is_some() || libomp::has_memory_spaces_of_devices()
    }

    /// Reads the registered callbacks; `None` without `ompt_get_callback`.
    ///
    /// # Safety
    /// `lookup` is the function that libomp serves to this library.
    pub(super) unsafe fn read(lookup: Lookup) -> Option<Callbacks> {
        // SAFETY: promised by the caller; libomp's functions of these names have these types.
        unsafe {
            let get: GetCallback = function(lookup(c"ompt_get_callback".as_ptr()))?;
            Some(Callbacks {
                lookup,
                task_data: function(lookup(c"ompt_get_task_data".as_ptr())),
                target_task_data: function(lookup(c"ompt_get_target_task_data".as_ptr())),
                target_task_info: function(lookup(c"ompt_get_task_info_target".as_ptr())),
                device_initialize: callback(get, 12),
                device_finalize: callback(get, 13),
                device_load: callback(get, 14),
                target: callback(get, 8),
                target_emi: callback(get, 33),
                data_op: callback(get, 9),
                data_op_emi: callback(get, 34),
                submit: callback(get, 10),
                submit_emi: callback(get, 35),
            })
        }
    }
}

/// Returns the callback of an event, if the tool has registered one.
///
/// # Safety
/// `F` is the type of the event's callback.
unsafe fn callback<F: Copy>(get: GetCallback, event: c_int) -> Option<F> {
    let mut found = std::ptr::null();
    // SAFETY: libomp writes the address of the callback, or leaves the place as it is.
    unsafe {
        get(event, &raw mut found);
        function(found)
    }
}

/// Returns an address as a function; `None` for null.
///
/// # Safety
/// `F` is the type of the function at the address.
unsafe fn function<F: Copy>(address: *const c_void) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*const c_void>()) };
    // SAFETY: promised by the caller.
    (!address.is_null()).then(|| unsafe { std::mem::transmute_copy::<*const c_void, F>(&address) })
}
