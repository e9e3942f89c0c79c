//! The next step behind each promise: for authors of plugins whose device breaks it.

use super::{Behaviour, Outcome};
use std::fmt;

/// The page with the promises.
const PAGE: &str = "docs/plugin-interface.md";
/// The beginning of failures before a behaviour has its device.
pub(super) const OPENING: &str = "opening ";

/// The next step for the author of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The number of the promise: "P-35".
    pub promise: &'static str,
    /// The work to do, as an imperative without a full stop.
    pub hint: &'static str,
    /// The heading on the page of promises under which the promise stands.
    pub section: &'static str,
}

/// Formats as "implement ... (P-35, docs/plugin-interface.md#memory)".
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {PAGE}#{})", self.hint, self.promise, anchor(self.section))
    }
}

/// Returns the next step after a failed behaviour: that of the first promise that it names.
pub fn step_after(behaviour: &Behaviour, outcome: &Outcome) -> Option<Step> {
    let Outcome::Failed(what) = outcome else { return None };
    if what.starts_with(OPENING) {
        return step(OPEN);
    }
    behaviour.requirements.first().and_then(|number| step(number))
}

/// Returns the next step for a plugin file from which the host gets no device.
pub fn step_to_a_device(outcome: &longshore::Outcome) -> Option<Step> {
    let promise = match outcome {
        longshore::Outcome::NotALibrary(_) | longshore::Outcome::Refused(_) => "P-1",
        longshore::Outcome::NotAPlugin(_) => "P-2",
        longshore::Outcome::WrongInterface { .. } => "P-5",
        longshore::Outcome::Misnamed { .. } => "P-6",
        longshore::Outcome::WrongLayout(_) => "P-9",
        longshore::Outcome::NoDriver(_) | longshore::Outcome::NoDevice(_) => "P-15",
        longshore::Outcome::Failed(_) | longshore::Outcome::Crashed(_) => "P-16",
        _ => return None,
    };
    step(promise)
}

/// Returns the step behind a promise.
pub(super) fn step(promise: &str) -> Option<Step> {
    let (section, promise, hint) = STEPS.iter().find(|(_, number, _)| *number == promise)?;
    Some(Step { promise, hint, section })
}

/// Returns the anchor of a heading in a page of Markdown.
fn anchor(heading: &str) -> String {
    heading.to_lowercase().replace(',', "").replace(' ', "-")
}

/// The promise of a device that does not open.
const OPEN: &str = "P-60";

const LIBRARY: &str = "The library and its ELF note";
const TABLES: &str = "Tables";
const CONNECTING: &str = "Connecting";
const HANDLES: &str = "Handles, threads, blocking";
const ERRORS: &str = "Errors";
const MEMORY: &str = "Memory";
const IMAGES: &str = "Images";
const QUEUES: &str = "Queues and events";
const OPTIONAL: &str = "Optional tables";
const HOST: &str = "Promises of the host";
/// The hint where the host itself makes the promise.
const OF_THE_HOST: &str = "look for a wrong answer of the plugin; the host makes this promise";

