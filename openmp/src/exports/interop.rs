//! The `interop` construct, and queries of interoperability objects.

use crate::abi::{DEFAULT_DEVICE, Ident};
use crate::interop::{
    self, Completion, InteropObject, InteropPreference, InteropType, Property, ReturnCode, Value,
};
use crate::place::Place;
use crate::runtime::{self, Policy};
use crate::{libomp, message};
use std::ffi::{c_char, c_void};
use std::ptr::{null, null_mut};

/// The result of a function that succeeded.
const SUCCESS: i32 = 0;
/// The result of a function that failed.
const FAILURE: i32 = -1;

/// The context of a construct. LLVM: `interop_ctx_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct InteropContext {
    /// Version of the structure: 0. Clang writes 16 bits of it.
    version: u32,
    /// Bit 0 for an object of this library, bit 1 for `nowait`.
    flags: u32,
    /// The number of the calling thread of libomp.
    thread: i32,
}

const FLAG_IMPLICIT: u32 = 1;
const FLAG_NOWAIT: u32 = 2;

/// The dependences of a construct. LLVM: `dep_pack_t`.
#[repr(C)]
pub struct Dependences {
    count: i32,
    unaliased_count: i32,
    list: *const c_void,
    unaliased: *const c_void,
}

unsafe fn wait(location: *const Ident, thread: i32, dependences: *const Dependences) {
    // SAFETY: the callers' promise.
    let Some(dependences) = (unsafe { dependences.as_ref() }) else { return };
    let Dependences { count, unaliased_count, list, unaliased } = *dependences;
    if count > 0 || unaliased_count > 0 {
        libomp::wait_deps(location.cast(), thread, count, list, unaliased_count, unaliased);
    }
}

unsafe fn object<'a>(object: *const c_void) -> Option<&'a InteropObject> {
    // SAFETY: the callers' promise.
    unsafe { object.cast::<InteropObject>().as_ref() }
}

/// Waits for an object's stream. Ends the program if its work has failed.
fn synchronize(object: &InteropObject) {
    object.synchronize().unwrap_or_else(|error| {
        message::error(format_args!("{error}"));
        message::fatal(1, format_args!("Interop sync barrier failed for {object:p} object"));
    });
}

/// Returns an interoperability object of a device: a new one, or with the implicit flag that of
/// this library. Returns null for the host, and if offloading is disabled. Waits for the
/// dependences. LLVM: `__tgt_interop_get`.
///
/// # Safety
/// Each pointer is null, or leads to a structure of its type. `preferences` has `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tgt_interop_get(
    location: *const Ident,
    kind: i32,
    device: i64,
    count: i32,
    preferences: *const InteropPreference,
    context: *const InteropContext,
    dependences: *const Dependences,
) -> *mut c_void {
    if runtime::policy() == Some(Policy::Disabled) {
        return null_mut();
    }
    let number = match device {
        DEFAULT_DEVICE => libomp::default_device().unwrap_or(0),
        number => i32::try_from(number).unwrap_or(crate::place::INVALID_DEVICE),
    };
    // SAFETY: promised by the caller.
    let context = unsafe { context.as_ref() }.copied().unwrap_or_default();
    let kind = if kind == 1 { InteropType::TargetSync } else { InteropType::Target };
    if kind == InteropType::TargetSync {
        // SAFETY: promised by the caller.
        unsafe { wait(location, context.thread, dependences) };
    }
    if !matches!(Place::find(number), Some(Place::Device(_))) {
        return null_mut();
    }
    let Place::Device(device) = Place::get(number) else { return null_mut() };
    let preferences = match preferences.is_null() {
        true => &[],
        // SAFETY: promised by the caller.
        false => unsafe { std::slice::from_raw_parts(preferences, count.max(0) as usize) },
    };
    if context.flags & FLAG_IMPLICIT != 0 {
        let owned = InteropObject::for_thread(kind, device, preferences, context.thread);
        return std::ptr::from_ref(owned).cast_mut().cast();
    }
    Box::into_raw(Box::new(InteropObject::new(kind, device, preferences))).cast()
}

/// Waits for the dependences, and without `nowait` for the object's stream. Returns 0; -1 without
/// an object. LLVM: `__tgt_interop_use60`.
///
/// # Safety
/// `used` is null or a live object; each other pointer is null, or leads to a structure of its
/// type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tgt_interop_use60(
    location: *const Ident,
    used: *mut c_void,
    context: *const InteropContext,
    dependences: *const Dependences,
) -> i32 {
    // SAFETY: promised by the caller.
    let (used, context) = unsafe { (object(used), context.as_ref().copied().unwrap_or_default()) };
    let Some(used) = used else { return FAILURE };
    let waits = used.has_dependences() && !dependences.is_null();
    if waits {
        // SAFETY: promised by the caller.
        unsafe { wait(location, context.thread, dependences) };
    }
    if waits || context.flags & FLAG_NOWAIT == 0 {
        synchronize(used);
    }
    SUCCESS
}

