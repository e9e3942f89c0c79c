//! Page-locked memory of the program.

use super::registrations;
use super::{Memory, find};
use crate::device::DeviceCore;
use crate::driver::types::{DevicePtr, host_memory, memory_type, pointer_attribute};
use crate::driver::{Call, CuResult, Driver};
use crossbeam_skiplist::SkipMap;
use longshore_plugin_api::{Error, ErrorCode, MemoryKind, Result, Span};
use std::ffi::{c_uint, c_void};

/// Page-locked memory of the program.
#[derive(Clone, Copy)]
pub(super) struct Pinned {
    pub(super) bytes: u64,
    /// The device's address.
    device: DevicePtr,
    /// Where our registration begins; none if somebody else has registered it.
    registration: Option<u64>,
}

impl Memory {
    /// Pins memory of the program and answers the device's address. Blocks.
    ///
    /// # Errors
    /// `InvalidArgument` if part of the range is pinned already, or allocated by the device; those of
    /// the driver.
    pub(crate) fn pin(&self, device: &DeviceCore, range: Span) -> Result<u64> {
        let (start, bytes) = (range.address(), range.bytes());
        let _pinning = self.pinning.lock();
        if start.checked_add(bytes).is_none()
            || overlaps(&self.pinned, start, bytes, |pinned| pinned.bytes)
        {
            return Err(pinned_already(start, bytes, "some of which is pinned already"));
        }
        if overlaps(&self.live, start, bytes, |block| block.bytes) {
            return Err(pinned_already(
                start,
                bytes,
                "some of which is an allocation of the device",
            ));
        }
        device.refuse_if_lost()?;
        let doing = format!("pinning {bytes} bytes at {start:#x}");
        let registered = registrations::join(start, bytes, || {
            device.try_call(|driver| register(driver, start, bytes))
        });
        let registration = match registered {
            Ok(registration) => Some(registration),
            Err(failure) if failure.is(CuResult::HOST_MEMORY_ALREADY_REGISTERED) => {
                self.check_of_others(device, start, bytes)?;
                None
            }
            Err(failure) => return Err(device.failed(doing, failure)),
        };
        let mut address = 0;
        let asked = device.call(doing, |driver| {
            // SAFETY: the output is ours, the memory is registered.
            unsafe { driver.cuMemHostGetDevicePointer(&mut address, start as *mut c_void, 0) }
        });
        if let Err(error) = asked {
            let _ = registration.map(|registration| give_up(device, registration));
            return Err(error);
        }
        self.pinned.insert(start, Pinned { bytes, device: address, registration });
        Ok(address)
    }

    /// Undoes [`Memory::pin`]: of the address on the host, or the device's. Blocks.
    ///
    /// # Errors
    /// `InvalidArgument` if nothing is pinned there; those of the driver.
    pub(crate) fn unpin(&self, device: &DeviceCore, address: u64) -> Result<()> {
        let _pinning = self.pinning.lock();
        let of_device = || self.pinned.iter().find(|entry| entry.value().device == address);
        let found = self.pinned.get(&address).or_else(of_device).filter(|entry| entry.remove());
        let Some(found) = found else {
            let message = format!("{address:#x} is no address of pinned memory");
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        };
        let (start, pinned) = (*found.key(), *found.value());
        let Some(registration) = pinned.registration else { return Ok(()) };
        let given_up = give_up(device, registration);
        if given_up.as_ref().is_err_and(|failure| !failure.is(CuResult::DEINITIALIZED)) {
            self.pinned.insert(start, pinned);
            return device.check("unpinning memory", given_up);
        }
        Ok(())
    }

    /// Whether a copy to or from this memory of the host can go on while the program does something
    /// else: all of it is page-locked, by us or by others.
    pub(crate) fn is_pinned(&self, driver: &Driver, start: u64, bytes: u64) -> bool {
        let in_live = find(&self.live, start).is_some_and(|(base, block)| {
            block.kind != MemoryKind::Device && (start - base).saturating_add(bytes) <= block.bytes
        });
        let in_pinned = || {
            find(&self.pinned, start)
                .is_some_and(|(base, pinned)| (start - base).saturating_add(bytes) <= pinned.bytes)
        };
        in_live || in_pinned() || is_pinned_by_others(driver, start, bytes)
    }

