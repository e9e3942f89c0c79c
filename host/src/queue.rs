//! Queues.

pub(crate) mod core;
mod owned_copy;
pub(crate) mod rect;
mod scope;
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

pub use owned_copy::{OwnedCopy, OwnedCopyFuture};
pub use scope::Scope;

/// An in-order queue of work for one device. Work runs asynchronously, except in methods documented
/// as blocking. The next [`Queue::synchronize`] returns an error of asynchronous work. Dropping the
/// queue does not wait: queued work still runs. Any thread may call the methods. LLVM:
/// `ol_queue_handle_t`.
///
/// ```
/// # let host = longshore::Host::new()?;
/// # if host.devices().is_empty() { return Ok(()) }
/// # let device = host.default_device()?;
/// let queue = device.queue()?;
/// let values = device.buffer::<u32>(&queue, 256)?;
/// let (done, filled) = std::sync::mpsc::channel();
///
/// // Runs behind the zeros of the buffer, on a thread of the plugin or in `synchronize`.
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
    /// Creates a queue, or reuses an idle one whose handle was dropped. LLVM: `olCreateQueue`.
    ///
    /// # Errors
    /// `Uninitialized` if the device was closed; errors of the driver.
    pub fn queue(&self) -> Result<Queue> {
        Ok(Queue { core: self.core().queue()?, device: self.clone() })
    }
}

impl Queue {
    /// Returns the device that the queue belongs to.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Queues a launch of a kernel. The values of the arguments are captured during the call. Does
    /// not wait for the kernel, and allocates nothing. LLVM: `olLaunchKernel`.
    ///
    /// # Errors
    /// - `InvalidArgument` for a grid with a zero or beyond a limit of kernel or device, for a
    ///   wrong number of arguments, and for an argument of a wrong kind.
    ///   [`Argument`](crate::Argument) has the rules for kinds, [`Untyped`](crate::Untyped) passes
    ///   an argument of any kind.
    /// - `InvalidSize` for an argument of a wrong size, if the image describes its arguments.
    /// - `InvalidDevice` if the kernel or a buffer belongs to another device.
    /// - `Uninitialized` if the program was unloaded or the device closed.
    /// - Errors of the driver.
    ///
    /// # Safety
    /// Running the kernel with these arguments is sound: the kernel takes values of these types,
    /// and accesses only the memory that they point at. That memory is not freed before this call
    /// returns. Memory that is freed later stays in place until the kernel is done; unloading the
    /// program waits for the kernel as well.
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

    /// Runs a kernel after all queued work. Blocks until the kernel is done; on an idle queue this
    /// can be much cheaper than [`Queue::launch`] and [`Queue::synchronize`].
    ///
    /// # Errors
    /// Errors of [`Queue::launch`] and [`Queue::synchronize`].
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

    /// Queues a function of the program. Work that is queued later waits for the function's return.
    /// The function runs on a thread of the plugin, or on a thread that waits for the queue. It
    /// must not wait for its own queue: such a call would deadlock, and returns `Unsupported`. A
    /// panic in the function is logged. LLVM: `olLaunchHostFunction`.
    ///
    /// # Errors
    /// `Uninitialized` if the device was closed; errors of the driver. After an error the function
    /// is dropped without running.
    pub fn host_function(&self, function: impl FnOnce() + Send + 'static) -> Result<()> {
        let (open, _queued) = self.open_to_queue()?;
        let owner = host_function::Owner { device: self.device.id(), queue: self.core.number() };
        host_function::queue(owner, function, |raw| open.queue.host_function(raw))
    }

    /// Queues a wait for an event of any device: later work of this queue runs after the event is
    /// reached. The later work runs even if work in front of the event failed; the failure then
    /// becomes a pending error of this queue. Does not block. LLVM: `olWaitEvents`.
    ///
    /// # Errors
    /// `Uninitialized` if the device of the event or of the queue was closed; errors of the driver.
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

