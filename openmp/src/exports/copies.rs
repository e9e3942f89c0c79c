//! Copies and fills: `omp_target_memcpy`, `omp_target_memset` and their relatives.
//!
//! The asynchronous forms run in a task of libomp behind the dependences of the depend objects.

use crate::mapping::Failure;
use crate::message;
use crate::place::Place;
use crate::profile;
use crate::rectangle::{Rows, Shape};
use crate::tasks;
use crate::transfer::{self, Transfer};
use std::ffi::c_void;

/// The result of a routine that succeeded.
const SUCCESS: i32 = 0;
/// The result of a routine that failed.
const FAILURE: i32 = -1;

/// A range within memory of a place, as routines get it.
#[derive(Clone, Copy)]
struct Side {
    base: u64,
    device: i32,
}

fn outcome(routine: &str, result: Result<(), Failure>) -> i32 {
    let Err(failure) = result else { return SUCCESS };
    message::error(format_args!("{routine} failed"));
    failure.report();
    FAILURE
}

#[cold]
fn invalid(routine: &str) -> i32 {
    message::error(format_args!("Call to {routine} with invalid arguments"));
    FAILURE
}

unsafe fn copy(
    to: Side,
    from: Side,
    (to_offset, from_offset): (usize, usize),
    bytes: usize,
) -> i32 {
    const ROUTINE: &str = "omp_target_memcpy";
    if bytes == 0 {
        return SUCCESS;
    }
    if to.base == 0 || from.base == 0 {
        return invalid(ROUTINE);
    }
    let (to_place, from_place) = (Place::get(to.device), Place::get(from.device));
    let mut transfer = Transfer::new(to_place, from_place);
    let to = to.base.wrapping_add(to_offset as u64);
    let from = from.base.wrapping_add(from_offset as u64);
    // SAFETY: the callers' promise; the copy ends before the call does.
    let copied = unsafe { transfer.copy(to, from, bytes as u64) };
    outcome(ROUTINE, copied.map_err(Failure::from).and_then(|()| transfer.finish()))
}

unsafe fn copy_rows(to: Side, from: Side, rows: Option<Rows>) -> i32 {
    const ROUTINE: &str = "omp_target_memcpy_rect";
    let Some(rows) = rows.filter(|_| to.base != 0 && from.base != 0) else {
        return invalid(ROUTINE);
    };
    let mut transfer = Transfer::new(Place::get(to.device), Place::get(from.device));
    let copied = rows.for_each(|to_offset, from_offset, bytes| {
        let (to, from) = (to.base.wrapping_add(to_offset), from.base.wrapping_add(from_offset));
        // SAFETY: the callers' promise; the copies end before the call does.
        unsafe { transfer.copy(to, from, bytes) }
    });
    outcome(ROUTINE, copied.map_err(Failure::from).and_then(|()| transfer.finish()))
}

/// Reads a rectangle; `None` for invalid arguments.
unsafe fn rows(
    element_bytes: usize,
    dimension_count: i32,
    arrays: [*const usize; 5],
) -> Option<Rows> {
    let count = usize::try_from(dimension_count).ok().filter(|count| *count > 0)?;
    if element_bytes == 0 || arrays.iter().any(|array| array.is_null()) {
        return None;
    }
    // SAFETY: the callers' promise.
    let [volume, to_offsets, from_offsets, to_dimensions, from_dimensions] =
        arrays.map(|array| unsafe { std::slice::from_raw_parts(array, count) });
    Rows::new(&Shape {
        element_bytes: element_bytes as u64,
        volume,
        to_offsets,
        from_offsets,
        to_dimensions,
        from_dimensions,
    })
}

unsafe fn set(address: u64, value: i32, bytes: usize, device: i32) {
    // SAFETY: the callers' promise.
    let result = unsafe { transfer::fill(Place::get(device), address, value as u8, bytes as u64) };
    outcome("omp_target_memset", result.map_err(Failure::from));
}

/// Copies `bytes` bytes between any two of host and devices, at offsets in bytes. Returns 0, or -1
/// for null pointers and a failed copy. Blocks. LLVM: `omp_target_memcpy`.
///
/// # Safety
/// Both ranges are valid memory of their places.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_target_memcpy(
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    to_offset: usize,
    from_offset: usize,
    to_device: i32,
    from_device: i32,
) -> i32 {
    let _profile = profile::routine("omp_target_memcpy", || {
        Some(format!("dst_dev={to_device};src_dev={from_device};size={bytes}"))
    });
    let to = Side { base: to as u64, device: to_device };
    let from = Side { base: from as u64, device: from_device };
    // SAFETY: promised by the caller.
    unsafe { copy(to, from, (to_offset, from_offset), bytes) }
}

