//! Queues: the checks of commands, and the choice between queueing and immediate execution.

use crate::command::{Batch, copy_bytes, fill_bytes};
use crate::execute::{Engine, Launch, words};
use crate::kernel::{Code, MOST_GROUP_ITEMS, SHARED_BYTES};
use crate::rect::Rect;
use crate::submission_queue::{Role, SubmissionQueue};
use crate::{HostBackend, HostDevice, HostEvent, HostKernel};
use longshore_plugin_api::{
    ArgumentPassing, Arguments, CopyRequest, Error, ErrorCode, HostFunction, LaunchShape,
    PrefetchTarget, Queue, RectRequest, Result, Span,
};
use std::sync::Arc;

/// Most bytes of a copy or fill that runs at once on an idle queue: queueing it would take longer.
const SMALL_BYTES: u64 = 4 << 10;

/// An in-order queue. Commands that cannot run at once run on a thread of the worker pool, named
/// `longshore-q<number>`. A queue occupies a thread while it has commands to run, and none while it
/// waits for an event. Commands that wait (`shape.wait`, `copy.wait`) on an idle queue run on the
/// calling thread. [`Queue::synchronize`] may run pending commands, including host functions, on
/// the calling thread. A host function may use its own queue, but a call that waits for that queue
/// is `Unsupported`.
///
/// Overlapping ranges copy as if through a buffer. Dropping the queue does not wait: its queued
/// commands still run.
///
/// LLVM: `ol_queue_handle_t`.
pub struct HostQueue {
    submissions: Arc<SubmissionQueue>,
}

impl HostQueue {
    /// Creates an idle queue.
    pub(crate) fn new(engine: Arc<Engine>) -> HostQueue {
        HostQueue { submissions: SubmissionQueue::new(engine) }
    }

    /// Runs a checked launch by `run` on this thread, if it waits and the queue is idle. Otherwise
    /// queues the launch by `add`, and waits for it if it waits.
    #[inline]
    fn run_or_queue(
        &self,
        wait: bool,
        run: impl FnOnce(&Role<'_>) -> Result<()>,
        add: impl FnOnce(&mut Batch) -> Result<()>,
    ) -> Result<()> {
        if !wait {
            return self.submissions.push(add);
        }
        if let Some(role) = self.submissions.idle_role() {
            let result = run(&role);
            drop(role);
            return self.submissions.first_error(result);
        }
        self.submissions.refuse_runner()?;
        self.submissions.push(add)?;
        self.submissions.synchronize()
    }

    /// Launches a kernel that takes words. A function of its own: its buffer for words and its
    /// branches would slow down the launches of other kernels.
    #[inline(never)]
    fn launch_words(
        &self,
        kernel: &HostKernel,
        shape: &LaunchShape,
        arguments: Arguments<'_>,
    ) -> Result<()> {
        check_passing(kernel, shape, arguments)?;
        let launch = Launch::new(kernel.prepare()?, shape);
        let run = |role: &Role<'_>| role.launch_words(&launch, arguments);
        self.run_or_queue(shape.wait, run, |batch| batch.launch_words(launch, arguments))
    }
}

impl Drop for HostQueue {
    fn drop(&mut self) {
        self.submissions.close();
    }
}

impl Queue<HostBackend> for HostQueue {
    fn launch(
        &self,
        kernel: &HostKernel,
        shape: &LaunchShape,
        arguments: Arguments<'_>,
    ) -> Result<()> {
        if !is_plain(kernel, shape) {
            check_shape(kernel, shape)?;
            if shape.passing != ArgumentPassing::Pointers {
                return self.launch_words(kernel, shape, arguments);
            }
        }
        let launch = Launch::new(kernel.prepare()?, shape);
        let run = |role: &Role<'_>| role.launch(&launch, arguments);
        self.run_or_queue(shape.wait, run, |batch| batch.launch(launch, arguments))
    }

    fn copy(&self, copy: &CopyRequest<'_, HostDevice>) -> Result<()> {
        let (to, from) = (copy.destination, copy.source);
        if to.bytes() != from.bytes() {
            return Err(unequal_spans(to, from));
        }
        if (copy.wait || to.bytes() <= SMALL_BYTES)
            && let Some(role) = self.submissions.idle_role()
        {
            // SAFETY: the spans vouch for both ranges.
            unsafe { copy_bytes(to.address(), from.address(), to.bytes()) };
            drop(role);
            return if copy.wait { self.submissions.take_error() } else { Ok(()) };
        }
        if copy.wait {
            self.submissions.refuse_runner()?;
        }
        self.submissions.push(|batch| batch.copy(to, from))?;
        if copy.wait { self.submissions.synchronize() } else { Ok(()) }
    }

    fn copy_rect(&self, rect: &RectRequest<'_, HostDevice>) -> Result<()> {
        let rect = Rect::new(rect);
        if rect.bytes() <= SMALL_BYTES
            && let Some(role) = self.submissions.idle_role()
        {
            // SAFETY: the spans vouch for the rows.
            unsafe { rect.copy() };
            drop(role);
            return Ok(());
        }
        self.submissions.push(|batch| batch.rect(rect))
    }

    fn fill(&self, destination: Span, pattern: &[u8], wait: bool) -> Result<()> {
        if pattern.is_empty() || !destination.bytes().is_multiple_of(pattern.len() as u64) {
            return Err(uneven_fill(destination, pattern));
        }
        let mut captured = [0; 16];
        if (wait || destination.bytes() <= SMALL_BYTES)
            && let Some(captured) = captured.get_mut(..pattern.len())
            && let Some(role) = self.submissions.idle_role()
        {
            captured.copy_from_slice(pattern);
            // SAFETY: the span vouches for the range; the pattern is a copy.
            unsafe { fill_bytes(destination, captured) };
            drop(role);
            return if wait { self.submissions.take_error() } else { Ok(()) };
        }
        if wait {
            self.submissions.refuse_runner()?;
        }
        self.submissions.push(|batch| batch.fill(destination, pattern))?;
        if wait { self.submissions.synchronize() } else { Ok(()) }
    }

