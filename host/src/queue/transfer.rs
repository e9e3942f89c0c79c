//! Copies and fills of a queue.

use super::Queue;
use crate::device::Device;
use crate::device::core::DeviceGuard;
use crate::memory::{Allocation, DevicePointer};
use longshore_plugin_api::{
    CopyRequest, Error, ErrorCode, Place, PrefetchTarget, Queue as _, Result, Span,
};
use std::ffi::c_void;

/// Size in bytes of the host memory through which a copy between two platforms goes.
pub(super) const BOUNCED_BYTES: u64 = 16 << 20;

/// A copy's direction.
#[derive(Clone, Copy)]
enum Direction {
    ToDevice,
    ToHost,
}

impl Queue {
    /// Queues a copy of `bytes` bytes from host memory to memory of any device of this queue's
    /// platform. Does not wait for the copy. LLVM: `olMemcpy`.
    ///
    /// # Errors
    /// `InvalidArgument` if `to` is not in a live allocation of a device, `InvalidSize` if the
    /// range exceeds the allocation. `InvalidQueue` if the allocation's device belongs to another
    /// platform, `Uninitialized` if the device was closed; errors of the driver.
    ///
    /// # Safety
    /// `from` stays readable and unchanged, and `to` allocated, until the copy is done.
    pub unsafe fn copy_from_host(
        &self,
        to: DevicePointer,
        from: *const c_void,
        bytes: u64,
    ) -> Result<()> {
        let owner = self.owner(to, bytes)?;
        self.transfer(Direction::ToDevice, to, &owner, from as u64, bytes, false)
    }

    /// Queues a copy of `bytes` bytes from memory of any device of this queue's platform to host
    /// memory. Does not wait for the copy. LLVM: `olMemcpy`.
    ///
    /// # Errors
    /// As for [`Queue::copy_from_host`], with `from` in place of `to`.
    ///
    /// # Safety
    /// `to` stays writable and is not accessed otherwise, and `from` stays allocated, until the
    /// copy is done.
    pub unsafe fn copy_to_host(
        &self,
        to: *mut c_void,
        from: DevicePointer,
        bytes: u64,
    ) -> Result<()> {
        let owner = self.owner(from, bytes)?;
        self.transfer(Direction::ToHost, from, &owner, to as u64, bytes, false)
    }

    /// Queues a copy of `bytes` bytes between two ranges of host memory. Does not wait for the
    /// copy. LLVM: `olMemcpy`.
    ///
    /// # Errors
    /// `Uninitialized` if the device was closed; errors of the driver.
    ///
    /// # Safety
    /// `from` stays readable and unchanged, and `to` stays writable and is not accessed otherwise,
    /// until the copy is done.
    pub unsafe fn copy_on_host(
        &self,
        to: *mut c_void,
        from: *const c_void,
        bytes: u64,
    ) -> Result<()> {
        // SAFETY: promised by the caller.
        let (destination, source) =
            unsafe { (Span::new(to as u64, bytes), Span::new(from as u64, bytes)) };
        let (destination_place, source_place) = (Place::Host, Place::Host);
        let copy = CopyRequest::new(destination, destination_place, source, source_place);
        let (open, _queued) = self.open_to_queue()?;
        open.queue.copy(&copy)
    }

    /// Queues a copy of `bytes` bytes between memory of any two devices. If both devices belong to
    /// this queue's platform, the call does not wait for the copy. Otherwise it waits for all
    /// queued work, copies through host memory, and blocks until the copy is done. LLVM:
    /// `olMemcpy`.
    ///
    /// # Errors
    /// `InvalidArgument` if a range is not in a live allocation of a device, `InvalidSize` if a
    /// range exceeds its allocation. `Uninitialized` if one of the devices was closed; errors of
    /// the driver. A blocking copy also has the errors of [`Queue::synchronize`].
    ///
    /// # Safety
    /// Both ranges stay allocated until the copy is done.
    pub unsafe fn copy(&self, to: DevicePointer, from: DevicePointer, bytes: u64) -> Result<()> {
        let (to_device, from_device) = (self.owner(to, bytes)?, self.owner(from, bytes)?);
        self.copy_between((to, &to_device), (from, &from_device), bytes, false)
    }

