//! Functions of LLVM 20 that later versions lack: platforms and their devices by number.

use crate::context::current;
use crate::info;
use crate::types::structures::*;
use longshore::{Error, ErrorCode, Result};

pub(crate) unsafe fn platform_count(count: *mut u32) -> Result<()> {
    // SAFETY: promised by the caller.
    unsafe { info::write(count, current()?.platform_handles().len() as u32) }
}

pub(crate) unsafe fn platforms(count: u32, platforms: *mut ol_platform_handle_t) -> Result<()> {
    let all = current()?.platform_handles();
    // SAFETY: promised by the caller.
    unsafe { write_first(count, platforms, &all, "platforms") }
}

pub(crate) unsafe fn device_count(platform: ol_platform_handle_t, count: *mut u32) -> Result<()> {
    let context = current()?;
    let devices = context.device_handles_of(platform)?;
    // SAFETY: promised by the caller.
    unsafe { info::write(count, devices.len() as u32) }
}

pub(crate) unsafe fn devices(
    platform: ol_platform_handle_t,
    count: u32,
    devices: *mut ol_device_handle_t,
) -> Result<()> {
    let context = current()?;
    let all = context.device_handles_of(platform)?;
    // SAFETY: promised by the caller.
    unsafe { write_first(count, devices, &all, "devices") }
}

/// Writes the first `count` handles.
///
/// # Errors
/// `InvalidSize` if `count` is 0 or too large, `InvalidNullPointer` for a null pointer.
///
/// # Safety
/// The memory has room for `count` handles, unless the pointer is null.
unsafe fn write_first<T: Copy>(count: u32, to: *mut T, all: &[T], what: &str) -> Result<()> {
    let Some(first) = all.get(..count as usize).filter(|first| !first.is_empty()) else {
        let message = format!("{count} {what} are requested, there are {}", all.len());
        return Err(Error::new(ErrorCode::InvalidSize, message));
    };
    for (place, handle) in first.iter().enumerate() {
        // SAFETY: promised by the caller; a null pointer is refused at the first handle.
        unsafe { info::write(to.wrapping_add(place), *handle)? };
    }
    Ok(())
}
