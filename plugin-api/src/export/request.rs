//! Requests (structures of the binary interface with all parameters of a method) and functions of
//! the program.

use super::lent_kernel;
use crate::abi;
use crate::backend::Plugin;
use crate::collective::{
    CollectiveElement, CollectiveKind, CollectiveMember, CollectiveOperation, CollectiveRequest,
    CollectiveRoot,
};
use crate::error::{Error, ErrorCode, Result};
use crate::raw::read_bytes;
use crate::rect::{Extent, Pitch, PitchedSpan, RectRequest};
use crate::request::{
    ArgumentPassing, Arguments, CopyRequest, HostFunction, LaunchShape, Place, Span,
};

/// Reads a launch.
///
/// # Errors
/// `Unsupported` for unknown flags.
///
/// # Safety
/// The kernel belongs to a loaded module of `P`, and the program vouches for the arguments.
#[inline]
pub(crate) unsafe fn launch<'a, P: Plugin>(
    raw: &'a abi::Launch,
) -> Result<(&'a P::Kernel, LaunchShape, Arguments<'a>)> {
    let known = abi::LAUNCH_COOPERATIVE | abi::LAUNCH_WAIT | abi::LAUNCH_WORDS;
    known_flags("launch", raw.flags, known)?;
    let shape = LaunchShape {
        groups: raw.groups,
        items: raw.items,
        cluster: (raw.cluster != [0; 3]).then_some(raw.cluster),
        dynamic_shared_bytes: raw.dynamic_shared_bytes,
        cooperative: raw.flags & abi::LAUNCH_COOPERATIVE != 0,
        wait: raw.flags & abi::LAUNCH_WAIT != 0,
        passing: match raw.flags & abi::LAUNCH_WORDS {
            0 => ArgumentPassing::Pointers,
            _ => ArgumentPassing::Words,
        },
    };
    let count = raw.argument_count as usize;
    // SAFETY: promised by the caller.
    unsafe {
        let arguments = Arguments::from_raw(raw.arguments, raw.argument_sizes, count);
        Ok((lent_kernel::<P>(raw.kernel), shape, arguments))
    }
}

/// Reads a copy.
///
/// # Errors
/// `Unsupported` for unknown flags.
///
/// # Safety
/// The devices are null or open devices of `P`, and the program vouches for the ranges.
pub(crate) unsafe fn copy<P: Plugin>(
    raw: &abi::CopyRequest,
) -> Result<(CopyRequest<'_, P::Device>,)> {
    known_flags("copy", raw.flags, abi::COPY_WAIT)?;
    // SAFETY: promised by the caller.
    let (destination, source) =
        unsafe { (Span::new(raw.destination, raw.bytes), Span::new(raw.source, raw.bytes)) };
    Ok((CopyRequest {
        destination,
        // SAFETY: promised by the caller.
        destination_place: unsafe { place::<P>(raw.destination_device) },
        source,
        // SAFETY: promised by the caller.
        source_place: unsafe { place::<P>(raw.source_device) },
        wait: raw.flags & abi::COPY_WAIT != 0,
    },))
}

/// Reads a rectangular copy.
///
/// # Errors
/// `Unsupported` for unknown flags.
///
/// # Safety
/// As for [`copy`].
pub(crate) unsafe fn rect<P: Plugin>(raw: &abi::Rect) -> Result<(RectRequest<'_, P::Device>,)> {
    known_flags("rectangular copy", raw.flags, 0)?;
    let span = |end: &abi::RectEnd| {
        let pitch = Pitch { row: end.row_pitch, slice: end.slice_pitch };
        // SAFETY: promised by the caller.
        unsafe { PitchedSpan::new(end.address, pitch) }
    };
    let extent = Extent { row_bytes: raw.row_bytes, rows: raw.rows, slices: raw.slices };
    Ok((RectRequest {
        destination: span(&raw.destination),
        // SAFETY: promised by the caller.
        destination_place: unsafe { place::<P>(raw.destination.device) },
        source: span(&raw.source),
        // SAFETY: promised by the caller.
        source_place: unsafe { place::<P>(raw.source.device) },
        extent,
    },))
}

