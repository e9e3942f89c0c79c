//! Memory resources, from which libomp of LLVM 22 and 23 makes memory spaces.
//!
//! The resource of a device has the device's number, and that of the host the number of the host.

use super::memory::{llvm_omp_target_alloc_host, omp_target_alloc, omp_target_free};
use crate::place::Place;
use crate::runtime;
use std::ffi::c_void;
use std::ptr::null_mut;

/// The greatest handle of an allocator or memory space that has no structure. LLVM:
/// `kmp_max_mem_alloc`.
const LAST_PREDEFINED: usize = 1024;

/// A memory space. LLVM: `kmp_memspace_t`.
#[repr(C)]
struct MemorySpace {
    predefined: usize,
    resource_count: i32,
    resources: *const i32,
}

/// The beginning of an allocator. LLVM: `kmp_allocator_t`.
#[repr(C)]
struct Allocator {
    space: *const MemorySpace,
}

/// Writes the numbers of the memory resources of devices, and of the host unless `host` is 0, to
/// `resources`, if it is not null. Returns their number; 0 for a number of no device. LLVM:
/// `__tgt_get_mem_resources`.
///
/// # Safety
/// `devices` has `count` elements, and `resources` as many as the call without it returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tgt_get_mem_resources(
    count: i32,
    devices: *const i32,
    host: i32,
    _space: usize,
    resources: *mut i32,
) -> i32 {
    let known = runtime::devices().len() as i32;
    let mut found = Vec::new();
    for index in 0..if devices.is_null() { 0 } else { count.max(0) as usize } {
        // SAFETY: promised by the caller.
        let device = unsafe { *devices.add(index) };
        if !(0..known).contains(&device) {
            return 0;
        }
        found.push(device);
    }
    if host != 0 {
        found.push(known);
    }
    if !resources.is_null() {
        // SAFETY: promised by the caller.
        unsafe { found.as_ptr().copy_to_nonoverlapping(resources, found.len()) };
    }
    found.len() as i32
}

/// Returns the place whose memory an allocator uses, and whether several places use it: the only
/// resource of its memory space, or the first device among them.
unsafe fn place(allocator: usize) -> Option<(i32, bool)> {
    if allocator <= LAST_PREDEFINED {
        return None;
    }
    // SAFETY: the callers' promise.
    let resources = unsafe {
        let space = (*(allocator as *const Allocator)).space;
        if (space as usize) <= LAST_PREDEFINED || (*space).resources.is_null() {
            return None;
        }
        let count = (*space).resource_count.max(0) as usize;
        std::slice::from_raw_parts((*space).resources, count)
    };
    // The host has the greatest number.
    resources.iter().min().map(|first| (*first, resources.len() > 1))
}

/// Allocates memory from an allocator's memory space. Returns null for a predefined allocator, and
/// if there is not enough memory. LLVM: `__tgt_omp_alloc`.
///
/// # Safety
/// The allocator is one of libomp.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tgt_omp_alloc(bytes: usize, allocator: usize) -> *mut c_void {
    // SAFETY: promised by the caller.
    match unsafe { place(allocator) }.filter(|(place, _)| Place::find(*place).is_some()) {
        Some((place, false)) => omp_target_alloc(bytes, place),
        Some((place, true)) => llvm_omp_target_alloc_host(bytes, place),
        None => null_mut(),
    }
}

/// Frees memory of `__tgt_omp_alloc`. LLVM: `__tgt_omp_free`.
///
/// # Safety
/// The memory is of the same allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tgt_omp_free(address: *mut c_void, allocator: usize) {
    // SAFETY: promised by the caller.
    unsafe {
        if let Some((place, _)) = place(allocator) {
            omp_target_free(address, place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{__tgt_omp_alloc, MemorySpace, place};

    #[test]
    fn predefined_allocators_have_no_memory_resources() {
        // SAFETY: predefined allocators have no structure.
        let (place, memory) = unsafe { (place(1024), __tgt_omp_alloc(64, 5)) };
        assert_eq!(place, None);
        assert!(memory.is_null());
    }

    #[test]
    fn an_allocator_uses_the_only_place_of_its_space_or_the_first_of_several() {
        let resources = [3, 1, 4];
        let of = |resource_count| {
            let resources = resources.as_ptr();
            let space = MemorySpace { predefined: 99, resource_count, resources };
            let allocator = [&raw const space];
            // SAFETY: the allocator begins with the address of a memory space.
            unsafe { place(allocator.as_ptr() as usize) }
        };
        assert_eq!([of(0), of(1), of(3)], [None, Some((3, false)), Some((1, true))]);
    }
}
