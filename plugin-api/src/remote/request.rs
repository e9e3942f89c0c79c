//! Requests: structures of the binary interface that hold all parameters of a method.

use super::{RemoteDevice, RemoteKernel};
use crate::abi::{self, DeviceHandle};
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
