//! The commands of a submission queue.

use crate::driver::Driver;
use crate::kernel::KernelCore;
use crate::queue_stream::QueueStream;
use crate::record::Record;
use crate::rect::Rect;
use crate::transfer::{Copy, Fill};
use longshore_plugin_api::{Arguments, HostFunction, LaunchShape, PrefetchTarget, Result, Span};
use std::ffi::c_void;
use std::sync::Arc;

/// Alignment of captured values in bytes: that of the largest types that kernels take.
const VALUE_ALIGNMENT: usize = 16;

/// A command that a thread of the worker pool hands to the stream, or runs itself.
pub(crate) enum Command<D: Driver> {
    Launch(DeferredLaunch<D>),
    Copy(Copy<D>),
    /// A copy that would block the thread that hands it to the stream.
    BlockingCopy(Copy<D>),
    Rect(Rect),
    /// A rectangular copy that would block the thread that hands it to the stream.
    BlockingRect(Rect),
    Fill(Fill),
    Prefetch(Span, PrefetchTarget),
    Function(HostFunction),
    Record(Arc<Record<D>>),
    /// A wait that runs once the driver has the record.
    Wait(Arc<Record<D>>),
}

impl<D: Driver> Command<D> {
    pub(crate) fn is_function(&self) -> bool {
        matches!(self, Command::Function(_))
    }

    /// Runs the command. Blocks while the host has to wait or to work.
    ///
    /// # Errors
    /// A lost device; errors of the driver.
    pub(crate) fn run(self, queue_stream: &QueueStream<D>) -> Result<()> {
        match self {
            Command::Launch(launch) => launch.run(queue_stream),
            Command::Copy(copy) => copy.run(queue_stream),
            Command::BlockingCopy(copy) => copy.run_blocking(queue_stream),
            Command::Rect(rect) => rect.run(queue_stream),
            Command::BlockingRect(rect) => rect.run_blocking(queue_stream),
            Command::Fill(fill) => fill.submit(queue_stream),
            Command::Prefetch(range, target) => {
                crate::transfer::prefetch(queue_stream, range, target)
            }
            Command::Function(function) => {
                let before = queue_stream.sleep_until_stream_is_done();
                // Called even if the device was lost: the interface promises the call to the
                // program.
                function.call();
                before
            }
            Command::Record(record) => record.submit(queue_stream),
            Command::Wait(record) => record.hold_up(queue_stream),
        }
    }
}

/// A launch with the values of its arguments.
pub(crate) struct DeferredLaunch<D: Driver> {
    kernel: Arc<KernelCore<D>>,
    shape: LaunchShape,
    values: Vec<u128>,
    /// Offset in bytes of each value in `values`.
    starts: Vec<usize>,
}

impl<D: Driver> DeferredLaunch<D> {
    /// Captures the values of the arguments. The caller has checked `shape`.
    pub(crate) fn new(
        kernel: &Arc<KernelCore<D>>,
        shape: &LaunchShape,
        arguments: Arguments<'_>,
    ) -> DeferredLaunch<D> {
        let (mut bytes, mut starts) = (Vec::new(), Vec::with_capacity(arguments.len()));
        for value in arguments.values() {
            bytes.resize(bytes.len().next_multiple_of(VALUE_ALIGNMENT), 0);
            starts.push(bytes.len());
            bytes.extend_from_slice(value);
        }
        bytes.resize(bytes.len().next_multiple_of(VALUE_ALIGNMENT), 0);
        let (chunks, _) = bytes.as_chunks();
        let values = chunks.iter().map(|chunk| u128::from_ne_bytes(*chunk)).collect();
        DeferredLaunch { kernel: Arc::clone(kernel), shape: *shape, values, starts }
    }

    fn run(self, queue_stream: &QueueStream<D>) -> Result<()> {
        let start = self.values.as_ptr().cast::<u8>();
        // An argument of 0 bytes may begin at the end of the buffer.
        let pointers: Vec<*const c_void> =
            self.starts.iter().map(|at| start.wrapping_add(*at).cast()).collect();
        let _current = queue_stream.device().enter()?;
        queue_stream.in_flight().note(self.kernel.number());
        // SAFETY: the values are copies of the arguments that the caller vouched for when it queued
        // the launch, and the host keeps the kernel's module until the queue is done.
        let launched =
            unsafe { self.kernel.launch(&self.shape, pointers.as_ptr(), queue_stream.stream()) };
        queue_stream.in_flight().was_handed();
        launched.map_err(|failure| self.kernel.refused(&self.shape, failure))
    }
}
