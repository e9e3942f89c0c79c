//! Faults of threads that device code has started, such as the threads of an OpenMP team.
//!
//! Such a thread is in no [`Guard::call`] that could end. Its handler hands the fault to all
//! threads that call code of the same image, and interrupts them until their calls end with the
//! fault. The thread that faulted then sleeps for ever: the frames on its stack belong to the image
//! and to the library that started it. Other threads of the kernel may go on. So the image stays in
//! memory, and a thread that faults when all calls have failed sleeps as well.
//!
//! The interruption may come at any instruction. The call does not end while its thread may hold a
//! lock of the memory allocator, the standard streams or the system's loader. The next interruption
//! comes a millisecond later.

use super::context::{self, code_address, read};
use super::former::{self, LastFault};
use super::locks::may_end;
use super::{Guard, Signal, Stop};
use crate::ranges::{Ranges, Registered};
use libc::{c_int, c_void, siginfo_t};
use std::cell::Cell;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

/// Most images whose code is known.
const MOST_IMAGES: usize = 1 << 12;
/// Time between two interruptions.
static PAUSE: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
/// Number of interruptions before the process ends.
const MOST_INTERRUPTIONS: u32 = 5000;
/// Number of pauses in which a failure is noted.
const MOST_PAUSES: u32 = 100;
/// Most calls that one fault ends.
const MOST_CALLS: usize = 64;

static IMAGES: Ranges<MOST_IMAGES> = Ranges::new();

/// Whether threads of a failed kernel may still run code of an image, by the image's number.
static IN_USE: [AtomicBool; MOST_IMAGES] = [const { AtomicBool::new(false) }; MOST_IMAGES];

/// Whether a call of an image's code has failed, by the image's number.
static HAS_FAILED: [AtomicBool; MOST_IMAGES] = [const { AtomicBool::new(false) }; MOST_IMAGES];
/// The last fault of other threads that went to the handler from before.
static ASKED: LastFault = LastFault::new();

/// The registered code of an image.
pub(crate) struct CodeOfImage(Registered<MOST_IMAGES>);

impl CodeOfImage {
    /// Registers the addresses of an image.
    pub(crate) fn new(addresses: Range<u64>) -> CodeOfImage {
        let code = IMAGES.register(addresses);
        if let Some(number) = code.number() {
            IN_USE[number].store(false, Ordering::Relaxed);
            HAS_FAILED[number].store(false, Ordering::Relaxed);
        }
        CodeOfImage(code)
    }

    /// Returns whether threads of a failed kernel may still run the code.
    pub(crate) fn is_in_use(&self) -> bool {
        self.0.number().is_some_and(|number| IN_USE[number].load(Ordering::Acquire))
    }
}

/// Mark of an interruption.
static MARK: u8 = 0;

/// No fault.
const NONE: u32 = 0;
/// The fault is written or read.
const BUSY: u32 = 1;
const READY: u32 = 2;

/// A fault that another thread has handed to the guard's thread.
#[derive(Default)]
pub(super) struct HandedFault {
    state: AtomicU32,
    /// The call that the fault shall end, by [`Guard::calls`], and the number of its image.
    call: Cell<(usize, usize)>,
    fault: Cell<Option<Signal>>,
    /// The last call that did not return.
    failed: AtomicUsize,
}

impl HandedFault {
    /// Returns whether no other thread has handed a fault.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.state.load(Ordering::Relaxed) == NONE
    }

    /// Stores a fault in code of an image, unless there is one already.
    fn give(&self, call: usize, image: usize, fault: Signal) {
        let begun =
            self.state.compare_exchange(NONE, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if begun {
            self.fault.set(Some(fault));
            self.call.set((call, image));
            self.state.store(READY, Ordering::Release);
        }
    }

    /// Takes the fault of a call of the code at an address.
    pub(super) fn take(&self, call: usize, code: usize) -> Option<Signal> {
        let begun =
            self.state.compare_exchange(READY, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if !begun {
            return None;
        }
        let is_of = |(of, image)| of == call && IMAGES.find(code as u64) == Some(image);
        let fault = self.fault.take().filter(|_| is_of(self.call.get()));
        self.state.store(NONE, Ordering::Release);
        fault
    }

    /// Notes that a call of the code at an address did not return.
    pub(super) fn note_failed(&self, call: usize, code: usize) {
        if let Some(image) = IMAGES.find(code as u64) {
            HAS_FAILED[image].store(true, Ordering::Release);
        }
        self.failed.store(call, Ordering::Release);
    }
}

impl Guard {
    /// Interrupts the guard's thread, which then ends its call with [`Stop::Cancelled`]. The thread
    /// may be at a place where the call cannot end, so the caller repeats this until
    /// [`Guard::stay`].
    pub(crate) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
        interrupt(self.thread_id.load(Ordering::Relaxed), libc::SIGSEGV);
    }

    /// Lets the thread's later calls run to their ends. The thread itself calls this, when no other
    /// thread can call [`Guard::cancel`] any more.
    pub(crate) fn stay(&self) {
        self.is_cancelled.store(false, Ordering::Relaxed);
    }

    /// Takes the fault that another thread has handed to the current call, or the end that it
    /// wants, if the call may end where the signal has interrupted it.
    pub(super) fn stop_of_others(&self, context: *const c_void) -> Option<Stop> {
        if !may_end(context) {
            return None;
        }
        let (call, code) = (self.calls.load(Ordering::Relaxed), self.code.load(Ordering::Relaxed));
        let handed = self.handed.take(call, code).map(Stop::Signal);
        let is_cancelled = || self.is_cancelled.load(Ordering::Relaxed);
        handed.or_else(|| is_cancelled().then_some(Stop::Cancelled))
    }

    /// Returns whether the thread is in a call of an image's code.
    fn is_in_call_of(&self, image: usize) -> bool {
        let is_in_call = !self.resume_point.load(Ordering::Acquire).is_null();
        is_in_call && IMAGES.find(self.code.load(Ordering::Relaxed) as u64) == Some(image)
    }
}

