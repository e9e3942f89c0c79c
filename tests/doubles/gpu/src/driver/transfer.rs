//! Copies.
//!
//! A copy behaves as the worst that the driver's documentation allows: of memory that is not page-locked, up to 64 KiB
//! that go to a device are taken along at once, and anything else holds the caller up until it is done.

use super::context::{Context, current};
use super::range::{At, Range, any_range, device_range, host_range};
use super::stream::{self, Stream};
use super::{Answer, Code, broken, driver, machine};
use crate::protocol::{Fault, Request};
use std::ptr::with_exposed_provenance_mut;

/// Copies to a device, and waits if a driver does.
pub fn to_device(to: u64, from: usize, bytes: usize) -> Answer {
    to_device_async(to, from, bytes, 0)?;
    settle(bytes, host_range(from, bytes as u64).is_ok_and(|range| !range.is_pageable))
}

/// Copies to the host, and waits.
pub fn to_host(to: usize, from: u64, bytes: usize) -> Answer {
    to_host_async(to, from, bytes, 0)?;
    settle(bytes, true)
}

/// Copies from device memory to device memory. Does not wait, as the documentation says.
pub fn within_device(to: u64, from: u64, bytes: usize) -> Answer {
    within_device_async(to, from, bytes, 0)
}

/// Copies from anywhere to anywhere, and waits.
pub fn anywhere(to: u64, from: u64, bytes: usize) -> Answer {
    anywhere_async(to, from, bytes, 0)?;
    settle(bytes, true)
}

/// Copies to a device in a stream.
pub fn to_device_async(to: u64, from: usize, bytes: usize, stream: usize) -> Answer {
    copy(bytes, stream, || Ok((device_range(to, bytes as u64)?, host_range(from, bytes as u64)?)))
}

/// Copies to the host in a stream.
pub fn to_host_async(to: usize, from: u64, bytes: usize, stream: usize) -> Answer {
    copy(bytes, stream, || Ok((host_range(to, bytes as u64)?, device_range(from, bytes as u64)?)))
}

/// Copies from device memory to device memory in a stream.
pub fn within_device_async(to: u64, from: u64, bytes: usize, stream: usize) -> Answer {
    copy(bytes, stream, || Ok((device_range(to, bytes as u64)?, device_range(from, bytes as u64)?)))
}

/// Copies from anywhere to anywhere in a stream.
pub fn anywhere_async(to: u64, from: u64, bytes: usize, stream: usize) -> Answer {
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
) -> Answer {
    to_context.check()?;
    from_context.check()?;
    copy(bytes, stream, || {
        let ranges = (device_range(to, bytes as u64)?, device_range(from, bytes as u64)?);
        check_owner(to, to_context)?;
        check_owner(from, from_context)?;
        Ok(ranges)
    })
}

/// Does a copy. On a thread of a stream, or where what is read is nobody else's.
///
/// # Errors
/// If a GPU process is gone.
pub(crate) fn transfer(to: &Range, from: &Range) -> Result<(), Fault> {
    if let Some(registration) = &from.registration {
        registration.to_device();
    }
    match (&to.at, &from.at) {
        (At::Here(target), At::Here(source)) => {
            let target = with_exposed_provenance_mut::<u8>(*target);
            let source = with_exposed_provenance_mut::<u8>(*source);
            // SAFETY: both are memory of the driver, or the program vouches for them, for as many bytes.
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

/// The bytes of a range.
///
/// # Errors
/// If a GPU process is gone.
pub(crate) fn read(from: &Range) -> Result<Vec<u8>, Fault> {
    match &from.at {
        At::Here(address) => {
            let mut contents = vec![0; from.bytes as usize];
            let start = with_exposed_provenance_mut::<u8>(*address);
            // SAFETY: a range of memory of the driver, or one that the program vouches for.
            unsafe { std::ptr::copy(start, contents.as_mut_ptr(), contents.len()) };
            Ok(contents)
        }
        At::Process(context, address) => {
            context.ask(&Request::Read { address: *address, bytes: from.bytes })
        }
    }
}

/// Writes a range. On a thread of a stream.
///
/// # Errors
/// If a GPU process is gone.
pub(crate) fn write(to: &Range, contents: &[u8]) -> Result<(), Fault> {
    match &to.at {
        At::Here(address) => {
            let start = with_exposed_provenance_mut::<u8>(*address);
            // SAFETY: a range of memory of the driver, or one that the program vouches for, as long as the contents.
            unsafe { std::ptr::copy(contents.as_ptr(), start, contents.len()) };
        }
        At::Process(context, address) => {
            let contents = contents.to_vec();
            context.ask(&Request::Write { address: *address, contents })?;
        }
    }
    agree(to);
    Ok(())
}

/// Before the shadow of registered memory is changed in part, it is brought up to date.
pub(crate) fn prepare(to: &Range) {
    if let Some(registration) = &to.registration {
        registration.to_device();
    }
}

/// After it was changed, the program sees it.
fn agree(to: &Range) {
    if let Some(registration) = &to.registration {
        registration.to_host();
    }
}

fn copy(bytes: usize, stream: usize, ranges: impl FnOnce() -> Answer<(Range, Range)>) -> Answer {
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

fn stage(context: &Context, stream: &Stream, to: Range, from: &Range) -> Answer {
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

/// Has copies take as long as a test wants.
fn delay() {
    let _ = driver().calls.enter("copy");
}

/// Waits for the context's own stream, if the copy that was just given to it is one to wait for.
fn settle(bytes: usize, is_synchronous: bool) -> Answer {
    let context = current()?;
    if bytes > 0 && is_synchronous {
        context.own_lane()?.line.tail().wait();
    }
    context.check()
}

fn check_owner(address: u64, context: &Context) -> Answer {
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
