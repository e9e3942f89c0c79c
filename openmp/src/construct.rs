//! The steps around every construct: the choice of the device, and the outcome.

use crate::abi::{DEFAULT_DEVICE, Ident, SourceLocation};
use crate::device::OmpDevice;
use crate::mapping::Failure;
use crate::runtime::{self, Policy};
use crate::settings::{info as kinds, wants};
use crate::{dump, libomp, message};

/// Returns the device of a construct, ready for use; `None` if the construct runs on the host. Ends
/// the program for a number of no device.
///
/// # Safety
/// The location is the program's; it may be null.
#[inline]
pub(crate) unsafe fn device(number: i64, location: *const Ident) -> Option<&'static OmpDevice> {
    let number = match number {
        DEFAULT_DEVICE => i64::from(libomp::default_device().unwrap_or(0)),
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
            // SAFETY: promised by the caller.
            device.make_ready().unwrap_or_else(|failure| unsafe { fail(&failure, location) });
            Some(device)
        }
        // SAFETY: promised by the caller.
        None => unsafe { no_device(number, devices.len(), location) },
    }
}

#[cold]
unsafe fn no_device(
    number: i64,
    count: usize,
    location: *const Ident,
) -> Option<&'static OmpDevice> {
    if count == 0 {
        let reason = runtime::absence().unwrap_or("the program has no device image").to_owned();
        // SAFETY: the caller's promise.
        unsafe { fail(&Failure::Other(format!("no device: {reason}")), location) }
    }
    if number == count as i64 {
        return None;
    }
    message::fatal(
        number,
        format_args!("Device number '{number}' out of range, only {count} devices available"),
    )
}

/// Ends the program because a construct failed while offloading is mandatory. LLVM:
/// `handleTargetOutcome`.
///
/// # Safety
/// The location is the program's; it may be null.
#[cold]
pub(crate) unsafe fn fail(failure: &Failure, location: *const Ident) -> ! {
    failure.report();
    // SAFETY: promised by the caller.
    let place = unsafe { SourceLocation::of_construct(location) };
    if wants(kinds::TABLE) {
        runtime::devices().iter().for_each(|device| dump::table(device, &place));
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
