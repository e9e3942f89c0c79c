//! Queues.

mod core;
mod usage;

pub(crate) use core::{Point, QueueCore};

use crate::device::{Device, DevicePass};
use crate::event::Event;
use crate::gated::Pass;
use crate::host_function;
use crate::launch::{ArgumentList, Grid};
use crate::memory::{Allocation, DevicePointer};
use crate::polling;
use crate::program::{Kernel, unloaded};
use core::Open;
use longshore_plugin_api::{
    Arguments, CopyRequest, Error, ErrorCode, Place, PrefetchTarget, Queue as _, Result, Span,
};
use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;
use usage::Queued;

/// How much of a copy between two platforms lies in host memory at a time.
const BOUNCED_BYTES: u64 = 16 << 20;

/// An in-order queue of a device. Work that is queued runs asynchronously unless a method says
/// that it blocks; an error that shows only then is returned by the next
/// [`Queue::synchronize`]. Dropping it does not wait: what was queued still runs. Any thread may
/// use it. LLVM: `ol_queue_handle_t`.
pub struct Queue {
    core: Arc<QueueCore>,
    device: Device,
}

impl Queue {
    pub(crate) fn new(core: Arc<QueueCore>, device: Device) -> Queue {
        Queue { core, device }
    }

    /// The device that it belongs to.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Queues a kernel. The arguments' values are captured during the call. Allocates nothing.
    /// LLVM: `olLaunchKernel`.
    ///
    /// # Errors
    /// `InvalidArgument` for a grid with a zero or beyond what the kernel or the device allows, a
    /// wrong number of arguments or one of a wrong kind ([`Argument`](crate::Argument) says which
    /// fit, [`Untyped`](crate::Untyped) passes others); `InvalidSize` for an argument of a wrong
    /// size, if the image describes its arguments; `InvalidDevice` if the
    /// kernel or a buffer belongs to another device; `Uninitialized` if the program was unloaded
    /// or the device closed; those of the driver.
    ///
    /// # Safety
    /// The kernel may be run with these arguments: it takes values of these types, stays within
    /// the memory that they point at, and that memory is not freed before this call returns. Memory
    /// that is freed later stays in place until the kernel is done; unloading its program waits too.
    #[inline]
    pub unsafe fn launch(
        &self,
        kernel: &Kernel,
        grid: Grid,
        arguments: impl ArgumentList,
    ) -> Result<()> {
        // SAFETY: promised by the caller.
        unsafe { self.launch_kernel(kernel, grid, arguments, false) }
    }

    /// Runs a kernel after all that is queued. Blocks until it is done; on an idle queue that can
    /// be much cheaper than [`Queue::launch`] and [`Queue::synchronize`].
    ///
    /// # Errors
    /// Those of [`Queue::launch`] and [`Queue::synchronize`].
    ///
    /// # Safety
    /// As for [`Queue::launch`].
    #[inline]
    pub unsafe fn launch_and_wait(
        &self,
        kernel: &Kernel,
        grid: Grid,
        arguments: impl ArgumentList,
    ) -> Result<()> {
        // SAFETY: promised by the caller.
        unsafe { self.launch_kernel(kernel, grid, arguments, true) }
    }

    /// Queues a copy from host memory to memory of any device of this queue's platform. LLVM:
    /// `olMemcpy`.
    ///
    /// # Errors
    /// `InvalidArgument` if `to` is not live memory of a device, `InvalidSize` if `bytes` exceed
    /// it, `InvalidQueue` if it belongs to another platform; those of the driver.
    ///
    /// # Safety
    /// `from` stays readable and `to` allocated until the copy is done.
    pub unsafe fn copy_from_host(
        &self,
        to: DevicePointer,
        from: *const c_void,
        bytes: u64,
    ) -> Result<()> {
        let owner = self.owner(to, bytes)?;
        self.transfer(Way::ToDevice, to, &owner, from as u64, bytes, false)
    }

    /// Queues a copy from memory of any device of this queue's platform to host memory. LLVM:
    /// `olMemcpy`.
    ///
    /// # Errors
    /// As for [`Queue::copy_from_host`].
    ///
    /// # Safety
    /// `to` stays writable, unread by others, and `from` allocated until the copy is done.
    pub unsafe fn copy_to_host(
        &self,
        to: *mut c_void,
        from: DevicePointer,
        bytes: u64,
    ) -> Result<()> {
        let owner = self.owner(from, bytes)?;
        self.transfer(Way::ToHost, from, &owner, to as u64, bytes, false)
    }

