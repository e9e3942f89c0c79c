//! Updates of mapped data: `target update`. LLVM: `targetDataUpdate`.

use super::parts::{RangeCopy, in_turn};
use super::span::Span;
use super::table::COPIED_LOCKED;
use super::{Failure, absent, mapper};
use crate::abi::{Dimension, MapArguments, MapType};
use crate::settings::{info as kinds, is_observed, wants};
use crate::stream::Stream;
use crate::{compiler, info, runtime};
use std::collections::BTreeMap;

/// The first version of clang whose sections with gaps have offsets in bytes.
const BYTE_OFFSETS: u32 = 23;

/// The failure of a value's mapper, in LLVM's words.
const MAPPER_FAILED: &str =
    "Call to targetDataUpdate via targetDataMapper for custom mapper failed.";

/// Copies mapped data between host and device.
///
/// # Errors
/// Absent ranges with `present`; errors of the device.
///
/// # Safety
/// The arguments describe memory of the program.
pub(crate) unsafe fn update(stream: &mut Stream, arguments: &MapArguments) -> Result<(), Failure> {
    for index in 0..arguments.count {
        // SAFETY: promised by the caller.
        let argument = unsafe { arguments.get(index) };
        let kind = argument.kind;
        if kind.has(MapType::LITERAL | MapType::PRIVATE) {
            continue;
        }
        if let Some(function) = argument.mapper {
            // SAFETY: promised by the caller.
            unsafe {
                let components = mapper::components(function, &argument);
                update(stream, &components.arguments())
                    .map_err(|failure| failure.explain(&[MAPPER_FAILED]))?;
            }
            continue;
        }
        if !kind.has(MapType::NON_CONTIGUOUS) {
            // SAFETY: promised by the caller.
            unsafe { update_range(stream, argument.begin, argument.size as u64, kind)? };
            continue;
        }
        let (first, count) = (argument.begin as *const Dimension, argument.size.max(0) as usize);
        // SAFETY: the argument's address is that of as many dimensions.
        let dimensions = unsafe { std::slice::from_raw_parts(first, count) };
        let section = Section::new(dimensions);
        // SAFETY: promised by the caller.
        unsafe { update_section(stream, argument.base, section, kind)? };
    }
    Ok(())
}

/// A section with gaps: the outer dimensions, and the size of each piece without gaps.
#[derive(Clone, Copy)]
struct Section<'a> {
    outer: &'a [Dimension],
    /// Whether offsets are in bytes; otherwise in strides.
    in_bytes: bool,
    /// Offset of the piece in its innermost dimension, in bytes.
    offset: u64,
    /// Bytes of a piece.
    bytes: u64,
}

impl Section<'_> {
    /// Takes the dimensions apart. Inner dimensions without gaps become parts of the pieces.
    fn new(dimensions: &[Dimension]) -> Section<'_> {
        let Some(last) = dimensions.last() else {
            return Section { outer: &[], in_bytes: true, offset: 0, bytes: 0 };
        };
        let in_bytes = has_offsets_in_bytes(last);
        let start = |dimension: &Dimension| match in_bytes {
            true => dimension.offset,
            false => dimension.offset.wrapping_mul(dimension.stride),
        };
        let mut outer = &dimensions[..dimensions.len() - 1];
        let mut bytes = last.count.wrapping_mul(last.stride);
        let mut offset = start(last);
        while let Some((next, rest)) = outer.split_last()
            && next.stride == bytes
        {
            bytes = next.count.wrapping_mul(next.stride);
            offset = offset.wrapping_add(start(next));
            outer = rest;
        }
        Section { outer, in_bytes, offset, bytes }
    }
}

/// Returns whether offsets are in bytes, as in programs of clang 23, by the innermost dimension.
/// This is one element: clang 23 writes its bytes, older versions one stride.
fn has_offsets_in_bytes(last: &Dimension) -> bool {
    match (last.count, last.stride) {
        // An element of one byte looks the same in both forms.
        (1, 1) => {
            let libraries = runtime::libraries();
            let mut images = libraries.iter().flat_map(|library| library.images());
            images.any(|image| compiler::newest(image) >= BYTE_OFFSETS)
        }
        (_, stride) => stride == 1,
    }
}

