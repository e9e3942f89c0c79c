//! What closing a device does, in which order, and what it finds.

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

/// What closing a device found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CloseReport {
    /// Allocations that were still live; they are freed.
    pub leaks: Vec<Leak>,
    /// The memory-pool trackers of all images that were unloaded from it, taken together; `None`
    /// if no image had one.
    pub tracker: Option<PoolTracker>,
}

/// An allocation that nobody freed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leak {
    /// First address.
    pub address: u64,
    /// Size in bytes, as it was asked for.
    pub bytes: u64,
    /// Where it lived.
    pub kind: MemoryKind,
    /// Where in the program it was made.
    pub location: &'static Location<'static>,
    /// By which functions, if the host tracks memory.
    pub stack: Option<CallStack>,
}

impl DeviceCore {
    /// Takes every step of closing, whatever fails.
    pub(super) fn close(&self) -> Result<CloseReport> {
        // No call is inside the device from here on but those of queues that are under way: what
        // is being loaded or unloaded now has ended.
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
        // Who still holds the device closes it when done.
        note(Arc::into_inner(remote).map_or(Ok(()), AnyDevice::close));
        self.host.note_closed(self.id);
        self.print(&report);
        first.map(|()| report)
    }

    fn take_newest_program(&self) -> Option<Arc<ProgramCore>> {
        self.programs.lock().pop()
    }

    /// A user who tracks memory gets all that is known, others a warning for each.
    fn tell_of_leaks(&self, leaks: &[Leak]) {
        if self.host.track && !leaks.is_empty() {
            let table = LeakTable { device: self.facts.to_string(), leaks }.to_string();
            // Where nobody reads it there is nobody else to tell.
            let _ = std::io::stderr().write_all(table.as_bytes());
            return;
        }
        for leak in leaks {
            log::warn!("{}: leaked {leak}", self.facts);
        }
    }

    fn print(&self, report: &CloseReport) {
        self.tell_of_leaks(&report.leaks);
        // An image without a tracker says nothing of what its kernels allocate.
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
        // `close` has logged what failed, and has no one else to tell.
        let _ = self.close();
    }
}

/// Returns the totals as LLVM prints them (`GenericDeviceTy::deinit`), with the device's name. Images that
/// have allocated nothing have no smallest allocation.
fn table(device: &str, tracker: &PoolTracker) -> String {
    let used = Some(tracker).filter(|tracker| tracker.allocations > 0);
    let row =
        |name: &str, of: fn(&PoolTracker) -> u64| format!("| {name}: {}\n", used.map_or(0, of));
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