    /// Queues a copy between two ranges of host memory. LLVM: `olMemcpy`.
    ///
    /// # Errors
    /// Those of the driver.
    ///
    /// # Safety
    /// `from` stays readable and `to` writable, unread by others, until the copy is done.
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
        let copy =
            CopyRequest { destination, destination_place, source, source_place, wait: false };
        let (open, _queued) = self.open_to_queue()?;
        open.queue.copy(&copy)
    }

    /// Queues a copy between memory of any two devices. Between devices of two platforms it goes
    /// through the host, after all that is queued, and blocks. LLVM: `olMemcpy`.
    ///
    /// # Errors
    /// As for [`Queue::copy_from_host`].
    ///
    /// # Safety
    /// Both ranges stay allocated until the copy is done.
    pub unsafe fn copy(&self, to: DevicePointer, from: DevicePointer, bytes: u64) -> Result<()> {
        let (to_device, from_device) = (self.owner(to, bytes)?, self.owner(from, bytes)?);
        if !self.reaches(&to_device) || !self.reaches(&from_device) {
            return self.bounce(to, &to_device, from, &from_device, bytes);
        }
        let (open, _queued) = self.open_to_queue()?;
        let to_other = self.reach(&to_device)?;
        let from_other = self.reach(&from_device)?;
        // SAFETY: promised by the caller; both ranges are live, as the table says.
        let (destination, source) =
            unsafe { (Span::new(to.address(), bytes), Span::new(from.address(), bytes)) };
        open.queue.copy(&CopyRequest {
            destination,
            destination_place: Place::Device(to_other.as_deref().unwrap_or(&open.device)),
            source,
            source_place: Place::Device(from_other.as_deref().unwrap_or(&open.device)),
            wait: false,
        })
    }

    /// Queues a fill of `bytes` bytes with copies of `pattern`, which is captured during the call.
    /// LLVM: `olMemFill`.
    ///
    /// # Errors
    /// `InvalidSize` if the pattern is empty or `bytes` no multiple of its length, or if they
    /// exceed the allocation; `InvalidArgument` if `to` is not live; `InvalidDevice` if it is of
    /// another device; those of the driver.
    ///
    /// # Safety
    /// The range stays allocated until the fill is done.
    pub unsafe fn fill(&self, to: DevicePointer, pattern: &[u8], bytes: u64) -> Result<()> {
        // SAFETY: promised by the caller.
        unsafe { self.fill_range(to, pattern, bytes, false) }
    }

    /// Queues a hint that memory will be used at `target`. Memory that cannot move is no error.
    /// LLVM: `olMemPrefetch`.
    ///
    /// # Errors
    /// `InvalidArgument` and `InvalidSize` as for [`Queue::copy_from_host`]; `Unsupported` if the
    /// plugin has no prefetching.
    pub fn prefetch(&self, range: DevicePointer, bytes: u64, target: PrefetchTarget) -> Result<()> {
        if !self.reaches(&self.owner(range, bytes)?) {
            return Ok(());
        }
        let (open, _queued) = self.open_to_queue()?;
        // SAFETY: the range is live, and a hint does not touch it.
        open.queue.prefetch(unsafe { Span::new(range.address(), bytes) }, target)
    }

    /// Queues a function of the program; what is queued later waits for its return. It runs on a
    /// thread of the plugin's, or of a caller that waits for the queue. It must not wait for its
    /// own queue. A panic in it is logged. LLVM: `olLaunchHostFunction`.
    ///
    /// # Errors
    /// Those of the driver; the function is dropped then.
    pub fn host_function(&self, function: impl FnOnce() + Send + 'static) -> Result<()> {
        let (open, _queued) = self.open_to_queue()?;
        let of = host_function::Of { device: self.device.id(), queue: self.core.number() };
        host_function::queue(of, function, |raw| open.queue.host_function(raw))
    }

    /// Makes what is queued from now on wait for an event, of any device. It runs also if the event
    /// is behind work that failed; that failure becomes one of this queue. LLVM: `olWaitEvents`.
    ///
    /// # Errors
    /// `Uninitialized` if the event's device was closed; those of the driver.
    pub fn wait_for(&self, event: &Event) -> Result<()> {
        if event.is_of_queue(self.core.number()) && event.is_complete()? {
            return Ok(());
        }
        if self.reaches(event.device()) {
            return self.open()?.queue_waits_for(event);
        }
        let (event, core) = (event.clone(), Arc::clone(&self.core));
        self.host_function(move || {
            if let Err(error) = event.synchronize() {
                core.note_untold(
                    error
                        .context(format_args!("waiting for an event of {}", event.device().name())),
                );
            }
        })
    }

    /// Records an event behind all that is queued, without timing; see [`Event`] for how it tells
    /// of failures. LLVM: `olCreateEvent`.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn record(&self) -> Result<Event> {
        self.record_event(false)
    }

    /// The same with timing, for [`Event::elapsed_ns`]. LLVM: `OL_EVENT_FLAGS_ENABLE_PROFILING`.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn record_timed(&self) -> Result<Event> {
        self.record_event(true)
    }

    /// Whether all that was queued is done. LLVM: `olQueryQueue`.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn is_idle(&self) -> Result<bool> {
        self.open()?.queue.is_idle()
    }

    /// Blocks until all that was queued before the call is done. LLVM: `olSyncQueue`.
    ///
    /// # Errors
    /// The first error among that work that nobody was told of.
    pub fn synchronize(&self) -> Result<()> {
        self.open()?.queue.synchronize()?;
        self.core.take_untold()
    }

    /// Blocks until the queue is idle, for as long as `limit` at most; false if the time is up,
    /// which cancels nothing. For kernels that may be stuck: it asks now and then, sleeping up to
    /// 1 ms in between, and other than [`Queue::synchronize`] it runs no pending work on the
    /// calling thread. What other threads queue meanwhile is waited for as well; what they queue
    /// at the moment at which the queue becomes idle, as [`Queue::synchronize`] would. In a host
    /// function of this queue the time is up before the queue is idle.
    ///
    /// # Errors
    /// As for [`Queue::synchronize`].
    pub fn synchronize_for(&self, limit: Duration) -> Result<bool> {
        let open = self.open()?;
        let idle = polling::poll(limit, || open.queue.is_idle())?;
        if idle {
            // For the errors: there is nothing left to wait for.
            open.queue.synchronize()?;
            self.core.take_untold()?;
        }
        Ok(idle)
    }
}

