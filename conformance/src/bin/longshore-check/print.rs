//! The report, printed line by line.

use crate::failure::{Exit, Failure};
use longshore_conformance::{Behaviour, DeviceName, Outcome, Step, step_after};
use longshore_plugin_api::printable;
use std::io::{self, Write};

/// A part of the reason if a device takes no image of a name.
const WITHOUT_IMAGE: &str = "accepts none of the images";

/// The part of the report on one device. Each line is printed at the end of its behaviour, so that
/// the report of an interrupted suite shows its progress.
pub(super) struct DeviceReport {
    group: &'static str,
    passed: usize,
    failed: usize,
    skipped: usize,
    /// Number of the skipped behaviours for which the device has no image.
    without_image: usize,
    /// The first failed behaviour with the next step.
    next: Option<(&'static Behaviour, Step)>,
}

impl DeviceReport {
    /// Prints the name of the device.
    pub(super) fn begin(device: &DeviceName) -> DeviceReport {
        unless_unread(writeln!(io::stdout(), "{}", printable(&device.name)));
        let (passed, failed, skipped) = (0, 0, 0);
        DeviceReport { group: "", passed, failed, skipped, without_image: 0, next: None }
    }

    /// Prints the outcome of a behaviour.
    pub(super) fn add(&mut self, behaviour: &'static Behaviour, outcome: &Outcome) {
        let step = step_after(behaviour, outcome);
        unless_unread(self.print(behaviour, outcome, step));
        match outcome {
            Outcome::Passed => self.passed += 1,
            Outcome::Skipped(why) => {
                self.skipped += 1;
                self.without_image += usize::from(why.contains(WITHOUT_IMAGE));
            }
            Outcome::Failed(_) => self.failed += 1,
        }
        self.next = self.next.or(step.map(|step| (behaviour, step)));
    }

    /// Prints the next step of the plugin's author, and the totals.
    pub(super) fn end(self) {
        let DeviceReport { passed, failed, skipped, without_image, next, .. } = self;
        let next = match next {
            Some((behaviour, step)) => format!("  next: {behaviour}: {step}\n"),
            None if without_image > 0 => format!(
                "  next: images that the device takes, for {without_image} skipped behaviours \
                 (--fixtures, docs/conformance.md#images)\n"
            ),
            None => String::new(),
        };
        let numbers = format!("  {passed} passed, {failed} failed, {skipped} skipped\n");
        unless_unread(writeln!(io::stdout(), "{next}{numbers}"));
    }

    fn print(
        &mut self,
        behaviour: &Behaviour,
        outcome: &Outcome,
        step: Option<Step>,
    ) -> io::Result<()> {
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
                if let Some(step) = step {
                    writeln!(out, "        to do: {step}")?;
                }
            }
        }
        out.flush()
    }
}

/// Reports lost output, except if the reader has closed the pipe, as `| head` does.
pub(super) fn unless_unread(written: io::Result<()>) {
    if let Err(failure) = check_written(written) {
        failure.report();
    }
}

/// Prints text that is the whole output of the program. A closed pipe is no failure.
pub(super) fn text(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    check_written(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

fn check_written(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let message = format!("cannot write to standard output: {error}");
            Err(Failure::new(Exit::Unwritten, message))
        }
        _ => Ok(()),
    }
}
