//! Calls of device code that return even if it faults.
//!
//! A thread inside [`Guard::call`] may raise a signal: a bad address, an illegal instruction, a
//! division trap, `abort`. The signal ends the call and not the process: the handler lets the
//! thread continue after the call, with its stack of that time. This skips only frames of device
//! code, which leave nothing to clean up.
//!
//! The handlers are installed for the process with the first call. A signal from other code goes to
//! the earlier handler ([`former`]). That handler also comes first for faults of device code on
//! pages that the program has protected: if it makes the page accessible, device code continues. A
//! handler that the program installs later gets the signals first, and faults of kernels come here
//! only if it passes them on.
//!
//! A fault of a thread that device code has started ends the calls of the same image ([`team`]).
//!
//! A call preserves the thread's floating-point modes ([`modes`]), and so does a suspension of
//! device code.

mod context;
mod enter;
mod former;
mod locks;
mod modes;
mod team;
pub(crate) mod thread_stack;

pub(crate) use modes::Modes;
pub(crate) use team::CodeOfImage;

use crate::kernel::abi::{GroupEntry, Work};
use context::{redirect, thread_pointer};
use enter::{ResumePoint, enter, leave};
use libc::{c_int, c_void, siginfo_t};
use longshore_plugin_api::Error;
use std::cell::Cell;
use std::ffi::CStr;
use std::ptr::{NonNull, null_mut};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize, Ordering, compiler_fence};
use team::HandedFault;

/// Signals of failed device code.
const SIGNALS: [c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGABRT];
const ALTERNATE_STACK_BYTES: usize = 64 << 10;

/// The reason that device code did not return.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stop {
    /// A signal that it raised.
    Signal(Signal),
    /// A failure that it reported: a failed assertion.
    Failed(Failure),
    /// A call of a C library function that would have ended the thread or the program.
    Ended(Ending),
    /// A call of a function that cannot be linked. The error lives as long as the image.
    NotLinked(NonNull<Error>),
    /// A run longer than the limit of [`Guard::call_for`].
    TimedOut,
    /// An end by [`Guard::cancel`].
    Cancelled,
}

/// A call that would have ended the thread or the program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending {
    pub(crate) function: &'static CStr,
    /// The status of the program, for functions that end it with one.
    pub(crate) status: Option<c_int>,
}

impl Ending {
    /// Creates the call of a function without a status.
    pub(crate) const fn new(function: &'static CStr) -> Ending {
        Ending { function, status: None }
    }

    /// Returns the same call with a status.
    pub(crate) const fn with_status(self, status: c_int) -> Ending {
        Ending { status: Some(status), ..self }
    }
}

/// A signal that device code raised.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signal {
    pub(crate) number: c_int,
    /// `si_code`.
    pub(crate) code: c_int,
    /// The accessed address for memory faults, else the address of the code.
    pub(crate) address: u64,
    /// The address of the instruction.
    pub(crate) instruction: u64,
    /// The address to which the faulting function would return, if it has no stack frame.
    pub(crate) caller: Option<u64>,
    /// Whether the access was a write; `None` if the machine does not report it.
    pub(crate) is_write: Option<bool>,
    /// Whether a thread that device code has started raised it.
    pub(crate) is_of_other_thread: bool,
}

/// The arguments of `calls.fail`. The texts are constants of the image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failure {
    pub(crate) what: *const libc::c_char,
    pub(crate) file: *const libc::c_char,
    pub(crate) line: u32,
    /// An address in the code that reported the failure; 0 if it is unknown.
    pub(crate) from: u64,
}