    /// Queues a fill of `bytes` bytes with copies of `pattern`, which is captured during the call.
    /// Does not wait for the fill. LLVM: `olMemFill`.
    ///
    /// # Errors
    /// `InvalidSize` if the pattern is empty, if `bytes` is no multiple of the pattern's length, or
    /// if the range exceeds the allocation. `InvalidArgument` if `to` is in no live allocation,
    /// `InvalidDevice` if the allocation belongs to another device, `Uninitialized` if the device
    /// was closed; errors of the driver.
    ///
    /// # Safety
    /// The range stays allocated until the fill is done.
    pub unsafe fn fill(&self, to: DevicePointer, pattern: &[u8], bytes: u64) -> Result<()> {
        let owner = self.owner(to, bytes)?;
        // SAFETY: promised by the caller.
        unsafe { self.fill_range(to, &owner, pattern, bytes, false) }
    }

    /// Queues a hint that `bytes` bytes from `range` will next be used at `target`. For memory that
    /// cannot migrate, the hint has no effect and is no error. Does not block. LLVM:
    /// `olMemPrefetch`.
    ///
    /// # Errors
    /// `InvalidArgument` and `InvalidSize` as for [`Queue::copy_from_host`], `Unsupported` if the
    /// plugin does not support prefetching, `Uninitialized` if the device was closed; errors of the
    /// driver.
    pub fn prefetch(&self, range: DevicePointer, bytes: u64, target: PrefetchTarget) -> Result<()> {
        if !self.reaches(&self.owner(range, bytes)?) {
            return Ok(());
        }
        let (open, _queued) = self.open_to_queue()?;
        // SAFETY: the range is live, and a hint does not touch it.
        open.queue.prefetch(unsafe { Span::new(range.address(), bytes) }, target)
    }
}

impl Queue {
    /// Copies to live memory of `owner` and waits.
    #[inline]
    pub(crate) fn write_to(&self, to: DevicePointer, owner: &Device, bytes: &[u8]) -> Result<()> {
        let size = bytes.len() as u64;
        self.transfer(Direction::ToDevice, to, owner, bytes.as_ptr() as u64, size, true)
    }

    /// Copies from live memory of `owner` and waits.
    #[inline]
    pub(crate) fn read_from(
        &self,
        from: DevicePointer,
        owner: &Device,
        bytes: &mut [u8],
    ) -> Result<()> {
        let size = bytes.len() as u64;
        self.transfer(Direction::ToHost, from, owner, bytes.as_mut_ptr() as u64, size, true)
    }

    /// Queues a copy to live memory of `owner`. The callers guarantee that the host memory stays in
    /// place and unchanged until the copy is done.
    pub(super) fn queue_write(
        &self,
        to: DevicePointer,
        owner: &Device,
        from: u64,
        bytes: u64,
    ) -> Result<()> {
        self.transfer(Direction::ToDevice, to, owner, from, bytes, false)
    }

    /// Queues a copy from live memory of `owner`. The callers guarantee that nothing else accesses
    /// the host memory until the copy is done.
    pub(super) fn queue_read(
        &self,
        from: DevicePointer,
        owner: &Device,
        to: u64,
        bytes: u64,
    ) -> Result<()> {
        self.transfer(Direction::ToHost, from, owner, to, bytes, false)
    }

    /// Queues a fill of a whole allocation with zeros.
    pub(crate) fn fill_with_zeros(&self, to: &Allocation) -> Result<()> {
        // SAFETY: memory of a dropped allocation is not reused before the fill is done.
        unsafe { self.fill_range(to.pointer(), to.device(), &[0], to.bytes(), false) }
    }

    /// Fills live memory of `owner` and waits. `bytes` is a multiple of the pattern's length.
    pub(crate) fn fill_and_wait(
        &self,
        to: DevicePointer,
        owner: &Device,
        pattern: &[u8],
        bytes: u64,
    ) -> Result<()> {
        if bytes == 0 {
            return self.synchronize();
        }
        // SAFETY: the memory is borrowed until the fill is done.
        unsafe { self.fill_range(to, owner, pattern, bytes, true) }
    }

    /// Queues a copy between live memory of two devices, and waits for it if `wait` is set. Always
    /// waits for a copy between two platforms.
    pub(crate) fn copy_between(
        &self,
        (to, to_device): (DevicePointer, &Device),
        (from, from_device): (DevicePointer, &Device),
        bytes: u64,
        wait: bool,
    ) -> Result<()> {
        if !self.reaches(to_device) || !self.reaches(from_device) {
            return self.bounce(to, to_device, from, from_device, bytes);
        }
        if wait {
            self.refuse_inside("copying memory and waiting for it")?;
        }
        let open = self.open()?;
        let _queued = (!wait).then(|| self.core.queueing());
        let to_other = self.reach(to_device)?;
        let from_other = self.reach(from_device)?;
        // SAFETY: both ranges are live; the callers keep them, or promise that they stay.
        let (destination, source) =
            unsafe { (Span::new(to.address(), bytes), Span::new(from.address(), bytes)) };
        let destination_place = Place::Device(&**to_other.as_deref().unwrap_or(&open.device));
        let source_place = Place::Device(&**from_other.as_deref().unwrap_or(&open.device));
        open.queue.copy(
            &CopyRequest::new(destination, destination_place, source, source_place).with_wait(wait),
        )
    }

