//! Functions of the program that queues run, and what must not be done inside one.
//!
//! Waiting for a device's queues inside a function that one of them runs would wait for that
//! function. So closing and unloading ask [`is_inside`]: asked for, they are refused; as the drop
//! of a last handle, they move to a thread of their own.

use longshore_plugin_api::{Error, HostFunction, Result, abi};
use std::cell::Cell;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A function that a queue runs; `outer` is the one that runs it by waiting, or null.
struct Running {
    of: Of,
    outer: *const Running,
}

/// The queue that a function is of, and its device, by their numbers.
#[derive(Clone, Copy)]
pub(crate) struct Of {
    pub(crate) device: u64,
    pub(crate) queue: u64,
}

thread_local! {
    /// The innermost function that this thread runs. It has no destructor, as devices may be closed
    /// when the process ends, after a thread's destructors.
    static INNERMOST: Cell<*const Running> = const { Cell::new(std::ptr::null()) };
}

type Boxed = Box<dyn FnOnce() + Send>;

/// Hands a function to `queue_it`, which queues it on this queue. A panic in it is logged.
///
/// # Errors
/// Those of `queue_it`; the function is dropped then.
pub(crate) fn queue(
    of: Of,
    function: impl FnOnce() + Send + 'static,
    queue_it: impl FnOnce(HostFunction) -> Result<()>,
) -> Result<()> {
    let boxed: Box<Boxed> = Box::new(Box::new(move || run(of, function)));
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
    is_any_running(|of| of.device == device)
}

/// Returns whether this thread runs a function of the queue.
#[inline]
pub(crate) fn is_inside_queue(queue: u64) -> bool {
    is_any_running(|of| of.queue == queue)
}

#[inline]
fn is_any_running(is_it: impl Fn(&Of) -> bool) -> bool {
    // SAFETY: what is listed lies on this thread's stack, in calls of `run` that are under way.
    let listed = |running: *const Running| unsafe { running.as_ref() };
    let mut running = listed(INNERMOST.get());
    while running.is_some_and(|running| !is_it(&running.of)) {
        running = running.and_then(|running| listed(running.outer));
    }
    running.is_some()
}

/// Refuses what waits for the device's queues.
///
/// # Errors
/// `Unsupported` inside a function of one of them.
pub(crate) fn refuse_inside(device: u64, what: &str) -> Result<()> {
    if !is_inside(device) {
        return Ok(());
    }
    Err(Error::would_deadlock(what, "a queue of the device"))
}

/// Refuses a call that waits for the queue.
///
/// # Errors
/// `Unsupported` inside a function of the queue.
#[inline]
pub(crate) fn refuse_inside_queue(queue: u64, call: &str) -> Result<()> {
    if !is_inside_queue(queue) {
        return Ok(());
    }
    Err(Error::would_deadlock(call, "the same queue"))
}

/// Does `work` on a thread of its own. If there can be none, it is forgotten and logged.
pub(crate) fn do_elsewhere(what: &'static str, work: impl FnOnce() + Send + 'static) {
    let work = std::mem::ManuallyDrop::new(work);
    let thread = std::thread::Builder::new().name("longshore-drop".to_owned());
    let started = thread.spawn(move || std::mem::ManuallyDrop::into_inner(work)());
    if let Err(error) = started {
        log::error!("{what} in a host function needs a thread, which cannot be started: {error}");
    }
}

fn run(of: Of, function: impl FnOnce()) {
    let running = Running { of, outer: INNERMOST.get() };
    INNERMOST.set(&raw const running);
    let result = catch_unwind(AssertUnwindSafe(function));
    INNERMOST.set(running.outer);
    if let Err(payload) = result {
        log::error!("{}", Error::from_panic("a host function", payload));
    }
}

unsafe extern "C" fn call(context: *mut c_void) {
    // SAFETY: made by `queue` from a box, and called once.
    let function = unsafe { Box::from_raw(context.cast::<Boxed>()) };
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
        let of = |device| Of { device, queue: 10 * device };
        queue(of(1), || panic!("asked for"), outer).unwrap();
        assert!(!is_inside(1) && !is_inside_queue(10));
        let function = move || {
            let inner = || assert!(is_inside(1) && is_inside(2) && is_inside_queue(10));
            queue(of(2), inner, outer).unwrap();
            assert!(is_inside(1) && !is_inside(2) && is_inside_queue(10) && !is_inside_queue(20));
            assert_eq!(refuse_inside(1, "x").unwrap_err().code(), ErrorCode::Unsupported);
            let refused = refuse_inside_queue(10, "synchronizing a queue").unwrap_err();
            assert_eq!(refused.code(), ErrorCode::Unsupported);
            let start = "synchronizing a queue in a host function of the same queue would deadlock";
            assert!(refused.message().starts_with(start), "{refused}");
            assert_eq!(refuse_inside_queue(20, "x"), Ok(()));
        };
        run(of(1), function);
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
        let of = Of { device: 1, queue: 1 };
        assert_eq!(queue(of, function, |_| Err(refusal.clone())), Err(refusal));
        assert_eq!(Arc::strong_count(&held), 1);
        assert!(!called.load(Ordering::Relaxed));
    }
}
