//! A thread: what it holds, and what it does in which order.

#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "all calls here get handles, which are looked at, and pointers to what lives longer than the call or the queue's work"
)]

use super::calls;
use super::pool::{Random, Shared};
use super::tally::Function;
use longshore_capi::*;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

pub(crate) const PIECE: usize = 64;
/// Pieces of memory that copies of shared queues write, each once, as nobody knows when such a queue is done.
const PIECES: usize = 20_000;
const ONE: ol_dimensions_t = ol_dimensions_t { x: 1, y: 1, z: 1 };
pub(crate) const SIZES: ol_kernel_launch_size_args_t = ol_kernel_launch_size_args_t {
    Dimensions: 1,
    NumGroups: ONE,
    GroupSize: ONE,
    DynSharedMemory: 0,
};

/// A thread.
pub(crate) struct Worker<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) random: Random,
    /// Whether it has called olInit, so that nobody else can end the library.
    pub(crate) is_inside: bool,
    /// What it has allocated, which it frees before it calls olShutDown.
    pub(crate) memory: Vec<*mut c_void>,
    pieces: Vec<u8>,
    used_pieces: usize,
    /// The function that it is in, for who wonders why it does not end.
    now: &'a AtomicUsize,
}

/// Numbers of an own queue's memory.
const NUMBERS: usize = 256;
const BYTES: usize = size_of::<[u32; NUMBERS]>();

impl<'a> Worker<'a> {
    pub(crate) fn new(shared: &'a Shared, seed: u64, now: &'a AtomicUsize) -> Worker<'a> {
        Worker {
            shared,
            random: Random::new(seed),
            is_inside: false,
            memory: Vec::new(),
            pieces: vec![0; PIECES * PIECE],
            used_pieces: 0,
            now,
        }
    }

    /// Calls functions until `end`. `inside` and `outside` are how many in a row with an olInit of its own and without.
    /// What queues may still write to is returned.
    pub(crate) fn run(mut self, end: Instant, inside: usize, outside: usize) -> Vec<u8> {
        while Instant::now() < end {
            self.must(Function::olInit, |_| unsafe { olInit(null()) });
            self.is_inside = true;
            self.call_any(inside);
            self.use_own_queue();
            for memory in std::mem::take(&mut self.memory) {
                self.must(Function::olMemFree, |_| unsafe { olMemFree(memory) });
            }
            self.is_inside = false;
            self.must(Function::olShutDown, |_| unsafe { olShutDown() });
            self.call_any(outside);
        }
        self.pieces
    }

    fn call_any(&mut self, times: usize) {
        for _ in 0..times {
            let function = self.random.one_of(Function::ALL);
            self.now.store(function as usize, Relaxed);
            calls::call(self, function);
        }
    }

    /// Returns a piece of memory that nobody has used; none, when all were.
    pub(crate) fn piece(&mut self) -> Option<*mut c_void> {
        let start = self.used_pieces * PIECE;
        let piece = self.pieces.get_mut(start..start + PIECE)?;
        self.used_pieces += 1;
        Some(piece.as_mut_ptr().cast())
    }

    /// Something that others have no part in, so that it succeeds.
    fn must(&mut self, function: Function, call: impl FnOnce(&mut Random) -> ol_result_t) {
        let is_done = self.may(function, call);
        assert!(is_done, "{function:?} failed, where nobody else interferes");
    }

    /// Something that others may interfere with; whether it succeeded.
    fn may(&mut self, function: Function, call: impl FnOnce(&mut Random) -> ol_result_t) -> bool {
        self.now.store(function as usize, Relaxed);
        let result = call(&mut self.random);
        self.shared.tally.count(function, result)
    }

    /// A queue and memory that nobody else knows: what comes out is right.
    fn use_own_queue(&mut self) {
        // The first device, and the last, which is the CPU.
        let mut devices: [ol_device_handle_t; 2] = [null_mut(); 2];
        let (mut own, mut event) = (null_mut(), null_mut());
        let (mut there, mut here) = (null_mut(), [0u32; NUMBERS]);
        let out = (&raw mut devices).cast();
        self.must(Function::olIterateDevices, |_| unsafe { olIterateDevices(Some(take), out) });
        let [device, host] = devices;
        self.must(Function::olCreateQueue, |_| unsafe { olCreateQueue(device, &mut own) });
        self.must(Function::olMemAlloc, |random| unsafe {
            let kinds = [OL_ALLOC_TYPE_HOST, OL_ALLOC_TYPE_DEVICE, OL_ALLOC_TYPE_MANAGED];
            olMemAlloc(device, random.one_of(&kinds), BYTES, &mut there)
        });
        let value = self.random.next() as u32;
        let queue = self.random.one_of(&[own, null_mut()]);
        let pattern = (&raw const value).cast();
        self.must(Function::olMemFill, |_| unsafe { olMemFill(queue, there, 4, pattern, BYTES) });
        let queue = self.random.one_of(&[own, null_mut()]);
        self.finish_if(own, queue.is_null());
        let is_iota = self.launch_iota(queue, device, there);
        let queue = self.random.one_of(&[own, null_mut()]);
        self.finish_if(own, queue.is_null());
        let to = here.as_mut_ptr().cast();
        self.must(Function::olMemcpy, |_| unsafe {
            olMemcpy(queue, to, host, there, device, BYTES)
        });
        self.must(Function::olCreateEvent, |_| unsafe {
            olCreateEvent(own, OL_EVENT_FLAGS_NONE, &mut event)
        });
        self.must(Function::olSyncEvent, |_| unsafe { olSyncEvent(event) });
        let expected = |at: usize| if is_iota { at as u32 } else { value };
        assert!(here.iter().enumerate().all(|(at, number)| *number == expected(at)), "{here:?}");
        self.must(Function::olDestroyEvent, |_| unsafe { olDestroyEvent(event) });
        self.must(Function::olDestroyQueue, |_| unsafe { olDestroyQueue(own) });
        self.must(Function::olMemFree, |_| unsafe { olMemFree(there) });
    }

    fn finish_if(&mut self, queue: ol_queue_handle_t, is_wanted: bool) {
        if is_wanted {
            self.must(Function::olSyncQueue, |_| unsafe { olSyncQueue(queue) });
        }
    }

    /// Numbers the elements, if the kernel's program is still there. The arguments are gone when it runs.
    fn launch_iota(
        &mut self,
        queue: ol_queue_handle_t,
        device: ol_device_handle_t,
        there: *mut c_void,
    ) -> bool {
        let (mut to, mut count) = (there, NUMBERS as u64);
        let mut pointers = [(&raw mut to).cast(), (&raw mut count).cast()];
        let iotas = &self.shared.iotas;
        self.may(Function::olLaunchKernel, |random| unsafe {
            let (pointers, bytes) = (pointers.as_mut_ptr(), [8usize, 8].as_ptr());
            olLaunchKernel(queue, device, iotas.any(random), &SIZES, null(), 2, pointers, bytes)
        })
    }
}

unsafe extern "C" fn take(device: ol_device_handle_t, found: *mut c_void) -> bool {
    // SAFETY: they are the handles above.
    let [first, last] = unsafe { &mut *found.cast::<[ol_device_handle_t; 2]>() };
    if first.is_null() {
        *first = device;
    }
    *last = device;
    true
}
