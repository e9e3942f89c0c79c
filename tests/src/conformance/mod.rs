//! The list of behaviours, and how one is described. [`runner`] runs them.

mod bad_input;
mod close;
mod context;
mod copies;
mod events;
mod info;
mod launches;
mod life;
mod memory;
mod programs;
mod queues;
mod runner;
mod threads;

pub use runner::{DeviceName, Filter, Report, Setup};

use context::Context;
use std::fmt;

/// Something that every device does.
#[derive(Clone, Copy)]
pub struct Behaviour {
    /// What it is about: the name of the file that holds it.
    pub group: &'static str,
    /// What the device does, as a sentence.
    pub name: &'static str,
    /// The numbers of the promises in `docs/plugin-interface.md` that it holds.
    pub requirements: &'static [&'static str],
    run: fn(&Context) -> Check,
}

/// How a behaviour ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The device shows it.
    Passed,
    /// The device cannot show it, for this reason.
    Skipped(String),
    /// The device does something else: what.
    Failed(String),
}

/// Every behaviour, in the order in which they run: from what all others need to what is rare.
pub fn behaviours() -> impl Iterator<Item = &'static Behaviour> {
    let groups = [
        info::BEHAVIOURS,
        memory::BEHAVIOURS,
        copies::BEHAVIOURS,
        queues::BEHAVIOURS,
        events::BEHAVIOURS,
        programs::BEHAVIOURS,
        launches::BEHAVIOURS,
        life::BEHAVIOURS,
        close::BEHAVIOURS,
        bad_input::BEHAVIOURS,
        threads::BEHAVIOURS,
    ];
    groups.into_iter().flatten()
}

/// "memory: freeing twice is refused".
impl fmt::Display for Behaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.group, self.name)
    }
}

/// What a behaviour's function answers.
type Check = Result<(), Stop>;

/// Why a behaviour's function ended early.
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
        pub(super) const BEHAVIOURS: &[crate::conformance::Behaviour] = &[
            $(crate::conformance::Behaviour {
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
            return Err(crate::conformance::Stop::Failed(format!($($message)+)));
        }
    };
}

/// Fails the behaviour unless both are equal; the message says what they are.
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
    use std::collections::HashSet;

    #[test]
    fn every_behaviour_has_a_name_of_its_own() {
        let mut names = HashSet::new();
        for behaviour in behaviours() {
            assert!(names.insert(behaviour.to_string()), "twice: {behaviour}");
        }
    }
}
