//! Calls of device code that come back even if it faults.
//!
//! While a thread is inside [`Guard::call`], a signal that its own code raises (a bad address, an
//! illegal instruction, a division trap, `abort`) ends the call and not the process: the handler lets
//! the thread go on behind the call, with the stack that it had there. Only frames of device code are
//! left out so, which has nothing to clean up that anybody else could know of.
//!
//! The handlers are the process's, installed with the first call. A signal that is raised elsewhere goes to
//! the handler that was there before ([`former`]). That handler is also asked first about faults of device code on
//! pages that the program has protected: if it makes the page accessible, device code goes on. A handler that is
//! installed later sees the signals first, and faults of kernels only come here if it passes them on.
//!
//! A call leaves the thread's modes of floating point as they were ([`modes`]), and so does leaving device code
//! for a while.

mod context;
mod enter;
mod former;
mod modes;
pub(crate) mod thread_stack;

pub(crate) use modes::Modes;

use crate::kernel::abi::{GroupEntry, Work};
use context::{redirect, thread_pointer};
use enter::{Landing, enter, leave};
use libc::{c_int, c_void, siginfo_t};
use longshore_plugin_api::Error;
use std::cell::Cell;
use std::ffi::CStr;
use std::ptr::{NonNull, null_mut};
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering, compiler_fence};

/// Signals by which device code fails.
const SIGNALS: [c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGABRT];
const ALTERNATE_STACK_BYTES: usize = 64 << 10;

/// Why device code did not return.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stop {
    /// It raised a signal.
    Signal(Signal),
    /// It asked for it: a failed assertion.
    Failed(Failure),
    /// It called a function of the C library that would have ended its thread or the program.
    Ended(&'static CStr),
    /// It called a function that cannot be linked. The error lives as long as the image.
    NotLinked(NonNull<Error>),
    /// It took longer than [`Guard::call_for`] allowed.
    TimedOut,
}

/// A signal that device code raised.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signal {
    pub(crate) number: c_int,
    /// `si_code`.
    pub(crate) code: c_int,
    /// For memory: what was accessed; else where the code was.
    pub(crate) address: u64,
    /// Whether memory was written; `None` if the machine does not tell.
    pub(crate) is_write: Option<bool>,
}

/// What `calls.fail` was called with. The texts are constants of the image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failure {
    pub(crate) what: *const libc::c_char,
    pub(crate) file: *const libc::c_char,
    pub(crate) line: u32,
}

/// A thread that may call device code. Lives as long as the process; used again when its thread has
/// ended.
pub(crate) struct Guard {
    next: AtomicPtr<Guard>,
    /// Identifies the thread; 0 if it has ended.
    thread: AtomicUsize,
    /// Where to go on if device code faults; null if the thread is not in device code.
    landing: AtomicPtr<Landing>,
    stop: Cell<Option<Stop>>,
    timer: Cell<bool>,
    /// Addresses below the thread's stack at which nothing is, and the last page of the stack.
    stack_end: Cell<(u64, u64)>,
    asked: Cell<former::Asked>,
}

/// Device code that its thread has left for a while.
#[derive(Clone, Copy)]
#[must_use = "the thread goes back to it"]
pub(crate) struct Suspended {
    landing: *mut Landing,
    modes: Modes,
}

impl Suspended {
    /// Whether the thread was in device code at all.
    pub(crate) fn is_in_call(self) -> bool {
        !self.landing.is_null()
    }
}

// SAFETY: the cells are used by the guard's own thread and by handlers on it, `thread` decides which.
unsafe impl Sync for Guard {}

/// All guards, newest first; none is ever removed.
static GUARDS: AtomicPtr<Guard> = AtomicPtr::new(null_mut());

