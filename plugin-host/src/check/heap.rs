//! The heap of the device, for checked kernels that call `malloc` and `free`.

use super::races::Touch;
use super::region::{Kind, Region};
use super::report::{What, at, region};
use super::session::Session;
use super::site::Site;
use std::ffi::c_void;
use std::sync::Arc;

/// Bytes behind each allocation that belong to nothing.
const GAP: u64 = 64;

/// Memory in quarantine.
struct Freed(*mut c_void);

// SAFETY: any thread may free the memory.
unsafe impl Send for Freed {}

impl Drop for Freed {
    fn drop(&mut self) {
        // SAFETY: `allocate` made the memory, and nothing else frees it.
        unsafe { libc::free(self.0) };
    }
}

/// Allocates memory, as `malloc` does.
pub(crate) unsafe extern "C" fn allocate(bytes: u64, _site: *mut Site) -> *mut c_void {
    let Ok(size) = usize::try_from(bytes.saturating_add(GAP)) else { return std::ptr::null_mut() };
    // SAFETY: the call has no conditions.
    let memory = unsafe { libc::malloc(size) };
    // SAFETY: no other reference is in use while checked code runs.
    if let Some(session) = unsafe { Session::running() }.filter(|_| !memory.is_null()) {
        session.checker.allocated_on_heap(memory as u64, bytes);
    }
    memory
}

/// Frees memory, as `free` does, and reports an address that is no allocation's.
pub(crate) unsafe extern "C" fn release(memory: *mut c_void, site: *mut Site) {
    if memory.is_null() {
        return;
    }
    // SAFETY: as above.
    let Some(session) = (unsafe { Session::running() }) else {
        // SAFETY: the kernel vouches for the address, as without checks.
        return unsafe { libc::free(memory) };
    };
    let address = memory as u64;
    let found = session.checker.region_of(address);
    // SAFETY: the site is a variable of the image, which only checked code uses.
    let place = unsafe { (*site).number() };
    let is_whole = |region: &&Arc<Region>| {
        region.kind == Kind::Heap && region.start == address && !region.is_freed.get()
    };
    if let Some(region) = found.as_ref().filter(is_whole) {
        session.free(region, place);
        session.checker.freed(address, Box::new(Freed(memory)));
        return;
    }
    session.report(What::WrongFree, [place, 0], |session| {
        let name = match &found {
            Some(found) => format!("{address:#x}, in {}", region(found)),
            None => format!("{address:#x}"),
        };
        format!("{} frees {name}, expected an address by malloc; {}", session.who(), at(place))
    });
}

impl Session {
    /// Marks a region as freed, and reports races with unordered accesses by other items.
    fn free(&mut self, region: &Region, place: u32) {
        region.is_freed.set(true);
        if self.kinds.races {
            let (offset, bytes) = (0, region.bytes);
            self.touch(region, Touch { offset, bytes, writes: true, is_atomic: false, place });
        }
    }
}
