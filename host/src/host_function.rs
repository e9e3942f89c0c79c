//! Host functions: functions of the program that queues run, and the calls refused inside them.
//!
//! A wait for a device's queues inside a function of one of these queues would wait for that
//! function. So closing and unloading check [`is_inside`]. Explicit calls are refused; the drop of
//! a last handle moves the work to a thread of its own.

use longshore_plugin_api::{Error, HostFunction, Result, abi};
use std::cell::Cell;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A running host function. `outer` is the host function whose wait runs this one, or null.
struct Running {
    owner: Owner,
    outer: *const Running,
}

/// The numbers of a host function's queue and of the queue's device.
#[derive(Clone, Copy)]
pub(crate) struct Owner {
    pub(crate) device: u64,
    pub(crate) queue: u64,
}

thread_local! {
    /// The innermost host function that this thread runs. Without a destructor: devices may be
    /// closed at the end of the process, after the thread's destructors.
    static INNERMOST: Cell<*const Running> = const { Cell::new(std::ptr::null()) };
}

type BoxedFunction = Box<dyn FnOnce() + Send>;

/// Passes a function to `queue_it`, which queues it on the queue of `owner`. A panic in the
/// function is logged.
///
/// # Errors
/// Errors of `queue_it`; the function is then dropped.
pub(crate) fn queue(
    owner: Owner,
    function: impl FnOnce() + Send + 'static,
    queue_it: impl FnOnce(HostFunction) -> Result<()>,
) -> Result<()> {
    let boxed: Box<BoxedFunction> = Box::new(Box::new(move || run(owner, function)));
    let context = Box::into_raw(boxed);
    // SAFETY: `call` may run once on any thread, as the function is `Send`, and does not unwind.
    let raw =
        unsafe { HostFunction::from_raw(abi::HostFunction { context: context.cast(), call }) };
    queue_it(raw).inspect_err(|_| {
        // SAFETY: a call that fails has not run the function and never will.
        drop(unsafe { Box::from_raw(context) });
    })
}

/// Returns whether this thread runs a function of one of the device's queues.
pub(crate) fn is_inside(device: u64) -> bool {
    is_any_running(|owner| owner.device == device)
}

/// Returns whether this thread runs a function of the queue.
#[inline]
pub(crate) fn is_inside_queue(queue: u64) -> bool {
    is_any_running(|owner| owner.queue == queue)
}

#[inline]
fn is_any_running(is_it: impl Fn(&Owner) -> bool) -> bool {
    // SAFETY: each listed entry lies on this thread's stack, in a call of `run` that has not
    // returned.
    let listed = |running: *const Running| unsafe { running.as_ref() };
    let mut running = listed(INNERMOST.get());
    while running.is_some_and(|running| !is_it(&running.owner)) {
        running = running.and_then(|running| listed(running.outer));
    }
    running.is_some()
}

/// Refuses a call that waits for the device's queues.
///
/// # Errors
/// `Unsupported` inside a host function of one of these queues.
pub(crate) fn refuse_inside(device: u64, what: &str) -> Result<()> {
    if !is_inside(device) {
        return Ok(());
    }
    Err(Error::would_deadlock(what, "a queue of the device"))
}

/// Refuses a call that waits for the queue.
///
/// # Errors
/// `Unsupported` inside a host function of the queue.
#[inline]
pub(crate) fn refuse_inside_queue(queue: u64, call: &str) -> Result<()> {
    if !is_inside_queue(queue) {
        return Ok(());
    }
    Err(Error::would_deadlock(call, "the same queue"))
}

/// Runs `work` on a thread of its own. If the thread cannot be started, `work` is forgotten and an
/// error logged.
pub(crate) fn do_elsewhere(what: &'static str, work: impl FnOnce() + Send + 'static) {
    let work = std::mem::ManuallyDrop::new(work);
    let thread = std::thread::Builder::new().name("longshore-drop".to_owned());
    let started = thread.spawn(move || std::mem::ManuallyDrop::into_inner(work)());
    if let Err(error) = started {
        log::error!("{what} in a host function needs a thread, which cannot be started: {error}");
    }
}

fn run(owner: Owner, function: impl FnOnce()) {
    let running = Running { owner, outer: INNERMOST.get() };
    INNERMOST.set(&raw const running);
    let result = catch_unwind(AssertUnwindSafe(function));
    INNERMOST.set(running.outer);
    if let Err(payload) = result {
        log::error!("{}", Error::from_panic("a host function", payload));
    }
}

unsafe extern "C" fn call(context: *mut c_void) {
    // SAFETY: made by `queue` from a box, and called once.
    let function = unsafe { Box::from_raw(context.cast::<BoxedFunction>()) };
    function();
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_plugin_api::ErrorCode;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_function_knows_the_devices_that_run_it_also_after_a_panic() {
        let outer = |raw: HostFunction| {
            raw.call();
            Ok(())
        };
        let owner = |device| Owner { device, queue: 10 * device };
        queue(owner(1), || panic!("asked for"), outer).unwrap();
        assert!(!is_inside(1) && !is_inside_queue(10));
        let function = move || {
            let inner = || assert!(is_inside(1) && is_inside(2) && is_inside_queue(10));
            queue(owner(2), inner, outer).unwrap();
            assert!(is_inside(1) && !is_inside(2) && is_inside_queue(10) && !is_inside_queue(20));
            assert_eq!(refuse_inside(1, "x").unwrap_err().code(), ErrorCode::Unsupported);
            let refused = refuse_inside_queue(10, "synchronizing a queue").unwrap_err();
            assert_eq!(refused.code(), ErrorCode::Unsupported);
            let start = "synchronizing a queue in a host function of the same queue would deadlock";
            assert!(refused.message().starts_with(start), "{refused}");
            assert_eq!(refuse_inside_queue(20, "x"), Ok(()));
        };
        run(owner(1), function);
        assert_eq!(refuse_inside(1, "x"), Ok(()));
    }

    #[test]
    fn a_function_that_is_not_queued_is_dropped_and_not_called() {
        let (held, called) = (Arc::new(()), Arc::new(AtomicBool::new(false)));
        let (captured, call) = (Arc::clone(&held), Arc::clone(&called));
        let function = move || {
            let _captured = captured;
            call.store(true, Ordering::Relaxed);
        };
        let refusal = Error::new(ErrorCode::OutOfResources, "full");
        let owner = Owner { device: 1, queue: 1 };
        assert_eq!(queue(owner, function, |_| Err(refusal.clone())), Err(refusal));
        assert_eq!(Arc::strong_count(&held), 1);
        assert!(!called.load(Ordering::Relaxed));
    }
}
