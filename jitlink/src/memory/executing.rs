//! The side of an allocation on which code runs, in this process.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::layout::{Layout, memory_error};
use super::mapping::Mapping;
use super::{ActionCall, ActionPair, FinalizedAllocation, Lifetime, actions};
use crate::{Error, Result};

/// Reserved pages, laid out but not yet with their final protections. Dropping it gives them back.
#[derive(Debug)]
pub(crate) struct ExecutingSide {
    /// What it is for: appears in errors.
    pub(crate) name: String,
    pub(crate) layout: Layout,
    pub(crate) mapping: Mapping,
}

impl ExecutingSide {
    /// Gives the pages their protections, runs the finalize actions and gives back what lives no longer than them. On
    /// failure, everything is undone and given back.
    pub(crate) fn finalize(mut self, actions: Vec<ActionPair>) -> Result<Finalized> {
        for (protection, range) in self.layout.by_protection() {
            let protected = self.mapping.protect(range, protection);
            protected.map_err(|e| {
                memory_error(&self.name, format!("cannot protect it as {protection}: {e}"))
            })?;
        }
        let (standard, temporary) = split(self.mapping, &self.layout);
        let undo = actions::finalize(&self.name, actions)?;
        drop(temporary);
        Ok(Finalized { name: self.name, undo, _pages: standard })
    }
}

/// What lives until it is deallocated. Dropping it gives its pages back without running its actions.
#[derive(Debug)]
pub(crate) struct Finalized {
    name: String,
    undo: Vec<ActionCall>,
    _pages: Vec<Mapping>,
}

impl Finalized {
    /// Runs the deallocate actions, gives the pages back, and gives the messages of actions that failed.
    fn deallocate(self) -> Vec<String> {
        actions::deallocate(&self.name, &self.undo)
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
    /// Numbers rise: of two allocations, the one finalized last has the larger one.
    pub(crate) fn insert(&self, finalized: Finalized) -> FinalizedAllocation {
        let mut numbered = self.0.lock();
        numbered.last += 1;
        let number = numbered.last;
        numbered.live.insert(number, finalized);
        FinalizedAllocation::new(number)
    }

    /// As [`MemoryManager::deallocate`](super::MemoryManager::deallocate). The table is not locked while actions run.
    pub(crate) fn deallocate(&self, allocations: Vec<FinalizedAllocation>) -> Result<()> {
        let mut numbers: Vec<u64> = allocations.iter().map(FinalizedAllocation::number).collect();
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        let (mut messages, mut unknown) = (Vec::new(), None);
        for number in numbers {
            let removed = self.0.lock().live.remove(&number);
            match removed {
                Some(finalized) => messages.extend(finalized.deallocate()),
                None => unknown = Some(unknown_allocation(number)),
            }
        }
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

/// The pages that live until deallocation, and those that live until the finalize actions have run.
fn split(mut mapping: Mapping, layout: &Layout) -> (Vec<Mapping>, Vec<Mapping>) {
    let (mut standard, mut temporary) = (Vec::new(), Vec::new());
    for (lifetime, range) in layout.by_lifetime() {
        let rest = mapping.split_off(range.len());
        let pages = std::mem::replace(&mut mapping, rest);
        if lifetime == Lifetime::Finalize { temporary.push(pages) } else { standard.push(pages) }
    }
    (standard, temporary)
}
