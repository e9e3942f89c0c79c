//! Launches of kernels, and queries before them.

use crate::context::current;
use crate::given;
use crate::info;
use crate::objects::{queue, symbol};
use crate::types::enumerations::*;
use crate::types::structures::*;
use longshore::{Device, Error, ErrorCode, Grid, Queue, RawArguments, Result};
use std::ffi::c_void;

#[allow(clippy::too_many_arguments, reason = "they are the interface's")]
pub(crate) unsafe fn launch(
    queue: ol_queue_handle_t,
    device: ol_device_handle_t,
    kernel: ol_symbol_handle_t,
    size: *const ol_kernel_launch_size_args_t,
    properties: *const ol_kernel_launch_prop_t,
    count: usize,
    pointers: *mut *mut c_void,
    sizes: *const usize,
) -> Result<()> {
    let symbol = symbol::from_handle(kernel)?;
    let kernel_object = symbol.kernel_object()?;
    let kernel = &kernel_object.kernel;
    // SAFETY: promised by the caller.
    let mut grid = unsafe { grid(size) }?;
    // SAFETY: promised by the caller.
    if unsafe { is_cooperative(properties) }? {
        grid = grid.with_cooperative(true);
    }
    let (pointers, sizes) = match count {
        0 => (&[][..], &[][..]),
        _ if pointers.is_null() || sizes.is_null() => {
            let message = format!("{count} arguments, but ArgPtrs or ArgSizes is null");
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        }
        // SAFETY: promised by the caller.
        _ => unsafe { (given::list(pointers.cast(), count)?, given::list(sizes, count)?) },
    };
    check_values(pointers, sizes)?;
    // SAFETY: promised by the caller.
    let arguments = unsafe { RawArguments::new(pointers, sizes) }?;
    if queue.is_null() {
        let queue = match kernel_object.is_on(device) {
            true => kernel_object.device.queue()?,
            // Another device refuses the kernel; a handle of no device is an error itself.
            false => current()?.device(device)?.get()?.queue()?,
        };
        // SAFETY: promised by the caller.
        return unsafe { queue.launch_and_wait(kernel, grid, arguments) };
    }
    let queue = queue::from_handle(queue)?;
    if queue.device_handle() != device {
        return Err(other_device(&queue, device));
    }
    // SAFETY: promised by the caller.
    unsafe { queue.launch(kernel, grid, arguments) }
}

pub(crate) unsafe fn optimal_group_size(
    device: ol_device_handle_t,
    kernel: ol_symbol_handle_t,
    shared_bytes: usize,
    group_size: *mut usize,
) -> Result<()> {
    let context = current()?;
    let device = context.device(device)?.get()?;
    let symbol = symbol::from_handle(kernel)?;
    let items = device.optimal_group_items(symbol.kernel()?, shared_bytes as u64)?;
    // SAFETY: promised by the caller.
    unsafe { info::write(group_size, items as usize) }
}

pub(crate) unsafe fn max_cooperative_groups(
    device: ol_device_handle_t,
    kernel: ol_symbol_handle_t,
    size: *const ol_kernel_launch_size_args_t,
    count: *mut u32,
) -> Result<()> {
    let context = current()?;
    let device = context.device(device)?.get()?;
    let symbol = symbol::from_handle(kernel)?;
    // SAFETY: promised by the caller.
    let Some(size) = (unsafe { size.as_ref() }) else { return Err(no_sizes()) };
    let ol_dimensions_t { x, y, z } = size.GroupSize;
    if [x, y, z].contains(&0) {
        let message = format!("groups of {x} * {y} * {z} items, expected at least 1 each");
        return Err(Error::new(ErrorCode::InvalidArgument, message));
    }
    let shared_bytes = size.DynSharedMemory as u64;
    let groups = device.max_cooperative_groups(symbol.kernel()?, [x, y, z], shared_bytes)?;
    // SAFETY: promised by the caller.
    unsafe { info::write(count, groups) }
}

/// # Errors
/// `InvalidNullPointer` and `InvalidSize` for values that cannot exist at their addresses.
#[inline]
fn check_values(pointers: &[*const c_void], sizes: &[usize]) -> Result<()> {
    let mut values = pointers.iter().zip(sizes).filter(|(_, bytes)| **bytes > 0);
    values.try_for_each(|(pointer, bytes)| {
        given::check_pointer(*pointer)?;
        given::check_range(*pointer, *bytes)
    })
}

/// # Safety
/// The pointer is null or points to sizes.
unsafe fn grid(size: *const ol_kernel_launch_size_args_t) -> Result<Grid> {
    // SAFETY: promised by the caller.
    let Some(size) = (unsafe { size.as_ref() }) else { return Err(no_sizes()) };
    let three = |size: ol_dimensions_t| [size.x, size.y, size.z];
    let grid = Grid::new(three(size.NumGroups), three(size.GroupSize));
    Ok(grid.with_shared_bytes(size.DynSharedMemory as u64))
}

/// # Safety
/// The pointer is null, or points to properties with an end marker.
unsafe fn is_cooperative(mut properties: *const ol_kernel_launch_prop_t) -> Result<bool> {
    let mut cooperative = false;
    // SAFETY: promised by the caller; nothing after the end marker is read.
    while let Some(property) = unsafe { properties.as_ref() } {
        match property.r#type {
            OL_KERNEL_LAUNCH_PROP_TYPE_NONE => break,
            OL_KERNEL_LAUNCH_PROP_TYPE_IS_COOPERATIVE => {
                // SAFETY: as above; any byte but 0 is true.
                let data = unsafe { property.data.cast::<u8>().as_ref() };
                let data = data.ok_or_else(|| {
                    let message = "OL_KERNEL_LAUNCH_PROP_TYPE_IS_COOPERATIVE without a bool";
                    Error::new(ErrorCode::InvalidNullPointer, message)
                })?;
                cooperative = *data != 0;
            }
            ol_kernel_launch_prop_type_t(unknown) => {
                let message = format!("{unknown} is not an ol_kernel_launch_prop_type_t");
                return Err(Error::new(ErrorCode::InvalidEnumeration, message));
            }
        }
        properties = properties.wrapping_add(1);
    }
    Ok(cooperative)
}

#[cold]
fn no_sizes() -> Error {
    Error::new(ErrorCode::InvalidNullPointer, "LaunchSizeArgs is null")
}

#[cold]
fn other_device(queue: &Queue, device: ol_device_handle_t) -> Error {
    let message = |other: &Device| {
        format!("the queue is of {}, the launch for {}", queue.device().name(), other.name())
    };
    let other = current().and_then(|context| {
        let other = context.device(device)?.get()?;
        Ok(Error::new(ErrorCode::InvalidDevice, message(other)))
    });
    other.unwrap_or_else(|error| error)
}
