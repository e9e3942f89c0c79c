//! The place in the program that called this library.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

type Trace = unsafe extern "C" fn(frame: *mut c_void, argument: *mut c_void) -> c_int;

// The functions of the unwinder, which Rust's library links too.
unsafe extern "C" {
    fn _Unwind_Backtrace(trace: Trace, argument: *mut c_void) -> c_int;
    fn _Unwind_GetIP(frame: *mut c_void) -> usize;
}

/// The unwinder goes on to the next frame.
const CONTINUE: c_int = 0;
/// The unwinder stops.
const STOP: c_int = 4;

/// Returns the address behind the call by which the program entered this library: the first return
/// address on the stack that lies outside of the library. Returns 0 without such a frame.
#[inline(never)]
pub(super) fn return_address() -> usize {
    let mut address = 0;
    // SAFETY: `outside` takes a pointer to a `usize`.
    unsafe { _Unwind_Backtrace(outside, (&raw mut address).cast()) };
    address
}

unsafe extern "C" fn outside(frame: *mut c_void, address: *mut c_void) -> c_int {
    // SAFETY: the unwinder passes its frame.
    let current = unsafe { _Unwind_GetIP(frame) };
    let (begin, end) = own_range();
    if (begin..end).contains(&current) {
        return CONTINUE;
    }
    // SAFETY: `return_address` passes the address of a `usize`.
    unsafe { *address.cast::<usize>() = current };
    STOP
}

/// Returns the addresses of the object that contains this library.
fn own_range() -> (usize, usize) {
    static RANGE: OnceLock<(usize, usize)> = OnceLock::new();
    *RANGE.get_or_init(|| {
        let mut range = (0, 0);
        // SAFETY: `visit` takes a pointer to two `usize`.
        unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut range).cast()) };
        range
    })
}

/// Stores the range of an object that contains this function, and ends the visit then.
unsafe extern "C" fn visit(
    object: *mut libc::dl_phdr_info,
    _bytes: usize,
    range: *mut c_void,
) -> c_int {
    let own = visit as *const () as usize;
    // SAFETY: the loader passes the description of an object with its program headers.
    let (base, headers) = unsafe {
        let object = &*object;
        let count = usize::from(object.dlpi_phnum);
        (object.dlpi_addr as usize, std::slice::from_raw_parts(object.dlpi_phdr, count))
    };
    let loaded = headers.iter().filter(|header| header.p_type == libc::PT_LOAD).map(|header| {
        let begin = base.wrapping_add(header.p_vaddr as usize);
        (begin, begin + header.p_memsz as usize)
    });
    let (begin, end) = loaded
        .fold((usize::MAX, 0), |(begin, end), segment| (begin.min(segment.0), end.max(segment.1)));
    if !(begin..end).contains(&own) {
        return 0;
    }
    // SAFETY: `own_range` passes the address of two `usize`.
    unsafe { *range.cast::<(usize, usize)>() = (begin, end) };
    1
}

#[cfg(test)]
mod tests {
    use super::{own_range, return_address};

    #[test]
    fn the_range_contains_the_code_of_this_library() {
        let (begin, end) = own_range();
        assert!((begin..end).contains(&(return_address as *const () as usize)));
        assert!(!(begin..end).contains(&(libc::malloc as *const () as usize)));
    }

    #[test]
    fn the_return_address_lies_outside_of_the_object() {
        // Test threads begin in the C library.
        let address = return_address();
        let (begin, end) = own_range();
        assert!(address != 0 && !(begin..end).contains(&address));
    }
}
