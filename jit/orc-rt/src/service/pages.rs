//! Memory of this process for code that a controller links elsewhere.
//!
//! The controller reserves pages, writes their content, through its own mapping of the same file or by messages, and says what
//! becomes of them. Until then nothing here uses them.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;

use parking_lot::Mutex;
use rustix::mm::ProtFlags;
use serde::{Deserialize, Serialize};

use super::services;
use crate::actions::ActionPair;
use crate::pages::{ExecutingSide, Mapping, Placement, Plan, Source, Table};
use crate::{Error, Result};

services! {
    /// Reserves pages. They are written by who has the same file, or else by messages.
    RESERVE_PAGES = "__longshore_reserve_pages", fn(Wanted) -> Result<Reserved>, reserve;
    /// Gives reserved pages their protections, runs the finalize actions of each object and gives back what lives no longer. The
    /// objects' numbers are returned. On failure nothing is left of the reservation.
    FINALIZE_PAGES = "__longshore_finalize_pages",
        fn((u64, Plan, Vec<Vec<ActionPair>>)) -> Result<Vec<u64>>, finalize;
    /// Gives reservations back that were not finalized.
    ABANDON_PAGES = "__longshore_abandon_pages", fn(Vec<u64>) -> (), abandon;
    /// Runs the deallocate actions of objects and gives back the pages that no other has a part of.
    DEALLOCATE_PAGES = "__longshore_deallocate_pages", fn(Vec<u64>) -> Result<()>, deallocate;
}

/// Pages that are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// What they are for: appears in errors.
    pub name: String,
    /// Bytes: whole pages.
    pub size: u64,
    /// What their address must be a multiple of: a power of two, at least a page.
    pub alignment: u64,
    /// Where they should lie.
    pub placement: Placement,
    /// Where they begin in the file that the controller has too. Without, they are this process's own, and can be written at once.
    pub offset: Option<u64>,
}

/// Pages that were reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserved {
    /// What the other services know them by.
    pub number: u64,
    /// Where they begin.
    pub address: u64,
}

static SHARED_FILE: OnceLock<OwnedFd> = OnceLock::new();

/// Makes a file the one that the controller has too. `false`, and nothing has changed, if there is one already.
pub fn set_shared_file(file: OwnedFd) -> bool {
    SHARED_FILE.set(file).is_ok()
}

static RESERVED: Mutex<Reservations> = Mutex::new(Reservations { last: 0, live: BTreeMap::new() });
static FINALIZED: Table = Table::new();

struct Reservations {
    last: u64,
    live: BTreeMap<u64, Mapping>,
}

fn reserve(wanted: Wanted) -> Result<Reserved> {
    let failed = |problem: String| Error::Memory { name: wanted.name.clone(), problem };
    let page = rustix::param::page_size();
    let (size, alignment) = (wanted.size as usize, wanted.alignment as usize);
    if !size.is_multiple_of(page) || !alignment.is_power_of_two() || alignment < page {
        return Err(failed(format!(
            "{size:#x} bytes at a multiple of {alignment:#x} are no pages"
        )));
    }
    let access = match wanted.offset {
        Some(_) => ProtFlags::empty(),
        None => ProtFlags::READ | ProtFlags::WRITE,
    };
    let mut mapping = Mapping::new(size, alignment, wanted.placement, access).map_err(failed)?;
    if let Some(offset) = wanted.offset {
        let none = || failed("the process shares no file with its controller".to_owned());
        let file = SHARED_FILE.get().ok_or_else(none)?.as_fd();
        let mapped = mapping.replace_with(Source { file, offset }, access);
        mapped.map_err(|error| failed(format!("cannot map shared memory: {error}")))?;
        mapping.own_file();
    }
    let address = mapping.address();
    let mut reserved = RESERVED.lock();
    reserved.last += 1;
    let number = reserved.last;
    reserved.live.insert(number, mapping);
    Ok(Reserved { number, address })
}

/// # Safety
/// The actions must be functions that may be called with their arguments.
unsafe fn finalize((number, plan, actions): (u64, Plan, Vec<Vec<ActionPair>>)) -> Result<Vec<u64>> {
    let unknown = || Error::Memory {
        name: format!("reservation {number}"),
        problem: "there is none of this number".to_owned(),
    };
    let mapping = RESERVED.lock().live.remove(&number).ok_or_else(unknown)?;
    let finalized = ExecutingSide::new(plan, mapping)?.finalize(actions)?;
    Ok(FINALIZED.insert(finalized))
}

fn abandon(numbers: Vec<u64>) {
    let abandoned: Vec<_> = {
        let mut reserved = RESERVED.lock();
        numbers.iter().filter_map(|number| reserved.live.remove(number)).collect()
    };
    drop(abandoned);
}

/// # Safety
/// Nothing may use the objects any more, and their deallocate actions must be functions that may be called.
unsafe fn deallocate(numbers: Vec<u64>) -> Result<()> {
    FINALIZED.deallocate(numbers)
}
