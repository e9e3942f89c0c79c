//! System services of the guard: the thread's state at a signal, signal stacks, timers.

use super::Signal;
use super::enter::ResumePoint;
use libc::{c_int, c_void, siginfo_t, ucontext_t};
use std::cell::Cell;
use std::ptr::{null, null_mut};
use std::time::Duration;

/// Returns a number that no other living thread has, and never 0. Uses no thread-local storage,
/// whose first use may allocate.
#[inline]
pub(super) fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: this reads the address of the thread's control block, where the C library keeps it.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem, preserves_flags));
    }
    pointer
}

/// Makes the thread continue at a resume point when the handler returns.
///
/// # Safety
/// `context` is the handler's argument, and the thread can continue at the resume point.
pub(super) unsafe fn redirect(context: *mut c_void, resume_point: *const ResumePoint) {
    let context = context.cast::<ucontext_t>();
    // SAFETY: the caller vouches for both.
    unsafe {
        let ResumePoint { stack, resume } = resume_point.read();
        #[cfg(target_arch = "x86_64")]
        {
            let registers = &raw mut (*context).uc_mcontext.gregs;
            (*registers)[libc::REG_RSP as usize] = stack as i64;
            (*registers)[libc::REG_RIP as usize] = resume as i64;
            (*registers)[libc::REG_EFL as usize] &= !i64::from(super::modes::FLAGS);
        }
        #[cfg(target_arch = "aarch64")]
        {
            (*context).uc_mcontext.sp = stack as u64;
            (*context).uc_mcontext.pc = resume as u64;
        }
    }
}

/// Returns whether a signal has interrupted a system call that waits, or the wait for a lock that
/// goes on behind the handler.
pub(super) fn is_waiting(context: *const c_void) -> bool {
    const INTERRUPTED: i64 = -(libc::EINTR as i64);
    #[cfg(target_arch = "x86_64")]
    const CALL: [u8; 2] = [0x0f, 0x05];
    #[cfg(target_arch = "aarch64")]
    const CALL: [u8; 4] = 0xd400_0001_u32.to_le_bytes();
    let code = code_address(context) as *const u8;
    let context = context.cast::<ucontext_t>();
    // SAFETY: the kernel passed the context to the handler; the code around is readable.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        let [result, number] = [(*context).uc_mcontext.gregs[libc::REG_RAX as usize]; 2];
        #[cfg(target_arch = "aarch64")]
        let [result, number] = [0, 8].map(|at| (*context).uc_mcontext.regs[at] as i64);
        let is_call_at = |code: *const u8| std::slice::from_raw_parts(code, CALL.len()) == CALL;
        (result == INTERRUPTED && is_call_at(code.sub(CALL.len())))
            || (number == libc::SYS_futex && is_call_at(code))
    }
}

/// Returns the address to which the interrupted code would return, if it has called an address
/// without code.
///
/// # Safety
/// The context is that of a fault, and the thread's stack is readable.
pub(super) unsafe fn caller_of_nothing(address: u64, context: *const c_void) -> Option<u64> {
    let has_jumped = address == code_address(context);
    let context = context.cast::<ucontext_t>();
    // SAFETY: promised by the caller.
    has_jumped.then(|| unsafe {
        #[cfg(target_arch = "x86_64")]
        return *((*context).uc_mcontext.gregs[libc::REG_RSP as usize] as *const u64);
        #[cfg(target_arch = "aarch64")]
        return (*context).uc_mcontext.regs[30];
    })
}

/// Returns the address of the code that a signal has interrupted.
pub(super) fn code_address(context: *const c_void) -> u64 {
    let context = context.cast::<ucontext_t>();
    // SAFETY: the kernel passed the context to the handler.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        return (*context).uc_mcontext.gregs[libc::REG_RIP as usize] as u64;
        #[cfg(target_arch = "aarch64")]
        return (*context).uc_mcontext.pc;
    }
}

