//! The end of mappings: `target exit data`, and the second half of `target` and `target data`.
//! LLVM: `targetDataEnd`.

use super::parts::{RangeCopy, in_turn};
use super::removal::remove_if_unused;
use super::span::Span;
use super::spans::Spans;
use super::table::{COPIED_LOCKED, Entry, Locked, MappingTable};
use super::{Failure, absent, mapper};
use crate::abi::{MapArgument, MapArguments, MapType};
use crate::debug::debug;
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

/// A construct that leaves mappings. LLVM: `StateInfoTy`.
struct Ending<'a> {
    stream: &'a mut Stream,
    ended: SmallVec<[EndedMapping; 4]>,
    /// Numbers of entries whose last count the construct has ended, and that are not yet removed.
    released: Spans<()>,
    /// Ranges with `from` that were not copied, as their entries had further counts.
    skipped: Spans<()>,
    /// Ranges that the construct has copied to the host.
    copied: Spans<()>,
}

impl Ending<'_> {
    /// Returns the ranges to copy to the host for one argument. `whole` is the range of the entry,
    /// `span` that of the argument. The pair has two facts about the entry: its count was the last,
    /// and it is memory of the host.
    fn copies(
        &mut self,
        entry: u32,
        whole: Span,
        span: Span,
        kind: MapType,
        (is_last, is_host): (bool, bool),
    ) -> SmallVec<[Span; 2]> {
        let mut copies: SmallVec<[Span; 2]> = SmallVec::new();
        let is_released = self.released.contains(number_of(entry));
        if kind.has(MapType::FROM) && !is_host && span.bytes != 0 {
            let begin = span.begin;
            if is_released {
                debug!("Pointer HstPtr={begin:#018x} falls within a range previously released");
            }
            match kind.has(MapType::ALWAYS) || is_last || is_released {
                true => copies.push(span),
                false => self.skipped.insert(span, ()),
            }
        }
        if is_last && !is_released {
            let (Span { begin, bytes }, is_deleted) = (whole, kind.has(MapType::DELETE));
            debug!(
                "Tracking released entry: HstPtr={begin:#018x}, Size={bytes}, ForceDelete={}",
                i32::from(is_deleted)
            );
            self.released.insert(number_of(entry), ());
            copies.extend(self.skipped.take_within(whole));
        }
        copies.retain(|span| !self.copied.contains(*span));
        copies.iter().for_each(|span| self.copied.insert(*span, ()));
        copies
    }
}

/// Returns the number of an entry as a range.
fn number_of(entry: u32) -> Span {
    Span { begin: entry.into(), bytes: 1 }
}

/// Leaves the mappings of all arguments, last argument first.
///
/// A range with `from` is copied once if the construct removes its mapping, whichever of the
/// arguments does.
///
/// # Errors
/// Absent ranges with `present`; errors of the device.
///
/// # Safety
/// The arguments describe memory of the program.
pub(crate) unsafe fn end(stream: &mut Stream, arguments: &MapArguments) -> Result<(), Failure> {
    let mut ending = Ending {
        stream,
        ended: SmallVec::new(),
        released: Spans::default(),
        skipped: Spans::default(),
        copied: Spans::default(),
    };
    // SAFETY: promised by the caller.
    let result = unsafe { end_all(&mut ending, arguments, false) };
    let Ending { stream, ended, .. } = ending;
    if !ended.is_empty() {
        stream.after(After::End(ended.into_vec()));
    }
    result
}

unsafe fn end_all(
    ending: &mut Ending<'_>,
    arguments: &MapArguments,
    from_mapper: bool,
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
                end_all(ending, &components.arguments(), true)
                    .map_err(|failure| failure.explain(&[MAPPER_FAILED]))?;
            }
            continue;
        }
        // A mapper's components do not show the construct's other arguments.
        let mut is_in_use = |range| {
            // SAFETY: the caller's promise.
            from_mapper || unsafe { retrieves_before(arguments, index, range) }
        };
        // SAFETY: the caller's promise.
        unsafe { end_one(ending, &argument, &mut is_in_use)? };
    }
    Ok(())
}

/// Returns whether one of the first `count` arguments may copy a part of a range to the host. The
/// arguments of a large construct are not searched.
#[inline]
unsafe fn retrieves_before(arguments: &MapArguments, count: usize, range: Span) -> bool {
    const MOST_SEARCHED: usize = 32;
    count > MOST_SEARCHED
        || (0..count).any(|index| {
            // SAFETY: the caller's promise.
            let argument = unsafe { arguments.get(index) };
            let span = Span { begin: argument.begin, bytes: argument.size as u64 };
            argument.mapper.is_some() || argument.kind.has(MapType::FROM) && span.overlaps(range)
        })
}

