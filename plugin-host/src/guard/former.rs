//! The signal handlers that the process had before the first call.
//!
//! The guard calls these handlers as the kernel would: with the signals of their mask blocked, the
//! signal itself unless `SA_NODEFER` is set, and once only with `SA_RESETHAND`. The handlers run on
//! the alternate stack.

use super::SIGNALS;
use super::context::code_address;
use crate::fences;
use libc::{c_int, c_void, siginfo_t};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// A handler of the form that has `SA_SIGINFO`.
type Handler = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);

/// The handlers from before, by the index of their signal.
static mut FORMER: [libc::sigaction; SIGNALS.len()] =
    // SAFETY: zero is a valid value of each field: the default action.
    unsafe { std::mem::zeroed() };
/// Whether the former handler has given up and is no longer called, by the index of its signal.
static GONE: [AtomicBool; SIGNALS.len()] = [const { AtomicBool::new(false) }; SIGNALS.len()];
/// Whether the kernel has `MADV_POPULATE_READ` and `MADV_POPULATE_WRITE`.
static POPULATES: AtomicBool = AtomicBool::new(false);

/// `si_code` of a fault on a mapped page that denies the access, and of a fault by a protection
/// key.
const DENIED: [c_int; 2] = [2, 4];
/// Number of calls in a row of the former handler for the same fault on an unchanged page. Another
/// thread may protect the page again before device code continues.
const MOST_ASKED: u32 = 16;

/// The last fault passed to the former handler, and the number of calls in a row.
#[derive(Debug, Default)]
pub(super) struct LastFault {
    code: AtomicU64,
    address: AtomicU64,
    times: AtomicU32,
}

impl LastFault {
    /// Creates the state without a fault.
    pub(super) const fn new() -> LastFault {
        LastFault { code: AtomicU64::new(0), address: AtomicU64::new(0), times: AtomicU32::new(0) }
    }

    /// Counts a fault, and returns its number in a row.
    fn count(&self, code: u64, address: u64) -> u32 {
        let last = (self.code.load(Ordering::Relaxed), self.address.load(Ordering::Relaxed));
        let is_same = last == (code, address);
        let times = if is_same { self.times.load(Ordering::Relaxed) + 1 } else { 1 };
        self.code.store(code, Ordering::Relaxed);
        self.address.store(address, Ordering::Relaxed);
        self.times.store(times, Ordering::Relaxed);
        times
    }

    fn forget(&self) {
        self.times.store(0, Ordering::Relaxed);
    }
}

/// Installs a handler of all signals in [`SIGNALS`].
pub(super) fn install(handler: Handler) {
    for (index, signal) in SIGNALS.iter().enumerate() {
        // SAFETY: the structure has the fields that `sigaction` requires, and the handler does only
        // what handlers may do. Each element of FORMER is written once, here, before its handler
        // can run.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&raw mut action.sa_mask);
            libc::sigaction(*signal, null(), (&raw mut FORMER[index]).cast());
            libc::sigaction(*signal, &raw const action, null_mut());
        }
    }
    let here = 0_u8;
    POPULATES.store(populate(&raw const here as u64, false).is_ok(), Ordering::Relaxed);
}

/// Calls the former handler for a fault of device code, and returns whether the faulting access
/// should be retried. Only accesses that a page of the program denies go to that handler; the
/// backend's fences are not such pages.
///
/// # Safety
/// The arguments are a handler's arguments; the handler's thread has left device code. `stack_end`
/// has the unmapped addresses below its stack, if they are known.
pub(super) unsafe fn resolves(
    asked: &LastFault,
    stack_end: (u64, u64),
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut c_void,
) -> bool {
    let Some((index, former)) = former(signal) else { return false };
    let is_function = ![libc::SIG_DFL, libc::SIG_IGN].contains(&former.sa_sigaction);
    // SAFETY: the kernel passes a valid pointer; faults have an address.
    let (reason, address) = unsafe { ((*info).si_code, (*info).si_addr() as u64) };
    let is_fence = || fences::has(address) || (stack_end.0..stack_end.1).contains(&address);
    if signal != libc::SIGSEGV || !is_function || !DENIED.contains(&reason) || is_fence() {
        return false;
    }
    let code = code_address(context);
    if asked.count(code, address) > MOST_ASKED {
        asked.forget();
        return false;
    }
    let before = current(signal);
    call(&former, signal, info, context);
    if current(signal).sa_sigaction == libc::SIG_DFL {
        // The former handler does not know the fault, and wants it to end the process.
        GONE[index].store(true, Ordering::Relaxed);
        // SAFETY: this restores the previous action.
        unsafe { libc::sigaction(signal, &raw const before, null_mut()) };
        return false;
    }
    let is_write = super::context::read(signal, reason, info, context).is_write;
    let is_open = POPULATES.load(Ordering::Relaxed)
        && is_write.is_some_and(|is_write| populate(address, is_write).is_ok());
    if is_open || code_address(context) != code {
        asked.forget();
    }
    true
}

