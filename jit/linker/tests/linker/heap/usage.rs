//! The heap memory of a thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

#[global_allocator]
static HEAP: Counting = Counting;

/// The system's heap, with counters for each thread.
struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// The heap memory of a function.
pub(crate) struct Usage {
    /// Maximum number of bytes in use at one time.
    pub(crate) peak: usize,
    /// Number of bytes still in use at the end.
    pub(crate) kept: isize,
}

impl Usage {
    /// Measures a function that allocates on this thread only.
    pub(crate) fn measure(f: impl FnOnce()) -> Self {
        let before = LIVE.get();
        PEAK.set(before);
        f();
        Self { peak: (PEAK.get() - before) as usize, kept: LIVE.get() - before }
    }
}

/// Returns the number of bytes that this thread has on the heap.
pub(crate) fn live() -> isize {
    LIVE.get()
}

fn count(bytes: isize) {
    // A thread that ends may free memory after its counters are gone.
    let live = LIVE.try_with(|live| live.replace(live.get() + bytes) + bytes).unwrap_or(0);
    _ = PEAK.try_with(|peak| peak.set(peak.get().max(live)));
}

// SAFETY: every call is passed to the system's heap.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: promised by the caller.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: promised by the caller.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: promised by the caller.
        unsafe { System.realloc(memory, layout, size) }
    }
}
