//! Work that a queue keeps until the host has done what is before it.

use crate::driver::Driver;
use crate::kernel::KernelCore;
use crate::lane::Lane;
use crate::record::Record;
use crate::transfer::{Copy, Fill};
use longshore_plugin_api::{Arguments, HostFunction, LaunchShape, PrefetchTarget, Result, Span};
use std::ffi::c_void;
use std::sync::Arc;

/// Alignment of captured values: that of the largest types that kernels take.
const VALUE_ALIGNMENT: usize = 16;

/// Something that a thread of the crew hands to the stream, or does itself.
pub(crate) enum Step<D: Driver> {
    Launch(KeptLaunch<D>),
    Copy(Copy<D>),
    /// One that would block whoever hands it to the stream.
    BlockingCopy(Copy<D>),
    Fill(Fill),
    Prefetch(Span, PrefetchTarget),
    Function(HostFunction),
    Record(Arc<Record<D>>),
    /// To be done when the driver has the record.
    Wait(Arc<Record<D>>),
}

impl<D: Driver> Step<D> {
    pub(crate) fn is_function(&self) -> bool {
        matches!(self, Step::Function(_))
    }

    /// Does it. Blocks while the host has something to wait for or to do.
    ///
    /// # Errors
    /// A lost device; those of the driver.
    pub(crate) fn run(self, lane: &Lane<D>) -> Result<()> {
        match self {
            Step::Launch(launch) => launch.run(lane),
            Step::Copy(copy) => copy.run(lane),
            Step::BlockingCopy(copy) => copy.run_blocking(lane),
            Step::Fill(fill) => fill.submit(lane),
            Step::Prefetch(range, target) => crate::transfer::prefetch(lane, range, target),
            Step::Function(function) => {
                let before = lane.sleep_until_stream_is_done();
                // Called also if the device was lost: whoever queued it was promised that.
                function.call();
                before
            }
            Step::Record(record) => record.submit(lane),
            Step::Wait(record) => record.hold_up(lane),
        }
    }
}

/// A launch with the values of its arguments.
pub(crate) struct KeptLaunch<D: Driver> {
    kernel: Arc<KernelCore<D>>,
    shape: LaunchShape,
    values: Vec<u128>,
    /// Where each value begins, in bytes.
    starts: Vec<usize>,
}

impl<D: Driver> KeptLaunch<D> {
    /// Captures the values. `shape` was checked.
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
        // An argument without bytes may begin behind the last one.
        let pointers: Vec<*const c_void> =
            self.starts.iter().map(|at| start.wrapping_add(*at).cast()).collect();
        let _current = lane.device().enter()?;
        lane.in_flight().note(self.kernel.number());
        // SAFETY: the values are those that were vouched for when the launch was queued, and the host
        // keeps the kernel's module until the queue is done.
        let launched = unsafe { self.kernel.launch(&self.shape, pointers.as_ptr(), lane.stream()) };
        lane.in_flight().was_handed();
        launched.map_err(|failure| self.kernel.refused(&self.shape, failure))
    }
}
