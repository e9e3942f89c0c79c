//! Requests: structures of the binary interface that hold all parameters of a method.

use super::{RemoteDevice, RemoteKernel};
use crate::abi::{self, DeviceHandle};
use crate::collective::{CollectiveRequest, CollectiveRoot};
use crate::raw::bytes;
use crate::rect::{PitchedSpan, RectRequest};
use crate::request::{ArgumentPassing, Arguments, CopyRequest, LaunchShape, Place, Span};

/// Returns the request of a launch.
#[inline]
pub(crate) fn launch(
    kernel: &RemoteKernel,
    shape: &LaunchShape,
    arguments: Arguments<'_>,
) -> abi::Launch {
    let cooperative = if shape.cooperative { abi::LAUNCH_COOPERATIVE } else { 0 };
    let wait = if shape.wait { abi::LAUNCH_WAIT } else { 0 };
    let words = match shape.passing {
        ArgumentPassing::Pointers => 0,
        ArgumentPassing::Words => abi::LAUNCH_WORDS,
    };
    abi::Launch {
        kernel: kernel.handle(),
        groups: shape.groups,
        items: shape.items,
        cluster: shape.cluster.unwrap_or_default(),
        reserved: 0,
        dynamic_shared_bytes: shape.dynamic_shared_bytes,
        flags: cooperative | wait | words,
        argument_count: arguments.len() as u32,
        arguments: arguments.pointers(),
        argument_sizes: arguments.sizes(),
    }
}

/// Returns the request of a copy.
#[inline]
pub(crate) fn copy(copy: &CopyRequest<'_, RemoteDevice>) -> abi::CopyRequest {
    abi::CopyRequest {
        destination: copy.destination.address(),
        destination_device: device_of(&copy.destination_place),
        source: copy.source.address(),
        source_device: device_of(&copy.source_place),
        bytes: copy.destination.bytes(),
        flags: if copy.wait { abi::COPY_WAIT } else { 0 },
    }
}

/// Returns the request of a rectangular copy.
pub(crate) fn rect(rect: &RectRequest<'_, RemoteDevice>) -> abi::Rect {
    let end = |span: PitchedSpan, place| abi::RectEnd {
        address: span.address(),
        device: device_of(place),
        row_pitch: span.pitch().row,
        slice_pitch: span.pitch().slice,
    };
    abi::Rect {
        destination: end(rect.destination, &rect.destination_place),
        source: end(rect.source, &rect.source_place),
        row_bytes: rect.extent.row_bytes,
        rows: rect.extent.rows,
        slices: rect.extent.slices,
        flags: 0,
    }
}

/// The request of a collective operation, with its members.
pub(crate) struct Collective {
    raw: abi::Collective,
    /// The array to which `raw` points.
    _members: Vec<abi::CollectiveMember>,
}

/// A request that a plugin reads through a pointer.
pub(crate) trait AsRequest {
    /// The structure of the binary interface.
    type Raw;

    /// Returns the pointer, which is valid as long as the request stays in place.
    fn as_request(&self) -> *const Self::Raw;
}

macro_rules! as_requests {
    ($($name:ident),*) => { $(
        impl AsRequest for abi::$name {
            type Raw = abi::$name;

            #[inline]
            fn as_request(&self) -> *const abi::$name {
                self
            }
        }
    )* };
}

as_requests!(Launch, CopyRequest, Rect, Fill);

impl AsRequest for Collective {
    type Raw = abi::Collective;

    fn as_request(&self) -> *const abi::Collective {
        &raw const self.raw
    }
}

/// Returns the request of a collective operation.
pub(crate) fn collective(request: &CollectiveRequest<'_, RemoteDevice>) -> Collective {
    let members = request.members.iter().map(|member| abi::CollectiveMember {
        device: member.device.handle(),
        source: member.source,
        destination: member.destination,
    });
    let members: Vec<_> = members.collect();
    let (root, host) = match request.root {
        CollectiveRoot::Member(index) => (index, 0),
        CollectiveRoot::Host(address) => (abi::COLLECTIVE_ROOT_HOST, address),
        CollectiveRoot::None => (abi::COLLECTIVE_ROOT_NONE, 0),
    };
    let (element, operation) = match request.reduction {
        Some((element, operation)) => (element as u32, operation as u32),
        None => (0, 0),
    };
    let raw = abi::Collective {
        kind: request.kind as u32,
        root,
        element,
        operation,
        bytes: request.bytes,
        host,
        members: members.as_ptr(),
        member_count: members.len() as u64,
        flags: 0,
    };
    Collective { raw, _members: members }
}

/// Returns the request of a fill.
pub(crate) fn fill(destination: Span, pattern: &[u8], wait: bool) -> abi::Fill {
    abi::Fill {
        destination: destination.address(),
        bytes: destination.bytes(),
        pattern: bytes(pattern),
        flags: if wait { abi::FILL_WAIT } else { 0 },
    }
}

fn device_of(place: &Place<'_, RemoteDevice>) -> *mut DeviceHandle {
    match place {
        Place::Host => std::ptr::null_mut(),
        Place::Device(device) => device.handle(),
    }
}