/// The state of a thread that may call device code. Lives as long as the process, and is reused
/// after its thread has ended.
pub(crate) struct Guard {
    next: AtomicPtr<Guard>,
    /// Number of the thread; 0 after its end.
    thread: AtomicUsize,
    /// The system's number of the thread.
    thread_id: AtomicI32,
    /// The place to continue at if device code faults; null while the thread is not in device code.
    resume_point: AtomicPtr<ResumePoint>,
    /// Address of the called code.
    code: AtomicUsize,
    /// Number of calls that have begun.
    calls: AtomicUsize,
    handed: HandedFault,
    stop: Cell<Option<Stop>>,
    timer: Cell<bool>,
    /// Whether an interruption ends the thread's calls.
    is_cancelled: AtomicBool,
    /// Unmapped addresses below the thread's stack, and the last page of the stack.
    stack_end: Cell<(u64, u64)>,
    asked: former::LastFault,
}

/// Device code that its thread has left temporarily.
#[derive(Clone, Copy)]
#[must_use = "the thread must return to the device code"]
pub(crate) struct SuspendedCode {
    resume_point: *mut ResumePoint,
    modes: Modes,
}

impl SuspendedCode {
    /// Returns whether the thread was in device code at all.
    pub(crate) fn is_in_call(self) -> bool {
        !self.resume_point.is_null()
    }
}

// SAFETY: only the guard's own thread, and handlers on it, use the cells, except that of `handed`,
// which has a state of its own; `thread` identifies that thread.
unsafe impl Sync for Guard {}

/// All guards, newest first. Guards are never removed.
static GUARDS: AtomicPtr<Guard> = AtomicPtr::new(null_mut());