/// Waits for the dependences and the object's stream, and ends an object of the program. Returns 0;
/// -1 without an object. LLVM: `__tgt_interop_release`.
///
/// # Safety
/// As for `__tgt_interop_use60`; the program does not use the object any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tgt_interop_release(
    location: *const Ident,
    released: *mut c_void,
    context: *const InteropContext,
    dependences: *const Dependences,
) -> i32 {
    // SAFETY: promised by the caller.
    let known = unsafe { object(released) };
    let Some(known) = known else { return FAILURE };
    if known.has_dependences() {
        // SAFETY: promised by the caller.
        unsafe {
            let context = context.as_ref().copied().unwrap_or_default();
            wait(location, context.thread, dependences);
        }
    }
    synchronize(known);
    if !known.is_owned() {
        // SAFETY: `__tgt_interop_get` has boxed the object, and the program gives it up.
        drop(unsafe { Box::from_raw(released.cast::<InteropObject>()) });
    }
    SUCCESS
}

/// Returns the context and the dependences of the older functions.
fn older(
    thread: i32,
    nowait: i32,
    count: i32,
    list: *const c_void,
) -> (InteropContext, Dependences) {
    let flags = if nowait != 0 { FLAG_NOWAIT } else { 0 };
    let context = InteropContext { version: 0, flags, thread };
    (context, Dependences { count, unaliased_count: 0, list, unaliased: null() })
}

/// Creates an interoperability object, for the directive `interop init`. `kind` is 1 for `target`
/// and 2 for `targetsync`. LLVM: `__tgt_interop_init`.
///
/// # Safety
/// `place` is the program's variable; `list` points at `count` dependences.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tgt_interop_init(
    location: *const Ident,
    thread: i32,
    place: *mut *mut c_void,
    kind: i32,
    device: i32,
    count: i32,
    list: *const c_void,
    nowait: i32,
) {
    let (context, dependences) = older(thread, nowait, count, list);
    let (kind, device) = (i32::from(kind == 2), i64::from(device));
    // SAFETY: promised by the caller.
    unsafe {
        *place = __tgt_interop_get(location, kind, device, 0, null(), &context, &dependences);
    }
}

/// Orders the program behind an object's stream, for the directive `interop use`. LLVM:
/// `__tgt_interop_use`.
///
/// # Safety
/// As for `__tgt_interop_init`; the variable holds a live object or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tgt_interop_use(
    location: *const Ident,
    thread: i32,
    place: *mut *mut c_void,
    _device: i32,
    count: i32,
    list: *const c_void,
    nowait: i32,
) {
    let (context, dependences) = older(thread, nowait, count, list);
    let dependences = if count > 0 { &raw const dependences } else { null() };
    // SAFETY: promised by the caller.
    unsafe { __tgt_interop_use60(location, *place, &context, dependences) };
}

/// Ends an object and sets the variable to null, for the directive `interop destroy`. LLVM:
/// `__tgt_interop_destroy`.
///
/// # Safety
/// As for `__tgt_interop_use`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tgt_interop_destroy(
    location: *const Ident,
    thread: i32,
    place: *mut *mut c_void,
    _device: i32,
    count: i32,
    list: *const c_void,
    nowait: i32,
) {
    let (context, dependences) = older(thread, nowait, count, list);
    // SAFETY: promised by the caller.
    unsafe {
        __tgt_interop_release(location, *place, &context, &dependences);
        *place = null_mut();
    }
}

/// Waits for the streams that this library's objects of a thread have. libomp calls it at points of
/// synchronization. LLVM: `__tgt_target_sync`.
#[unsafe(no_mangle)]
pub extern "C" fn __tgt_target_sync(
    _location: *const Ident,
    thread: i32,
    _task: *const c_void,
    _event: *const c_void,
) {
    interop::synchronize_thread(thread);
}

/// Adds a function that the next synchronization of the object calls with `data`. Returns 0; -6
/// without an object. LLVM: `ompx_interop_add_completion_callback`.
///
/// # Safety
/// `place` is null or a live object; `data` is valid for the function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ompx_interop_add_completion_callback(
    place: *mut c_void,
    function: Option<Completion>,
    data: *mut c_void,
) -> i32 {
    // SAFETY: promised by the caller.
    let (Some(object), Some(function)) = (unsafe { object(place) }, function) else {
        return ReturnCode::Other as i32;
    };
    object.add_completion(function, data);
    SUCCESS
}