    /// Takes back all registrations that are left.
    pub(super) fn unregister_all(&self, driver: &Driver) {
        for registration in self.pinned.iter().filter_map(|entry| entry.value().registration) {
            let _ = registrations::leave(registration, || unregister(driver, registration));
        }
    }

    /// Memory that somebody else has registered, if they have all of it.
    fn check_of_others(&self, device: &DeviceCore, start: u64, bytes: u64) -> Result<()> {
        let _current = device.enter()?;
        match is_pinned_by_others(device.driver(), start, bytes) {
            true => Ok(()),
            false => {
                Err(pinned_already(start, bytes, "some of which others have registered with CUDA"))
            }
        }
    }
}

/// Registers memory that whoever pins it vouches for. What cannot be written, a driver may take for
/// reading alone.
fn register(driver: &Driver, start: u64, bytes: u64) -> Call {
    let flags = host_memory::PORTABLE | host_memory::DEVICEMAP;
    let register = |flags| {
        // SAFETY: whoever pins the range vouches for it; it stays until it is unpinned.
        unsafe { driver.cuMemHostRegister(start as *mut c_void, bytes as usize, flags) }
    };
    match register(flags) {
        Err(failure) if failure.is(CuResult::INVALID_VALUE) => {
            register(flags | host_memory::READ_ONLY).map_err(|_| failure)
        }
        registered => registered,
    }
}

fn give_up(device: &DeviceCore, registration: u64) -> Call {
    registrations::leave(registration, || {
        device.try_call(|driver| unregister(driver, registration))
    })
}

fn unregister(driver: &Driver, start: u64) -> Call {
    // SAFETY: we have registered it.
    unsafe { driver.cuMemHostUnregister(start as *mut c_void) }
}

/// Whether CUDA knows all of a range as page-locked or managed memory. The context is current.
fn is_pinned_by_others(driver: &Driver, start: u64, bytes: u64) -> bool {
    let is_managed = || attribute(driver, pointer_attribute::IS_MANAGED, start) == Some(1);
    let kind = attribute(driver, pointer_attribute::MEMORY_TYPE, start);
    if kind != Some(u64::from(memory_type::HOST)) && !is_managed() {
        return false;
    }
    let range = attribute(driver, pointer_attribute::RANGE_START_ADDR, start).zip(attribute(
        driver,
        pointer_attribute::RANGE_SIZE,
        start,
    ));
    range.is_some_and(|(first, size)| {
        let end = start.checked_sub(first).and_then(|offset| offset.checked_add(bytes));
        end.is_some_and(|end| end <= size)
    })
}

/// What the driver knows of an address.
pub(super) fn attribute(driver: &Driver, which: c_uint, address: u64) -> Option<u64> {
    let mut value = 0u64;
    // SAFETY: no attribute that is asked for has more than 8 bytes; of those with fewer the others stay 0.
    let asked = unsafe { driver.cuPointerGetAttribute((&raw mut value).cast(), which, address) };
    asked.is_ok().then_some(value)
}

fn overlaps<T: Copy + Send + Sync + 'static>(
    map: &SkipMap<u64, T>,
    start: u64,
    bytes: u64,
    bytes_of: impl Fn(&T) -> u64,
) -> bool {
    let last = start + bytes - 1;
    find(map, last).is_some_and(|(base, found)| base.saturating_add(bytes_of(&found)) > start)
}

#[cold]
fn pinned_already(start: u64, bytes: u64, why: &str) -> Error {
    let message = format!("cannot pin {bytes} bytes at {start:#x}, {why}");
    Error::new(ErrorCode::InvalidArgument, message)
}
