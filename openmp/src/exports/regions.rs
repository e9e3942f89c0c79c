//! Target regions.

use crate::abi::{FLAG_NOWAIT, Ident, KernelArguments};
use crate::background::Background;
use crate::device::OmpDevice;
use crate::mapping::Failure;
use crate::region::{self, Region};
use crate::stream::Stream;
use crate::{construct, info, libomp, message, ompt, profile, runtime};
use std::ffi::c_void;
use std::sync::Arc;

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
    let is_nowait = region.request.flags & FLAG_NOWAIT != 0;
    // SAFETY: promised by the caller.
    if !is_nowait || !unsafe { defer(device, region) } {
        // SAFETY: promised by the caller.
        if let Err(failure) = unsafe { run_now(device, region) } {
            // SAFETY: as above.
            unsafe { construct::fail(&failure, location) };
            return RUN_ON_HOST;
        }
    }
    // SAFETY: as above.
    unsafe { construct::succeed(location) };
    RAN
}

/// Runs a region on a device, and waits for it.
///
/// # Errors
/// Errors of the mappings, of the image and of the kernel.
///
/// # Safety
/// The region is as clang compiled it.
#[inline]
unsafe fn run_now(device: &'static OmpDevice, region: &Region) -> Result<(), Failure> {
    // SAFETY: promised by the caller.
    let _profile =
        unsafe { profile::construct("Runtime: target exe", region.location, || region.facts()) };
    let mut stream = Stream::new(device);
    let _scope = ompt::construct(ompt::Construct::Target, device.number);
    // SAFETY: promised by the caller.
    unsafe { region::run(&mut stream, region)? };
    let name = profile::SYNCHRONIZE[usize::from(runtime::is_recent())];
    let _profile = profile::step(name, String::new);
    Ok(stream.synchronize()?)
}

/// A region with `nowait` whose task libomp keeps.
enum Pending {
    /// Operations of a queue.
    Queued(Stream),
    /// A region on a thread of this library.
    Background(Arc<Background>),
}

/// Starts a region with `nowait`, and gives its handle to the current task. Returns false for a
/// region that the caller runs itself.
///
/// # Safety
/// The region is as clang compiled it.
#[cold]
unsafe fn defer(device: &'static OmpDevice, region: &Region) -> bool {
    let kernel = device.kernel(region.address);
    if device.is_reachable && !kernel.is_some_and(|kernel| kernel.may_fork) {
        return false;
    }
    let Some(place) = task_handle() else { return false };
    let pending = if device.is_reachable {
        let number = device.number as i64;
        // SAFETY: promised by the caller; the task keeps the region's memory until it is done.
        match unsafe { Background::start(number, region, run_in_background) } {
            Some(background) => Pending::Background(background),
            None => return false,
        }
    } else {
        let mut stream = Stream::new(device);
        let _scope = ompt::construct(ompt::Construct::Target, device.number);
        // SAFETY: promised by the caller.
        if let Err(failure) = unsafe { region::run(&mut stream, region) } {
            // SAFETY: as above.
            unsafe { construct::fail(&failure, region.location) };
            return false;
        }
        Pending::Queued(stream)
    };
    // SAFETY: libomp gives the place to the current task, and passes the handle back to
    // `__tgt_target_nowait_query`.
    unsafe { *place = Box::into_raw(Box::new(pending)).cast() };
    true
}

fn run_in_background(device: i64, region: &Region) {
    let device = runtime::devices()[device as usize];
    // SAFETY: `Background::start` has the caller's promise.
    if let Err(failure) = unsafe { run_now(device, region) } {
        // SAFETY: as above.
        unsafe { construct::fail(&failure, region.location) }
    }
}

impl Pending {
    /// Returns whether the region is done.
    ///
    /// # Errors
    /// Errors of the queue.
    fn is_done(&self) -> longshore::Result<bool> {
        match self {
            Pending::Queued(stream) => stream.is_done(),
            Pending::Background(background) => Ok(background.query()),
        }
    }

    /// Does the work that follows a region's operations.
    ///
    /// # Errors
    /// Errors of the operations.
    fn finish(self) -> longshore::Result<()> {
        match self {
            Pending::Queued(mut stream) => stream.synchronize(),
            Pending::Background(_) => Ok(()),
        }
    }
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
    let pending = unsafe { if handle.is_null() { handle.cast() } else { *handle } };
    if pending.is_null() {
        message::fatal(
            1,
            format_args!(
                "Receive an invalid async handle from the current OpenMP task. Is this a target \
                 nowait region?"
            ),
        );
    }
    let pending = pending.cast::<Pending>();
    // SAFETY: the handle is one that `defer` has boxed.
    let is_done = unsafe { (*pending).is_done() };
    if matches!(is_done, Ok(false)) {
        return;
    }
    // SAFETY: as above; the handle is given up.
    let pending = unsafe {
        *handle = std::ptr::null_mut();
        Box::from_raw(pending)
    };
    if let Err(error) = is_done.and_then(|_| pending.finish()) {
        Failure::from(error).report();
        message::fatal(1, format_args!("Error while querying the async queue for completion."));
    }
}