/// Copies as `omp_target_memcpy` does, in a task behind the dependences of the depend objects.
/// Returns 0, or -1 for null pointers. LLVM: `omp_target_memcpy_async`.
///
/// # Safety
/// Both ranges are valid until the task is done; `objects` points at `object_count` depend objects.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_target_memcpy_async(
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    to_offset: usize,
    from_offset: usize,
    to_device: i32,
    from_device: i32,
    object_count: i32,
    objects: *const *const c_void,
) -> i32 {
    if to.is_null() || from.is_null() {
        return FAILURE;
    }
    let to = Side { base: to as u64, device: to_device };
    let from = Side { base: from as u64, device: from_device };
    // SAFETY: promised by the caller.
    let dependences = unsafe { tasks::dependences(object_count, objects) };
    let work = move || {
        // SAFETY: promised by the caller.
        unsafe { copy(to, from, (to_offset, from_offset), bytes) };
    };
    tasks::spawn(work, &dependences);
    SUCCESS
}

/// Copies a rectangle between arrays of any number of dimensions. With two null pointers, returns
/// the greatest number of dimensions. Otherwise returns 0, or -1 for invalid arguments and a failed
/// copy. Blocks. LLVM: `omp_target_memcpy_rect`.
///
/// # Safety
/// Each array has an element for each dimension; the rectangle is within both places' memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_target_memcpy_rect(
    to: *mut c_void,
    from: *const c_void,
    element_bytes: usize,
    dimension_count: i32,
    volume: *const usize,
    to_offsets: *const usize,
    from_offsets: *const usize,
    to_dimensions: *const usize,
    from_dimensions: *const usize,
    to_device: i32,
    from_device: i32,
) -> i32 {
    if to.is_null() && from.is_null() {
        return i32::MAX;
    }
    let to = Side { base: to as u64, device: to_device };
    let from = Side { base: from as u64, device: from_device };
    let arrays = [volume, to_offsets, from_offsets, to_dimensions, from_dimensions];
    // SAFETY: promised by the caller.
    unsafe { copy_rows(to, from, rows(element_bytes, dimension_count, arrays)) }
}

/// Copies as `omp_target_memcpy_rect` does, in a task behind the dependences of the depend objects.
/// The arrays are read during the call. LLVM: `omp_target_memcpy_rect_async`.
///
/// # Safety
/// As for `omp_target_memcpy_rect`, with both places' memory valid until the task is done;
/// `objects` points at `object_count` depend objects.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_target_memcpy_rect_async(
    to: *mut c_void,
    from: *const c_void,
    element_bytes: usize,
    dimension_count: i32,
    volume: *const usize,
    to_offsets: *const usize,
    from_offsets: *const usize,
    to_dimensions: *const usize,
    from_dimensions: *const usize,
    to_device: i32,
    from_device: i32,
    object_count: i32,
    objects: *const *const c_void,
) -> i32 {
    if to.is_null() && from.is_null() {
        return i32::MAX;
    }
    if to.is_null() || from.is_null() {
        return FAILURE;
    }
    let to = Side { base: to as u64, device: to_device };
    let from = Side { base: from as u64, device: from_device };
    let arrays = [volume, to_offsets, from_offsets, to_dimensions, from_dimensions];
    // SAFETY: promised by the caller.
    let (rows, dependences) = unsafe {
        let rows = rows(element_bytes, dimension_count, arrays);
        (rows, tasks::dependences(object_count, objects))
    };
    if rows.is_none() {
        return invalid("omp_target_memcpy_rect_async");
    }
    let work = move || {
        // SAFETY: promised by the caller.
        unsafe { copy_rows(to, from, rows) };
    };
    tasks::spawn(work, &dependences);
    SUCCESS
}

/// Sets `bytes` bytes of a device or the host to a value. Returns the address. Does nothing for a
/// null pointer. Blocks. LLVM: `omp_target_memset`.
///
/// # Safety
/// The range is valid memory of the place.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_target_memset(
    address: *mut c_void,
    value: i32,
    bytes: usize,
    device: i32,
) -> *mut c_void {
    let name = "void *omp_target_memset(void *, int, size_t, int)";
    let _profile = profile::routine(name, || None);
    if !address.is_null() && bytes > 0 {
        // SAFETY: promised by the caller.
        unsafe { set(address as u64, value, bytes, device) };
    }
    address
}

/// Sets memory as `omp_target_memset` does, in a task behind the dependences of the depend objects.
/// Returns the address. LLVM: `omp_target_memset_async`.
///
/// # Safety
/// The range is valid until the task is done; `objects` points at `object_count` depend objects.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_target_memset_async(
    address: *mut c_void,
    value: i32,
    bytes: usize,
    device: i32,
    object_count: i32,
    objects: *const *const c_void,
) -> *mut c_void {
    if !address.is_null() && bytes > 0 {
        let begin = address as u64;
        // SAFETY: promised by the caller.
        let dependences = unsafe { tasks::dependences(object_count, objects) };
        // SAFETY: promised by the caller.
        tasks::spawn(move || unsafe { set(begin, value, bytes, device) }, &dependences);
    }
    address
}