/// Reads the facts about a signal.
pub(super) fn read(
    number: c_int,
    code: c_int,
    info: *const siginfo_t,
    context: *const c_void,
) -> Signal {
    // SAFETY: the kernel passed both to the handler; the signals have an address.
    let address = unsafe { (*info).si_addr() } as u64;
    let is_write = match number {
        libc::SIGSEGV | libc::SIGBUS => written(context.cast()),
        _ => None,
    };
    let (instruction, caller) = (code_address(context), caller(context.cast()));
    Signal { number, code, address, instruction, caller, is_write, is_of_other_thread: false }
}

/// Returns the address on top of the stack. `None` if the stack is not readable, or in a sandbox.
#[cfg(target_arch = "x86_64")]
fn caller(context: *const ucontext_t) -> Option<u64> {
    let mut word = 0_u64;
    let bytes = size_of::<u64>();
    // SAFETY: the kernel passed the context to the handler. The call may be made in a handler, and
    // fails for addresses that are not readable.
    unsafe {
        let top = (*context).uc_mcontext.gregs[libc::REG_RSP as usize] as *mut c_void;
        let to = libc::iovec { iov_base: (&raw mut word).cast(), iov_len: bytes };
        let from = libc::iovec { iov_base: top, iov_len: bytes };
        let own = libc::getpid();
        let error = *libc::__errno_location();
        let read = libc::process_vm_readv(own, &raw const to, 1, &raw const from, 1, 0);
        *libc::__errno_location() = error;
        (read == bytes as isize).then_some(word)
    }
}

/// Returns the address in the link register.
#[cfg(target_arch = "aarch64")]
fn caller(context: *const ucontext_t) -> Option<u64> {
    // SAFETY: the kernel passed the context to the handler.
    Some(unsafe { (*context).uc_mcontext.regs[30] })
}

#[cfg(target_arch = "x86_64")]
fn written(context: *const ucontext_t) -> Option<bool> {
    /// Bit of a page fault's error code: the access was a write.
    const WRITE: i64 = 2;
    const PAGE_FAULT: i64 = 14;
    // SAFETY: the kernel passed the context to the handler.
    let registers = unsafe { (*context).uc_mcontext.gregs };
    let is_page_fault = registers[libc::REG_TRAPNO as usize] == PAGE_FAULT;
    is_page_fault.then_some(registers[libc::REG_ERR as usize] & WRITE != 0)
}

#[cfg(target_arch = "aarch64")]
fn written(_context: *const ucontext_t) -> Option<bool> {
    None
}

/// Gives the thread an alternate stack for handlers, so that an overflow of its own stack can be
/// handled. Keeps an existing stack of at least [`LEAST_BYTES`]. The new stack is freed when the
/// thread ends.
pub(super) fn ensure_alternate_stack(bytes: usize) {
    thread_local!(static STACK: Cell<Option<AlternateStack>> = const { Cell::new(None) });
    let is_enough =
        current_stack().is_none_or(|stack| !is_disabled(&stack) && stack.ss_size >= LEAST_BYTES);
    if !is_enough {
        let _ = STACK.try_with(|stack| stack.set(AlternateStack::install(bytes)));
    }
}

/// Least size in bytes of an existing alternate stack that is kept. The standard library's stacks
/// have 8 KiB, which two signal frames with AVX-512 registers nearly fill. A handler of the program
/// that calls `abort` would overflow such a stack.
const LEAST_BYTES: usize = 16 << 10;

/// Returns the thread's alternate stack. `None` while a handler runs on it, or if the system does
/// not report it.
fn current_stack() -> Option<libc::stack_t> {
    // SAFETY: zero is a valid value, and the call fills the structure.
    unsafe {
        let mut current: libc::stack_t = std::mem::zeroed();
        let is_reported = libc::sigaltstack(null(), &raw mut current) == 0;
        (is_reported && current.ss_flags & libc::SS_ONSTACK == 0).then_some(current)
    }
}

