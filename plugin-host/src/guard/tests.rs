//! Calls with a time limit, and calls on ending threads.

use super::*;
use std::ptr::null;
use std::time::{Duration, Instant};

/// Leaves device code until after the time limit, and then stays in it for longer than any test
/// waits.
unsafe extern "C" fn leaves_and_stays(_arguments: *const *const c_void, _work: *mut Work) {
    let guard = Guard::for_thread();
    let suspended = guard.suspend();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(100) {}
    guard.resume(suspended);
    while begin.elapsed() < Duration::from_secs(20) {}
}

#[test]
fn a_limit_that_is_reached_outside_of_device_code_holds_when_it_is_back() {
    let result = {
        let (limit, guard) = (Duration::from_millis(20), Guard::for_thread());
        // SAFETY: the function reads no argument.
        unsafe { guard.call_for(limit, leaves_and_stays, null(), null_mut()) }
    };
    assert!(matches!(result, Err(Stop::TimedOut)), "{result:?}");
    // SAFETY: as above; a late signal of the timer is ignored.
    unsafe { Guard::for_thread().call(returns, null(), null_mut()) }.unwrap();
}

unsafe extern "C" fn returns(_arguments: *const *const c_void, _work: *mut Work) {}

#[test]
fn a_thread_that_is_ending_has_one_guard() {
    struct ThreadEndProbe;
    impl Drop for ThreadEndProbe {
        fn drop(&mut self) {
            let first = Guard::for_thread();
            SAME.store(std::ptr::eq(first, Guard::for_thread()).into(), Ordering::Relaxed);
        }
    }
    static SAME: AtomicUsize = AtomicUsize::new(2);
    thread_local!(static AT_END: ThreadEndProbe = const { ThreadEndProbe });
    // The value that was used first is dropped last.
    let body = || AT_END.with(|_| _ = Guard::for_thread());
    std::thread::spawn(body).join().unwrap();
    assert_eq!(SAME.load(Ordering::Relaxed), 1);
}