    /// Records an event, without timing, behind all queued work. [`Event`] describes how failures
    /// are reported. Does not block. LLVM: `olCreateEvent`.
    ///
    /// # Errors
    /// `Uninitialized` if the device was closed; errors of the driver.
    pub fn record(&self) -> Result<Event> {
        self.record_event(false)
    }

    /// Records an event with timing, for [`Event::elapsed_ns`], behind all queued work. Does not
    /// block. LLVM: `olCreateEvent` with `OL_EVENT_FLAGS_ENABLE_PROFILING`.
    ///
    /// # Errors
    /// `Uninitialized` if the device was closed; errors of the driver.
    pub fn record_timed(&self) -> Result<Event> {
        self.record_event(true)
    }

    /// Returns the driver's handle of the stream on which the queue's work runs: `CUstream`,
    /// `hipStream_t`. [`Queue::synchronize`] also waits for work that the program itself queues on
    /// the stream. Work of the queue and work of the program are in order if a synchronization lies
    /// between them. The stream is valid as long as the queue.
    ///
    /// # Errors
    /// As for [`Device::driver_device`](crate::Device::driver_device).
    pub fn driver_stream(&self) -> Result<u64> {
        self.open()?.queue.driver_stream()
    }

    /// Returns whether all queued work is done. Does not block. LLVM: `olQueryQueue`.
    ///
    /// # Errors
    /// `Uninitialized` if the device was closed; errors of the driver.
    pub fn is_idle(&self) -> Result<bool> {
        self.open()?.queue.is_idle()
    }

    /// Blocks until all work that was queued before the call is done. LLVM: `olSyncQueue`.
    ///
    /// # Errors
    /// The first error of that work that no earlier synchronization of this queue has reported.
    /// `Unsupported` in a host function of this queue, `Uninitialized` if the device was closed;
    /// errors of the driver.
    pub fn synchronize(&self) -> Result<()> {
        self.refuse_inside("synchronizing a queue")?;
        let synchronized = self.open()?.queue.synchronize();
        synchronized.map_err(|error| self.device.core().explain(error))?;
        self.core.take_pending_error()
    }

    /// Blocks until the queue is idle, but not longer than `limit`. Returns false after the limit;
    /// the work goes on. For kernels that may hang: the calling thread polls, sleeping up to 1 ms
    /// in between. Unlike [`Queue::synchronize`], it runs no queued work on the calling thread. The
    /// method also waits for work that other threads queue meanwhile. For work queued just as the
    /// queue becomes idle, it waits as [`Queue::synchronize`] does, without the limit. A call in a
    /// host function of this queue returns false, as the queue is not idle before the function
    /// returns.
    ///
    /// # Errors
    /// As for [`Queue::synchronize`].
    pub fn synchronize_for(&self, limit: Duration) -> Result<bool> {
        let open = self.open()?;
        let idle = polling::poll(limit, || open.queue.is_idle())?;
        if idle {
            // The queue is idle; this call only collects errors.
            let synchronized = open.queue.synchronize();
            synchronized.map_err(|error| self.device.core().explain(error))?;
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
        arguments.with(self.device.id(), |pointers, sizes, types| {
            // SAFETY: the list vouches for its pointers.
            let chosen = unsafe { kernel.for_launch(grid.items(), pointers, sizes) };
            let shape = grid.shape(chosen.name(), wait)?;
            chosen.check_group(grid.items())?;
            kernel.check_arguments(sizes, types)?;
            // SAFETY: one size for each pointer, which points at a value of that size; running
            // the kernel with them is the caller's promise.
            let arguments =
                unsafe { Arguments::from_raw(pointers.as_ptr(), sizes.as_ptr(), sizes.len()) };
            let launched = open.queue.launch(chosen.remote(), &shape, arguments);
            launched.map_err(|error| self.device.core().explain(error))
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

    /// Returns the open queue for queueing work without waiting for it, with the guard that notes
    /// the work.
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
