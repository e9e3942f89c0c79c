//! The peak of the heap.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

static WATCHING: AtomicBool = AtomicBool::new(false);
static NOW: AtomicI64 = AtomicI64::new(0);
static MOST: AtomicI64 = AtomicI64::new(0);

/// The system's allocator, which counts while [`watch`] runs.
pub(crate) struct Counting;

/// Runs a function, and returns the peak of bytes that all threads together have allocated since
/// its start.
pub(crate) fn watch<T>(run: impl FnOnce() -> T) -> (T, u64) {
    NOW.store(0, Relaxed);
    MOST.store(0, Relaxed);
    WATCHING.store(true, Relaxed);
    let result = run();
    WATCHING.store(false, Relaxed);
    (result, MOST.load(Relaxed).unsigned_abs())
}

fn add(bytes: i64) {
    if WATCHING.load(Relaxed) {
        let now = NOW.fetch_add(bytes, Relaxed) + bytes;
        MOST.fetch_max(now, Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator with the same arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as i64);
        // SAFETY: the caller's promise is the system's condition.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as i64);
        // SAFETY: the caller's promise is the system's condition.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(size as i64 - layout.size() as i64);
        // SAFETY: the caller's promise is the system's condition.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        add(-(layout.size() as i64));
        // SAFETY: the caller's promise is the system's condition.
        unsafe { System.dealloc(block, layout) }
    }
}
