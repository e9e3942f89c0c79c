//! The end of mappings: `target exit data`, and the second half of `target` and `target data`.
//! LLVM: `targetDataEnd`.

use super::table::{self, COPIED_LOCKED, Locked, MappingTable};
use super::{Failure, absent, mapper};
use crate::abi::{MapArgument, MapArguments, MapType};
use crate::info;
use crate::memory::Memory;
use crate::ompt;
use crate::profile;
use crate::settings::{info as kinds, is_observed, wants};
use crate::stream::{After, Stream};
use smallvec::SmallVec;

/// The failure of a value's mapper, in LLVM's words.
const MAPPER_FAILED: &str = "Call to targetDataEnd via targetDataMapper for custom mapper failed.";

/// A range that a construct has left, and that may be removed after the construct's copies.
pub(crate) struct EndedMapping {
    entry: u32,
    bytes: u64,
    kind: MapType,
}

type Ended = SmallVec<[EndedMapping; 4]>;

/// Leaves the mappings of all arguments, last argument first. With `of_member` the arguments are
/// the components of a member of a mapped structure, which the structure's count includes.
///
/// # Errors
/// Absent ranges with `present`; errors of the device.
///
/// # Safety
/// The arguments describe memory of the program.
pub(crate) unsafe fn end(
    stream: &mut Stream,
    arguments: &MapArguments,
    of_member: bool,
) -> Result<(), Failure> {
    let mut ended = Ended::new();
    // SAFETY: promised by the caller.
    let result = unsafe { end_all(stream, arguments, of_member, &mut ended) };
    if !ended.is_empty() {
        stream.after(After::End(ended.into_vec()));
    }
    result
}

unsafe fn end_all(
    stream: &mut Stream,
    arguments: &MapArguments,
    of_member: bool,
    ended: &mut Ended,
) -> Result<(), Failure> {
    for index in (0..arguments.count).rev() {
        // SAFETY: the caller's promise.
        let argument = unsafe { arguments.get(index) };
        if argument.kind.has(MapType::LITERAL | MapType::PRIVATE | MapType::ATTACH) {
            continue;
        }
        if let Some(function) = argument.mapper {
            // SAFETY: the caller's promise.
            unsafe {
                let components = mapper::components(function, &argument);
                end(stream, &components.arguments(), argument.kind.is_part())
                    .map_err(|failure| failure.explain(&[MAPPER_FAILED]))?;
            }
            continue;
        }
        // SAFETY: the caller's promise.
        unsafe { end_one(stream, &argument, of_member && index == 0, ended)? };
    }
    Ok(())
}

unsafe fn end_one(
    stream: &mut Stream,
    argument: &MapArgument,
    is_included: bool,
    ended: &mut Ended,
) -> Result<(), Failure> {
    let kind = argument.kind;
    let (begin, bytes) = (argument.begin, argument.size as u64);
    let counts = !kind.is_part() && (kind.has(MapType::PTR_AND_OBJ) || !is_included);
    let device = stream.device;
    let mut locked = device.table.lock();
    let found = table::lookup(&locked, begin, bytes);
    let is_found = found.is_contained || kind.has(MapType::IMPLICIT) && found.overlaps();
    let Some(range) = found.range.filter(|_| is_found) else {
        return absent(device, kind, "map type", (begin, bytes));
    };
    let number = range.entry as u32;
    let target = range.target.wrapping_add(begin.wrapping_sub(range.begin));
    let is_last = leave(&mut locked, number, argument, counts, target, device.number);
    let entry = locked.get(number);
    let is_host = entry.is_host_memory();
    let retrieves =
        kind.has(MapType::FROM) && (kind.has(MapType::ALWAYS) || is_last) && !is_host && bytes != 0;
    let this = EndedMapping { entry: number, bytes, kind };
    if device.is_reachable && !is_observed() {
        // Nothing is queued, so the end need not wait for the end of the construct.
        // SAFETY: the range is memory of the program, and mapped in whole.
        unsafe { end_at_once(&device.table, locked, this, retrieves.then_some((begin, target))) };
        return Ok(());
    }
    let (copied, name) = (entry.copied.clone(), entry.name);
    drop(locked);
    ended.push(this);
    if !retrieves {
        return Ok(());
    }
    let _profile = profile::step("DevToHost", || format!("Size={bytes}B"));
    if wants(kinds::COPIES) {
        info::moved_to_host(device.number, begin, target, bytes, name);
    }
    if let Some(event) = copied {
        stream.queue()?.wait_for(&event)?;
    }
    // SAFETY: the range is memory of the program, and the entry stays while its end is pending.
    unsafe { stream.retrieve(begin, target, bytes).map_err(Failure::from) }
}