/// Heading, number and hint.
const STEPS: &[(&str, &str, &str)] = &[
    (LIBRARY, "P-1", "put the library where other users cannot write, for this machine"),
    (LIBRARY, "P-2", "add one LONGSHORE_PLUGIN_NOTE, and export `longshore_plugin`"),
    (LIBRARY, "P-5", "build with the header or crate of the host's major version"),
    (LIBRARY, "P-6", "give `describe` the texts of the note and of the file's name"),
    (LIBRARY, "P-8", "end all threads in `destroy`, or set `unloadable` to 0"),
    (TABLES, "P-9", "return version 1 of the five tables from `table`, without a null function"),
    (TABLES, "P-10", "return nulls from `table` for unknown names and versions"),
    (TABLES, "P-11", "return the same constant table for a name on each call"),
    (CONNECTING, "P-15", "install the driver, or let `connect` find the device"),
    (CONNECTING, "P-16", "set `outcome` in `connect`, and `platform` for CONNECTED"),
    (CONNECTING, "P-19", "keep the answers of `device_info` from changing"),
    (CONNECTING, "P-20", "answer queries in their types, and refuse the others, in `device_info`"),
    (CONNECTING, "P-21", "answer the query UID with a text that no other device has"),
    (CONNECTING, "P-60", "write `open` and `close`, with a state of its own for each device"),
    (HANDLES, "P-23", "guard all state that several threads reach by locks"),
    (HANDLES, "P-24", "let calls that queue work return before the work is done"),
    (ERRORS, "P-28", "return error objects with a code and a message"),
    (ERRORS, "P-29", "keep an error object until its `release`, on any thread"),
    (ERRORS, "P-30", "undo all partial work in a call that fails"),
    (MEMORY, "P-32", "write `allocate` of longshore.device, for each kind and alignment"),
    (MEMORY, "P-33", "return addresses that are 0 or in use from no `allocate`"),
    (MEMORY, "P-34", "map memory of the kinds HOST and MANAGED into the process"),
    (MEMORY, "P-35", "write `free` of longshore.device, which refuses unknown addresses"),
    (MEMORY, "P-36", "refuse sizes and alignments beyond the device in `allocate`"),
    (MEMORY, "P-63", "write `set_logical_size`, or return UNSUPPORTED from it"),
    (MEMORY, "P-65", "write `import_memory`, or return UNSUPPORTED from it"),
    (MEMORY, "P-79", "answer HOST_ACCESS and UNIFIED_MEMORY with no"),
    (IMAGES, "P-37", "write `accepts` of longshore.device, with a reason for each refusal"),
    (IMAGES, "P-38", "check all fields of an image in `load`"),
    (IMAGES, "P-39", "write `run_constructors` of longshore.module"),
    (IMAGES, "P-40", "write `run_destructors` of longshore.module"),
    (IMAGES, "P-41", "write `kernel`, `global` and `symbols` of longshore.module"),
    (IMAGES, "P-42", "keep kernels and their argument sizes until `unload`"),
    (IMAGES, "P-43", "write `global` of longshore.module, with address and size"),
    (IMAGES, "P-44", "read the values of instrumentation after `run_destructors`"),
    (IMAGES, "P-61", "write `score`, with 0 for refused images, or return UNSUPPORTED from it"),
    (IMAGES, "P-66", "treat LAZILY in `load` as AT_ONCE, unless work can be deferred"),
    (QUEUES, "P-45", "run the commands of a queue one after the other, in their order"),
    (QUEUES, "P-46", "copy arguments and patterns before `launch` and `fill` return"),
    (QUEUES, "P-47", "check flags, device, shape and arguments in `launch`, `copy` and `fill`"),
    (QUEUES, "P-48", "keep the first error of a queue for the next `synchronize`"),
    (QUEUES, "P-49", "write `host_function` of longshore.queue, on a thread in the order"),
    (QUEUES, "P-50", "write `copy` of longshore.queue, in all directions"),
    (QUEUES, "P-51", "write `record_event`, `wait_event` and longshore.event"),
    (QUEUES, "P-52", "let records and queued work outlive their queue and event"),
    (QUEUES, "P-53", "write `elapsed_ns` of longshore.event, with its refusals"),
    (QUEUES, "P-54", "write `create_queue`, `is_idle` and `synchronize`"),
    (QUEUES, "P-64", "check `cluster` in `launch`, or return UNSUPPORTED for any"),
    (QUEUES, "P-68", "keep the failure before a record for each `synchronize` of its event"),
    (QUEUES, "P-78", "pass arguments of LAUNCH_WORDS as words, or return UNSUPPORTED"),
    (OPTIONAL, "P-55", "mend longshore.pinning, or return nulls for it from `table`"),
    (OPTIONAL, "P-56", "mend longshore.peer, or return nulls for it from `table`"),
    (OPTIONAL, "P-57", "mend longshore.prefetch, or return nulls for it from `table`"),
    (OPTIONAL, "P-58", "mend longshore.occupancy, or return nulls for it from `table`"),
    (OPTIONAL, "P-59", "mend longshore.instrumentation, or return nulls for it from `table`"),
    (OPTIONAL, "P-80", "mend longshore.driver_device, or return nulls for it from `table`"),
    (OPTIONAL, "P-81", "mend longshore.driver_stream, or return nulls for it from `table`"),
    (OPTIONAL, "P-82", "mend longshore.code_target, or return nulls for it from `table`"),
    (OPTIONAL, "P-83", "mend longshore.rect, or return nulls for it from `table`"),
    (OPTIONAL, "P-84", "mend longshore.collectives, or return nulls for it from `table`"),
    (HOST, "H-4", OF_THE_HOST),
    (HOST, "H-5", OF_THE_HOST),
    (HOST, "H-6", OF_THE_HOST),
    (HOST, "H-7", OF_THE_HOST),
    (HOST, "H-8", OF_THE_HOST),
    (HOST, "H-10", OF_THE_HOST),
    (HOST, "H-11", OF_THE_HOST),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::behaviours;
    use std::collections::BTreeSet;

    const TEXT: &str = include_str!("../../../docs/plugin-interface.md");

    /// Returns the heading under which a promise stands on the page.
    fn heading(promise: &str) -> Option<&'static str> {
        let row = format!("| {promise} |");
        let mut heading = None;
        for line in TEXT.lines() {
            heading = line.strip_prefix("## ").or(heading);
            if line.starts_with(&row) {
                return heading;
            }
        }
        None
    }

    #[test]
    fn every_step_names_the_heading_of_its_promise() {
        let mut numbers = BTreeSet::new();
        for (section, promise, _) in STEPS {
            assert!(numbers.insert(promise), "{promise} has two steps");
            assert_eq!(heading(promise), Some(*section), "{promise}");
        }
        assert_eq!(anchor(HANDLES), "handles-threads-blocking");
    }

    #[test]
    fn every_behaviour_has_a_next_step() {
        for behaviour in behaviours() {
            let step = step_after(behaviour, &Outcome::Failed("it is wrong".to_owned()));
            assert!(step.is_some(), "{behaviour}");
        }
    }

    #[test]
    fn a_device_that_does_not_open_comes_before_its_behaviours() {
        let behaviour = behaviours().next().unwrap();
        let outcome = Outcome::Failed(format!("{OPENING}mine:0: not written yet"));
        let step = step_after(behaviour, &outcome).unwrap().to_string();
        assert!(step.starts_with("write `open` and `close`"), "{step}");
        assert!(step.ends_with(" (P-60, docs/plugin-interface.md#connecting)"), "{step}");
        assert_eq!(step_after(behaviour, &Outcome::Passed), None);
    }
}
