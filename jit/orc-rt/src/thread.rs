//! The calling thread: its pointer, its number, and the functions to call at its end.

use std::arch::asm;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

unsafe extern "C" {
    /// The identity of the library that contains this code.
    static __dso_handle: u8;

    fn __cxa_thread_atexit_impl(
        function: unsafe extern "C" fn(*mut c_void),
        argument: *mut c_void,
        dso: *mut c_void,
    ) -> c_int;
}

/// Returns the thread pointer, to which offsets of thread-local symbols in static TLS are relative.
#[inline]
pub fn thread_pointer() -> u64 {
    let pointer: u64;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: on x86-64 the ABI stores the thread pointer in the first word of the thread's control
    // block.
    unsafe {
        asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: any thread may read this register.
    unsafe {
        asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem, preserves_flags));
    }
    pointer
}

/// Returns a number that no other thread has or had. Unlike the thread pointer it is not reused.
pub(super) fn number() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    thread_local!(static NUMBER: Cell<u64> = const { Cell::new(0) });
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
        }
        number.get()
    })
}

/// Returns whether the calling thread is the process's first.
pub(super) fn is_first() -> bool {
    rustix::thread::gettid() == rustix::process::getpid()
}

/// Calls `function(argument)` when the calling thread ends, before functions registered earlier.
/// Until then the library that contains this code stays mapped.
///
/// # Safety
///
/// `function` must belong to this library, and may be called once with `argument` on this thread.
pub(super) unsafe fn at_end(function: unsafe extern "C" fn(*mut c_void), argument: *mut c_void) {
    // SAFETY: guaranteed by the caller; only the address of the handle is used. The call never
    // fails: without memory it aborts.
    unsafe {
        __cxa_thread_atexit_impl(function, argument, (&raw const __dso_handle).cast_mut().cast())
    };
}

/// Calls libc's function for thread-local destructors.
///
/// # Safety
///
/// As for `__cxa_thread_atexit_impl`.
pub(super) unsafe fn libc_thread_atexit(
    function: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
    dso: *mut c_void,
) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe { __cxa_thread_atexit_impl(function, argument, dso) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_its_own_pointer_and_number() {
        let here = (thread_pointer(), number());
        assert_eq!(here, (thread_pointer(), number()));
        let there = std::thread::spawn(|| (thread_pointer(), number())).join().unwrap();
        assert_ne!(here.0, there.0);
        assert_ne!(here.1, there.1);
    }

    #[test]
    fn a_thread_that_was_started_is_not_the_first() {
        assert!(!std::thread::spawn(is_first).join().unwrap());
    }

    #[test]
    fn handlers_of_the_end_of_a_thread_run_there_in_reverse() {
        unsafe extern "C" fn end(argument: *mut c_void) {
            // SAFETY: the test passes a box.
            let (sender, value) = unsafe { *Box::from_raw(argument.cast::<Argument>()) };
            sender.send((value, number())).unwrap();
        }
        type Argument = (std::sync::mpsc::Sender<(i32, u64)>, i32);
        let (sender, receiver) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            for value in [1, 2] {
                let argument: *mut Argument = Box::into_raw(Box::new((sender.clone(), value)));
                // SAFETY: the function takes this box.
                unsafe { at_end(end, argument.cast()) };
            }
            number()
        });
        let number = thread.join().unwrap();
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [(2, number), (1, number)]);
    }
}
