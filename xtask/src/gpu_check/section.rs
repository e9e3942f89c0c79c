//! The results on one device, as a section in Markdown.

use super::devices::Device;
use super::outcome::{Counts, Outcome};
use std::fmt;

pub(super) struct Section {
    pub(super) date: String,
    pub(super) device: Device,
    pub(super) machine: Vec<(&'static str, String)>,
    pub(super) steps: Vec<Step>,
}

pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) outcome: Outcome,
}

impl Section {
    pub(super) fn has_failed(&self) -> bool {
        self.steps.iter().any(|step| match &step.outcome {
            Outcome::Counted(counts) => counts.failed > 0,
            Outcome::Failed(_) | Outcome::Figures(_, Some(_)) => true,
            Outcome::Figures(_, None) | Outcome::NotRun(_) => false,
        })
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Section { date, device, machine, steps } = self;
        writeln!(f, "## {} ({}), {date}\n\n| | |\n| --- | --- |", device.name, device.id)?;
        for (what, value) in &device.facts {
            writeln!(f, "| {} | {} |", cell(what), cell(value))?;
        }
        for (what, value) in machine {
            writeln!(f, "| {what} | {} |", cell(value))?;
        }
        writeln!(f, "\n| what | result |\n| --- | --- |")?;
        for step in steps {
            writeln!(f, "| {} | {} |", step.name, cell(&step.outcome.to_string()))?;
        }
        steps.iter().try_for_each(|step| details(f, step))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Counted(Counts { passed, failed, skipped, .. }) => {
                write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
            }
            Outcome::Figures(_, None) => f.write_str("below"),
            Outcome::Figures(_, Some(why)) => write!(f, "**failed**: {why}; the rest is below"),
            Outcome::Failed(why) => write!(f, "**failed**: {why}"),
            Outcome::NotRun(why) => write!(f, "**not run**: {why}"),
        }
    }
}

/// Writes the failures, the skips and the figures.
fn details(f: &mut fmt::Formatter<'_>, step: &Step) -> fmt::Result {
    match &step.outcome {
        Outcome::Counted(counts) => {
            list(f, step.name, "failed", &counts.failures)?;
            list(f, step.name, "skipped", &counts.skips)?;
            list(f, step.name, "measured", &counts.measures)
        }
        Outcome::Figures(text, _) => writeln!(f, "\n{}:\n\n```text\n{text}\n```", step.name),
        Outcome::Failed(_) | Outcome::NotRun(_) => Ok(()),
    }
}

fn list(f: &mut fmt::Formatter<'_>, step: &str, what: &str, items: &[String]) -> fmt::Result {
    if items.is_empty() {
        return Ok(());
    }
    writeln!(f, "\n{step}, {what}:\n")?;
    items.iter().try_for_each(|item| writeln!(f, "- {item}"))
}

/// Returns text that stays in its cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(outcome: Outcome) -> Section {
        Section {
            date: "2026-01-02 03:04 UTC".to_owned(),
            device: Device {
                id: "vulkan:0".to_owned(),
                name: "A GPU".to_owned(),
                uuid: None,
                kind: "gpu".to_owned(),
                facts: vec![("driver version".to_owned(), "1|2".to_owned())],
            },
            machine: vec![("Longshore", "abc".to_owned())],
            steps: vec![
                Step { name: "Conformance", outcome },
                Step { name: "Benchmark", outcome: Outcome::NotRun("there is none".to_owned()) },
            ],
        }
    }

    #[test]
    fn a_section_names_the_run_and_the_skipped_parts_and_the_device() {
        let counts = Counts {
            passed: 3,
            failed: 1,
            skipped: 1,
            failures: vec!["queues: in order".to_owned()],
            skips: vec!["info: name (skipped: no name)".to_owned()],
            measures: vec!["rounds: 7".to_owned()],
        };
        let section = section(Outcome::Counted(counts));
        let expected = "## A GPU (vulkan:0), 2026-01-02 03:04 UTC

| | |
| --- | --- |
| driver version | 1\\|2 |
| Longshore | abc |

| what | result |
| --- | --- |
| Conformance | 3 passed, 1 failed, 1 skipped |
| Benchmark | **not run**: there is none |

Conformance, failed:

- queues: in order

Conformance, skipped:

- info: name (skipped: no name)

Conformance, measured:

- rounds: 7
";
        assert_eq!(section.to_string(), expected);
        assert!(section.has_failed());
    }

    #[test]
    fn figures_are_shown_as_they_were_printed() {
        let figures = |failed: Option<&str>| {
            section(Outcome::Figures("a | b\n1 | 2".to_owned(), failed.map(str::to_owned)))
        };
        for failed in [None, Some("no b")] {
            let text = figures(failed).to_string();
            assert!(text.ends_with("\nConformance:\n\n```text\na | b\n1 | 2\n```\n"), "{text}");
            assert_eq!(figures(failed).has_failed(), failed.is_some());
        }
    }

    #[test]
    fn a_step_that_ended_early_has_failed_and_one_that_was_not_run_has_not() {
        assert!(section(Outcome::Failed("signal 9".to_owned())).has_failed());
        assert!(!section(Outcome::NotRun("no tests".to_owned())).has_failed());
    }
}