/// Returns the value of a property that `matching` accepts, and writes the code of the outcome.
unsafe fn query<T>(
    place: *const c_void,
    property: i32,
    code: *mut i32,
    matching: impl FnOnce(Value) -> Option<T>,
) -> Option<T> {
    // SAFETY: the callers' promise.
    let found = match (unsafe { object(place) }, Property::from_number(property)) {
        (None, _) => Err(ReturnCode::Empty),
        (_, None) => Err(ReturnCode::OutOfRange),
        (Some(object), Some(property)) => object
            .property(property)
            .and_then(|value| matching(value).ok_or_else(|| property.type_code())),
    };
    if !code.is_null() {
        let outcome = found.as_ref().map_or_else(|code| *code, |_| ReturnCode::Success);
        // SAFETY: the callers' promise.
        unsafe { *code = outcome as i32 };
    }
    found.ok()
}

/// Returns a property that is an integer, or the number of a device that its driver has no pointer
/// for. Writes the outcome to `code`, if it is not null. LLVM: `omp_get_interop_int`.
///
/// # Safety
/// `object` is null or a live object; `code` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_get_interop_int(
    object: *const c_void,
    property: i32,
    code: *mut i32,
) -> isize {
    let is_device = property == Property::Device as i32;
    let matching = |value| match value {
        Value::Integer(number) => Some(number as isize),
        Value::Handle(handle) if is_device => Some(handle as isize),
        _ => None,
    };
    // SAFETY: promised by the caller.
    unsafe { query(object, property, code, matching) }.unwrap_or(0)
}

/// Returns a property that is a pointer. Writes the outcome to `code`, if it is not null. LLVM:
/// `omp_get_interop_ptr`.
///
/// # Safety
/// `object` is null or a live object; `code` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_get_interop_ptr(
    object: *const c_void,
    property: i32,
    code: *mut i32,
) -> *mut c_void {
    let matching = |value| match value {
        Value::Handle(handle) => Some(handle as *mut c_void),
        _ => None,
    };
    // SAFETY: promised by the caller.
    unsafe { query(object, property, code, matching) }.unwrap_or(null_mut())
}

/// Returns a property that is a text, which stays valid. Writes the outcome to `code`, if it is not
/// null. LLVM: `omp_get_interop_str`.
///
/// # Safety
/// `object` is null or a live object; `code` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_get_interop_str(
    object: *const c_void,
    property: i32,
    code: *mut i32,
) -> *const c_char {
    let matching = |value| match value {
        Value::Text(text) => Some(text.as_ptr()),
        _ => None,
    };
    // SAFETY: promised by the caller.
    unsafe { query(object, property, code, matching) }.unwrap_or(null())
}

/// Returns the name of a property; null without an object, and for an unknown property. LLVM:
/// `omp_get_interop_name`.
#[unsafe(no_mangle)]
pub extern "C" fn omp_get_interop_name(object: *const c_void, property: i32) -> *const c_char {
    let property = Property::from_number(property).filter(|_| !object.is_null());
    property.map_or(null(), |property| property.name().as_ptr())
}

/// Returns the type of a property as C writes it; null without an object, and for an unknown
/// property. LLVM: `omp_get_interop_type_desc`.
#[unsafe(no_mangle)]
pub extern "C" fn omp_get_interop_type_desc(object: *const c_void, property: i32) -> *const c_char {
    let property = Property::from_number(property).filter(|_| !object.is_null());
    property.map_or(null(), |property| property.type_name().as_ptr())
}

/// Returns the description of a code of these queries. LLVM: `omp_get_interop_rc_desc`.
#[unsafe(no_mangle)]
pub extern "C" fn omp_get_interop_rc_desc(_object: *const c_void, code: i32) -> *const c_char {
    ReturnCode::description(code).as_ptr()
}

/// Returns the description of a code: the name by which libomp looks for
/// `omp_get_interop_rc_desc`.
#[unsafe(no_mangle)]
pub extern "C" fn omp_get_interop_rec_desc(object: *const c_void, code: i32) -> *const c_char {
    omp_get_interop_rc_desc(object, code)
}

/// Returns the number of properties beyond OpenMP's: 0. LLVM: `omp_get_num_interop_properties`.
#[unsafe(no_mangle)]
pub extern "C" fn omp_get_num_interop_properties(_object: *const c_void) -> i32 {
    0
}
