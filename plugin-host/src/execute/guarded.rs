//! Device code other than kernels: constructors, destructors, exit handlers and resolvers, guarded
//! as kernels are.
//!
//! The linker calls this code in the middle of its own work, so a fault must not skip the linker's
//! frames. The call returns to the linker, and the failure is kept until the end of [`watched`].

use super::fault;
use crate::guard::Guard;
use crate::kernel::abi::Work;
use longshore_orc_rt::{call_unguarded, set_caller};
use longshore_plugin_api::Error;
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::Once;

/// Treatment of further calls after one has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailurePolicy {
    /// Further calls return at once: constructors rely on the constructors before them.
    Skipped,
    /// Further calls are made: destructors release their own resources.
    Made,
}

/// The first failed call.
#[derive(Debug)]
pub(crate) struct FailedCall {
    /// The function's address.
    pub(crate) function: u64,
    pub(crate) error: Error,
}

struct Watch {
    policy: FailurePolicy,
    broken: Option<FailedCall>,
}

thread_local! {
    /// Results of the calls that the linker makes on this thread, on the stack of [`watched`]. A
    /// program unloads images until its end, after the destructors of its thread's variables, so
    /// this must have none.
    static WATCH: Cell<*const RefCell<Watch>> = const { Cell::new(null()) };
}

/// Calls a function of an image.
///
/// # Errors
/// `BackendFailure` if the function does not return: the fault, without the function's name.
///
/// # Safety
/// The function has the C calling convention and may be called with these arguments.
pub(crate) unsafe fn call(function: u64, arguments: [u64; 3]) -> Result<u64, Error> {
    let mut call = Call { function, arguments, result: 0 };
    let place = (&raw mut call).cast::<*const c_void>().cast_const();
    // SAFETY: `make` takes the call; the caller vouches for the function.
    let ended = unsafe { Guard::for_thread().call(make, place, null_mut()) };
    ended.map(|()| call.result).map_err(fault::describe_call)
}

/// Runs `body`, in which the linker calls device code on this thread. Returns the first failed
/// call.
pub(crate) fn watched<T>(
    policy: FailurePolicy,
    body: impl FnOnce() -> T,
) -> (T, Option<FailedCall>) {
    static SET: Once = Once::new();
    SET.call_once(|| set_caller(call_for_linker));
    let watch = RefCell::new(Watch { policy, broken: None });
    // Restores the outer watch also on a panic.
    let restored = RestoreGuard(WATCH.replace(&raw const watch));
    let result = body();
    drop(restored);
    (result, watch.into_inner().broken)
}

/// Returns whether the linker calls device code on this thread.
pub(crate) fn is_watched() -> bool {
    !WATCH.get().is_null()
}

struct RestoreGuard(*const RefCell<Watch>);

impl Drop for RestoreGuard {
    fn drop(&mut self) {
        WATCH.set(self.0);
    }
}

struct Call {
    function: u64,
    arguments: [u64; 3],
    result: u64,
}

unsafe extern "C" fn make(call: *const *const c_void, _work: *mut Work) {
    let call = call.cast_mut().cast::<Call>();
    // SAFETY: `call` passes this structure, with a function that may be called with these
    // arguments.
    unsafe { (*call).result = call_unguarded((*call).function, (*call).arguments) }
}

/// # Safety
/// As for [`call`].
unsafe fn call_for_linker(function: u64, arguments: [u64; 3]) -> u64 {
    // SAFETY: null, or a variable of `watched`, which is below this frame on the stack.
    let Some(watch) = (unsafe { WATCH.get().as_ref() }) else {
        // SAFETY: promised by the caller.
        return unsafe { call_unguarded(function, arguments) };
    };
    let is_made = {
        let watch = watch.borrow();
        watch.broken.is_none() || watch.policy == FailurePolicy::Made
    };
    if !is_made {
        return 0;
    }
    // SAFETY: promised by the caller.
    unsafe { call(function, arguments) }.unwrap_or_else(|error| {
        watch.borrow_mut().broken.get_or_insert(FailedCall { function, error });
        0
    })
}
