//! Information about the arguments of a kernel.

use super::{copied_to_device, looked_up, unmapped_to_device};
use crate::abi::{MapArgument, MapArguments, MapType};
use crate::device::OmpDevice;
use crate::mapping::table;
use crate::settings::{info as kinds, wants};
use std::ffi::c_char;

/// Most bytes of a private argument that LLVM's library copies together with others.
const MOST_PACKED: i64 = 1 << 10;
/// Greatest alignment of private arguments that are copied together, in bytes.
const MAX_ALIGNMENT: u64 = 16;
/// Most bytes that LLVM's library packs on its stack.
const MOST_ON_STACK: usize = 40;

/// Prints the look-ups and copies for the arguments of a kernel, which gets `words`.
///
/// Small private arguments appear as the one copy that LLVM's library makes of them.
///
/// # Safety
/// The arguments are the program's.
#[cold]
pub(crate) unsafe fn translated(device: &OmpDevice, arguments: &MapArguments, words: &[u64]) {
    let mut packed = Packed::default();
    let mut places = Vec::new();
    for index in 0..arguments.count {
        // SAFETY: promised by the caller.
        let (argument, next) = unsafe { (arguments.get(index), arguments.kind(index + 1)) };
        let kind = argument.kind;
        if !kind.has(MapType::TARGET_PARAM) {
            places.push(None);
            let lambda = kind.parent().filter(|parent| *parent < index);
            let place = lambda.and_then(|parent| Some((parent, places[parent]?)));
            if let Some((parent, place)) = place.filter(|_| kind.is_lambda_capture()) {
                // SAFETY: promised by the caller.
                captured(device, &argument, &unsafe { arguments.get(parent) }, place);
            }
            continue;
        }
        let word = words.get(places.iter().flatten().count()).copied().unwrap_or(0);
        places.push(Some(word));
        let is_private = kind.has(MapType::PRIVATE);
        if is_private && kind.has(MapType::TO) {
            let target = word.wrapping_sub(argument.base.wrapping_sub(argument.begin));
            let is_packed = argument.size <= MOST_PACKED && !next.has(MapType::MEMBER_OF);
            match is_packed {
                true => packed.add(&argument, target),
                false => private(device, &argument, target),
            }
        } else if !is_private && !kind.has(MapType::LITERAL) && wants(kinds::MAPPING_EXISTS) {
            looked_up(device, argument.begin, argument.size as u64, false);
        }
    }
    packed.print(device);
}

fn private(device: &OmpDevice, argument: &MapArgument, target: u64) {
    if wants(kinds::TRANSFERS) {
        unmapped_to_device(device, argument.begin, target, argument.size as u64);
    }
}

/// Prints the look-up of a captured variable, and the copy of its address into the lambda.
fn captured(device: &OmpDevice, argument: &MapArgument, lambda: &MapArgument, word: u64) {
    let bytes = argument.size as u64;
    if wants(kinds::MAPPING_EXISTS) {
        looked_up(device, argument.begin, bytes, false);
    }
    let Some(value) = device.table.translate(argument.begin, bytes) else { return };
    if wants(kinds::TRANSFERS) {
        let place = word.wrapping_add(argument.base.wrapping_sub(lambda.begin));
        let host = (&raw const value) as u64;
        let name = name_of_mapped(device, argument.begin, bytes);
        copied_to_device(device.number, host, place, size_of::<u64>() as u64, name);
    }
}

fn name_of_mapped(device: &OmpDevice, begin: u64, bytes: u64) -> *const c_char {
    let locked = device.table.lock();
    let found = table::lookup(&locked, begin, bytes);
    found.range.map_or(std::ptr::null(), |range| locked.get(range.entry as u32).name)
}

/// The private arguments that LLVM's library copies at once.
#[derive(Default)]
struct Packed {
    bytes: u64,
    /// Alignment at the last argument, and the argument's size.
    last: Option<(u64, u64)>,
    /// Device address of the first argument.
    target: u64,
}

impl Packed {
    fn add(&mut self, argument: &MapArgument, target: u64) {
        let bytes = argument.size as u64;
        let mut alignment = MAX_ALIGNMENT;
        match self.last {
            None => self.target = target,
            Some((last, last_bytes)) => {
                alignment = match last_bytes % last {
                    0 => last,
                    rest => rest,
                };
                let needed = (argument.begin & argument.begin.wrapping_neg()).min(MAX_ALIGNMENT);
                if needed > alignment {
                    self.bytes += needed - alignment;
                    alignment = needed;
                }
            }
        }
        self.bytes += bytes;
        self.last = Some((alignment, bytes));
    }

    fn print(&self, device: &OmpDevice) {
        if self.last.is_none() || !wants(kinds::TRANSFERS) {
            return;
        }
        // The copied buffer, whose address decides about the name, is on the stack if it is small.
        let buffer = vec![0_u8; self.bytes.max(1) as usize];
        let host = match buffer.len() {
            ..=MOST_ON_STACK => std::ptr::from_ref(self) as u64,
            _ => buffer.as_ptr() as u64,
        };
        unmapped_to_device(device, host, self.target, self.bytes);
    }
}