/// Copies all pieces of a section.
unsafe fn update_section(
    stream: &mut Stream,
    base: u64,
    section: Section<'_>,
    kind: MapType,
) -> Result<(), Failure> {
    let Some((first, rest)) = section.outer.split_first() else {
        // SAFETY: the caller's promise.
        return unsafe {
            update_range(stream, base.wrapping_add(section.offset), section.bytes, kind)
        };
    };
    for index in 0..first.count {
        let start = match section.in_bytes {
            true => first.offset,
            false => first.offset.wrapping_mul(first.stride),
        };
        let offset = start.wrapping_add(index.wrapping_mul(first.stride));
        let inner = Section { outer: rest, ..section };
        // SAFETY: the caller's promise.
        unsafe { update_section(stream, base.wrapping_add(offset), inner, kind)? };
    }
    Ok(())
}

/// Copies one range without gaps.
unsafe fn update_range(
    stream: &mut Stream,
    begin: u64,
    bytes: u64,
    kind: MapType,
) -> Result<(), Failure> {
    let device = stream.device;
    if wants(kinds::MAPPING_EXISTS) {
        info::looked_up(device, begin, bytes, true);
    }
    let (mut locked, found) = device.table.lock_settled(begin, bytes);
    let Some(range) = found.range.filter(|_| found.is_contained) else {
        return absent(device, kind, "motion", (begin, bytes));
    };
    let number = range.entry as u32;
    let entry = locked.get_mut(number);
    if entry.is_host_memory() {
        return Ok(());
    }
    let target = range.target.wrapping_add(begin.wrapping_sub(range.begin));
    let span = Span { begin, bytes };
    let copy = RangeCopy::new(entry, span, target);
    if device.is_reachable && bytes <= COPIED_LOCKED && !is_observed() {
        // SAFETY: the range is memory of the program, and mapped in whole.
        return unsafe { copy_both(stream, kind, &copy) };
    }
    // The copy leaves pointers out. LLVM's library writes all of the entry again, as users see.
    let shown = if is_observed() { entry.shadows.clone() } else { BTreeMap::new() };
    let (name, earlier) = (entry.name, entry.begin_copy());
    drop(locked);
    let update = |stream: &mut Stream| {
        if kind.has(MapType::TO) {
            if wants(kinds::COPIES) {
                info::moved_to_device(device.number, begin, target, bytes, name);
            }
            // SAFETY: as above.
            unsafe { copy.submit(stream)? };
            for shadow in shown.values() {
                if wants(kinds::TRANSFERS) {
                    let host = shadow.target_contents.as_ptr() as u64;
                    let bytes = shadow.target_contents.len() as u64;
                    info::unmapped_to_device(device, host, shadow.target, bytes);
                }
                // SAFETY: the pointer is a part of the range.
                unsafe { stream.submit_value(shadow.target, &shadow.target_contents)? };
            }
        }
        if kind.has(MapType::FROM) {
            if wants(kinds::COPIES) {
                info::moved_to_host(device.number, begin, target, bytes, name);
            }
            // SAFETY: as above.
            unsafe { copy.retrieve(stream)? };
        }
        Ok(())
    };
    in_turn(stream, number, earlier, update).1
}

/// Copies a range in the directions of an update.
#[inline]
unsafe fn copy_both(stream: &mut Stream, kind: MapType, copy: &RangeCopy) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    unsafe {
        if kind.has(MapType::TO) {
            copy.submit(stream)?;
        }
        if kind.has(MapType::FROM) {
            copy.retrieve(stream)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(dimensions: &[[u64; 3]]) -> (Vec<u64>, u64) {
        let dimension = |[offset, count, stride]: &[u64; 3]| Dimension {
            offset: *offset,
            count: *count,
            stride: *stride,
        };
        let dimensions: Vec<_> = dimensions.iter().map(dimension).collect();
        let section = Section::new(&dimensions);
        let [outer] = section.outer else { panic!("the section has one outer dimension") };
        let start = if section.in_bytes { outer.offset } else { outer.offset * outer.stride };
        let starts = (0..outer.count).map(|row| start + row * outer.stride + section.offset);
        (starts.collect(), section.bytes)
    }

    #[test]
    fn sections_of_clang_23_have_offsets_in_bytes() {
        let expected = (vec![216, 312, 408, 504], 40);
        assert_eq!(pieces(&[[2, 4, 96], [3, 5, 8], [0, 1, 8]]), expected);
        assert_eq!(pieces(&[[192, 4, 96], [24, 5, 8], [0, 8, 1]]), expected);
    }
}