impl Guard {
    /// The calling thread's.
    #[inline]
    pub(crate) fn of_thread() -> &'static Guard {
        thread_local!(static OWN: Owned = Owned(Guard::register()));
        // A thread that is ending has lost its own: it gets another, for good.
        OWN.try_with(|own| own.0).unwrap_or_else(|_| Guard::register())
    }

    /// Calls device code; `Err` if it did not return.
    ///
    /// # Safety
    /// The kernel may be run with these arguments and this work.
    #[inline]
    pub(crate) unsafe fn call(
        &self,
        entry: GroupEntry,
        arguments: *const *const c_void,
        work: *mut Work,
    ) -> Result<(), Stop> {
        let mut landing = Landing::new();
        let outer = self.landing.load(Ordering::Relaxed);
        self.landing.store(&raw mut landing, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the caller vouches for the kernel; the landing outlives the call.
        let stopped = unsafe { enter(&raw mut landing, entry, arguments, work) };
        compiler_fence(Ordering::SeqCst);
        self.landing.store(outer, Ordering::Relaxed);
        if stopped == 0 { Ok(()) } else { Err(self.take_stop()) }
    }

    /// The same, and ends the call when it takes too long.
    ///
    /// # Safety
    /// As for [`Guard::call`].
    pub(crate) unsafe fn call_for(
        &self,
        limit: std::time::Duration,
        entry: GroupEntry,
        arguments: *const *const c_void,
        work: *mut Work,
    ) -> Result<(), Stop> {
        let Some(timer) = context::Timer::start(limit) else { return Err(Stop::TimedOut) };
        self.timer.set(true);
        // SAFETY: as the caller vouches.
        let result = unsafe { self.call(entry, arguments, work) };
        self.timer.set(false);
        drop(timer);
        result
    }

    /// Leaves device code for a while, on its stack and with the modes of its caller: until [`Guard::resume`], a
    /// fault is nobody's.
    #[inline]
    pub(crate) fn suspend(&self) -> Suspended {
        let (landing, modes) = (self.landing.load(Ordering::Relaxed), Modes::read());
        // SAFETY: one that is not null is that of the call that the thread is in.
        if let Some(entered) = unsafe { landing.as_ref() }.filter(|landing| landing.is_set()) {
            // SAFETY: the modes of before the call lie where its landing points.
            unsafe { *(entered.stack as *const Modes) }.restore();
        }
        self.landing.store(null_mut(), Ordering::Relaxed);
        Suspended { landing, modes }
    }

    /// Goes back to what [`Guard::suspend`] left.
    #[inline]
    pub(crate) fn resume(&self, suspended: Suspended) {
        suspended.modes.restore();
        self.landing.store(suspended.landing, Ordering::Relaxed);
    }

    /// Ends the call of device code that the thread is in, if it is in one, because of a call of this function.
    pub(crate) fn end_if_called(function: &'static CStr) {
        let guard = Guard::of_handler();
        let is_called = |guard: &&Guard| !guard.landing.load(Ordering::Relaxed).is_null();
        if let Some(guard) = guard.filter(is_called) {
            // SAFETY: the thread is in a call, and came here from device code directly.
            unsafe { guard.end_with(Stop::Ended(function)) }
        }
    }

    /// Ends the call of device code that the thread is in, which fails so.
    ///
    /// # Safety
    /// The thread is in [`Guard::call`], and what lies between has nothing to drop.
    pub(crate) unsafe fn fail(&self, failure: Failure) -> ! {
        // SAFETY: promised by the caller.
        unsafe { self.end_with(Stop::Failed(failure)) }
    }

    /// The same for any reason.
    ///
    /// # Safety
    /// As for [`Guard::fail`].
    pub(crate) unsafe fn end_with(&self, stop: Stop) -> ! {
        self.stop.set(Some(stop));
        let landing = self.landing.swap(null_mut(), Ordering::Relaxed);
        // SAFETY: the landing is that of the call that the thread is in.
        unsafe { leave(landing) }
    }

    #[cold]
    fn take_stop(&self) -> Stop {
        context::unblock(&SIGNALS);
        self.stop.take().unwrap_or(Stop::TimedOut)
    }

    #[cold]
    fn register() -> &'static Guard {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| former::install(handle));
        context::ensure_alternate_stack(ALTERNATE_STACK_BYTES);
        // That of a thread which is ending, or which ended so and was at the same address.
        let guard = Guard::of_handler().unwrap_or_else(Guard::take);
        guard.stack_end.set(thread_stack::end().unwrap_or_default());
        guard
    }

    /// A guard for the calling thread.
    fn take() -> &'static Guard {
        let thread = thread_pointer();
        let mut guard = GUARDS.load(Ordering::Acquire);
        // SAFETY: guards are never freed.
        while let Some(known) = unsafe { guard.as_ref() } {
            let free =
                known.thread.compare_exchange(0, thread, Ordering::AcqRel, Ordering::Relaxed);
            if free.is_ok() {
                return known;
            }
            guard = known.next.load(Ordering::Acquire);
        }
        Guard::add(thread)
    }

    fn add(thread: usize) -> &'static Guard {
        let guard: &'static Guard = Box::leak(Box::new(Guard {
            next: AtomicPtr::new(null_mut()),
            thread: AtomicUsize::new(thread),
            landing: AtomicPtr::new(null_mut()),
            stop: Cell::new(None),
            timer: Cell::new(false),
            stack_end: Cell::default(),
            asked: Cell::default(),
        }));
        let mut first = GUARDS.load(Ordering::Acquire);
        loop {
            guard.next.store(first, Ordering::Release);
            let new = std::ptr::from_ref(guard).cast_mut();
            match GUARDS.compare_exchange(first, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return guard,
                Err(now) => first = now,
            }
        }
    }

    /// The guard that has the calling thread, which may be in a handler. Takes no lock and allocates nothing.
    fn of_handler() -> Option<&'static Guard> {
        let thread = thread_pointer();
        let mut guard = GUARDS.load(Ordering::Acquire);
        // SAFETY: guards are never freed.
        while let Some(known) = unsafe { guard.as_ref() } {
            if known.thread.load(Ordering::Relaxed) == thread {
                return Some(known);
            }
            guard = known.next.load(Ordering::Acquire);
        }
        None
    }
}

