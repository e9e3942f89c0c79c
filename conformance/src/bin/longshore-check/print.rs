//! The report, printed line by line.

use longshore_conformance::{Behaviour, DeviceName, Outcome};
use longshore_plugin_api::printable;
use std::io::{self, Write};

/// The part of the report on one device. Each line is printed at the end of its behaviour, so that
/// the report of an interrupted suite shows its progress.
pub(super) struct DeviceReport {
    group: &'static str,
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl DeviceReport {
    /// Prints the name of the device.
    pub(super) fn begin(device: &DeviceName) -> DeviceReport {
        unless_unread(writeln!(io::stdout(), "{}", printable(&device.name)));
        DeviceReport { group: "", passed: 0, failed: 0, skipped: 0 }
    }

    /// Prints the outcome of a behaviour.
    pub(super) fn add(&mut self, behaviour: &Behaviour, outcome: &Outcome) {
        unless_unread(self.print(behaviour, outcome));
        match outcome {
            Outcome::Passed => self.passed += 1,
            Outcome::Skipped(_) => self.skipped += 1,
            Outcome::Failed(_) => self.failed += 1,
        }
    }

    /// Prints the totals, and returns the number of failed behaviours.
    pub(super) fn end(self) -> usize {
        let DeviceReport { passed, failed, skipped, .. } = self;
        let numbers = format!("  {passed} passed, {failed} failed, {skipped} skipped\n");
        unless_unread(writeln!(io::stdout(), "{numbers}"));
        failed
    }

    fn print(&mut self, behaviour: &Behaviour, outcome: &Outcome) -> io::Result<()> {
        let mut out = io::stdout().lock();
        let Behaviour { group, name, .. } = behaviour;
        if *group != self.group {
            self.group = group;
            writeln!(out, "  {group}")?;
        }
        match outcome {
            Outcome::Passed => writeln!(out, "    ✓ {name}")?,
            Outcome::Skipped(why) => writeln!(out, "    - {name} (skipped: {})", printable(why))?,
            Outcome::Failed(what) => {
                let requirements = behaviour.requirements.join(", ");
                writeln!(out, "    ✗ {name} [{requirements}]\n        {}", printable(what))?;
            }
        }
        out.flush()
    }
}

/// Reports lost output, except if the reader has closed the pipe, as `| head` does.
pub(super) fn unless_unread(written: io::Result<()>) {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("cannot write to standard output: {error}");
        }
        _ => {}
    }
}