/// Copies a range of reachable memory to the host, if `copied` has its addresses on host and
/// device, and finishes its end.
///
/// # Safety
/// Both ranges are valid.
#[inline]
unsafe fn end_at_once<'a>(
    table: &'a MappingTable,
    mut locked: Locked<'a>,
    ended: EndedMapping,
    copied: Option<(u64, u64)>,
) {
    if let Some((to, from)) = copied {
        // SAFETY: promised by the caller; the entry stays while its end is pending.
        let copy = || unsafe {
            std::ptr::copy(from as *const u8, to as *mut u8, ended.bytes as usize);
        };
        if ended.bytes <= COPIED_LOCKED {
            copy();
        } else {
            drop(locked);
            copy();
            locked = table.lock();
        }
    }
    let freed = finish_one(&mut locked, 0, &ended);
    drop(locked);
    // A large allocation is freed without the lock.
    drop(freed);
}

/// Decrements the count of a range. Returns whether the range is to be removed.
fn leave(
    locked: &mut Locked<'_>,
    number: u32,
    argument: &MapArgument,
    counts: bool,
    target: u64,
    device: usize,
) -> bool {
    let kind = argument.kind;
    let (hold, deletes) = (kind.has(MapType::HOLD), kind.has(MapType::DELETE));
    let entry = locked.get_mut(number);
    let is_last = entry.is_last(hold, deletes);
    if deletes {
        entry.reset(hold);
    }
    entry.ending += 1;
    if counts {
        entry.decrement(hold);
    }
    if wants(kinds::MAPPING_EXISTS) {
        let action = match (counts, is_last, deletes) {
            (false, ..) => " (update suppressed)",
            (_, true, true) => " (reset, delayed deletion)",
            (_, true, false) => " (decremented, delayed deletion)",
            (_, false, _) => " (decremented)",
        };
        info::mapping_exists(
            device,
            &info::Existing {
                implicit: "",
                begin: argument.begin,
                target,
                bytes: argument.size as u64,
                counts: (entry.dynamic, entry.hold),
                actions: if hold { ("", action) } else { (action, "") },
                name: None,
            },
        );
    }
    is_last
}

/// Finishes the end of mappings after their copies: restores pointers on the host, and removes
/// ranges that no construct uses any more.
pub(crate) fn finish(table: &MappingTable, device: usize, ended: Vec<EndedMapping>) {
    let mut locked = table.lock();
    let freed: SmallVec<[Memory; 4]> =
        ended.iter().filter_map(|ended| finish_one(&mut locked, device, ended)).collect();
    drop(locked);
    // Large allocations are freed without the lock.
    for memory in freed {
        let _scope = ompt::deletion(device, memory.address());
        drop(memory);
    }
}

/// Finishes the end of one mapping. Returns memory that the caller frees.
#[inline]
fn finish_one(locked: &mut Locked<'_>, device: usize, ended: &EndedMapping) -> Option<Memory> {
    let entry = locked.get_mut(ended.entry);
    entry.ending -= 1;
    if ended.kind.has(MapType::FROM) {
        // SAFETY: the pointers are memory of the program that a copy has overwritten.
        entry.shadows.iter().for_each(|shadow| unsafe { shadow.restore_host() });
    }
    if ended.kind.is_part() || entry.total() != 0 || entry.ending != 0 || entry.copying != 0 {
        return None;
    }
    let entry = table::remove(locked, ended.entry);
    if wants(kinds::MAPPING_CHANGED) {
        info::removed_mapping(device, &entry, ended.bytes);
    }
    match entry.memory? {
        block @ Memory::Block(..) => {
            let _scope = ompt::deletion(device, block.address());
            locked.pool.free(block);
            None
        }
        own => Some(own),
    }
}