/// Gives the guard back when its thread ends.
struct Owned(&'static Guard);

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.landing.store(null_mut(), Ordering::Relaxed);
        self.0.thread.store(0, Ordering::Release);
    }
}

extern "C" fn handle(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // The kernel leaves alignment checks on.
    modes::clear_flags();
    // SAFETY: the kernel passes valid pointers to a handler with SA_SIGINFO.
    let code = unsafe { (*info).si_code };
    let is_timer = context::is_timer(info);
    let guard = Guard::of_handler();
    let landing = guard.map_or(null_mut(), |guard| guard.landing.load(Ordering::Relaxed));
    // `abort` signals its own thread; who ends the process from outside does not.
    let is_abort = signal == libc::SIGABRT && code == libc::SI_TKILL;
    let is_own = code > 0 || is_abort || (is_timer && guard.is_some_and(|g| g.timer.get()));
    // SAFETY: one that is not null is that of the call that the thread is in.
    let can_land = !landing.is_null() && unsafe { (*landing).is_set() };
    if let Some(guard) = guard.filter(|_| can_land && is_own) {
        guard.landing.store(null_mut(), Ordering::Relaxed);
        // SAFETY: the arguments are those of this handler, and the thread has left device code.
        if !is_timer && unsafe { former::resolves(guard, signal, info, context) } {
            guard.landing.store(landing, Ordering::Relaxed);
            return;
        }
        guard.stop.set(Some(match is_timer {
            true => Stop::TimedOut,
            false => Stop::Signal(context::read(signal, code, info, context)),
        }));
        // SAFETY: the landing is that of the call that the thread is in.
        unsafe { redirect(context, landing) };
    } else if !is_timer {
        former::pass_on(signal, info, context);
    }
}

#[cfg(test)]
mod tests;
