//! Copies by a host thread that the device cannot do: from and to memory of the program, and
//! between two devices.

use crate::device_core::DeviceCore;
use crate::memory::RegionPosition;
use crate::staging::{HALF_BYTES, Staging};
use crate::timeline::Timeline;
use longshore_plugin_api::{Error, ErrorCode, Result};
use std::sync::Arc;

/// One end of a copy.
pub(crate) enum End {
    /// Memory of the program, unknown to any device.
    Host(u64),
    /// Memory of the queue's device, or known to it.
    Device(RegionPosition),
    /// Memory of another device of the platform.
    Other(Arc<DeviceCore>, RegionPosition),
}

/// A copy. The caller that queued it vouches for the memory of the program.
pub(crate) struct CopyJob {
    pub(crate) device: Arc<DeviceCore>,
    pub(crate) to: End,
    pub(crate) from: End,
    pub(crate) bytes: u64,
}

/// The access of a host thread to an end.
enum Reach<'a> {
    /// A pointer.
    Direct(u64),
    /// Staging memory of a device.
    Staged(&'a Arc<DeviceCore>, &'a RegionPosition),
}

impl CopyJob {
    /// Returns whether a host thread can do the copy without the device.
    pub(crate) fn is_direct(&self) -> bool {
        self.pointers().is_some()
    }

    /// Returns the addresses of both ends for a host thread; `None` if one needs the device.
    pub(crate) fn pointers(&self) -> Option<(u64, u64)> {
        match (self.reach(&self.to), self.reach(&self.from)) {
            (Reach::Direct(to), Reach::Direct(from)) => Some((to, from)),
            _ => None,
        }
    }

    /// Copies the bytes. All other uses of the memory must be done. Blocks.
    ///
    /// # Errors
    /// The driver's errors.
    pub(crate) fn run(&self) -> Result<()> {
        match (self.reach(&self.to), self.reach(&self.from)) {
            (Reach::Direct(to), Reach::Direct(from)) => {
                // SAFETY: the host can access both ranges, by the mapping or because the copy's
                // caller vouches for them.
                unsafe {
                    std::ptr::copy(from as *const u8, to as *mut u8, self.bytes as usize);
                }
                Ok(())
            }
            (Reach::Staged(device, to), Reach::Direct(from)) => {
                with_staging(device, |staging, timeline| {
                    staging.upload(device, timeline, to, from, self.bytes)
                })
            }
            (Reach::Direct(to), Reach::Staged(device, from)) => {
                with_staging(device, |staging, timeline| {
                    staging.download(device, timeline, from, to, self.bytes)
                })
            }
            (Reach::Staged(to_device, to), Reach::Staged(from_device, from)) => {
                self.through_both(to_device, to, from_device, from)
            }
        }
    }

    fn reach<'a>(&'a self, end: &'a End) -> Reach<'a> {
        let (device, found) = match end {
            End::Host(address) => return Reach::Direct(*address),
            End::Device(found) => (&self.device, found),
            End::Other(device, found) => (device, found),
        };
        match found.host().filter(|_| !device.always_stage) {
            Some(address) => Reach::Direct(address),
            None => Reach::Staged(device, found),
        }
    }

    /// Copies piece by piece through host memory.
    fn through_both(
        &self,
        to_device: &Arc<DeviceCore>,
        to: &RegionPosition,
        from_device: &Arc<DeviceCore>,
        from: &RegionPosition,
    ) -> Result<()> {
        let mut between = vec![0u8; self.bytes.min(HALF_BYTES) as usize];
        let mut done = 0;
        while done < self.bytes {
            let part = (self.bytes - done).min(HALF_BYTES);
            let address = between.as_mut_ptr() as u64;
            let (source, target) = (from.further(done), to.further(done));
            with_staging(from_device, |staging, timeline| {
                staging.download(from_device, timeline, &source, address, part)
            })?;
            with_staging(to_device, |staging, timeline| {
                staging.upload(to_device, timeline, &target, address, part)
            })?;
            done += part;
        }
        Ok(())
    }
}

/// Calls `body` with staging memory of a device for its exclusive use, and a timeline at 0.
fn with_staging(
    device: &Arc<DeviceCore>,
    body: impl FnOnce(&Staging, &Timeline) -> Result<()>,
) -> Result<()> {
    // The timeline is dropped only after the work submitted with it is done.
    let timeline = Timeline::new(&device.logical)?;
    let unused = device.staging.lock().pop();
    let staging = unused.map_or_else(|| Staging::new(&device.logical, &device.memory), Ok)?;
    let result = body(&staging, &timeline);
    if result.is_err() {
        // Some of the copies may still run.
        device.wait_for_lanes();
    }
    device.staging.lock().push(staging);
    result
}

/// Fills host memory with copies of a pattern.
///
/// # Safety
/// The range is valid and no other thread uses it.
pub(crate) unsafe fn fill(to: u64, pattern: &[u8], bytes: u64) {
    // SAFETY: promised by the caller.
    let range = unsafe { std::slice::from_raw_parts_mut(to as *mut u8, bytes as usize) };
    if let [byte] = pattern {
        return range.fill(*byte);
    }
    let mut filled = pattern.len().min(range.len());
    range[..filled].copy_from_slice(&pattern[..filled]);
    while filled < range.len() {
        let part = filled.min(range.len() - filled);
        range.copy_within(..part, filled);
        filled += part;
    }
}

/// Returns the allocation and offset of a device address.
///
/// # Errors
/// `InvalidArgument` if the address is in no allocation, `InvalidSize` if the range exceeds the
/// allocation.
pub(crate) fn find(device: &DeviceCore, address: u64, bytes: u64) -> Result<RegionPosition> {
    let Some(found) = device.memory.find(address) else {
        let name = &device.physical.name;
        let message = format!("{address:#x} is in no allocation of '{name}'");
        return Err(Error::new(ErrorCode::InvalidArgument, message));
    };
    if found.rest() < bytes {
        let rest = found.rest();
        let message = format!(
            "{bytes} bytes at {address:#x}, expected at most the {rest} to the allocation's end"
        );
        return Err(Error::new(ErrorCode::InvalidSize, message));
    }
    Ok(found)
}
