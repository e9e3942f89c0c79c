//! The steps of closing a device, in their order, and the report of the leaks found.

use super::core::DeviceCore;
use crate::backend::AnyDevice;
use crate::memory::{Block, CallStack, LeakTable};
use crate::program::core::ProgramCore;
use longshore_plugin_api::{
    Device as _, Error, ErrorCode, MemoryKind, PoolTracker, Result, printable,
};
use std::fmt::Display;
use std::io::Write as _;
use std::panic::Location;
use std::sync::Arc;

/// The report of [`Device::close`](crate::Device::close): leaks, and the final memory-pool
/// counters.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CloseReport {
    /// Allocations that were still live when the device was closed. Closing has freed them.
    pub leaks: Vec<Leak>,
    /// The sum of the memory-pool trackers of all images that were unloaded from the device; `None`
    /// if no image had a tracker.
    pub tracker: Option<PoolTracker>,
}

/// An allocation that the program had not freed when its device was closed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leak {
    /// First address.
    pub address: u64,
    /// Requested size in bytes.
    pub bytes: u64,
    /// Kind of the memory.
    pub kind: MemoryKind,
    /// Source location of the allocating call.
    pub location: &'static Location<'static>,
    /// Call stack of the allocating call, if the host tracks memory.
    pub stack: Option<CallStack>,
}

impl DeviceCore {
    /// Closes the device. An error does not stop the remaining steps; the first error is returned.
    pub(super) fn close(&self) -> Result<CloseReport> {
        // From here on only calls of open queues are inside the device: all loading and unloading
        // has ended, as `take` waits for it.
        let Some(remote) = self.remote.take() else {
            let message = format!("device {} was closed before", self.facts);
            return Err(Error::new(ErrorCode::Uninitialized, message));
        };
        let mut first = Ok(());
        let mut note = |result: Result<()>| {
            if let Err(error) = result {
                log::error!("closing {}: {error}", self.facts);
                first = std::mem::replace(&mut first, Ok(())).and(Err(error));
            }
        };
        while let Some(newest) = self.take_newest_program() {
            note(self.unload_at_close(&newest));
        }
        for queue in std::mem::take(&mut *self.queues.lock()) {
            note(queue.close());
        }
        self.events.lock().close();
        let mut report = CloseReport { leaks: Vec::new(), tracker: self.totals.lock().get() };
        let leaks = self.memory.close(&remote).into_iter();
        report.leaks = leaks.map(|(block, stack)| Leak::new(&block, stack)).collect();
        // If another handle still holds the plugin's device, dropping that handle closes it.
        note(Arc::into_inner(remote).map_or(Ok(()), AnyDevice::close));
        self.host.note_closed(self.id);
        self.print(&report);
        first.map(|()| report)
    }

    fn take_newest_program(&self) -> Option<Arc<ProgramCore>> {
        self.programs.lock().pop()
    }

    /// Prints a table of the leaks if the host tracks memory, else logs a warning for each leak.
    fn print_leaks(&self, leaks: &[Leak]) {
        if self.host.track && !leaks.is_empty() {
            let table = LeakTable { device: self.facts.to_string(), leaks }.to_string();
            // An error of standard error cannot be reported anywhere.
            let _ = std::io::stderr().write_all(table.as_bytes());
            return;
        }
        for leak in leaks {
            log::warn!("{}: leaked {leak}", self.facts);
        }
    }

    fn print(&self, report: &CloseReport) {
        self.print_leaks(&report.leaks);
        // Without a tracker the allocations of an image's kernels are unknown.
        if let Some(tracker) = report.tracker.filter(|_| self.host.environment.track()) {
            let table = table(&printable(&self.facts.to_string()), &tracker);
            let _ = std::io::stderr().write_all(table.as_bytes());
        }
    }
}

impl Drop for DeviceCore {
    fn drop(&mut self) {
        if self.remote.is_closed() {
            return;
        }
        // `close` has logged every error, and `drop` cannot return one.
        let _ = self.close();
    }
}

/// Returns the totals in the format of LLVM's `GenericDeviceTy::deinit`, with the device's name.
/// Without allocations all rows are 0: the smallest allocation is then undefined.
fn table(device: &str, tracker: &PoolTracker) -> String {
    let used = Some(tracker).filter(|tracker| tracker.allocations > 0);
    let row = |name: &str, total: fn(&PoolTracker) -> u64| {
        format!("| {name}: {}\n", used.map_or(0, total))
    };
    const LINE: &str = "|-----------------------\n";
    [
        LINE.to_owned(),
        format!("| Device memory tracker: {device}\n"),
        LINE.to_owned(),
        row("#Allocations", |tracker| tracker.allocations),
        row("Bytes allocated", |tracker| tracker.total_bytes),
        row("Minimal allocation", |tracker| tracker.min_bytes),
        row("Maximal allocation", |tracker| tracker.max_bytes),
        LINE.to_owned(),
    ]
    .concat()
}

impl Leak {
    fn new(block: &Block, stack: Option<CallStack>) -> Leak {
        let user = block.current_use();
        Leak {
            address: block.address,
            bytes: user.bytes,
            kind: block.kind,
            location: user.location,
            stack,
        }
    }
}

impl Display for Leak {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Leak { address, bytes, kind, location, stack: _ } = self;
        write!(f, "{bytes} bytes of {kind:?} memory at {address:#x}, allocated at {location}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_row_for_each_total() {
        let tracker =
            PoolTracker { allocations: 6, total_bytes: 384, min_bytes: 32, max_bytes: 96 };
        let line = "|-----------------------";
        let expected = format!(
            "{line}\n| Device memory tracker: cpu:0\n{line}\n| #Allocations: 6\n\
             | Bytes allocated: 384\n| Minimal allocation: 32\n| Maximal allocation: 96\n{line}\n"
        );
        assert_eq!(table("cpu:0", &tracker), expected);
        let unused = PoolTracker { allocations: 0, min_bytes: u64::MAX, ..tracker };
        assert!(table("cpu:0", &unused).contains("| Minimal allocation: 0\n"));
    }
}
