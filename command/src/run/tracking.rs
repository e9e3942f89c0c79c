//! `--memory-report` and `--memory-timeline`.

use crate::failure::{Exit, Failure};
use clap::Args;
use longshore::{CallSite, Device, MemoryKind, MemoryReport, MemoryUse, TimelinePoint};
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;

/// What is told of memory.
#[derive(Args)]
pub(super) struct Tracking {
    /// Print what memory was allocated, where in the command, to standard error after the run; with
    /// --json it is in the object
    #[arg(long)]
    memory_report: bool,
    /// Draw the allocated memory over time into FILE, an SVG picture
    #[arg(long, value_name = "FILE.svg")]
    memory_timeline: Option<PathBuf>,
}

impl Tracking {
    /// Returns whether memory is to be tracked.
    pub(super) fn is_wanted(&self) -> bool {
        self.memory_report || self.memory_timeline.is_some()
    }

    /// Draws and prints what is wanted.
    pub(super) fn tell(&self, device: &Device) -> Result<(), Failure> {
        if !self.is_wanted() {
            return Ok(());
        }
        let report = device.memory_report();
        if self.memory_report {
            // Where nobody reads it there is nobody else to tell.
            let _ = write!(std::io::stderr(), "{report}");
        }
        self.draw(&report)
    }

    /// Draws what is wanted, and answers what goes into the object.
    pub(super) fn tell_in_json(&self, device: &Device) -> Result<Option<Value>, Failure> {
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
            let message = format!("writing the timeline to '{}': {error}", file.display());
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