impl Guard {
    /// Returns the calling thread's guard.
    #[inline]
    pub(crate) fn for_thread() -> &'static Guard {
        thread_local!(static OWN: GuardOwner = GuardOwner(Guard::register()));
        // An ending thread has already lost its own guard; it gets another one that is never
        // returned.
        OWN.try_with(|own| own.0).unwrap_or_else(|_| Guard::register())
    }

    /// Calls device code. Returns `Err` if it did not return.
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
        // SAFETY: promised by the caller.
        unsafe { self.call_through(entry, entry as usize, arguments, work) }
    }

    /// Calls device code at the address `code` by means of `entry`. Returns `Err` if it did not
    /// return.
    ///
    /// # Safety
    /// As for [`Guard::call`].
    #[inline]
    pub(crate) unsafe fn call_through(
        &self,
        entry: GroupEntry,
        code: usize,
        arguments: *const *const c_void,
        work: *mut Work,
    ) -> Result<(), Stop> {
        let mut resume_point = ResumePoint::new();
        let outer = self.resume_point.load(Ordering::Relaxed);
        let outer_code = self.code.load(Ordering::Relaxed);
        self.code.store(code, Ordering::Relaxed);
        // Only this thread writes the number.
        let call = self.calls.load(Ordering::Relaxed).wrapping_add(1);
        self.calls.store(call, Ordering::Relaxed);
        // Other threads read the address of the code after this one.
        self.resume_point.store(&raw mut resume_point, Ordering::Release);
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the caller vouches for the kernel; the resume point outlives the call.
        let stopped = unsafe { enter(&raw mut resume_point, entry, arguments, work) };
        compiler_fence(Ordering::SeqCst);
        self.resume_point.store(outer, Ordering::Relaxed);
        self.code.store(outer_code, Ordering::Relaxed);
        if stopped == 0 && self.handed.is_empty() {
            return Ok(());
        }
        self.take_stop(stopped != 0, code, call)
    }

    /// Calls device code, and ends the call after a time limit.
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
        // SAFETY: the caller vouches for the kernel.
        let call = || unsafe { self.call(entry, arguments, work) };
        self.with_limit(limit, call).unwrap_or(Err(Stop::TimedOut))
    }

    /// Runs `body`, whose calls of device code end with [`Stop::TimedOut`] once the limit is over.
    /// `None` if the system has no timer.
    pub(crate) fn with_limit<T>(
        &self,
        limit: std::time::Duration,
        body: impl FnOnce() -> T,
    ) -> Option<T> {
        let timer = context::Timer::start(limit)?;
        self.timer.set(true);
        let result = body();
        self.timer.set(false);
        drop(timer);
        Some(result)
    }

    /// Leaves device code temporarily, on its stack and with the modes of its caller. Until
    /// [`Guard::resume`], a fault is not treated as a fault of device code.
    #[inline]
    pub(crate) fn suspend(&self) -> SuspendedCode {
        let (resume_point, modes) = (self.resume_point.load(Ordering::Relaxed), Modes::read());
        // SAFETY: a resume point that is not null belongs to the thread's current call.
        let entered = unsafe { resume_point.as_ref() };
        if let Some(entered) = entered.filter(|resume_point| resume_point.is_set()) {
            // SAFETY: the resume point points at the modes from before the call.
            unsafe { *(entered.stack as *const Modes) }.restore();
        }
        self.resume_point.store(null_mut(), Ordering::Relaxed);
        SuspendedCode { resume_point, modes }
    }

    /// Returns to the device code that [`Guard::suspend`] left.
    #[inline]
    pub(crate) fn resume(&self, suspended: SuspendedCode) {
        suspended.modes.restore();
        self.resume_point.store(suspended.resume_point, Ordering::Relaxed);
    }

    /// Ends the thread's current call of device code, if any, because device code has called
    /// `ending.function`.
    pub(crate) fn end_if_called(ending: Ending) {
        let guard = Guard::for_handler();
        let is_called = |guard: &&Guard| !guard.resume_point.load(Ordering::Relaxed).is_null();
        if let Some(guard) = guard.filter(is_called) {
            // SAFETY: the thread is in a call, and device code called this function directly.
            unsafe { guard.end_with(Stop::Ended(ending)) }
        }
    }

    /// Ends the thread's current call of device code with a failure.
    ///
    /// # Safety
    /// The thread is in [`Guard::call`], and the frames between have nothing to drop.
    pub(crate) unsafe fn fail(&self, failure: Failure) -> ! {
        // SAFETY: promised by the caller.
        unsafe { self.end_with(Stop::Failed(failure)) }
    }

    /// Ends the thread's current call of device code for any reason.
    ///
    /// # Safety
    /// As for [`Guard::fail`].
    pub(crate) unsafe fn end_with(&self, stop: Stop) -> ! {
        self.stop.set(Some(stop));
        let resume_point = self.resume_point.swap(null_mut(), Ordering::Relaxed);
        // SAFETY: the resume point belongs to the thread's current call.
        unsafe { leave(resume_point) }
    }

    /// Returns the result of a call that was stopped, or to which another thread has handed a
    /// fault.
    #[cold]
    fn take_stop(&self, is_stopped: bool, code: usize, call: usize) -> Result<(), Stop> {
        let stop = if is_stopped {
            context::unblock(&SIGNALS);
            self.stop.take().unwrap_or(Stop::TimedOut)
        } else {
            match self.handed.take(call, code) {
                Some(fault) => Stop::Signal(fault),
                None => return Ok(()),
            }
        };
        self.handed.note_failed(call, code);
        Err(stop)
    }

    #[cold]
    fn register() -> &'static Guard {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| {
            locks::find();
            former::install(handle);
            // SAFETY: the function does nothing that a forked child may not do.
            unsafe { libc::pthread_atfork(None, None, Some(after_fork)) };
        });
        context::ensure_alternate_stack(ALTERNATE_STACK_BYTES);
        // An ending thread may already have a guard, as may an ended thread at the same address.
        let guard = Guard::for_handler().unwrap_or_else(Guard::take);
        guard.stack_end.set(thread_stack::end().unwrap_or_default());
        guard.thread_id.store(own_thread_id(), Ordering::Relaxed);
        guard
    }

    /// Takes a free guard for the calling thread, or adds one.
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
            thread_id: AtomicI32::new(0),
            resume_point: AtomicPtr::new(null_mut()),
            code: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
            handed: HandedFault::default(),
            stop: Cell::new(None),
            timer: Cell::new(false),
            is_cancelled: AtomicBool::new(false),
            stack_end: Cell::default(),
            asked: former::LastFault::new(),
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

    /// Returns the calling thread's guard, also in a signal handler. Takes no lock and allocates
    /// nothing.
    fn for_handler() -> Option<&'static Guard> {
        let thread = thread_pointer();
        Guard::all().find(|known| known.thread.load(Ordering::Relaxed) == thread)
    }

    /// Returns all guards, newest first. Takes no lock and allocates nothing.
    fn all() -> impl Iterator<Item = &'static Guard> {
        // SAFETY: guards are never freed.
        let at = |guard: &AtomicPtr<Guard>| unsafe { guard.load(Ordering::Acquire).as_ref() };
        std::iter::successors(at(&GUARDS), move |known: &&'static Guard| at(&known.next))
    }
}