    fn host_function(&self, function: HostFunction) -> Result<()> {
        self.submissions.push(|batch| batch.host(function))
    }

    fn wait_event(&self, event: &HostEvent) -> Result<()> {
        match event.to_wait_for() {
            Some(record) => self.submissions.push(|batch| batch.wait(record)),
            None => Ok(()),
        }
    }

    fn record_event(&self, event: &HostEvent) -> Result<()> {
        event.record_at(&self.submissions)
    }

    fn is_idle(&self) -> Result<bool> {
        Ok(self.submissions.is_idle())
    }

    fn synchronize(&self) -> Result<()> {
        self.submissions.synchronize()
    }

    /// Does nothing: all memory is equally near.
    fn prefetch(&self, _range: Span, _target: PrefetchTarget) -> Result<()> {
        Ok(())
    }
}

/// Returns whether a shape is valid without further checks.
#[inline]
fn is_plain(kernel: &HostKernel, shape: &LaunchShape) -> bool {
    let sizes = [shape.groups, shape.items];
    let is_one = |count: u32| count == 1;
    let is_linear = is_one(shape.groups[1]) && is_one(shape.groups[2]);
    !sizes.as_flattened().contains(&0)
        && has_items_for_a_group(shape.items)
        && !shape.cooperative
        && shape.cluster.is_none()
        && shape.passing == ArgumentPassing::Pointers
        && shape.dynamic_shared_bytes == 0
        && match kernel.code() {
            Code::Host(_) => true,
            Code::Groups(code) => is_linear && !code.has_grid_barrier,
        }
}

/// Returns whether a group may have this number of items.
#[inline]
fn has_items_for_a_group(items: [u32; 3]) -> bool {
    let [x, y, z] = items.map(u64::from);
    let most = u64::from(MOST_GROUP_ITEMS);
    // Each product of two 32-bit numbers is less than 2^64.
    x * y <= most && x * y * z <= most
}

#[cold]
fn check_shape(kernel: &HostKernel, shape: &LaunchShape) -> Result<()> {
    shape.refuse_clusters()?;
    let name = kernel.name();
    let refuse = |code, what: String| Err(Error::new(code, format!("kernel '{name}': {what}")));
    for (what, sizes) in [("groups", shape.groups), ("items", shape.items)] {
        if let Some(zero) = sizes.iter().position(|size| *size == 0) {
            let dimension = ["x", "y", "z"][zero];
            let what = format!("0 {what} in {dimension}, expected at least 1");
            return refuse(ErrorCode::InvalidArgument, what);
        }
    }
    if !has_items_for_a_group(shape.items) {
        let items = shape.items;
        let what = format!("groups of {items:?} items, expected at most {MOST_GROUP_ITEMS} items");
        return refuse(ErrorCode::InvalidArgument, what);
    }
    if shape.dynamic_shared_bytes > SHARED_BYTES {
        let asked = shape.dynamic_shared_bytes;
        let what =
            format!("{asked} bytes of dynamic shared memory, expected at most {SHARED_BYTES}");
        return refuse(ErrorCode::InvalidArgument, what);
    }
    let groups = shape.groups;
    let count = groups.iter().fold(1u64, |count, more| count.saturating_mul(u64::from(*more)));
    match kernel.code() {
        Code::Host(_) if shape.cooperative && count > 1 => refuse(
            ErrorCode::Unsupported,
            format!(
                "a cooperative launch of {groups:?} groups, expected one: a kernel of LLVM's host form is \
                 called once per launch, so groups cannot wait for each other"
            ),
        ),
        Code::Groups(_) if count == u64::MAX => {
            refuse(ErrorCode::InvalidSize, format!("{groups:?} are too many groups"))
        }
        Code::Groups(code) if code.has_grid_barrier && !shape.cooperative => refuse(
            ErrorCode::InvalidArgument,
            "it has a barrier of the whole grid, so it must be launched cooperatively".to_owned(),
        ),
        Code::Groups(code) if shape.cooperative => {
            let most = Engine::most_cooperative_groups(code, shape.items);
            if count <= u64::from(most) {
                return Ok(());
            }
            let what = format!("a cooperative launch of {count} groups, expected at most {most}");
            refuse(ErrorCode::InvalidArgument, what)
        }
        _ => Ok(()),
    }
}

/// Checks that the kernel can take its arguments as the launch passes them.
fn check_passing(kernel: &HostKernel, shape: &LaunchShape, arguments: Arguments<'_>) -> Result<()> {
    match (shape.passing, kernel.code()) {
        (ArgumentPassing::Words, Code::Host(_)) => words::check(arguments)
            .map_err(|error| error.context(format_args!("kernel '{}'", kernel.name()))),
        (ArgumentPassing::Words, Code::Groups(_)) => Err(words::work_group_form(kernel.name())),
        (other, _) => Err(Error::new(
            ErrorCode::Unsupported,
            format!("kernel '{}': no passing of arguments as {other:?}", kernel.name()),
        )),
    }
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
    let message = format!(
        "a fill of {bytes} bytes with a pattern of {pattern} bytes, expected a multiple of the pattern"
    );
    Error::new(ErrorCode::InvalidSize, message)
}

#[cfg(test)]
mod tests;