/// Reads a collective operation.
///
/// # Errors
/// `Unsupported` for unknown flags, `InvalidEnumeration` for an unknown kind, element or operation,
/// `InvalidArgument` for parts that do not fit each other.
///
/// # Safety
/// The members are readable, their devices are open devices of `P`, and the program vouches for the
/// memory.
pub(crate) unsafe fn collective<P: Plugin>(
    raw: &abi::Collective,
) -> Result<(CollectiveRequest<'_, P::Device>,)> {
    known_flags("collective operation", raw.flags, 0)?;
    let unknown = |what: &str, value: u32| {
        let message = format!("the {what} {value} of a collective operation is unknown");
        Error::new(ErrorCode::InvalidEnumeration, message)
    };
    let kind = CollectiveKind::from_raw(raw.kind).ok_or_else(|| unknown("kind", raw.kind))?;
    let reduction = match kind {
        CollectiveKind::Reduce | CollectiveKind::AllReduce => Some((
            CollectiveElement::from_raw(raw.element)
                .ok_or_else(|| unknown("element", raw.element))?,
            CollectiveOperation::from_raw(raw.operation)
                .ok_or_else(|| unknown("operation", raw.operation))?,
        )),
        _ => None,
    };
    let root = match raw.root {
        abi::COLLECTIVE_ROOT_NONE => CollectiveRoot::None,
        abi::COLLECTIVE_ROOT_HOST => CollectiveRoot::Host(raw.host),
        index => CollectiveRoot::Member(index),
    };
    // SAFETY: promised by the caller.
    let members = unsafe { std::slice::from_raw_parts(raw.members, raw.member_count as usize) };
    let members = members.iter().map(|member| CollectiveMember {
        // SAFETY: promised by the caller.
        device: unsafe { super::lent_device::<P>(member.device) },
        source: member.source,
        destination: member.destination,
    });
    // SAFETY: promised by the caller.
    let mut request = unsafe { CollectiveRequest::new(kind, root, raw.bytes, members.collect()) };
    request.reduction = reduction;
    request.check()?;
    Ok((request,))
}

/// # Safety
/// The device is null or an open device of `P`.
unsafe fn place<'a, P: Plugin>(device: *mut abi::DeviceHandle) -> Place<'a, P::Device> {
    match device.is_null() {
        true => Place::Host,
        // SAFETY: promised by the caller.
        false => Place::Device(unsafe { super::lent_device::<P>(device) }),
    }
}

/// Reads a fill.
///
/// # Errors
/// `Unsupported` for unknown flags.
///
/// # Safety
/// The pattern is readable, and the program vouches for the range.
#[allow(clippy::extra_unused_type_parameters, reason = "requests are read alike")]
pub(crate) unsafe fn fill<P: Plugin>(raw: &abi::Fill) -> Result<(Span, &[u8], bool)> {
    known_flags("fill", raw.flags, abi::FILL_WAIT)?;
    // SAFETY: promised by the caller.
    let (destination, pattern) =
        unsafe { (Span::new(raw.destination, raw.bytes), read_bytes(raw.pattern)) };
    Ok((destination, pattern, raw.flags & abi::FILL_WAIT != 0))
}

/// Reads a function of the program.
///
/// # Safety
/// The function may be called once, from any thread, and does not unwind.
pub(crate) unsafe fn host_function(raw: abi::HostFunction) -> HostFunction {
    // SAFETY: promised by the caller.
    unsafe { HostFunction::from_raw(raw) }
}

fn known_flags(what: &str, flags: u32, all: u32) -> Result<()> {
    if flags & !all == 0 {
        return Ok(());
    }
    let message = format!("unknown {what} flags {:#x}", flags & !all);
    Err(Error::new(ErrorCode::Unsupported, message))
}
