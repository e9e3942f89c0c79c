//! Reports of allocations, for people and programs.

use super::memory_use::{KINDS, MemoryUse};
use super::text_table::TextTable;
use super::timeline::TimelinePoint;
use crate::units;
use longshore_plugin_api::MemoryKind;
use std::fmt;
use std::panic::Location;
use std::time::Duration;

/// The kinds in the order in which they are shown, and their names.
pub(super) const SHOWN_KINDS: [(MemoryKind, &str); KINDS] =
    [(MemoryKind::Device, "device"), (MemoryKind::Managed, "managed"), (MemoryKind::Host, "host")];

/// Number of call sites that the short format shows.
const SHOWN_SITES: usize = 20;

/// A report of the allocations of a device, or of all devices of a host. Later allocations do not
/// change the report.
///
/// Without tracking (`LONGSHORE_TRACK`,
/// [`HostBuilder::with_tracking`](crate::HostBuilder::with_tracking)) only live allocations and
/// cached blocks are known. The other counts are then as if the live allocations were the only ones
/// ever made, and the timeline is empty.
///
/// `{}` formats tables with the 20 call sites of the largest peaks, `{:#}` with all call sites.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MemoryReport {
    /// Name of the device, "cuda:0 (NVIDIA H200)", or "all devices".
    pub name: String,
    /// Whether the host tracks memory.
    pub tracked: bool,
    /// Time from the creation of the host to the creation of the report; zero without tracking.
    pub elapsed: Duration,
    /// Counts of all kinds together.
    pub total: MemoryUse,
    pub(super) kinds: [MemoryUse; KINDS],
    /// Number of freed blocks that are kept for reuse.
    pub cached_blocks: u64,
    /// Size in bytes of the freed blocks that are kept for reuse.
    pub cached_bytes: u64,
    /// Each call site of the program that allocated, the largest peak first.
    pub sites: Vec<CallSite>,
    /// Live bytes over time, oldest first. There is a point for each change; after thousands of
    /// changes fewer points remain, the peaks among them.
    pub timeline: Vec<TimelinePoint>,
}

/// The allocations of one call site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallSite {
    /// Source location of the allocating call.
    pub location: &'static Location<'static>,
    /// Counts of the call site's allocations, of all kinds.
    pub memory: MemoryUse,
}

impl MemoryReport {
    /// Returns the counts of one kind of memory.
    pub fn kind(&self, kind: MemoryKind) -> MemoryUse {
        self.kinds[kind as usize]
    }

    pub(crate) fn with_cached(mut self, (blocks, bytes): (u64, u64)) -> MemoryReport {
        self.cached_blocks = self.cached_blocks.saturating_add(blocks);
        self.cached_bytes = self.cached_bytes.saturating_add(bytes);
        self
    }

    fn kind_table(&self) -> TextTable<8> {
        let mut table = TextTable::new(header("kind"));
        for (kind, name) in SHOWN_KINDS {
            if self.kind(kind).total_count > 0 {
                table.row(row(&self.kind(kind), name.to_owned()));
            }
        }
        table.row(row(&self.total, "all".to_owned()));
        table
    }

    fn site_table(&self, shown: usize) -> TextTable<8> {
        let mut table = TextTable::new(header("allocated at"));
        for CallSite { location, memory } in self.sites.iter().take(shown) {
            table.row(row(memory, location.to_string()));
        }
        table
    }
}

impl fmt::Display for MemoryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memory of {}, ", self.name)?;
        match self.tracked {
            true => writeln!(f, "after {}", units::duration(self.elapsed))?,
            false => writeln!(f, "live allocations only: LONGSHORE_TRACK=1 tracks the rest")?,
        }
        write!(f, "{}", self.kind_table())?;
        let (blocks, bytes) = (self.cached_blocks, units::bytes(self.cached_bytes));
        writeln!(f, "kept for reuse: {bytes}, {blocks} blocks")?;
        if self.sites.is_empty() {
            return Ok(());
        }
        let shown = if f.alternate() { usize::MAX } else { SHOWN_SITES };
        write!(f, "\n{}", self.site_table(shown))?;
        match self.sites.len().saturating_sub(shown) {
            0 => Ok(()),
            more => writeln!(f, "and {more} more call sites"),
        }
    }
}

fn header(last: &str) -> [&str; 8] {
    ["live", "live size", "peak size", "made", "made size", "leaked", "leaked size", last]
}

fn row(memory: &MemoryUse, last: String) -> [String; 8] {
    [
        memory.live_count.to_string(),
        units::bytes(memory.live_bytes),
        units::bytes(memory.peak_bytes),
        memory.total_count.to_string(),
        units::bytes(memory.total_bytes),
        memory.leaked_count.to_string(),
        units::bytes(memory.leaked_bytes),
        last,
    ]
}

#[cfg(test)]
mod tests {
    use super::super::super::block::Use;
    use super::super::ledger::Ledger;
    use super::super::memory_use::Change;
    use super::*;

    fn report(tracked: bool) -> MemoryReport {
        let mut ledger = Ledger::default();
        let location = Location::caller();
        for (bytes, change) in
            [(1536, Change::Allocated), (512, Change::Allocated), (1536, Change::Freed)]
        {
            ledger.apply(Duration::ZERO, change, MemoryKind::Device, Use { bytes, location });
        }
        ledger.report("toy:0", Duration::from_millis(12), tracked).with_cached((1, 2048))
    }

    #[test]
    fn it_is_shown_as_tables() {
        let shown = report(true).to_string();
        let row = "   1  512 bytes      2 KiB     2      2 KiB       0      0 bytes  ";
        let head = "live  live size  peak size  made  made size  leaked  leaked size  ";
        let expected = format!(
            "memory of toy:0, after 12.0 ms\n{head}kind\n{row}device\n{row}all\n\
             kept for reuse: 2 KiB, 1 blocks\n\n{head}allocated at\n{row}{}\n",
            report(true).sites[0].location
        );
        assert_eq!(shown, expected);
    }

    #[test]
    fn without_tracking_it_says_so() {
        let shown = report(false).to_string();
        assert!(
            shown.starts_with("memory of toy:0, live allocations only: LONGSHORE_TRACK=1"),
            "{shown}"
        );
    }

    #[test]
    fn many_call_sites_are_all_shown_if_wanted() {
        let mut report = report(true);
        report.sites = vec![report.sites[0]; 25];
        assert!(report.to_string().ends_with("and 5 more call sites\n"));
        assert_eq!(format!("{report:#}").matches(file!()).count(), 25);
    }
}
