//! Page-locked memory of the program.

use super::{Memory, find, is_of_host};
use crate::call::{Call, Code};
use crate::driver::Driver;
use crate::handle::DevicePtr;
use crate::raw_device::RawDevice;
use crossbeam_skiplist::SkipMap;
use longshore_plugin_api::{Error, ErrorCode, Result, Span};
use std::sync::atomic::Ordering;

/// Size in bytes of the smallest page of any supported system.
const PAGE_BYTES: u64 = 4096;

/// Page-locked memory of the program.
#[derive(Clone, Copy)]
pub(super) struct Pinned {
    pub(super) bytes: u64,
    /// The device's address of the memory.
    device: DevicePtr,
    /// Start of the registration by backends of this driver; `None` if other code of the process
    /// has registered the memory.
    registration: Option<u64>,
}

/// The page-locked or managed part of a range of host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locked {
    /// All of the range: the stream accesses the memory when it reaches a copy.
    All,
    /// Some of the range: the driver refuses a copy of it, but earlier work of the stream may have
    /// to write there first.
    Some,
    /// No part of the range.
    None,
}

/// The page-locked memory that was found last, valid until any host memory is freed or unpinned.
#[derive(Default)]
pub(crate) struct PinnedRange {
    start: u64,
    end: u64,
    /// The value of `Memory::gone` at that time.
    gone: u64,
}

impl PinnedRange {
    /// Returns whether all of a range is pinned, or allocated as host or managed memory; managed
    /// memory may be on the host.
    #[inline]
    pub(crate) fn covers(&mut self, memory: &Memory, start: u64, bytes: u64) -> bool {
        let end = start.saturating_add(bytes);
        let gone = memory.gone.load(Ordering::Acquire);
        let is_known = gone == self.gone && self.start <= start && end <= self.end;
        is_known || self.look(memory, gone, start, end)
    }

    fn look(&mut self, memory: &Memory, gone: u64, start: u64, end: u64) -> bool {
        // Memory that is freed during the lookup changes the count afterwards.
        let Some(around) = memory.around(start) else { return false };
        *self = PinnedRange { start: around.0, end: around.1, gone };
        end <= self.end
    }
}

impl Memory {
    /// Pins memory of the program and returns the device's address. Blocks.
    ///
    /// # Errors
    /// `InvalidArgument` if part of the range is pinned already, or allocated by the device; errors
    /// of the driver.
    pub(crate) fn pin<D: Driver>(&self, device: &RawDevice<D>, range: Span) -> Result<u64> {
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
        let registered = D::registrations()
            .join(start, bytes, || device.try_call(|driver| register(driver, start, bytes)));
        let registration = match registered {
            Ok(Some(registration)) => Some(registration),
            Ok(None) => {
                return Err(pinned_already(
                    start,
                    bytes,
                    "some of which another device has pinned",
                ));
            }
            Err(failure) if failure.is(Code::HOST_MEMORY_ALREADY_REGISTERED) => {
                self.check_of_others(device, start, bytes)?;
                None
            }
            Err(failure) => return Err(device.failed(doing, failure)),
        };
        let mut address = 0;
        let asked = device.call(doing, |driver| {
            // SAFETY: the memory is registered.
            unsafe { driver.device_address(&mut address, start) }
        });
        if let Err(error) = asked {
            let _ = registration.map(|registration| give_up(device, registration));
            return Err(error);
        }
        self.pinned.insert(start, Pinned { bytes, device: address, registration });
        Ok(address)
    }

    /// Undoes [`Memory::pin`], by the host's or the device's address. Blocks.
    ///
    /// # Errors
    /// `InvalidArgument` if no memory is pinned there; errors of the driver.
    pub(crate) fn unpin<D: Driver>(&self, device: &RawDevice<D>, address: u64) -> Result<()> {
        let _pinning = self.pinning.lock();
        let of_device = || self.pinned.iter().find(|entry| entry.value().device == address);
        let found = self.pinned.get(&address).or_else(of_device).filter(|entry| entry.remove());
        let Some(found) = found else {
            let message = format!("{address:#x} is not the address of pinned memory");
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        };
        self.gone.fetch_add(1, Ordering::Release);
        let (start, pinned) = (*found.key(), *found.value());
        let Some(registration) = pinned.registration else { return Ok(()) };
        let given_up = give_up(device, registration);
        if given_up.as_ref().is_err_and(|failure| !failure.is(Code::DEINITIALIZED)) {
            self.pinned.insert(start, pinned);
            return device.check("unpinning memory", given_up);
        }
        Ok(())
    }

