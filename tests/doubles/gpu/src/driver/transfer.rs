//! Copies.
//!
//! A copy takes the least convenient choice that the driver's documentation allows. With pageable
//! memory, a copy of up to 64 KiB to a device reads its source at once; any other copy blocks the
//! caller until it is done.

use super::context::{Context, current};
use super::range::{DataLocation, Range, any_range, device_range, host_range};
use super::stream::{self, Stream};
use super::{Code, DriverResult, broken, driver, machine};
use crate::protocol::{Fault, Request};
use std::ptr::with_exposed_provenance_mut;

/// Copies to a device, and waits where a driver waits.
pub fn to_device(to: u64, from: usize, bytes: usize) -> DriverResult {
    to_device_async(to, from, bytes, 0)?;
    wait_if_synchronous(bytes, host_range(from, bytes as u64).is_ok_and(|range| !range.is_pageable))
}

/// Copies to the host, and waits.
pub fn to_host(to: usize, from: u64, bytes: usize) -> DriverResult {
    to_host_async(to, from, bytes, 0)?;
    wait_if_synchronous(bytes, true)
}

/// Copies from device memory to device memory. Does not wait, like the documented function.
pub fn within_device(to: u64, from: u64, bytes: usize) -> DriverResult {
    within_device_async(to, from, bytes, 0)
}

/// Copies between memory of any kinds, and waits.
pub fn anywhere(to: u64, from: u64, bytes: usize) -> DriverResult {
    anywhere_async(to, from, bytes, 0)?;
    wait_if_synchronous(bytes, true)
}

/// Copies to a device in a stream.
pub fn to_device_async(to: u64, from: usize, bytes: usize, stream: usize) -> DriverResult {
    copy(bytes, stream, || Ok((device_range(to, bytes as u64)?, host_range(from, bytes as u64)?)))
}

/// Copies to the host in a stream.
pub fn to_host_async(to: usize, from: u64, bytes: usize, stream: usize) -> DriverResult {
    copy(bytes, stream, || Ok((host_range(to, bytes as u64)?, device_range(from, bytes as u64)?)))
}

/// Copies from device memory to device memory in a stream.
pub fn within_device_async(to: u64, from: u64, bytes: usize, stream: usize) -> DriverResult {
    copy(bytes, stream, || Ok((device_range(to, bytes as u64)?, device_range(from, bytes as u64)?)))
}

/// Copies between memory of any kinds in a stream.
pub fn anywhere_async(to: u64, from: u64, bytes: usize, stream: usize) -> DriverResult {
    copy(bytes, stream, || Ok((any_range(to, bytes as u64)?, any_range(from, bytes as u64)?)))
}

/// Copies between memory of two contexts in a stream.
pub fn between_contexts(
    to: u64,
    to_context: &Context,
    from: u64,
    from_context: &Context,
    bytes: usize,
    stream: usize,
) -> DriverResult {
    to_context.check()?;
    from_context.check()?;
    copy(bytes, stream, || {
        let ranges = (device_range(to, bytes as u64)?, device_range(from, bytes as u64)?);
        check_owner(to, to_context)?;
        check_owner(from, from_context)?;
        Ok(ranges)
    })
}

/// Performs a copy. Called on a stream's thread, or for a source that no other thread uses.
///
/// # Errors
/// A GPU process that is gone.
pub(crate) fn transfer(to: &Range, from: &Range) -> Result<(), Fault> {
    if let Some(registration) = &from.registration {
        registration.to_device();
    }
    match (&to.at, &from.at) {
        (DataLocation::Here(target), DataLocation::Here(source)) => {
            let target = with_exposed_provenance_mut::<u8>(*target);
            let source = with_exposed_provenance_mut::<u8>(*source);
            // SAFETY: both are memory of the driver or the program vouches for them, with
            // `from.bytes` bytes each.
            unsafe { std::ptr::copy(source, target, from.bytes as usize) };
        }
        _ => {
            let contents = read(from)?;
            write(to, &contents)?;
        }
    }
    agree(to);
    Ok(())
}

