//! Target regions.

use crate::abi::{FLAG_NOWAIT, Ident, KernelArguments};
use crate::region::{self, Region};
use crate::stream::Stream;
use crate::{construct, info, libomp, message, ompt};
use std::ffi::c_void;

/// The region ran on a device.
pub(crate) const RAN: i32 = 0;
/// The caller runs the host's version of the region.
pub(crate) const RUN_ON_HOST: i32 = -1;

/// Runs a target region. Blocks until the region is done, except for a region with `nowait` in a
/// task, which `__tgt_target_nowait_query` ends. Returns 0 if the region ran on a device; otherwise
/// the caller runs the host's version. A failure ends the program. LLVM: `__tgt_target_kernel`.
///
/// # Safety
/// The arguments describe the region as clang compiled it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tgt_target_kernel(
    location: *const Ident,
    device: i64,
    teams: i32,
    thread_limit: i32,
    region: *const c_void,
    arguments: *const KernelArguments,
) -> i32 {
    // SAFETY: promised by the caller.
    unsafe {
        let region = Region::read(location, region as usize, teams, thread_limit, arguments);
        run(device, &region)
    }
}

/// Runs a region on a device.
///
/// # Safety
/// The region is as clang compiled it.
#[inline]
pub(crate) unsafe fn run(device: i64, region: &Region) -> i32 {
    let location = region.location;
    // SAFETY: promised by the caller.
    let describe = |device| unsafe {
        info::arguments(device, "Entering OpenMP kernel", location, &region.arguments);
    };
    // SAFETY: as above.
    let Some(device) = (unsafe { construct::device(device, location, describe) }) else {
        return RUN_ON_HOST;
    };
    let mut stream = Stream::new(device);
    let _scope = ompt::construct(ompt::Construct::Target, device.number);
    // SAFETY: promised by the caller.
    let launched = unsafe { region::run(&mut stream, region) };
    // SAFETY: as above.
    launched.unwrap_or_else(|failure| unsafe { construct::fail(&failure, location) });
    let is_nowait = region.request.flags & FLAG_NOWAIT != 0;
    if is_nowait
        && !device.is_reachable
        && let Some(place) = task_handle()
    {
        let stream = Box::into_raw(Box::new(stream));
        // SAFETY: libomp gives the place to the current task, and passes the handle back to
        // `__tgt_target_nowait_query`.
        unsafe {
            *place = stream.cast();
            construct::succeed(location);
        }
        return RAN;
    }
    let done = stream.synchronize();
    // SAFETY: promised by the caller.
    done.unwrap_or_else(|error| unsafe { construct::fail(&error.into(), location) });
    // SAFETY: as above.
    unsafe { construct::succeed(location) };
    RAN
}

/// Returns the place of the handle of the current `nowait` task.
fn task_handle() -> Option<*mut *mut c_void> {
    let thread = libomp::global_thread_number(std::ptr::null())?;
    if !libomp::has_task_team(thread)? {
        return None;
    }
    libomp::async_handle(thread).filter(|place| !place.is_null())
}

/// Ends a region with `nowait` if its operations are done, and sets the handle to null. Otherwise
/// returns at once; libomp calls it again. LLVM: `__tgt_target_nowait_query`.
///
/// # Safety
/// `handle` is the place of a handle that this library gave to a task.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tgt_target_nowait_query(handle: *mut *mut c_void) {
    // SAFETY: promised by the caller.
    let stream = unsafe { if handle.is_null() { handle.cast() } else { *handle } };
    if stream.is_null() {
        message::fatal(
            1,
            format_args!(
                "Receive an invalid async handle from the current OpenMP task. Is this a target \
                 nowait region?"
            ),
        );
    }
    let stream = stream.cast::<Stream>();
    // SAFETY: the handle is a stream that `run` has boxed.
    let is_done = unsafe { (*stream).is_done() };
    if matches!(is_done, Ok(false)) {
        return;
    }
    // SAFETY: as above; the handle is given up.
    let mut stream = unsafe {
        *handle = std::ptr::null_mut();
        Box::from_raw(stream)
    };
    if let Err(error) = is_done.and_then(|_| stream.synchronize()) {
        message::error(format_args!("{error}"));
        message::fatal(1, format_args!("Error while querying the async queue for completion."));
    }
}
