//! The steps around every construct: the choice of the device, and the outcome.

use crate::abi::{DEFAULT_DEVICE, Ident, SourceLocation};
use crate::debug::debug;
use crate::device::OmpDevice;
use crate::mapping::Failure;
use crate::runtime::{self, Policy};
use crate::settings::{info as kinds, wants};
use crate::{dump, libomp, loading, message};

/// Returns the device of a construct, ready for use; `None` if the construct runs on the host. Ends
/// the program for a number of no device. `describe` prints the construct's arguments for a
/// device's number.
///
/// # Safety
/// The location is the program's; it may be null.
#[inline]
pub(crate) unsafe fn device(
    number: i64,
    location: *const Ident,
    describe: impl Fn(i64),
) -> Option<&'static OmpDevice> {
    let number = match number {
        DEFAULT_DEVICE => {
            let number = i64::from(libomp::default_device().unwrap_or(0));
            debug!("Use default device id {number}");
            number
        }
        number => number,
    };
    let policy = runtime::policy();
    if policy == Some(Policy::Disabled) {
        return None;
    }
    let devices = runtime::devices();
    if devices.is_empty() && policy.is_none() {
        return None;
    }
    let found = usize::try_from(number).ok().and_then(|number| devices.get(number));
    match found {
        Some(device) => {
            let describes = wants(kinds::DESCRIPTION);
            // LLVM 22 prints the arguments before it loads images, LLVM 19 afterwards.
            let is_before = describes && runtime::is_recent();
            if is_before {
                describe(number);
            }
            if let Err(failure) = loading::make_ready(device) {
                // SAFETY: promised by the caller.
                unsafe { fail(&failure, location) };
                return None;
            }
            if describes && !is_before {
                describe(number);
            }
            Some(device)
        }
        // SAFETY: promised by the caller.
        None => unsafe { no_device(number, devices.len(), location, describe) },
    }
}

#[cold]
unsafe fn no_device(
    number: i64,
    count: usize,
    location: *const Ident,
    describe: impl Fn(i64),
) -> Option<&'static OmpDevice> {
    if count == 0 && runtime::has_ended() {
        return None;
    }
    if count == 0 {
        let reason = runtime::absence().unwrap_or("the program has no device image").to_owned();
        // SAFETY: the caller's promise.
        unsafe {
            fail(
                &Failure::Other(format!(
                    "no device: {reason}\n'longshore plugins -v' shows plugins and their devices"
                )),
                location,
            )
        };
        return None;
    }
    if number == count as i64 {
        return None;
    }
    if runtime::is_recent() && wants(kinds::DESCRIPTION) {
        describe(number);
    }
    out_of_range(number, count)
}

/// Ends the program because of a number of no device. A program of clang 20 or a later version gets
/// the text of LLVM 22, another one that of LLVM 19.
#[cold]
pub(crate) fn out_of_range(number: i64, count: usize) -> ! {
    let first = if runtime::is_recent() { "\"invalid value\" device" } else { "Device" };
    message::fatal(
        number,
        format_args!("{first} number '{number}' out of range, only {count} devices available"),
    )
}

/// Prints the mapping tables after a construct that succeeded, if they are wanted.
///
/// # Safety
/// The location is the program's; it may be null.
#[inline]
pub(crate) unsafe fn succeed(location: *const Ident) {
    if wants(kinds::TABLE) {
        // SAFETY: promised by the caller.
        dump::tables(runtime::devices(), &unsafe { SourceLocation::for_construct(location) });
    }
}

/// Ends the program because a construct failed while offloading is mandatory. Returns if the
/// program is ending already, and has unloaded its images. LLVM: `handleTargetOutcome`.
///
/// # Safety
/// The location is the program's; it may be null.
#[cold]
pub(crate) unsafe fn fail(failure: &Failure, location: *const Ident) {
    if runtime::has_ended() {
        log::debug!("a construct failed at the end of the program: {failure:?}");
        return;
    }
    failure.report();
    // SAFETY: promised by the caller.
    let place = unsafe { SourceLocation::for_construct(location) };
    if wants(kinds::TABLE) {
        dump::tables(runtime::devices(), &place);
    } else {
        message::error(format_args!(
            "Consult https://openmp.llvm.org/design/Runtimes.html for debugging options."
        ));
    }
    if place.is_known {
        message::plain(format_args!("{}:{}:{}: ", place.file, place.line, place.column));
    } else {
        message::error(format_args!(
            "Source location information not present. Compile with -g or -gline-tables-only."
        ));
    }
    message::fatal(1, format_args!("failure of target construct while offloading is mandatory"))
}
