//! The functions that register memory of the program for a device.

use crate::context::current;
use crate::given;
use crate::info;
use crate::objects::device::DeviceObject;
use crate::objects::registration::{self, Registration};
use crate::types::enumerations::*;
use crate::types::structures::*;
use longshore::{Error, ErrorCode, Result};
use std::ffi::c_void;
use std::ptr;

pub(crate) unsafe fn register(
    device: ol_device_handle_t,
    address: *mut c_void,
    bytes: usize,
    flags: ol_memory_register_flags_t,
    pinned: *mut *mut c_void,
) -> Result<()> {
    given::check_flags(flags, OL_MEMORY_REGISTER_FLAG_LOCK_MEMORY.0)?;
    given::check_pointer(address)?;
    given::check_pointer(pinned)?;
    given::check_range(address, bytes)?;
    if bytes == 0 {
        return Err(Error::new(ErrorCode::InvalidSize, "0 bytes to register"));
    }
    let context = current()?;
    let device_object = context.device(device)?;
    let mut registered = device_object.registered.lock();
    let start = address as usize;
    if let Some((base, found)) = registration::around(&mut registered, start, bytes)? {
        found.users += 1;
        // SAFETY: promised by the caller.
        return unsafe { info::write(pinned, (found.address + (start - base)) as *mut c_void) };
    }
    if flags == 0 {
        // SAFETY: promised by the caller.
        return unsafe { info::write(pinned, ptr::null_mut()) };
    }
    // SAFETY: promised by the caller.
    let locked = unsafe { lock(device_object, address, bytes) }?;
    registered.insert(start, Registration { bytes, address: locked, users: 1 });
    // SAFETY: promised by the caller.
    unsafe { info::write(pinned, locked as *mut c_void) }
}

pub(crate) unsafe fn unregister(
    device: ol_device_handle_t,
    address: *mut c_void,
    flags: ol_memory_register_flags_t,
) -> Result<()> {
    given::check_flags(flags, OL_MEMORY_REGISTER_FLAG_UNLOCK_MEMORY.0)?;
    given::check_pointer(address)?;
    let context = current()?;
    let device_object = context.device(device)?;
    let mut registered = device_object.registered.lock();
    let start = registration::on_host(&mut registered, address as usize)?;
    let Some((base, found)) = registration::around(&mut registered, start, 1)? else {
        if flags == 0 {
            return Ok(());
        }
        let message = format!("{address:p} is not registered");
        return Err(Error::new(ErrorCode::InvalidArgument, message));
    };
    found.users -= 1;
    if found.users > 0 {
        return Ok(());
    }
    registered.remove(&base);
    // SAFETY: promised by the caller.
    unsafe { unlock(device_object, base as *mut c_void) }
}

/// Page-locks memory, which a device that shares all memory with the program does not need.
unsafe fn lock(device: &DeviceObject, address: *mut c_void, bytes: usize) -> Result<usize> {
    if device.shares_memory() {
        return Ok(address as usize);
    }
    // SAFETY: promised by the caller.
    let pinned = unsafe { device.get()?.pin(address, bytes as u64) }?;
    Ok(pinned.address() as usize)
}

unsafe fn unlock(device: &DeviceObject, address: *mut c_void) -> Result<()> {
    if device.shares_memory() {
        return Ok(());
    }
    // SAFETY: promised by the caller.
    unsafe { device.get()?.unpin(address) }
}
