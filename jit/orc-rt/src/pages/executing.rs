//! The executor's part of an allocation, in this process.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::mapping::{self, Mapping};
use super::{Plan, Run};
use crate::actions::{self, ActionCall, ActionPair};
use crate::{Error, Result};

/// Reserved pages with a plan, not yet with their final protections. Dropping the value gives the
/// pages back.
#[derive(Debug)]
pub struct ReservedPages {
    plan: Plan,
    mapping: Mapping,
}

impl ReservedPages {
    /// Combines pages with a plan.
    ///
    /// # Errors
    /// [`Error::Memory`] if the plan is not valid for these pages.
    pub fn new(plan: Plan, mapping: Mapping) -> Result<Self> {
        if !plan.fits(mapping.size()) {
            let problem =
                format!("the plan does not fit {:#x} bytes of reserved pages", mapping.size());
            return Err(memory_error("linked code", problem));
        }
        Ok(Self { plan, mapping })
    }

    /// Protects the pages, runs each object's finalize actions, and gives back the temporary pages.
    /// On failure, everything is undone and given back.
    ///
    /// # Errors
    /// [`Error::Memory`] for a failed protection, and [`Error::Action`] for a failed action.
    pub fn finalize(self, actions: Vec<Vec<ActionPair>>) -> Result<Vec<Finalized>> {
        let Self { plan: Plan { names, protections, runs }, mut mapping } = self;
        let first = names.first().map_or("linked code", String::as_str);
        for (protection, range) in protections {
            let protected = mapping.protect(range, protection);
            protected.map_err(|error| {
                memory_error(first, format!("cannot protect it as {protection}: {error}"))
            })?;
        }
        let (shares, temporary) = divide(mapping, runs, names.len());
        let actions = actions.into_iter().chain(std::iter::repeat_with(Vec::new));
        let mut finalized: Vec<Finalized> = Vec::with_capacity(names.len());
        for ((name, pages), actions) in names.into_iter().zip(shares).zip(actions) {
            match actions::finalize(&name, actions) {
                Ok(undo) => finalized.push(Finalized { name, undo, pages }),
                Err(error) => return Err(undo_all(finalized, error)),
            }
        }
        drop(temporary);
        Ok(finalized)
    }
}

/// The pages and actions of an object until it is deallocated. Dropping it gives the pages back
/// without running the actions.
#[derive(Debug)]
pub struct Finalized {
    name: String,
    undo: Vec<ActionCall>,
    /// The object's pages. Pages shared with other objects are given back with the last of them.
    pages: Vec<Arc<Mapping>>,
}

impl Finalized {
    /// Runs the deallocate actions, and returns the messages of failed ones.
    fn undo(&self) -> Vec<String> {
        actions::deallocate(&self.name, &self.undo)
    }
}

/// Runs the deallocate actions of finished objects after another object's failure.
fn undo_all(finalized: Vec<Finalized>, error: Error) -> Error {
    let further: Vec<String> = finalized.iter().rev().flat_map(Finalized::undo).collect();
    match error {
        Error::Action(mut messages) => {
            messages.extend(further);
            Error::Action(messages)
        }
        error => error,
    }
}

/// Live allocations by number. Dropping it leaves their pages mapped: their code may be running.
#[derive(Debug, Default)]
pub struct Table(Mutex<Numbered>);

#[derive(Debug, Default)]
struct Numbered {
    last: u64,
    live: BTreeMap<u64, Finalized>,
}

impl Table {
    /// Creates an empty table.
    pub const fn new() -> Self {
        Self(Mutex::new(Numbered { last: 0, live: BTreeMap::new() }))
    }

    /// Adds allocations and returns their numbers. Numbers rise: of two objects, the one finalized
    /// last has the larger number.
    pub fn insert(&self, finalized: Vec<Finalized>) -> Vec<u64> {
        let mut numbered = self.0.lock();
        let number = |finalized| {
            numbered.last += 1;
            let number = numbered.last;
            numbered.live.insert(number, finalized);
            number
        };
        finalized.into_iter().map(number).collect()
    }

    /// Runs the deallocate actions of each allocation, the last finalized first and each in reverse
    /// order. Then gives back the pages that no other allocation shares. The table is not locked
    /// while actions run.
    ///
    /// # Errors
    /// [`Error::Action`] with the messages of all failed actions, which do not stop the others;
    /// [`Error::Memory`] for an unknown number.
    pub fn deallocate(&self, mut numbers: Vec<u64>) -> Result<()> {
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        let (mut messages, mut unknown, mut pages) = (Vec::new(), None, Vec::new());
        for number in numbers {
            let removed = self.0.lock().live.remove(&number);
            match removed {
                Some(finalized) => {
                    messages.extend(finalized.undo());
                    pages.extend(finalized.pages);
                }
                None => unknown = Some(unknown_allocation(number)),
            }
        }
        mapping::give_back(pages.into_iter().filter_map(Arc::into_inner).collect());
        match unknown {
            Some(error) if messages.is_empty() => return Err(error),
            Some(error) => messages.push(error.to_string()),
            None => {}
        }
        if messages.is_empty() { Ok(()) } else { Err(Error::Action(messages)) }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // The allocations are forgotten, but the map is freed: an emptied map owns memory too.
        std::mem::take(&mut self.0.get_mut().live).into_values().for_each(std::mem::forget);
    }
}

/// Returns the error for a number that the memory manager did not issue, or whose memory was given
/// back.
pub fn unknown_allocation(number: u64) -> Error {
    memory_error(
        &format!("allocation {number}"),
        "this memory manager has no such allocation".to_owned(),
    )
}

/// Returns the pages of each object until deallocation, and the pages that live until the finalize
/// actions have run.
fn divide(
    mut mapping: Mapping,
    runs: Vec<Run>,
    objects: usize,
) -> (Vec<Vec<Arc<Mapping>>>, Vec<Mapping>) {
    let (mut shares, mut temporary) = (vec![Vec::new(); objects], Vec::new());
    for run in runs {
        let rest = mapping.split_off(run.pages.len());
        let pages = std::mem::replace(&mut mapping, rest);
        if run.is_temporary {
            temporary.push(pages);
            continue;
        }
        let pages = Arc::new(pages);
        run.objects.into_iter().for_each(|object| shares[object].push(Arc::clone(&pages)));
    }
    (shares, temporary)
}

fn memory_error(name: &str, problem: String) -> Error {
    Error::Memory { name: name.to_owned(), problem }
}
