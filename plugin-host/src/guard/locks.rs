//! Code that takes locks which all code uses: the memory allocator, the standard streams and the
//! system's loader.

use super::context::{code_address, is_waiting};
use crate::ranges::Ranges;
use libc::{c_int, c_void};
use std::ops::Range;

/// Most objects with such code.
const MOST_OBJECTS: usize = 3;
/// Most bytes of a function that makes a system call.
const CALL_BYTES: u64 = 128;

static OBJECTS: Ranges<MOST_OBJECTS> = Ranges::new();

/// Finds the objects with such code.
pub(super) fn find() {
    // SAFETY: this has no requirements.
    let loader = unsafe { libc::getauxval(libc::AT_BASE) };
    let functions = [libc::malloc as *const () as u64, libc::fwrite as *const () as u64, loader];
    for object in functions.into_iter().filter_map(object_of) {
        // The process keeps these objects.
        std::mem::forget(OBJECTS.register(object));
    }
}

/// Returns the addresses of the object that contains an address.
fn object_of(address: u64) -> Option<Range<u64>> {
    let mut search = Search { address, object: None };
    // SAFETY: `visit` is given this search.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search.object
}

struct Search {
    address: u64,
    object: Option<Range<u64>>,
}

unsafe extern "C" fn visit(
    object: *mut libc::dl_phdr_info,
    _bytes: usize,
    search: *mut c_void,
) -> c_int {
    // SAFETY: the loader describes an object; `object_of` passes its search.
    let (base, headers, search) = unsafe {
        let object = &*object;
        let count = usize::from(object.dlpi_phnum);
        let headers = match object.dlpi_phdr.is_null() {
            true => &[],
            false => std::slice::from_raw_parts(object.dlpi_phdr, count),
        };
        (object.dlpi_addr, headers, &mut *search.cast::<Search>())
    };
    let segments = headers.iter().filter(|header| header.p_type == libc::PT_LOAD).map(|header| {
        let start = base.wrapping_add(header.p_vaddr);
        start..start.wrapping_add(header.p_memsz)
    });
    let start = segments.clone().map(|segment| segment.start).min();
    let end = segments.map(|segment| segment.end).max();
    let addresses = start.unwrap_or(0)..end.unwrap_or(0);
    if !addresses.contains(&search.address) {
        return 0;
    }
    search.object = Some(addresses);
    1
}

/// Returns whether a call may end at the instruction that a signal has interrupted, as its thread
/// holds none of these locks.
pub(super) fn may_end(context: *const c_void) -> bool {
    let code = code_address(context);
    let is_in = |function: *const ()| {
        let begin = function as u64;
        (begin..begin + CALL_BYTES).contains(&code)
    };
    // A stream may be locked during these calls.
    let transfers = [
        libc::write as *const (),
        libc::read as *const (),
        libc::writev as *const (),
        libc::readv as *const (),
    ];
    is_in(libc::sched_yield as *const ())
        || OBJECTS.find(code).is_none()
        || (is_waiting(context) && !transfers.into_iter().any(is_in))
}