/// A copy's direction.
#[derive(Clone, Copy)]
enum Way {
    ToDevice,
    ToHost,
}

impl Queue {
    /// # Safety
    /// As for [`Queue::launch`].
    #[inline]
    unsafe fn launch_kernel(
        &self,
        kernel: &Kernel,
        grid: Grid,
        arguments: impl ArgumentList,
        wait: bool,
    ) -> Result<()> {
        let open = self.open()?;
        let _queued = (!wait).then(|| self.core.queueing());
        let program = kernel.program();
        self.device.check_same(program.device(), "the kernel")?;
        let _loaded = program.core().module.enter(self.core.shard()).ok_or_else(unloaded)?;
        self.core.note_program(program.core().id);
        let shape = grid.shape(kernel, wait)?;
        arguments.with(self.device.id(), |pointers, sizes, types| {
            kernel.check_arguments(sizes, types)?;
            // SAFETY: one size for each pointer, which points at a value of that size; running
            // the kernel with them is the caller's promise.
            let arguments =
                unsafe { Arguments::from_raw(pointers.as_ptr(), sizes.as_ptr(), sizes.len()) };
            open.queue.launch(kernel.remote(), &shape, arguments)
        })
    }

    /// Copies to an allocation and waits; its size was checked.
    pub(crate) fn write_and_wait(&self, to: &Allocation, bytes: &[u8]) -> Result<()> {
        self.write_to(to.pointer(), to.device(), bytes)
    }

    /// Copies from an allocation and waits; its size was checked.
    pub(crate) fn read_and_wait(&self, from: &Allocation, bytes: &mut [u8]) -> Result<()> {
        self.read_from(from.pointer(), from.device(), bytes)
    }

    /// Copies to live memory of `owner` and waits.
    pub(crate) fn write_to(&self, to: DevicePointer, owner: &Device, bytes: &[u8]) -> Result<()> {
        let size = bytes.len() as u64;
        self.transfer(Way::ToDevice, to, owner, bytes.as_ptr() as u64, size, true)
    }

    /// Copies from live memory of `owner` and waits.
    pub(crate) fn read_from(
        &self,
        from: DevicePointer,
        owner: &Device,
        bytes: &mut [u8],
    ) -> Result<()> {
        let size = bytes.len() as u64;
        self.transfer(Way::ToHost, from, owner, bytes.as_mut_ptr() as u64, size, true)
    }

