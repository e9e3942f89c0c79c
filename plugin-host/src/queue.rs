//! Queues: what may be queued, and what runs at once.

use crate::command::{Entry, copy_bytes, fill_bytes};
use crate::line::Line;
use crate::{HostBackend, HostDevice, HostEvent, HostKernel};
use longshore_plugin_api::{
    Arguments, CopyRequest, Error, ErrorCode, HostFunction, LaunchShape, PrefetchTarget, Queue,
    Result, Span,
};
use std::sync::Arc;

/// Dynamic shared memory that a launch may ask for, in bytes.
pub(crate) const SHARED_BYTES: u64 = 64 << 10;

/// A copy or fill of up to this many bytes runs at once on an idle queue: queueing it would take
/// longer.
const SMALL_BYTES: u64 = 4 << 10;

/// An in-order queue. Its thread, `longshore-q<number>`, starts with the first command that cannot
/// run at once; what waits (`shape.wait`, `copy.wait`) and finds the queue idle runs on the calling
/// thread. [`Queue::synchronize`] may run what is pending, host functions too, on the calling
/// thread. A host function may use its own queue, but what waits for that is `InvalidQueue`.
///
/// Overlapping copies copy as if through a buffer. Dropping the queue does not wait: its thread
/// runs what was queued, then ends.
///
/// LLVM: `ol_queue_handle_t`.
pub struct HostQueue {
    line: Arc<Line>,
}

impl HostQueue {
    /// An idle queue.
    pub(crate) fn new() -> HostQueue {
        HostQueue { line: Line::new() }
    }

    /// [`Queue::launch`] of a kernel whose shape was checked.
    #[inline]
    fn launch_entry(&self, entry: Entry, wait: bool, arguments: Arguments<'_>) -> Result<()> {
        if !wait {
            return self.line.push(|batch| batch.launch(entry, arguments));
        }
        if let Some(role) = self.line.idle_role() {
            // SAFETY: the arguments vouch for running the kernel with the values that the
            // pointers, which are valid during this call, point at.
            unsafe { entry(arguments.pointers().cast_mut().cast()) };
            drop(role);
            return self.line.take_error();
        }
        self.line.refuse_runner()?;
        self.line.push(|batch| batch.launch(entry, arguments))?;
        self.line.synchronize()
    }
}

impl Drop for HostQueue {
    fn drop(&mut self) {
        self.line.close();
    }
}

impl Queue<HostBackend> for HostQueue {
    fn launch(
        &self,
        kernel: &HostKernel,
        shape: &LaunchShape,
        arguments: Arguments<'_>,
    ) -> Result<()> {
        if !is_plain(shape) {
            check_shape(kernel.name(), shape)?;
        }
        self.launch_entry(kernel.entry(), shape.wait, arguments)
    }

    fn copy(&self, copy: &CopyRequest<'_, HostDevice>) -> Result<()> {
        let (to, from) = (copy.destination, copy.source);
        if to.bytes() != from.bytes() {
            return Err(unequal_spans(to, from));
        }
        if (copy.wait || to.bytes() <= SMALL_BYTES)
            && let Some(role) = self.line.idle_role()
        {
            // SAFETY: the spans vouch for both ranges.
            unsafe { copy_bytes(to.address(), from.address(), to.bytes()) };
            drop(role);
            return if copy.wait { self.line.take_error() } else { Ok(()) };
        }
        if copy.wait {
            self.line.refuse_runner()?;
        }
        self.line.push(|batch| batch.copy(to, from))?;
        if copy.wait { self.line.synchronize() } else { Ok(()) }
    }

    fn fill(&self, destination: Span, pattern: &[u8], wait: bool) -> Result<()> {
        if pattern.is_empty() || !destination.bytes().is_multiple_of(pattern.len() as u64) {
            return Err(uneven_fill(destination, pattern));
        }
        let mut captured = [0; 16];
        if (wait || destination.bytes() <= SMALL_BYTES)
            && let Some(captured) = captured.get_mut(..pattern.len())
            && let Some(role) = self.line.idle_role()
        {
            captured.copy_from_slice(pattern);
            // SAFETY: the span vouches for the range; the pattern is a copy.
            unsafe { fill_bytes(destination, captured) };
            drop(role);
            return if wait { self.line.take_error() } else { Ok(()) };
        }
        if wait {
            self.line.refuse_runner()?;
        }
        self.line.push(|batch| batch.fill(destination, pattern))?;
        if wait { self.line.synchronize() } else { Ok(()) }
    }

    fn host_function(&self, function: HostFunction) -> Result<()> {
        self.line.push(|batch| batch.host(function))
    }

    fn wait_event(&self, event: &HostEvent) -> Result<()> {
        match event.unreached() {
            Some(record) => self.line.push(|batch| batch.wait(record)),
            None => Ok(()),
        }
    }

    fn record_event(&self, event: &HostEvent) -> Result<()> {
        event.record_at(&self.line)
    }

    fn is_idle(&self) -> Result<bool> {
        Ok(self.line.is_idle())
    }

    fn synchronize(&self) -> Result<()> {
        self.line.synchronize()
    }

    /// All memory is equally near: there is nothing to do.
    fn prefetch(&self, _range: Span, _target: PrefetchTarget) -> Result<()> {
        Ok(())
    }
}

/// Whether nothing about a shape needs a closer look.
#[inline]
fn is_plain(shape: &LaunchShape) -> bool {
    let sizes = [shape.groups, shape.items];
    !sizes.as_flattened().contains(&0) && !shape.cooperative && shape.dynamic_shared_bytes == 0
}

#[cold]
fn check_shape(kernel: &str, shape: &LaunchShape) -> Result<()> {
    let refuse = |code, what: String| Err(Error::new(code, format!("kernel '{kernel}': {what}")));
    for (what, sizes) in [("groups", shape.groups), ("items", shape.items)] {
        if let Some(zero) = sizes.iter().position(|size| *size == 0) {
            let dimension = ["x", "y", "z"][zero];
            let what = format!("0 {what} in {dimension}, expected at least 1");
            return refuse(ErrorCode::InvalidArgument, what);
        }
    }
    if shape.dynamic_shared_bytes > SHARED_BYTES {
        let asked = shape.dynamic_shared_bytes;
        let what =
            format!("{asked} bytes of dynamic shared memory, expected at most {SHARED_BYTES}");
        return refuse(ErrorCode::InvalidArgument, what);
    }
    if shape.cooperative && shape.groups != [1; 3] {
        let groups = shape.groups;
        let what = format!(
            "a cooperative launch of {groups:?} groups, expected one: a kernel of this form is \
             called once per launch, so groups cannot wait for each other"
        );
        return refuse(ErrorCode::Unsupported, what);
    }
    Ok(())
}

#[cold]
fn unequal_spans(to: Span, from: Span) -> Error {
    let (to, from) = (to.bytes(), from.bytes());
    let message = format!("a copy of {from} bytes to {to} bytes, expected the same length");
    Error::new(ErrorCode::InvalidSize, message)
}

#[cold]
fn uneven_fill(destination: Span, pattern: &[u8]) -> Error {
    let (bytes, pattern) = (destination.bytes(), pattern.len());
    let message =
        format!("a fill of {bytes} bytes with a pattern of {pattern}, expected a multiple");
    Error::new(ErrorCode::InvalidSize, message)
}

#[cfg(test)]
mod tests;
