//! Memory of this process for code that a controller in another process links.
//!
//! The controller reserves pages and writes their contents, through its own mapping of the same
//! file or by messages. Then it finalizes or abandons them. Until then no code here uses them.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;

use parking_lot::Mutex;
use rustix::mm::ProtFlags;
use serde::{Deserialize, Serialize};

use super::services;
use crate::actions::ActionPair;
use crate::pages::{Mapping, Placement, Plan, ReservedPages, Source, Table};
use crate::{Error, Result};

services! {
    /// The service that reserves pages. The controller writes them through its mapping of the same
    /// file, or otherwise by messages.
    RESERVE_PAGES = "__longshore_reserve_pages", fn(PageRequest) -> Result<Reserved>, reserve;
    /// The service that protects reserved pages, runs the finalize actions of each object, and
    /// gives back the temporary pages. The result is the objects' numbers. On failure the whole
    /// reservation is given back.
    FINALIZE_PAGES = "__longshore_finalize_pages",
        fn((u64, Plan, Vec<Vec<ActionPair>>)) -> Result<Vec<u64>>, finalize;
    /// The service that gives back reservations that were not finalized.
    ABANDON_PAGES = "__longshore_abandon_pages", fn(Vec<u64>) -> (), abandon;
    /// The service that runs the deallocate actions of objects, and gives back the pages that no
    /// other object shares.
    DEALLOCATE_PAGES = "__longshore_deallocate_pages", fn(Vec<u64>) -> Result<()>, deallocate;
}

/// A request for pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageRequest {
    /// The purpose of the pages, for errors.
    pub name: String,
    /// Size in bytes: whole pages.
    pub size: u64,
    /// Alignment of the pages in bytes: a power of two, at least a page.
    pub alignment: u64,
    /// The requested place.
    pub placement: Placement,
    /// Offset in the file shared with the controller. Without an offset, the pages are this
    /// process's own, and writable at once.
    pub offset: Option<u64>,
}

/// Reserved pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserved {
    /// The number of the reservation, for the other services.
    pub number: u64,
    /// The address of the first page.
    pub address: u64,
}

static SHARED_FILE: OnceLock<OwnedFd> = OnceLock::new();

/// Sets the file that is shared with the controller. Returns false, without a change, if one is set
/// already.
pub fn set_shared_file(file: OwnedFd) -> bool {
    SHARED_FILE.set(file).is_ok()
}

static RESERVED: Mutex<Reservations> = Mutex::new(Reservations { last: 0, live: BTreeMap::new() });
static FINALIZED: Table = Table::new();

struct Reservations {
    last: u64,
    live: BTreeMap<u64, Mapping>,
}

fn reserve(wanted: PageRequest) -> Result<Reserved> {
    let failed = |problem: String| Error::Memory { name: wanted.name.clone(), problem };
    let page = rustix::param::page_size();
    let (size, alignment) = (wanted.size as usize, wanted.alignment as usize);
    if !size.is_multiple_of(page) || !alignment.is_power_of_two() || alignment < page {
        return Err(failed(format!(
            "{size:#x} bytes at a multiple of {alignment:#x} are not whole pages"
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
        problem: "no reservation has this number".to_owned(),
    };
    let mapping = RESERVED.lock().live.remove(&number).ok_or_else(unknown)?;
    let finalized = ReservedPages::new(plan, mapping)?.finalize(actions)?;
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
/// Nothing may use the objects any more, and their deallocate actions must be functions that may be
/// called.
unsafe fn deallocate(numbers: Vec<u64>) -> Result<()> {
    FINALIZED.deallocate(numbers)
}