/// Handles a signal as the process would without this module.
pub(super) fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let Some((_, mut former)) = former(signal) else { return };
    // SAFETY: the kernel passes a valid pointer to a handler with SA_SIGINFO.
    let is_fault = unsafe { (*info).si_code } > 0;
    if is_fault && former.sa_sigaction == libc::SIG_IGN {
        // Faults cannot be ignored: they would repeat for ever.
        former.sa_sigaction = libc::SIG_DFL;
    }
    match former.sa_sigaction {
        libc::SIG_IGN => {}
        // SAFETY: this restores the process's default action. A fault repeats when the handler
        // returns. Another signal is raised again, and is blocked until then. The same holds for a
        // trap, because code would continue after it.
        libc::SIG_DFL => unsafe {
            libc::sigaction(signal, &raw const former, null_mut());
            if !is_fault || signal == libc::SIGTRAP {
                libc::raise(signal);
            }
        },
        _ => call(&former, signal, info, context),
    }
}

/// Returns a signal's index and its former handler.
fn former(signal: c_int) -> Option<(usize, libc::sigaction)> {
    let index = SIGNALS.iter().position(|known| *known == signal)?;
    // SAFETY: the element was written before the handler was installed, and never again.
    let mut former = unsafe { (&raw const FORMER[index]).read() };
    if GONE[index].load(Ordering::Relaxed) {
        former.sa_sigaction = libc::SIG_DFL;
    }
    Some((index, former))
}

/// Returns a signal's current handler.
fn current(signal: c_int) -> libc::sigaction {
    // SAFETY: zero is a valid value, and the call fills the structure.
    unsafe {
        let mut current: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, null(), &raw mut current);
        current
    }
}

/// Calls a handler, which is neither `SIG_DFL` nor `SIG_IGN`.
fn call(former: &libc::sigaction, signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    if former.sa_flags & libc::SA_RESETHAND != 0
        && let Some(index) = SIGNALS.iter().position(|known| *known == signal)
    {
        GONE[index].store(true, Ordering::Relaxed);
    }
    // SAFETY: this changes the thread's own mask; the handler has the form that its flags state.
    unsafe {
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const former.sa_mask, &raw mut before);
        if former.sa_flags & libc::SA_NODEFER != 0
            && libc::sigismember(&raw const former.sa_mask, signal) != 1
        {
            super::context::unblock(&[signal]);
        }
        if former.sa_flags & libc::SA_SIGINFO != 0 {
            let handler: Handler = std::mem::transmute(former.sa_sigaction);
            handler(signal, info, context);
        } else {
            let handler: extern "C" fn(c_int) = std::mem::transmute(former.sa_sigaction);
            handler(signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, null_mut());
    }
}

/// Makes the kernel access the page at an address, without a change of its contents.
fn populate(address: u64, is_write: bool) -> Result<(), ()> {
    let page = rustix::param::page_size();
    let advice = if is_write { libc::MADV_POPULATE_WRITE } else { libc::MADV_POPULATE_READ };
    let start = address as usize / page * page;
    // SAFETY: the advice changes no content, whatever is at the address.
    match unsafe { libc::madvise(start as *mut c_void, page, advice) } {
        0 => Ok(()),
        _ => Err(()),
    }
}
