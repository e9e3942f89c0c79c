//! The commands of a submission queue.

use crate::driver::Driver;
use crate::kernel::KernelCore;
use crate::lane::Lane;
use crate::record::Record;
use crate::transfer::{Copy, Fill};
use longshore_plugin_api::{Arguments, HostFunction, LaunchShape, PrefetchTarget, Result, Span};
use std::ffi::c_void;
use std::sync::Arc;

/// Alignment of captured values in bytes: that of the largest types that kernels take.
const VALUE_ALIGNMENT: usize = 16;

/// A command that a thread of the crew hands to the stream, or runs itself.
pub(crate) enum Command<D: Driver> {
    Launch(KeptLaunch<D>),
    Copy(Copy<D>),
    /// A copy that would block the thread that hands it to the stream.
    BlockingCopy(Copy<D>),
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
    pub(crate) fn run(self, lane: &Lane<D>) -> Result<()> {
        match self {
            Command::Launch(launch) => launch.run(lane),
            Command::Copy(copy) => copy.run(lane),
            Command::BlockingCopy(copy) => copy.run_blocking(lane),
            Command::Fill(fill) => fill.submit(lane),
            Command::Prefetch(range, target) => crate::transfer::prefetch(lane, range, target),
            Command::Function(function) => {
                let before = lane.sleep_until_stream_is_done();
                // Called even if the device was lost: the interface promises the call to the
                // program.
                function.call();
                before
            }
            Command::Record(record) => record.submit(lane),
            Command::Wait(record) => record.hold_up(lane),
        }
    }
}

/// A launch with the values of its arguments.
pub(crate) struct KeptLaunch<D: Driver> {
    kernel: Arc<KernelCore<D>>,
    shape: LaunchShape,
    values: Vec<u128>,
    /// Offset in bytes of each value in `values`.
    starts: Vec<usize>,
}

impl<D: Driver> KeptLaunch<D> {
    /// Captures the values of the arguments. The caller has checked `shape`.
    pub(crate) fn new(
        kernel: &Arc<KernelCore<D>>,
        shape: &LaunchShape,
        arguments: Arguments<'_>,
    ) -> KeptLaunch<D> {
        let (mut bytes, mut starts) = (Vec::new(), Vec::with_capacity(arguments.len()));
        for value in arguments.values() {
            bytes.resize(bytes.len().next_multiple_of(VALUE_ALIGNMENT), 0);
            starts.push(bytes.len());
            bytes.extend_from_slice(value);
        }
        bytes.resize(bytes.len().next_multiple_of(VALUE_ALIGNMENT), 0);
        let (chunks, _) = bytes.as_chunks();
        let values = chunks.iter().map(|chunk| u128::from_ne_bytes(*chunk)).collect();
        KeptLaunch { kernel: Arc::clone(kernel), shape: *shape, values, starts }
    }

    fn run(self, lane: &Lane<D>) -> Result<()> {
        let start = self.values.as_ptr().cast::<u8>();
        // An argument of 0 bytes may begin at the end of the buffer.
        let pointers: Vec<*const c_void> =
            self.starts.iter().map(|at| start.wrapping_add(*at).cast()).collect();
        let _current = lane.device().enter()?;
        lane.in_flight().note(self.kernel.number());
        // SAFETY: the values are copies of the arguments that the caller vouched for when it queued
        // the launch, and the host keeps the kernel's module until the queue is done.
        let launched = unsafe { self.kernel.launch(&self.shape, pointers.as_ptr(), lane.stream()) };
        lane.in_flight().was_handed();
        launched.map_err(|failure| self.kernel.refused(&self.shape, failure))
    }
}