/// Returns whether a handler runs on the thread's alternate stack.
fn is_on_alternate_stack() -> bool {
    // SAFETY: zero is a valid value, and the call fills the structure.
    unsafe {
        let mut current: libc::stack_t = std::mem::zeroed();
        libc::sigaltstack(null(), &raw mut current);
        current.ss_flags & libc::SS_ONSTACK != 0
    }
}

fn is_disabled(stack: &libc::stack_t) -> bool {
    stack.ss_flags & libc::SS_DISABLE != 0
}

struct AlternateStack {
    base: *mut c_void,
    bytes: usize,
}

impl AlternateStack {
    fn install(bytes: usize) -> Option<AlternateStack> {
        // SAFETY: this is a new mapping, which becomes this thread's stack for handlers.
        unsafe {
            let (protection, flags) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let base = libc::mmap(null_mut(), bytes, protection, flags, -1, 0);
            if base == libc::MAP_FAILED {
                return None;
            }
            let stack = libc::stack_t { ss_sp: base, ss_flags: 0, ss_size: bytes };
            libc::sigaltstack(&raw const stack, null_mut());
            Some(AlternateStack { base, bytes })
        }
    }
}

impl Drop for AlternateStack {
    fn drop(&mut self) {
        if is_on_alternate_stack() {
            // A handler that ends the thread or the program runs on it.
            return;
        }
        let is_current = current_stack().is_none_or(|stack| stack.ss_sp == self.base);
        // SAFETY: the thread no longer uses the stack once it is disabled, and no other thread uses
        // it.
        unsafe {
            if is_current {
                let none =
                    libc::stack_t { ss_sp: null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
                libc::sigaltstack(&raw const none, null_mut());
            }
            libc::munmap(self.base, self.bytes);
        }
    }
}

/// Unblocks signals that stay blocked because their handler did not return.
pub(super) fn unblock(signals: &[c_int]) {
    // SAFETY: this changes the thread's own mask.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, null_mut());
    }
}

/// Interval between the signals of a [`Timer`], in nanoseconds.
const AGAIN_NS: libc::c_long = 1_000_000;

/// Mark of the signals of a [`Timer`].
static TIMER_MARK: u8 = 0;

/// Returns whether a [`Timer`] sent the signal.
pub(super) fn is_timer(info: *const siginfo_t) -> bool {
    // SAFETY: the kernel passed the information to the handler; signals of timers have a value.
    unsafe {
        (*info).si_code == libc::SI_TIMER
            && (*info).si_value().sival_ptr.cast_const() == (&raw const TIMER_MARK).cast()
    }
}

/// A timer that signals this thread at a time limit, and repeatedly until it is dropped: the first
/// signal may come while the thread is not in device code.
pub(super) struct Timer {
    timer: libc::timer_t,
}

impl Timer {
    /// Starts a timer. `None` if the system has no timer left.
    pub(super) fn start(limit: Duration) -> Option<Timer> {
        // SAFETY: the structures have the fields that the calls require; the thread is this one.
        unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = libc::SIGSEGV;
            event.sigev_value =
                libc::sigval { sival_ptr: (&raw const TIMER_MARK).cast_mut().cast() };
            event.sigev_notify_thread_id = rustix::thread::gettid().as_raw_nonzero().get();
            let mut timer: libc::timer_t = std::mem::zeroed();
            if libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) != 0 {
                return None;
            }
            let started = Timer { timer };
            let value = libc::timespec {
                tv_sec: limit.as_secs() as libc::time_t,
                tv_nsec: limit.subsec_nanos().into(),
            };
            let again = libc::timespec { tv_sec: 0, tv_nsec: AGAIN_NS };
            let times = libc::itimerspec { it_interval: again, it_value: value };
            (libc::timer_settime(timer, 0, &raw const times, null_mut()) == 0).then_some(started)
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: `start` made the timer, which is deleted once.
        unsafe { libc::timer_delete(self.timer) };
    }
}