    /// Returns whether the device has any pinned memory or any allocation of host or managed
    /// memory.
    #[inline]
    pub(crate) fn has_pinned(&self) -> bool {
        self.of_host.load(Ordering::Relaxed) > 0 || !self.pinned.is_empty()
    }

    /// Returns whether a backend of this driver has page-locked any memory, for any device.
    #[inline]
    pub(crate) fn may_be_locked<D: Driver>(&self) -> bool {
        self.has_pinned() || D::registrations().has_some()
    }

    /// Returns whether some of a range is memory that the device has pinned or allocated.
    #[cold]
    pub(crate) fn knows_some(&self, start: u64, bytes: u64) -> bool {
        overlaps(&self.pinned, start, bytes, |pinned| pinned.bytes)
            || overlaps(&self.live, start, bytes, |block| block.bytes)
    }

    /// Returns the start and the end of the pinned, host or managed memory that contains an
    /// address.
    fn around(&self, address: u64) -> Option<(u64, u64)> {
        let allocated = || {
            let found = find(&self.live, address).filter(|(_, block)| is_of_host(block));
            found.map(|(start, block)| (start, block.bytes))
        };
        let pinned = || {
            let found = find(&self.pinned, address);
            found.map(|(start, pinned)| (start, pinned.bytes))
        };
        let around = |(start, bytes): (u64, u64)| {
            let end = start.saturating_add(bytes);
            (address < end).then_some((start, end))
        };
        allocated().and_then(around).or_else(|| pinned().and_then(around))
    }

    /// Undoes all remaining registrations.
    pub(super) fn unregister_all<D: Driver>(&self, driver: &D) {
        for registration in self.pinned.iter().filter_map(|entry| entry.value().registration) {
            let _ = D::registrations().leave(registration, || unregister(driver, registration));
        }
    }

    /// Checks that other code of the process has registered all of a range.
    fn check_of_others<D: Driver>(
        &self,
        device: &RawDevice<D>,
        start: u64,
        bytes: u64,
    ) -> Result<()> {
        let _current = device.enter()?;
        match locked_by_others(device.driver(), start, bytes) {
            Locked::All => Ok(()),
            _ => {
                let why = format!(
                    "some of which other code of the process has registered with {}",
                    D::NAME
                );
                Err(pinned_already(start, bytes, &why))
            }
        }
    }
}

/// Registers memory with the driver.
fn register<D: Driver>(driver: &D, start: u64, bytes: u64) -> Call {
    // SAFETY: the caller that pins the range vouches for it, and keeps it until it is unpinned.
    unsafe { driver.register(start, bytes as usize) }
}

fn give_up<D: Driver>(device: &RawDevice<D>, registration: u64) -> Call {
    D::registrations()
        .leave(registration, || device.try_call(|driver| unregister(driver, registration)))
}

fn unregister<D: Driver>(driver: &D, start: u64) -> Call {
    // SAFETY: `register` has registered the memory.
    unsafe { driver.unregister(start) }
}

/// Returns how much of a range is page-locked according to the driver: by other code, if Longshore
/// has not done so. The context is current.
#[inline(always)]
pub(crate) fn locked_by_others<D: Driver>(driver: &D, start: u64, bytes: u64) -> Locked {
    let last = start.saturating_add(bytes - 1);
    match driver.page_locked(start) {
        Some((first, size)) if last - first < size => Locked::All,
        Some(_) => Locked::Some,
        // Memory is locked in whole pages.
        None if start / PAGE_BYTES == last / PAGE_BYTES => Locked::None,
        None if driver.page_locked(last).is_some() => Locked::Some,
        None => Locked::None,
    }
}

fn overlaps<T: Copy + Send + Sync + 'static>(
    map: &SkipMap<u64, T>,
    start: u64,
    bytes: u64,
    bytes_of: impl Fn(&T) -> u64,
) -> bool {
    let last = start.saturating_add(bytes - 1);
    find(map, last).is_some_and(|(base, found)| base.saturating_add(bytes_of(&found)) > start)
}

#[cold]
fn pinned_already(start: u64, bytes: u64, why: &str) -> Error {
    let message = format!("cannot pin {bytes} bytes at {start:#x}, {why}");
    Error::new(ErrorCode::InvalidArgument, message)
}