/// Returns whether a signal is an interruption by a thread that has handed over its fault, or
/// cancels the call.
pub(super) fn is_interruption(info: *const siginfo_t) -> bool {
    // SAFETY: the kernel passed the information to the handler; queued signals have a value.
    unsafe {
        (*info).si_code == libc::SI_QUEUE
            && (*info).si_value().sival_ptr.cast_const() == (&raw const MARK).cast()
    }
}

/// Hands a fault of device code on a thread without a call to the threads with calls of the image.
/// Returns `false` if the process has to handle the signal, and `true` if the handler from before
/// has resolved the fault. Otherwise it never returns.
pub(super) fn hand_over(signal: c_int, info: *mut siginfo_t, context: *mut c_void) -> bool {
    // SAFETY: the kernel passed the information to the handler; faults have an address.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as u64) };
    if code <= 0 {
        return false;
    }
    // SAFETY: the thread's stack is in use.
    let caller = || unsafe { context::caller_of_nothing(address, context) };
    let image = IMAGES.find(code_address(context)).or_else(|| IMAGES.find(caller()?));
    let Some(image) = image else { return false };
    // SAFETY: these are the handler's arguments, and the thread is in no call.
    if unsafe { former::resolves(&ASKED, (0, 0), signal, info, context) } {
        return true;
    }
    // SAFETY: each thread has an error number.
    let error = unsafe { *libc::__errno_location() };
    let fault = Signal { is_of_other_thread: true, ..read(signal, code, info, context) };
    IN_USE[image].store(true, Ordering::Release);
    end_calls(image, fault);
    // A call that fails by its own fault is noted a little later.
    for _ in 0..MOST_PAUSES {
        if HAS_FAILED[image].load(Ordering::Acquire) {
            sleep_for_ever();
        }
        // SAFETY: the time is valid.
        unsafe { libc::nanosleep(&raw const PAUSE, null_mut()) };
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = error };
    false
}

/// Ends the calls of an image's code with a fault. Returns when all have ended, or some cannot end.
fn end_calls(image: usize, fault: Signal) {
    let mut calls = [None; MOST_CALLS];
    let guards = Guard::all().filter(|guard| guard.is_in_call_of(image));
    for (place, guard) in calls.iter_mut().zip(guards) {
        *place = Some((guard, guard.calls.load(Ordering::Relaxed)));
    }
    for _ in 0..MOST_INTERRUPTIONS {
        let mut is_waiting = false;
        for (guard, call) in calls.iter().flatten() {
            let has_failed = guard.handed.failed.load(Ordering::Acquire) >= *call;
            let is_over = has_failed || guard.calls.load(Ordering::Relaxed) != *call;
            if is_over || !guard.is_in_call_of(image) {
                continue;
            }
            guard.handed.give(*call, image, fault);
            is_waiting |= interrupt(guard.thread_id.load(Ordering::Relaxed), fault.number);
        }
        if !is_waiting {
            break;
        }
        // SAFETY: the time is valid.
        unsafe { libc::nanosleep(&raw const PAUSE, null_mut()) };
    }
}

/// Sends an interruption to a thread of this process. Returns `false` if there is no such thread.
fn interrupt(thread: c_int, signal: c_int) -> bool {
    /// The fields of `siginfo_t` for a queued signal.
    #[repr(C)]
    struct Queued {
        signal: c_int,
        error: c_int,
        code: c_int,
        padding: c_int,
        process: libc::pid_t,
        user: libc::uid_t,
        value: *const u8,
        rest: [u64; 12],
    }
    const { assert!(size_of::<Queued>() == size_of::<siginfo_t>()) };
    // SAFETY: the structure has the fields that the call reads.
    unsafe {
        let process = libc::getpid();
        let information = Queued {
            signal,
            error: 0,
            code: libc::SI_QUEUE,
            padding: 0,
            process,
            user: libc::getuid(),
            value: &raw const MARK,
            rest: [0; 12],
        };
        let call = libc::SYS_rt_tgsigqueueinfo;
        libc::syscall(call, process, thread, signal, &raw const information) == 0
    }
}

fn sleep_for_ever() -> ! {
    loop {
        // SAFETY: this has no requirements.
        unsafe { libc::pause() };
    }
}