    /// Queues a fill of a whole allocation with zeros.
    pub(crate) fn fill_with_zeros(&self, to: &Allocation) -> Result<()> {
        // SAFETY: an allocation that is dropped is not handed out before the fill is done.
        unsafe { self.fill_range(to.pointer(), &[0], to.bytes(), false) }
    }

    pub(crate) fn core(&self) -> &Arc<QueueCore> {
        &self.core
    }

    /// Fills a whole allocation and waits.
    pub(crate) fn fill_and_wait(&self, to: &Allocation, pattern: &[u8]) -> Result<()> {
        // SAFETY: the allocation is borrowed until the fill is done.
        unsafe { self.fill_range(to.pointer(), pattern, to.bytes(), true) }
    }

    /// # Safety
    /// As for [`Queue::fill`].
    unsafe fn fill_range(
        &self,
        to: DevicePointer,
        pattern: &[u8],
        bytes: u64,
        wait: bool,
    ) -> Result<()> {
        if pattern.is_empty() || !bytes.is_multiple_of(pattern.len() as u64) {
            let message = format!("a fill of {bytes} bytes with a pattern of {}", pattern.len());
            return Err(Error::new(ErrorCode::InvalidSize, message));
        }
        let owner = self.owner(to, bytes)?;
        self.device.check_same(&owner, "the memory to fill")?;
        let open = self.open()?;
        let _queued = (!wait).then(|| self.core.queueing());
        // SAFETY: promised by the caller; the range is live, as the table says.
        open.queue.fill(unsafe { Span::new(to.address(), bytes) }, pattern, wait)
    }

    /// A copy between host and device memory whose validity the callers see to.
    #[inline]
    fn transfer(
        &self,
        way: Way,
        device: DevicePointer,
        owner: &Device,
        host: u64,
        bytes: u64,
        wait: bool,
    ) -> Result<()> {
        let open = self.open()?;
        let _queued = (!wait).then(|| self.core.queueing());
        let other = self.reach(owner)?;
        // SAFETY: the device range is live; the host range is promised by the callers.
        let (device, host) =
            unsafe { (Span::new(device.address(), bytes), Span::new(host, bytes)) };
        let on_device = Place::Device(&**other.as_deref().unwrap_or(&open.device));
        open.queue.copy(&match way {
            Way::ToDevice => CopyRequest {
                destination: device,
                destination_place: on_device,
                source: host,
                source_place: Place::Host,
                wait,
            },
            Way::ToHost => CopyRequest {
                destination: host,
                destination_place: Place::Host,
                source: device,
                source_place: on_device,
                wait,
            },
        })
    }

    /// Copies between devices of two platforms, through the host.
    fn bounce(
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

    fn record_event(&self, timing: bool) -> Result<Event> {
        let event = self.device.create_event(timing, self.core.number(), self.core.untold())?;
        event.with(|remote| self.open()?.queue.record_event(remote))?;
        Ok(event)
    }

    /// The open device that all of a range lies on.
    fn owner(&self, address: DevicePointer, bytes: u64) -> Result<Device> {
        let id = self.device.table().device_of(address.address(), bytes)?;
        if id == self.device.id() {
            return Ok(self.device.clone());
        }
        self.device.other(id)
    }

    /// Whether this queue's plugin can work on that device.
    fn reaches(&self, device: &Device) -> bool {
        self.device.same_platform(device)
    }

    /// The plugin's device behind `device`, kept open; `None` for this queue's own.
    ///
    /// # Errors
    /// `InvalidQueue` if it belongs to another platform, `Uninitialized` if it was closed.
    #[inline]
    fn reach<'a>(&self, device: &'a Device) -> Result<Option<DevicePass<'a>>> {
        if device.id() == self.device.id() {
            return Ok(None);
        }
        if self.reaches(device) {
            return device.remote().map(Some);
        }
        let (device, own) = (device.name(), self.device.name());
        let message = format!("memory of {device} cannot be reached by a queue of {own}");
        Err(Error::new(ErrorCode::InvalidQueue, message))
    }

    #[inline]
    fn open(&self) -> Result<Pass<'_, Open>> {
        self.core.open().ok_or_else(|| self.device.closed())
    }

    /// The same for what is queued and not waited for.
    fn open_to_queue(&self) -> Result<(Pass<'_, Open>, Queued<'_>)> {
        Ok((self.open()?, self.core.queueing()))
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.core.park();
    }
}

impl Open {
    fn queue_waits_for(&self, event: &Event) -> Result<()> {
        event.with(|remote| self.queue.wait_event(remote))
    }
}
