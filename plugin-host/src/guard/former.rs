//! The handlers that the process had before.
//!
//! They are called as the kernel would call them: with the signals of their mask blocked, the signal itself unless
//! `SA_NODEFER` is set, and once only with `SA_RESETHAND`. They run on the alternate stack.

use super::context::code_address;
use super::{Guard, SIGNALS};
use crate::fences;
use libc::{c_int, c_void, siginfo_t};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

/// A handler of the form that has `SA_SIGINFO`.
type Handler = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);

/// The handlers that were there before, by the index of their signal.
static mut FORMER: [libc::sigaction; SIGNALS.len()] =
    // SAFETY: zero is a valid value of each field: the default action.
    unsafe { std::mem::zeroed() };
/// By the index of their signal: that the former handler has given up, and is not called any more.
static GONE: [AtomicBool; SIGNALS.len()] = [const { AtomicBool::new(false) }; SIGNALS.len()];
/// Whether the kernel has `MADV_POPULATE_READ` and `MADV_POPULATE_WRITE`.
static POPULATES: AtomicBool = AtomicBool::new(false);

/// `si_code` of a fault on a page that is there and denies the access, and of one by a protection key.
const DENIED: [c_int; 2] = [2, 4];
/// How often in a row the former handler is asked about the same fault while the page stays as it is: another
/// thread may protect it again before device code has gone on.
const MOST_ASKED: u32 = 16;

/// The last fault that the former handler was asked about, and how often it was in a row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked {
    code: u64,
    address: u64,
    times: u32,
}

/// Installs a handler of all signals by which device code fails.
pub(super) fn install(handler: Handler) {
    for (index, signal) in SIGNALS.iter().enumerate() {
        // SAFETY: the structure is filled as `sigaction` wants it; the handler only does what a
        // handler may do. Each place of FORMER is written once, here, before its handler can run.
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

/// Whether the former handler has done something about a fault of device code, which is to be tried again then.
/// It is asked about accesses that a page of the program denies; fences of the backend are no such pages.
///
/// # Safety
/// The arguments are those of a handler; the guard is that of its thread, which has left device code.
pub(super) unsafe fn resolves(
    guard: &Guard,
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut c_void,
) -> bool {
    let Some((index, former)) = former(signal) else { return false };
    let is_function = ![libc::SIG_DFL, libc::SIG_IGN].contains(&former.sa_sigaction);
    // SAFETY: the kernel passes a valid pointer; faults have an address.
    let (reason, address) = unsafe { ((*info).si_code, (*info).si_addr() as u64) };
    let stack_end = guard.stack_end.get();
    let is_fence = || fences::has(address) || (stack_end.0..stack_end.1).contains(&address);
    if signal != libc::SIGSEGV || !is_function || !DENIED.contains(&reason) || is_fence() {
        return false;
    }
    let code = code_address(context);
    let last = guard.asked.get();
    let times = if (last.code, last.address) == (code, address) { last.times + 1 } else { 1 };
    guard.asked.set(Asked { code, address, times });
    if times > MOST_ASKED {
        guard.asked.take();
        return false;
    }
    let before = current(signal);
    call(&former, signal, info, context);
    if current(signal).sa_sigaction == libc::SIG_DFL {
        // It wants the fault to end the process: it knows nothing about it.
        GONE[index].store(true, Ordering::Relaxed);
        // SAFETY: what was there before.
        unsafe { libc::sigaction(signal, &raw const before, null_mut()) };
        return false;
    }
    let is_write = super::context::read(signal, reason, info, context).is_write;
    let is_open = POPULATES.load(Ordering::Relaxed)
        && is_write.is_some_and(|is_write| populate(address, is_write).is_ok());
    if is_open || code_address(context) != code {
        guard.asked.take();
    }
    true
}

/// Does what would have been done without this module.
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
        // SAFETY: what the process did by default it does again: a fault repeats when the handler
        // returns, another signal is raised anew and is blocked until then. So is a trap, behind
        // which the code would go on.
        libc::SIG_DFL => unsafe {
            libc::sigaction(signal, &raw const former, null_mut());
            if !is_fault || signal == libc::SIGTRAP {
                libc::raise(signal);
            }
        },
        _ => call(&former, signal, info, context),
    }
}

/// The handler of a signal before this module's, and the signal's index.
fn former(signal: c_int) -> Option<(usize, libc::sigaction)> {
    let index = SIGNALS.iter().position(|known| *known == signal)?;
    // SAFETY: written before the handler was installed, and never again.
    let mut former = unsafe { (&raw const FORMER[index]).read() };
    if GONE[index].load(Ordering::Relaxed) {
        former.sa_sigaction = libc::SIG_DFL;
    }
    Some((index, former))
}

/// The handler that a signal has now.
fn current(signal: c_int) -> libc::sigaction {
    // SAFETY: zero is a valid value, and the call fills the structure.
    unsafe {
        let mut current: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, null(), &raw mut current);
        current
    }
}

/// Calls a handler, which is neither the default action nor none.
fn call(former: &libc::sigaction, signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    if former.sa_flags & libc::SA_RESETHAND != 0
        && let Some(index) = SIGNALS.iter().position(|known| *known == signal)
    {
        GONE[index].store(true, Ordering::Relaxed);
    }
    // SAFETY: changes the thread's own mask; the handler's form is the one that its flags say.
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

/// Has the kernel access the page at an address, which changes no content.
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