    /// # Safety
    /// As for [`Queue::fill`].
    unsafe fn fill_range(
        &self,
        to: DevicePointer,
        owner: &Device,
        pattern: &[u8],
        bytes: u64,
        wait: bool,
    ) -> Result<()> {
        if pattern.is_empty() || !bytes.is_multiple_of(pattern.len() as u64) {
            let message = format!(
                "a fill of {bytes} bytes with a pattern of {} bytes; expected a multiple of the \
                 pattern's length",
                pattern.len()
            );
            return Err(Error::new(ErrorCode::InvalidSize, message));
        }
        self.device.check_same(owner, "the memory to fill")?;
        if wait {
            self.refuse_inside("filling memory and waiting for it")?;
        }
        let open = self.open()?;
        let _queued = (!wait).then(|| self.core.queueing());
        // SAFETY: promised by the caller; `owner` has found the range live.
        open.queue.fill(unsafe { Span::new(to.address(), bytes) }, pattern, wait)
    }

    /// Queues a copy between host and device memory. The callers guarantee that the ranges are
    /// valid.
    #[inline]
    fn transfer(
        &self,
        direction: Direction,
        device: DevicePointer,
        owner: &Device,
        host: u64,
        bytes: u64,
        wait: bool,
    ) -> Result<()> {
        if wait {
            self.refuse_inside("copying memory and waiting for it")?;
        }
        let open = self.open()?;
        let _queued = (!wait).then(|| self.core.queueing());
        let other = self.reach(owner)?;
        // SAFETY: the device range is live; the host range is promised by the callers.
        let (device, host) =
            unsafe { (Span::new(device.address(), bytes), Span::new(host, bytes)) };
        let on_device = Place::Device(&**other.as_deref().unwrap_or(&open.device));
        open.queue.copy(&match direction {
            Direction::ToDevice => {
                CopyRequest::new(device, on_device, host, Place::Host).with_wait(wait)
            }
            Direction::ToHost => {
                CopyRequest::new(host, Place::Host, device, on_device).with_wait(wait)
            }
        })
    }

    /// Copies between devices of two platforms, through host memory.
    pub(super) fn bounce(
        &self,
        to: DevicePointer,
        to_device: &Device,
        from: DevicePointer,
        from_device: &Device,
        bytes: u64,
    ) -> Result<()> {
        self.synchronize()?;
        let (from_queue, to_queue) = (from_device.queue()?, to_device.queue()?);
        let mut staged = vec![0; bytes.min(BOUNCED_BYTES) as usize];
        let mut done = 0;
        while done < bytes {
            let part = &mut staged[..(bytes - done).min(BOUNCED_BYTES) as usize];
            from_queue.read_from(DevicePointer(from.0 + done), from_device, part)?;
            to_queue.write_to(DevicePointer(to.0 + done), to_device, part)?;
            done += part.len() as u64;
        }
        Ok(())
    }

    /// Returns the open device whose allocation contains all of a range.
    #[inline]
    pub(super) fn owner(&self, address: DevicePointer, bytes: u64) -> Result<Device> {
        let id = self.device.table().device_of(address.address(), bytes)?;
        if id == self.device.id() {
            return Ok(self.device.clone());
        }
        Device::from_id(&self.device.core().host, id)
    }

    /// Returns whether `device` belongs to this queue's platform.
    #[inline]
    pub(super) fn reaches(&self, device: &Device) -> bool {
        self.device.same_platform(device)
    }

    /// Returns a guard of the plugin's device behind `device`; `None` for this queue's own device.
    ///
    /// # Errors
    /// `InvalidQueue` if `device` belongs to another platform, `Uninitialized` if it was closed.
    #[inline]
    pub(super) fn reach<'a>(&self, device: &'a Device) -> Result<Option<DeviceGuard<'a>>> {
        if device.id() == self.device.id() {
            return Ok(None);
        }
        if self.reaches(device) {
            return device.remote().map(Some);
        }
        Err(self.unreached(device))
    }

    /// Returns the error for memory of a device that belongs to another platform.
    #[cold]
    pub(super) fn unreached(&self, device: &Device) -> Error {
        let (device, own) = (device.name(), self.device.name());
        let message = format!("memory of {device} cannot be reached by a queue of {own}");
        Error::new(ErrorCode::InvalidQueue, message)
    }
}