unsafe fn end_one(
    ending: &mut Ending<'_>,
    argument: &MapArgument,
    is_in_use: &mut dyn FnMut(Span) -> bool,
) -> Result<(), Failure> {
    let kind = argument.kind;
    let span = Span { begin: argument.begin, bytes: argument.size as u64 };
    let counts = !kind.is_part();
    let device = ending.stream.device;
    let (mut locked, found) = device.table.lock_settled(span.begin, span.bytes);
    let is_found = found.is_contained || kind.has(MapType::IMPLICIT) && found.overlaps();
    let Some(range) = found.range.filter(|_| is_found) else {
        return absent(device, kind, "map type", (span.begin, span.bytes));
    };
    let number = range.entry as u32;
    let target = |span: Span| range.target.wrapping_add(span.begin.wrapping_sub(range.begin));
    let is_last = leave(&mut locked, number, argument, counts, target(span), device.number);
    let whole = Span { begin: range.begin, bytes: range.end - range.begin };
    let entry = locked.get_mut(number);
    let is_host = entry.is_host_memory();
    // An implicit range may exceed the mapped one.
    let copies = ending.copies(number, whole, span.within(whole), kind, (is_last, is_host));
    let this = EndedMapping { entry: number, bytes: span.bytes, kind };
    let removes = counts && is_last;
    let plan = |entry: &Entry, span| RangeCopy::new(entry, span, target(span));
    if device.is_reachable && !is_observed() && !(removes && is_in_use(whole)) {
        if removes {
            ending.released.take_within(number_of(number));
        }
        // Nothing is queued, so the end need not wait for the end of the construct.
        for copy in copies {
            let plan = plan(locked.get(number), copy);
            // SAFETY: the range is memory of the program, and mapped in whole.
            let retrieve = |stream: &mut Stream| unsafe { plan.retrieve(stream) };
            if copy.bytes <= COPIED_LOCKED {
                retrieve(ending.stream)?;
                continue;
            }
            let earlier = locked.get_mut(number).begin_copy();
            drop(locked);
            locked = in_turn(ending.stream, number, earlier, retrieve).0;
        }
        let freed = finish_one(&mut locked, 0, &this);
        drop(locked);
        // A large allocation is freed without the lock.
        drop(freed);
        return Ok(());
    }
    // Kernels of other constructs that have left the range may still run.
    let own = || ending.ended.iter().filter(|ended| ended.entry == number).count();
    let has_others = !device.is_reachable && entry.ending > 1 && entry.ending as usize > own() + 1;
    ending.ended.push(this);
    if copies.is_empty() {
        let event = entry.copied.clone().filter(|_| removes);
        drop(locked);
        // The memory is freed behind the copies.
        return match event {
            Some(event) => Ok(ending.stream.queue_to_submit()?.wait_for(&event)?),
            None => Ok(()),
        };
    }
    let plans: SmallVec<[_; 2]> = copies.iter().map(|span| (*span, plan(entry, *span))).collect();
    let (name, earlier) = (entry.name, entry.begin_copy());
    drop(locked);
    let retrieve = |stream: &mut Stream| {
        if has_others {
            stream.wait_for_others()?;
        }
        for (copy, plan) in plans {
            let Span { begin, bytes } = copy;
            if copy != span {
                debug!(
                    "Found skipped FROM entry: HstPtr={begin:#018x} size={bytes} within region \
                     being released"
                );
            }
            let _profile = profile::step("DevToHost", || format!("Size={bytes}B"));
            if wants(kinds::COPIES) {
                info::moved_to_host(device.number, begin, target(copy), bytes, name);
            }
            // SAFETY: the range is memory of the program, and the entry stays while its end is
            // pending.
            unsafe { plan.retrieve(stream)? };
        }
        Ok(())
    };
    in_turn(ending.stream, number, earlier, retrieve).1
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

/// Finishes the end of mappings after their copies: removes ranges that no construct uses any more.
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
    locked.get_mut(ended.entry).ending -= 1;
    match ended.kind.is_part() {
        true => None,
        false => remove_if_unused(locked, device, ended.entry, ended.bytes),
    }
}