/// Returns the system's number of the calling thread, by a system call: the C library's function
/// is newer than the oldest one that wheels serve.
fn own_thread_id() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Adapts the guards to a forked child, in which only the calling thread lives.
unsafe extern "C" fn after_fork() {
    let thread = thread_pointer();
    for guard in Guard::all() {
        if guard.thread.load(Ordering::Relaxed) == thread {
            guard.thread_id.store(own_thread_id(), Ordering::Relaxed);
        } else {
            guard.resume_point.store(null_mut(), Ordering::Relaxed);
            guard.thread.store(0, Ordering::Relaxed);
        }
    }
}

/// An owner of a guard that frees the guard when its thread ends.
struct GuardOwner(&'static Guard);

impl Drop for GuardOwner {
    fn drop(&mut self) {
        self.0.resume_point.store(null_mut(), Ordering::Relaxed);
        self.0.thread.store(0, Ordering::Release);
    }
}

extern "C" fn handle(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // The kernel does not clear the alignment-check flag.
    modes::clear_flags();
    // SAFETY: the kernel passes valid pointers to a handler with SA_SIGINFO.
    let code = unsafe { (*info).si_code };
    let is_timer = context::is_timer(info);
    let guard = Guard::for_handler();
    let resume_point = guard.map_or(null_mut(), |guard| guard.resume_point.load(Ordering::Relaxed));
    // `abort` signals its own thread; a signal from another process does not.
    let is_abort = signal == libc::SIGABRT && code == libc::SI_TKILL;
    let is_own = code > 0 || is_abort || (is_timer && guard.is_some_and(|g| g.timer.get()));
    // SAFETY: a resume point that is not null belongs to the thread's current call.
    let can_land = !resume_point.is_null() && unsafe { (*resume_point).is_set() };
    if team::is_interruption(info) {
        let stop = guard.filter(|_| can_land).and_then(|guard| guard.stop_of_others(context));
        if let Some((guard, stop)) = guard.zip(stop) {
            guard.resume_point.store(null_mut(), Ordering::Relaxed);
            guard.stop.set(Some(stop));
            // SAFETY: the resume point belongs to the thread's current call.
            unsafe { redirect(context, resume_point) };
        }
        return;
    }
    if let Some(guard) = guard.filter(|_| can_land && is_own) {
        guard.resume_point.store(null_mut(), Ordering::Relaxed);
        let (asked, stack_end) = (&guard.asked, guard.stack_end.get());
        // SAFETY: these are the handler's own arguments, and the thread has left device code.
        let resolves = || unsafe { former::resolves(asked, stack_end, signal, info, context) };
        if !is_timer && resolves() {
            guard.resume_point.store(resume_point, Ordering::Relaxed);
            return;
        }
        guard.stop.set(Some(match is_timer {
            true => Stop::TimedOut,
            false => Stop::Signal(context::read(signal, code, info, context)),
        }));
        // SAFETY: the resume point belongs to the thread's current call.
        unsafe { redirect(context, resume_point) };
    } else if !is_timer && !team::hand_over(signal, info, context) {
        former::pass_on(signal, info, context);
    }
}

#[cfg(test)]
mod tests;
