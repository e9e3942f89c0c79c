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
use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr::null_mut;
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
    /// Results of the calls that the linker makes on this thread.
    static WATCH: RefCell<Option<Watch>> = const { RefCell::new(None) };
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
    let outer = WATCH.replace(Some(Watch { policy, broken: None }));
    // Restores the outer watch also on a panic.
    let restored = RestoreGuard(outer);
    let result = body();
    let watch = WATCH.take();
    drop(restored);
    (result, watch.and_then(|watch| watch.broken))
}

/// Returns whether the linker calls device code on this thread.
pub(crate) fn is_watched() -> bool {
    WATCH.with_borrow(Option::is_some)
}

struct RestoreGuard(Option<Watch>);

impl Drop for RestoreGuard {
    fn drop(&mut self) {
        WATCH.set(self.0.take());
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
    let is_made = WATCH.with_borrow(|watch| {
        let watch = watch.as_ref()?;
        Some(watch.broken.is_none() || watch.policy == FailurePolicy::Made)
    });
    match is_made {
        // SAFETY: promised by the caller.
        None => unsafe { call_unguarded(function, arguments) },
        Some(false) => 0,
        // SAFETY: promised by the caller.
        Some(true) => unsafe { call(function, arguments) }.unwrap_or_else(|error| {
            WATCH.with_borrow_mut(|watch| {
                let broken = watch.as_mut().map(|watch| &mut watch.broken);
                broken.map(|broken| broken.get_or_insert(FailedCall { function, error }));
            });
            0
        }),
    }
}
