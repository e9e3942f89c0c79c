//! Copies between any two places, and fills.

use crate::mapping::Failure;
use crate::place::Place;
use crate::settings::{info as kinds, wants};
use crate::stream::Stream;
use crate::{info, ompt};
use longshore::{DevicePointer, Result};

/// Copies from one place to another.
pub(crate) struct Transfer {
    to: Place,
    from: Place,
    /// The stream of a device whose memory the host does not reach.
    stream: Option<Stream>,
}

impl Transfer {
    /// Creates a list of copies, empty at first.
    pub(crate) fn new(to: Place, from: Place) -> Transfer {
        Transfer { to, from, stream: from.remote().or(to.remote()).map(Stream::new) }
    }

    /// Copies `bytes` bytes, or queues the copy. The ranges may overlap if neither is in memory of
    /// a device that the host does not reach.
    ///
    /// # Errors
    /// Errors of the copy.
    ///
    /// # Safety
    /// Both ranges are valid until [`Transfer::finish`].
    pub(crate) unsafe fn copy(&mut self, to: u64, from: u64, bytes: u64) -> Result<()> {
        if wants(kinds::TRANSFERS) {
            self.inform(to, from, bytes);
        }
        let (to_remote, from_remote) = (self.to.remote().is_some(), self.from.remote().is_some());
        // SAFETY: promised by the caller, for all branches.
        unsafe {
            match &mut self.stream {
                None => {
                    let _scope = event(self.to, self.from, (to, from, bytes));
                    std::ptr::copy(from as *const u8, to as *mut u8, bytes as usize);
                    Ok(())
                }
                Some(stream) if to_remote && from_remote => {
                    let _scope = event(self.to, self.from, (to, from, bytes));
                    let (to, from) = (DevicePointer(to), DevicePointer(from));
                    stream.queue_to_submit()?.copy(to, from, bytes)
                }
                Some(stream) if to_remote => stream.submit(to, from, bytes),
                Some(stream) => stream.retrieve(to, from, bytes),
            }
        }
    }

    /// Waits for all copies. Blocks.
    ///
    /// # Errors
    /// The first error of the copies.
    pub(crate) fn finish(mut self) -> std::result::Result<(), Failure> {
        match &mut self.stream {
            Some(stream) => Ok(stream.synchronize()?),
            None => Ok(()),
        }
    }

    #[cold]
    fn inform(&self, to: u64, from: u64, bytes: u64) {
        match (self.to, self.from) {
            (Place::Device(device), Place::Host) => {
                info::unmapped_to_device(device, from, to, bytes);
            }
            (Place::Host, Place::Device(device)) => {
                info::unmapped_to_host(device, to, from, bytes);
            }
            _ => {}
        }
    }
}

/// Reports a copy that no function of a stream reports. The tuple has destination, source and size.
fn event(
    to_place: Place,
    from_place: Place,
    (to, from, bytes): (u64, u64, u64),
) -> Option<ompt::OperationScope> {
    match (to_place, from_place) {
        (Place::Host, Place::Host) => None,
        (Place::Host, Place::Device(device)) => {
            Some(ompt::transfer_to_host(device.number, to, from, bytes))
        }
        (Place::Device(device), Place::Host) => {
            Some(ompt::transfer_to_device(device.number, to, from, bytes))
        }
        (Place::Device(to_device), Place::Device(from_device)) => {
            Some(ompt::transfer((to, to_device.number), (from, from_device.number), bytes))
        }
    }
}

/// Sets all bytes of a range to a value. Blocks.
///
/// # Errors
/// Errors of the device.
///
/// # Safety
/// The range is valid memory of the place.
pub(crate) unsafe fn fill(place: Place, to: u64, value: u8, bytes: u64) -> Result<()> {
    let _scope = match place {
        Place::Device(device) => Some(ompt::fill(device.number, to, bytes)),
        Place::Host => None,
    };
    let Some(device) = place.remote() else {
        // SAFETY: promised by the caller; the host reaches the memory.
        unsafe { std::ptr::write_bytes(to as *mut u8, value, bytes as usize) };
        return Ok(());
    };
    let mut stream = Stream::new(device);
    // SAFETY: promised by the caller; the call waits for the fill.
    unsafe { stream.queue_to_submit()?.fill(DevicePointer(to), &[value], bytes)? };
    stream.synchronize()
}
