//! The side of an allocation on which code runs, in this process.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::layout::{Layout, memory_error};
use super::mapping::{self, Mapping};
use super::{ActionCall, ActionPair, AllocationRequest, FinalizedAllocation, Lifetime};
use crate::{Error, Result};
use longshore_runtime::actions;

/// Reserved pages, laid out but not yet with their final protections. Dropping it gives them back.
#[derive(Debug)]
pub(crate) struct ExecutingSide {
    /// The objects for which it is: their names appear in errors.
    names: Vec<String>,
    pub(crate) layout: Layout,
    pub(crate) mapping: Mapping,
}

impl ExecutingSide {
    /// Pages for what was requested.
    pub(crate) fn new(request: &AllocationRequest<'_>, layout: Layout, mapping: Mapping) -> Self {
        let names = request.objects.iter().map(|object| object.name.to_owned()).collect();
        Self { names, layout, mapping }
    }

    /// Gives the pages their protections, runs the finalize actions and gives back what lives no longer than them. On
    /// failure, everything is undone and given back.
    pub(crate) fn finalize(mut self, actions: Vec<Vec<ActionPair>>) -> Result<Vec<Finalized>> {
        for (protection, range) in self.layout.by_protection() {
            let protected = self.mapping.protect(range, protection);
            protected.map_err(|e| {
                memory_error(&self.names[0], format!("cannot protect it as {protection}: {e}"))
            })?;
        }
        let (shares, temporary) = divide(self.mapping, &self.layout, self.names.len());
        let actions = actions.into_iter().chain(std::iter::repeat_with(Vec::new));
        let mut finalized: Vec<Finalized> = Vec::with_capacity(self.names.len());
        for ((name, pages), actions) in self.names.into_iter().zip(shares).zip(actions) {
            match actions::finalize(&name, actions) {
                Ok(undo) => finalized.push(Finalized { name, undo, pages }),
                Err(error) => return Err(undo_all(finalized, error.into())),
            }
        }
        drop(temporary);
        Ok(finalized)
    }
}

/// What an object has until it is deallocated. Dropping it gives its pages back without running its actions.
#[derive(Debug)]
pub(crate) struct Finalized {
    name: String,
    undo: Vec<ActionCall>,
    /// Those that other objects have a part of too are given back with the last of these.
    pages: Vec<Arc<Mapping>>,
}

impl Finalized {
    /// Runs the deallocate actions, and gives the messages of those that failed.
    fn undo(&self) -> Vec<String> {
        actions::deallocate(&self.name, &self.undo)
    }
}

/// Runs the deallocate actions of objects that shall not be, since another one failed.
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

/// The live allocations of a manager. Dropping it leaves their pages mapped: their code may be running.
#[derive(Debug, Default)]
pub(crate) struct Table(Mutex<Numbered>);

#[derive(Debug, Default)]
struct Numbered {
    last: u64,
    live: BTreeMap<u64, Finalized>,
}

impl Table {
    /// Numbers rise: of two objects, the one finalized last has the larger one.
    pub(crate) fn insert(&self, finalized: Vec<Finalized>) -> Vec<FinalizedAllocation> {
        let mut numbered = self.0.lock();
        let number = |finalized| {
            numbered.last += 1;
            let number = numbered.last;
            numbered.live.insert(number, finalized);
            FinalizedAllocation::new(number)
        };
        finalized.into_iter().map(number).collect()
    }

    /// As [`MemoryManager::deallocate`](super::MemoryManager::deallocate). The table is not locked while actions run.
    pub(crate) fn deallocate(&self, allocations: Vec<FinalizedAllocation>) -> Result<()> {
        let mut numbers: Vec<u64> = allocations.iter().map(FinalizedAllocation::number).collect();
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
        // An emptied map owns memory too.
        std::mem::take(&mut self.0.get_mut().live).into_values().for_each(std::mem::forget);
    }
}

/// What a manager says to a number that it did not give, or whose memory it has been given back.
pub(crate) fn unknown_allocation(number: u64) -> Error {
    memory_error(&format!("allocation {number}"), "this memory manager has no such allocation")
}

/// The pages that each of the objects has a part of until deallocation, and those that live until the finalize actions have run.
fn divide(
    mut mapping: Mapping,
    layout: &Layout,
    objects: usize,
) -> (Vec<Vec<Arc<Mapping>>>, Vec<Mapping>) {
    let (mut shares, mut temporary) = (vec![Vec::new(); objects], Vec::new());
    for run in layout.runs() {
        let rest = mapping.split_off(run.pages.len());
        let pages = std::mem::replace(&mut mapping, rest);
        if run.lifetime == Lifetime::Finalize {
            temporary.push(pages);
            continue;
        }
        let pages = Arc::new(pages);
        run.objects.into_iter().for_each(|object| shares[object].push(Arc::clone(&pages)));
    }
    (shares, temporary)
}
