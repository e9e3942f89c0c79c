//! Functions of this process, and of the program, in a queue's order.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use longshore_plugin_api::{Backend, HostFunction, Queue as _, Result, abi};

type BoxedFunction = Box<dyn FnOnce() + Send>;

/// Queues a function.
///
/// # Errors
/// Every error of the plugin; the function is dropped then.
pub(super) fn queue_function<B: Backend>(
    queue: &B::Queue,
    function: impl FnOnce() + Send + 'static,
) -> Result<()> {
    let boxed: Box<BoxedFunction> = Box::new(Box::new(function));
    let context = Box::into_raw(boxed);
    // SAFETY: `call` may run once on any thread, as the function is `Send`, and does not unwind.
    let raw =
        unsafe { HostFunction::from_raw(abi::HostFunction { context: context.cast(), call }) };
    queue.host_function(raw).inspect_err(|_| {
        // SAFETY: a failed call has not run the function and never will.
        drop(unsafe { Box::from_raw(context) });
    })
}

unsafe extern "C" fn call(context: *mut c_void) {
    // SAFETY: the context is the box made in `queue_function`, and the function is called once.
    let function = unsafe { Box::from_raw(context.cast::<BoxedFunction>()) };
    if catch_unwind(AssertUnwindSafe(function)).is_err() {
        log::error!("a function of the executor panicked in a queue");
    }
}