/// Returns the bytes of a range.
///
/// # Errors
/// A GPU process that is gone.
pub(crate) fn read(from: &Range) -> Result<Vec<u8>, Fault> {
    match &from.at {
        DataLocation::Here(address) => {
            let mut contents = vec![0; from.bytes as usize];
            let start = with_exposed_provenance_mut::<u8>(*address);
            // SAFETY: a range of the driver's memory, or a range that the program vouches for.
            unsafe { std::ptr::copy(start, contents.as_mut_ptr(), contents.len()) };
            Ok(contents)
        }
        DataLocation::Process(context, address) => {
            context.ask(&Request::Read { address: *address, bytes: from.bytes })
        }
    }
}

/// Writes a range. Called on a stream's thread.
///
/// # Errors
/// A GPU process that is gone.
pub(crate) fn write(to: &Range, contents: &[u8]) -> Result<(), Fault> {
    match &to.at {
        DataLocation::Here(address) => {
            let start = with_exposed_provenance_mut::<u8>(*address);
            // SAFETY: a range of the driver's memory or one that the program vouches for, with the
            // contents' length.
            unsafe { std::ptr::copy(contents.as_ptr(), start, contents.len()) };
        }
        DataLocation::Process(context, address) => {
            let contents = contents.to_vec();
            context.ask(&Request::Write { address: *address, contents })?;
        }
    }
    agree(to);
    Ok(())
}

/// Updates the shadow of registered memory before a part of it changes.
pub(crate) fn prepare(to: &Range) {
    if let Some(registration) = &to.registration {
        registration.to_device();
    }
}

/// Shows a change of the shadow to the program.
fn agree(to: &Range) {
    if let Some(registration) = &to.registration {
        registration.to_host();
    }
}

fn copy(
    bytes: usize,
    stream: usize,
    ranges: impl FnOnce() -> DriverResult<(Range, Range)>,
) -> DriverResult {
    let (context, stream) = stream::for_work(stream)?;
    if bytes == 0 {
        return Ok(());
    }
    let (to, from) = ranges()?;
    if from.is_pageable && !to.is_pageable && from.bytes <= driver().vendor.staged_bytes() {
        return stage(&context, &stream, to, &from);
    }
    let holds_up = to.is_pageable || from.is_pageable;
    let ticket = stream.push(move |context| {
        delay();
        prepare(&to);
        if let Err(fault) = transfer(&to, &from) {
            context.fail(&fault);
        }
    })?;
    if holds_up {
        ticket.wait();
        context.check()?;
    }
    Ok(())
}

fn stage(context: &Context, stream: &Stream, to: Range, from: &Range) -> DriverResult {
    let contents = read(from).map_err(|fault| {
        context.fail(&fault);
        Code::LAUNCH_FAILED
    })?;
    stream.push(move |context| {
        delay();
        prepare(&to);
        if let Err(fault) = write(&to, &contents) {
            context.fail(&fault);
        }
    })?;
    Ok(())
}

/// Delays a copy by the test's rule for `copy`.
pub(crate) fn delay() {
    let _ = driver().calls.enter("copy");
}

/// Waits for the context's own stream, if the copy just enqueued there is synchronous.
fn wait_if_synchronous(bytes: usize, is_synchronous: bool) -> DriverResult {
    let context = current()?;
    if bytes > 0 && is_synchronous {
        context.own_channel()?.queue.tail().wait();
    }
    context.check()
}

fn check_owner(address: u64, context: &Context) -> DriverResult {
    let block = machine()?.blocks.find(address);
    match block.filter(|block| block.context.handle != context.handle && !block.is_shared()) {
        Some(block) => Err(broken(
            Code::INVALID_VALUE,
            format!(
                "{} is of another {} than the copy says",
                block.describe(),
                driver().vendor.scope()
            ),
        )),
        None => Ok(()),
    }
}
