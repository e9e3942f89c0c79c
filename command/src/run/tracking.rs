//! The options `--memory-report` and `--memory-timeline`.

use crate::failure::{Exit, Failure};
use clap::Args;
use longshore::{CallSite, Device, MemoryKind, MemoryReport, MemoryUse, TimelinePoint};
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;

/// The options for reports on memory.
#[derive(Args)]
pub(super) struct Tracking {
    /// Print the allocated memory, by place in the command, to standard error after the run; with
    /// --json add it to the object
    #[arg(long)]
    memory_report: bool,
    /// Draw the allocated memory over time to FILE, an SVG picture
    #[arg(long, value_name = "FILE.svg")]
    memory_timeline: Option<PathBuf>,
}

impl Tracking {
    /// Returns whether an option requires the tracking of memory.
    pub(super) fn is_wanted(&self) -> bool {
        self.memory_report || self.memory_timeline.is_some()
    }

    /// Draws and prints the requested reports.
    pub(super) fn print_reports(&self, device: &Device) -> Result<(), Failure> {
        if !self.is_wanted() {
            return Ok(());
        }
        let report = device.memory_report();
        if self.memory_report {
            // A failed write to standard error cannot be reported anywhere.
            let _ = write!(std::io::stderr(), "{report}");
        }
        self.draw(&report)
    }

    /// Draws the requested timeline, and returns the memory report for the JSON object.
    pub(super) fn report_as_json(&self, device: &Device) -> Result<Option<Value>, Failure> {
        if !self.is_wanted() {
            return Ok(None);
        }
        let report = device.memory_report();
        self.draw(&report)?;
        Ok(self.memory_report.then(|| object(&report)))
    }

    fn draw(&self, report: &MemoryReport) -> Result<(), Failure> {
        let Some(file) = &self.memory_timeline else {
            return Ok(());
        };
        std::fs::write(file, report.timeline_svg()).map_err(|error| {
            let message = format!("cannot write the timeline to '{}': {error}", file.display());
            Failure::new(Exit::Runtime, message)
        })
    }
}

fn object(report: &MemoryReport) -> Value {
    let of = |kind| usage(&report.kind(kind));
    json!({
        "elapsed_ns": nanoseconds(report.elapsed),
        "total": usage(&report.total),
        "device": of(MemoryKind::Device),
        "managed": of(MemoryKind::Managed),
        "host": of(MemoryKind::Host),
        "cached_blocks": report.cached_blocks,
        "cached_bytes": report.cached_bytes,
        "sites": report.sites.iter().map(site).collect::<Vec<_>>(),
        "timeline": report.timeline.iter().map(point).collect::<Vec<_>>(),
    })
}

fn usage(memory: &MemoryUse) -> Value {
    json!({
        "live_count": memory.live_count,
        "live_bytes": memory.live_bytes,
        "peak_bytes": memory.peak_bytes,
        "total_count": memory.total_count,
        "total_bytes": memory.total_bytes,
        "leaked_count": memory.leaked_count,
        "leaked_bytes": memory.leaked_bytes,
    })
}

fn site(site: &CallSite) -> Value {
    let location = site.location;
    json!({
        "file": location.file(),
        "line": location.line(),
        "column": location.column(),
        "memory": usage(&site.memory),
    })
}

fn point(point: &TimelinePoint) -> Value {
    json!({
        "at_ns": nanoseconds(point.at),
        "device_bytes": point.bytes(MemoryKind::Device),
        "managed_bytes": point.bytes(MemoryKind::Managed),
        "host_bytes": point.bytes(MemoryKind::Host),
    })
}

fn nanoseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
