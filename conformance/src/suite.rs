//! The list of behaviours and their description. [`runner`] runs them.

mod bad_input;
mod basics;
mod close;
mod collectives;
mod context;
mod copies;
mod direct;
mod events;
mod info;
mod interface;
mod launches;
mod life;
mod memory;
mod programs;
mod promises;
mod queues;
mod rectangles;
mod runner;
mod threads;
mod waits;

pub use promises::{Step, step_after, step_to_a_device};
pub use runner::{DeviceName, Filter, Report, Setup};

use context::Context;
use std::fmt;

/// A behaviour that every device must show.
#[derive(Clone, Copy)]
pub struct Behaviour {
    /// The subject: the name of the file with the behaviour.
    pub group: &'static str,
    /// The behaviour of the device, as a sentence.
    pub name: &'static str,
    /// The numbers of the checked promises in `docs/plugin-interface.md`.
    pub requirements: &'static [&'static str],
    run: fn(&Context) -> Check,
}

/// The outcome of a behaviour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Success: the device shows the behaviour.
    Passed,
    /// The device lacks a feature, for this reason.
    Skipped(String),
    /// The device behaves differently; the text describes the difference.
    Failed(String),
}

/// Returns every behaviour in the order of the run: basic behaviours first, rare ones last. So the
/// first failure is the next step of a plugin's author.
pub fn behaviours() -> impl Iterator<Item = &'static Behaviour> {
    let groups = [
        basics::BEHAVIOURS,
        info::BEHAVIOURS,
        memory::BEHAVIOURS,
        copies::BEHAVIOURS,
        rectangles::BEHAVIOURS,
        collectives::BEHAVIOURS,
        queues::BEHAVIOURS,
        events::BEHAVIOURS,
        waits::BEHAVIOURS,
        programs::BEHAVIOURS,
        launches::BEHAVIOURS,
        life::BEHAVIOURS,
        close::BEHAVIOURS,
        bad_input::BEHAVIOURS,
        interface::BEHAVIOURS,
        threads::BEHAVIOURS,
    ];
    groups.into_iter().flatten()
}

/// Formats as "memory: freeing twice is refused".
impl fmt::Display for Behaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.group, self.name)
    }
}

/// The result of a behaviour's function.
type Check = Result<(), Stop>;

/// The reason for an early end of a behaviour's function.
enum Stop {
    Skipped(String),
    Failed(String),
}

impl From<longshore::Error> for Stop {
    fn from(error: longshore::Error) -> Stop {
        Stop::Failed(format!("{error:?}"))
    }
}

impl From<Check> for Outcome {
    fn from(check: Check) -> Outcome {
        match check {
            Ok(()) => Outcome::Passed,
            Err(Stop::Skipped(why)) => Outcome::Skipped(why),
            Err(Stop::Failed(what)) => Outcome::Failed(what),
        }
    }
}

/// Describes a list of behaviours: sentence, requirements, function.
macro_rules! behaviour_list {
    ($group:literal: $($name:literal [$($requirement:literal),*] $run:ident;)*) => {
        pub(super) const BEHAVIOURS: &[crate::suite::Behaviour] = &[
            $(crate::suite::Behaviour {
                group: $group,
                name: $name,
                requirements: &[$($requirement),*],
                run: $run,
            },)*
        ];
    };
}

/// Fails the behaviour with this message unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(crate::suite::Stop::Failed(format!($($message)+)));
        }
    };
}

/// Fails the behaviour unless both are equal; the message contains both values.
macro_rules! ensure_eq {
    ($found:expr, $expected:expr, $($what:tt)+) => {
        match (&$found, &$expected) {
            (found, expected) => ensure!(
                found == expected,
                "{}: found {found:?}, expected {expected:?}",
                format_args!($($what)+)
            ),
        }
    };
}

use {behaviour_list, ensure, ensure_eq};

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeSet, HashSet};

    const PAGE: &str = include_str!("../../docs/plugin-interface.md");

    /// Returns the number and the last column of each promise on the page: "P-6", "host, check".
    fn promises() -> Vec<(&'static str, &'static str)> {
        let row = |line: &'static str| {
            let cells = line.strip_prefix("| ")?.strip_suffix(" |")?;
            let (number, _) = cells.split_once(" | ")?;
            let is_promise = number.starts_with("P-") || number.starts_with("H-");
            is_promise.then(|| (number, cells.rsplit(" | ").next().unwrap_or_default()))
        };
        PAGE.lines().filter_map(row).collect()
    }

    fn named() -> BTreeSet<&'static str> {
        behaviours().flat_map(|behaviour| behaviour.requirements).copied().collect()
    }

    #[test]
    fn every_number_that_a_behaviour_names_is_on_the_page_once() {
        let mut numbers = BTreeSet::new();
        for (number, _) in promises() {
            assert!(numbers.insert(number), "twice on the page: {number}");
        }
        let unknown: Vec<_> = named().difference(&numbers).copied().collect();
        assert!(unknown.is_empty(), "not on the page: {unknown:?}");
    }

    #[test]
    fn the_page_says_check_where_a_behaviour_does() {
        let plugin_promises = promises().into_iter().filter(|(number, _)| number.starts_with("P-"));
        for (number, caught_by) in plugin_promises {
            let checked = caught_by.contains("check");
            assert_eq!(checked, named().contains(number), "{number} is caught by: {caught_by}");
        }
    }

    #[test]
    fn every_behaviour_has_a_name_of_its_own() {
        let mut names = HashSet::new();
        for behaviour in behaviours() {
            assert!(names.insert(behaviour.to_string()), "twice: {behaviour}");
        }
    }
}
