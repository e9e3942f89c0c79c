//! Shortcuts for constructs whose arguments are all small plain variables, on a device whose memory
//! the host reaches.
//!
//! They do what [`begin`](super::begin), [`end`](super::end) and [`update`](super::update) do for
//! such arguments, without a stream. A construct that needs more gets `false` before it has changed
//! anything.

use super::index::Overlap;
use super::table::{self, COPIED_LOCKED, Entry};
use crate::abi::{MapArgument, MapArguments, MapType};
use crate::device::OmpDevice;
use crate::memory::Memory;
use crate::runtime;

/// Flags of arguments that need no further steps.
const PLAIN: i64 = MapType::TO.0 | MapType::FROM.0 | MapType::TARGET_PARAM.0;

/// Returns an argument if it is the only one, small and plain.
///
/// # Safety
/// The arguments describe memory of the program.
#[inline]
unsafe fn only_argument(arguments: &MapArguments) -> Option<MapArgument> {
    if arguments.count != 1 {
        return None;
    }
    // SAFETY: promised by the caller.
    let argument = unsafe { arguments.get(0) };
    let is_plain = argument.kind.0 & !PLAIN == 0 && argument.mapper.is_none();
    let is_small = (1..=COPIED_LOCKED as i64).contains(&argument.size);
    (is_plain && is_small).then_some(argument)
}

/// Maps the argument of a construct, if it is a small plain variable.
///
/// # Safety
/// The arguments describe memory of the program, and the host reaches the device's memory.
#[inline]
pub(crate) unsafe fn begin(device: &OmpDevice, arguments: &MapArguments) -> bool {
    // SAFETY: promised by the caller.
    let Some(argument) = (unsafe { only_argument(arguments) }) else { return false };
    if runtime::uses_host_memory(device) {
        return false;
    }
    let (begin, bytes) = (argument.begin, argument.size as u64);
    let end = begin.saturating_add(bytes);
    let mut locked = device.table.lock();
    let place = match locked.overlapping(begin, end) {
        Overlap::None(place) => place,
        Overlap::Range(range, _) => {
            let entry = locked.get_mut(range.entry as u32);
            if begin < range.begin || end > range.end || entry.copying > 0 {
                return false;
            }
            entry.increment(false);
            return true;
        }
    };
    let Ok(memory) = locked.pool.allocate(bytes) else { return false };
    let target = memory.address();
    if argument.kind.has(MapType::TO) {
        // SAFETY: promised by the caller; the memory was allocated for as many bytes.
        unsafe { copy(target, begin, bytes) };
    }
    let mut entry = Entry::new(argument.base, (begin, end), target);
    (entry.memory, entry.name, entry.dynamic) = (Some(memory), argument.name, 1);
    table::insert_at(&mut locked, place, entry);
    true
}

/// Ends the mapping of the argument of a construct, if it is a small plain variable.
///
/// # Safety
/// As for [`begin`].
#[inline]
pub(crate) unsafe fn end(device: &OmpDevice, arguments: &MapArguments) -> bool {
    // SAFETY: promised by the caller.
    let Some(argument) = (unsafe { only_argument(arguments) }) else { return false };
    let (begin, bytes) = (argument.begin, argument.size as u64);
    let mut locked = device.table.lock();
    let found = locked.overlapping(begin, begin.saturating_add(bytes));
    let Overlap::Range(range, place) = found else { return true };
    let entry = locked.get_mut(range.entry as u32);
    let is_whole = begin == range.begin && begin + bytes == range.end;
    if !is_whole || entry.ending > 0 || entry.copying > 0 || !entry.shadows.is_empty() {
        return false;
    }
    if !entry.is_last(false, false) {
        entry.decrement(false);
        return true;
    }
    if argument.kind.has(MapType::FROM) && !entry.is_host_memory() {
        // SAFETY: promised by the caller; the range is mapped in whole.
        unsafe { copy(begin, range.target, bytes) };
    }
    match table::remove_at(&mut locked, place, range) {
        Some(block @ Memory::Block(..)) => locked.pool.free(block),
        own => {
            drop(locked);
            drop(own);
        }
    }
    true
}

/// Copies the argument of an update, if it is a small plain variable. Takes no lock.
///
/// # Safety
/// As for [`begin`].
#[inline]
pub(crate) unsafe fn update(device: &OmpDevice, arguments: &MapArguments) -> bool {
    // SAFETY: promised by the caller.
    let Some(argument) = (unsafe { only_argument(arguments) }) else { return false };
    if device.table.has_attached() {
        return false;
    }
    let (begin, bytes) = (argument.begin, argument.size as u64);
    let Some(target) = device.table.translate_whole(begin, bytes).filter(|to| *to != begin) else {
        return true;
    };
    // SAFETY: promised by the caller; the range is mapped in whole.
    unsafe {
        if argument.kind.has(MapType::TO) {
            copy(target, begin, bytes);
        }
        if argument.kind.has(MapType::FROM) {
            copy(begin, target, bytes);
        }
    }
    true
}

/// Copies memory of the host. Numbers and pointers are copied without a call.
#[inline]
unsafe fn copy(to: u64, from: u64, bytes: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        match bytes {
            8 => (to as *mut u64).write_unaligned((from as *const u64).read_unaligned()),
            4 => (to as *mut u32).write_unaligned((from as *const u32).read_unaligned()),
            _ => std::ptr::copy(from as *const u8, to as *mut u8, bytes as usize),
        }
    }
}
