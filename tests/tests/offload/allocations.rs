//! Allocations of calls of the C API, on the CPU. After the first calls, a launch and a small copy
//! allocate nothing, and an event allocates as much as an event of the library. The test does not
//! count allocations of the plugin, whose library has an allocator of its own.

use longshore::{Device, Environment, Host};
use longshore_capi::*;
use longshore_conformance::Fixtures;
use longshore_tests::suites::Suite;
use longshore_tests::trials;
use longshore_tests::world::host_plugin;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::{null, null_mut};

pub(crate) const SUITE: Suite = Suite::new("allocations", || {
    trials![launches_and_copies_allocate_nothing_and_events_no_more_than_the_library,]
});

/// An allocator that counts the allocations of this thread.
struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: the system's allocator does all work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: promised by the caller.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const ROUNDS: usize = 1000;
const ONE: ol_dimensions_t = ol_dimensions_t { x: 1, y: 1, z: 1 };
const SIZES: ol_kernel_launch_size_args_t = ol_kernel_launch_size_args_t {
    Dimensions: 1,
    NumGroups: ONE,
    GroupSize: ONE,
    DynSharedMemory: 0,
};

/// Returns the number of allocations of this thread in many calls, after the same number of
/// uncounted calls.
fn allocations_of(queue: ol_queue_handle_t, mut call: impl FnMut() -> ol_result_t) -> usize {
    let mut calls = || {
        for _ in 0..ROUNDS {
            assert!(call().is_null());
        }
        // SAFETY: the queue is live.
        assert!(unsafe { olSyncQueue(queue) }.is_null());
    };
    calls();
    let before = COUNT.get();
    calls();
    COUNT.get() - before
}

fn first_device() -> ol_device_handle_t {
    unsafe extern "C" fn take(device: ol_device_handle_t, found: *mut c_void) -> bool {
        // SAFETY: `found` points to the handle below.
        unsafe { *found.cast() = device };
        false
    }
    let mut device: ol_device_handle_t = null_mut();
    // SAFETY: the callback writes to the handle.
    assert!(unsafe { olIterateDevices(Some(take), (&raw mut device).cast()) }.is_null());
    device
}

fn device() -> Device {
    let host = Host::builder().with_environment(Environment::empty()).with_only_given_plugins();
    let host = host.with_plugin(host_plugin()).build().unwrap();
    host.default_device().unwrap()
}

fn launches_and_copies_allocate_nothing_and_events_no_more_than_the_library() {
    // SAFETY: no other thread uses the environment.
    unsafe {
        std::env::set_var("LONGSHORE_PLUGIN_PATH", host_plugin());
        std::env::set_var("LONGSHORE_BACKEND", "host");
    }
    let (floor, mut queue, mut program, mut iota) = (device(), null_mut(), null_mut(), null_mut());
    let image = Fixtures::built_in().image(&floor, "basic").unwrap().unwrap();
    let (mut numbers, mut copied) = ([0u32; 16], [0u32; 16]);
    let (mut address, mut count) = (numbers.as_mut_ptr(), numbers.len() as u64);
    let mut pointers = [(&raw mut address).cast(), (&raw mut count).cast()];
    let (pointers, bytes) = (pointers.as_mut_ptr(), [8usize, 8]);
    // SAFETY: the kernel takes a pointer to numbers and their count; both outlive the work of the
    // queue.
    unsafe {
        assert!(olInit(null()).is_null());
        let device = first_device();
        assert!(olCreateQueue(device, &mut queue).is_null());
        let (data, size) = (image.as_ptr().cast(), image.len());
        assert!(olCreateProgram(device, data, size, &mut program).is_null());
        let kind = OL_SYMBOL_KIND_KERNEL;
        assert!(olGetSymbol(program, c"iota".as_ptr(), kind, &mut iota).is_null());
        let launches = allocations_of(queue, || {
            olLaunchKernel(queue, device, iota, &SIZES, null(), 2, pointers, bytes.as_ptr())
        });
        let waits = allocations_of(queue, || {
            olLaunchKernel(null_mut(), device, iota, &SIZES, null(), 2, pointers, bytes.as_ptr())
        });
        let (to, from) = (copied.as_mut_ptr().cast(), numbers.as_ptr().cast());
        let copies = allocations_of(queue, || olMemcpy(queue, to, device, from, device, 64));
        let mut event = null_mut();
        let events = allocations_of(queue, || {
            assert!(olCreateEvent(queue, OL_EVENT_FLAGS_NONE, &mut event).is_null());
            assert!(olSyncEvent(event).is_null());
            olDestroyEvent(event)
        });
        let floor = floor.queue().unwrap();
        let floor = allocations_of(queue, || {
            floor.record().unwrap().synchronize().unwrap();
            null()
        });
        assert_eq!((launches, waits, copies, events), (0, 0, 0, floor));
        assert!(olShutDown().is_null());
    }
    assert_eq!(copied, std::array::from_fn(|at| at as u32));
}
