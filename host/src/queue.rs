//! Queues.

pub(crate) mod core;
mod transfer;
mod usage;

use crate::device::Device;
use crate::event::Event;
use crate::host_function;
use crate::launch::{ArgumentList, Grid};
use crate::polling;
use crate::program::Kernel;
use crate::program::core::unloaded;
use crate::rundown::RundownGuard;
use core::{Open, QueueCore};
use longshore_plugin_api::{Arguments, Queue as _, Result};
use std::sync::Arc;
use std::time::Duration;
use usage::Queued;

/// An in-order queue of a device. Work that is queued runs asynchronously unless a method says
/// that it blocks; an error that shows only then is returned by the next
/// [`Queue::synchronize`]. Dropping it does not wait: what was queued still runs. Any thread may
/// use it. LLVM: `ol_queue_handle_t`.
///
/// ```
/// # let host = longshore::Host::new()?;
/// # if host.devices().is_empty() { return Ok(()) }
/// # let device = host.default_device()?;
/// let queue = device.queue()?;
/// let values = device.buffer::<u32>(&queue, 256)?;
/// let (done, filled) = std::sync::mpsc::channel();
///
/// // Runs behind the zeros of the buffer, on a thread of the plugin.
/// queue.host_function(move || done.send(()).expect("the program waits"))?;
/// queue.synchronize()?;
///
/// assert!(filled.try_recv().is_ok());
/// assert_eq!(values.to_vec(&queue)?, [0; 256]);
/// # Ok::<(), longshore::Error>(())
/// ```
pub struct Queue {
    core: Arc<QueueCore>,
    device: Device,
}

impl Device {
    /// Makes a queue. LLVM: `olCreateQueue`.
    ///
    /// # Errors
    /// `Uninitialized` if the device was closed; those of the driver.
    pub fn queue(&self) -> Result<Queue> {
        Ok(Queue { core: self.core().queue()?, device: self.clone() })
    }
}

impl Queue {
    /// Returns the device that it belongs to.
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

    /// Queues a function of the program; what is queued later waits for its return. It runs on a
    /// thread of the plugin's, or of a caller that waits for the queue. It must not wait for its
    /// own queue: such a call would deadlock, and is `Unsupported`. A panic in it is logged. LLVM:
    /// `olLaunchHostFunction`.
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
                core.keep_pending_error(
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

    /// Returns the same with timing, for [`Event::elapsed_ns`]. LLVM: `OL_EVENT_FLAGS_ENABLE_PROFILING`.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn record_timed(&self) -> Result<Event> {
        self.record_event(true)
    }

    /// Returns whether all that was queued is done. LLVM: `olQueryQueue`.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn is_idle(&self) -> Result<bool> {
        self.open()?.queue.is_idle()
    }

    /// Blocks until all that was queued before the call is done. LLVM: `olSyncQueue`.
    ///
    /// # Errors
    /// The first error among that work that nobody was told of. `Unsupported` in a host function of
    /// this queue.
    pub fn synchronize(&self) -> Result<()> {
        self.refuse_inside("synchronizing a queue")?;
        self.open()?.queue.synchronize()?;
        self.core.take_pending_error()
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
            self.core.take_pending_error()?;
        }
        Ok(idle)
    }
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
        if wait {
            self.refuse_inside("launching a kernel and waiting for it")?;
        }
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

    /// Refuses a call that waits for this queue.
    ///
    /// # Errors
    /// `Unsupported` in a host function of this queue.
    #[inline]
    fn refuse_inside(&self, call: &str) -> Result<()> {
        host_function::refuse_inside_queue(self.core.number(), call)
    }

    pub(crate) fn core(&self) -> &Arc<QueueCore> {
        &self.core
    }

    fn record_event(&self, timing: bool) -> Result<Event> {
        let event =
            Event::create(&self.device, timing, self.core.number(), self.core.pending_error())?;
        event.with(|remote| self.open()?.queue.record_event(remote))?;
        Ok(event)
    }

    #[inline]
    fn open(&self) -> Result<RundownGuard<'_, Open>> {
        self.core.open().ok_or_else(|| self.device.closed())
    }

    /// Returns the same for what is queued and not waited for.
    #[inline]
    fn open_to_queue(&self) -> Result<(RundownGuard<'_, Open>, Queued<'_>)> {
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
