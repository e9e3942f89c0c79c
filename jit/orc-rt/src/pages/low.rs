//! Pages in the first 2 GiB, for code that is not position-independent.

use std::fs;
use std::iter;
use std::ops::Range;

use rustix::mm::ProtFlags;

use super::mapping::Mapping;

/// The first address that a signed 32-bit number cannot hold.
pub const LIMIT: u64 = 1 << 31;

/// The kernel's usual `vm.mmap_min_addr`.
const FIRST: usize = 0x1_0000;

/// Maps `size` bytes that end below [`LIMIT`].
pub(super) fn map(size: usize, alignment: usize, access: ProtFlags) -> Result<Mapping, String> {
    if let Some(mapping) = map_with_flag(size, alignment, access) {
        return Ok(mapping);
    }
    let maps =
        fs::read_to_string("/proc/self/maps").map_err(|e| format!("/proc/self/maps: {e}"))?;
    let places = gaps(&maps).into_iter().rev().filter_map(|gap| last_place(gap, size, alignment));
    places.filter_map(|place| Mapping::map_at(place, size, access).ok()).next().ok_or_else(|| {
        format!("no {size:#x} bytes are free in the first two gigabytes; compile the code as position-independent (-fPIC)")
    })
}

/// Maps pages by the kernel's own flag, which covers only the second gigabyte.
#[cfg(target_arch = "x86_64")]
fn map_with_flag(size: usize, alignment: usize, access: ProtFlags) -> Option<Mapping> {
    let low = rustix::mm::MapFlags::from_bits_retain(libc::MAP_32BIT as u32);
    let mapping = Mapping::map(size, alignment, access, low).ok()?;
    (mapping.address() + (size as u64) < LIMIT).then_some(mapping)
}

#[cfg(not(target_arch = "x86_64"))]
fn map_with_flag(_: usize, _: usize, _: ProtFlags) -> Option<Mapping> {
    None
}

/// Returns the free ranges below [`LIMIT`], in ascending order. The last page is excluded: the end
/// of a mapping must be below the limit too.
fn gaps(maps: &str) -> Vec<Range<usize>> {
    let end = LIMIT as usize - rustix::param::page_size();
    let mut start = FIRST;
    let mut gaps = Vec::new();
    for used in maps.lines().filter_map(parse).chain(iter::once(end..end)) {
        if start < used.start.min(end) {
            gaps.push(start..used.start.min(end));
        }
        start = start.max(used.end);
    }
    gaps
}

/// Returns the addresses of a line of `/proc/self/maps`.
fn parse(line: &str) -> Option<Range<usize>> {
    let (start, end) = line.split_once(' ')?.0.split_once('-')?;
    Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
}

/// Returns the highest place in a gap: as far as possible from a heap that grows upwards.
fn last_place(gap: Range<usize>, size: usize, alignment: usize) -> Option<usize> {
    let place = gap.end.checked_sub(size)? & !(alignment - 1);
    (place >= gap.start).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_lie_between_mappings() {
        let maps = "00010000-00020000 r-xp 0 0:0 0 a\n00400000-00500000 rw-p 0 0:0 0 [heap]\n7f0000000000-7f0000001000 r--p 0 0:0 0\n";
        let end = (1 << 31) - rustix::param::page_size();
        assert_eq!(gaps(maps), [0x2_0000..0x40_0000, 0x50_0000..end]);
        assert_eq!(
            gaps("00010000-00011000 r-xp 0 0:0 0\n80000000-90000000 r-xp 0 0:0 0\n").len(),
            1
        );
        assert_eq!(gaps("00010000-90000000 r-xp 0 0:0 0\n"), []);
    }

    #[test]
    fn the_highest_aligned_place_of_a_gap_is_taken() {
        assert_eq!(last_place(0x1000..0x9000, 0x2000, 0x1000), Some(0x7000));
        assert_eq!(last_place(0x1000..0x9000, 0x2000, 0x4000), Some(0x4000));
        assert_eq!(last_place(0x1000..0x3000, 0x2000, 0x4000), None);
        assert_eq!(last_place(0x1000..0x3000, 0x4000, 0x1000), None);
    }

    #[test]
    fn more_than_there_is_room_for_is_an_error_with_advice() {
        let error =
            map(LIMIT as usize, rustix::param::page_size(), ProtFlags::empty()).unwrap_err();
        assert!(error.contains("position-independent"), "{error}");
    }

    #[test]
    fn pages_are_found_without_the_help_of_the_kernel() {
        let page = rustix::param::page_size();
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let place =
            gaps(&maps).into_iter().rev().find_map(|gap| last_place(gap, page, 0x10_0000)).unwrap();
        let mapping = Mapping::map_at(place, page, ProtFlags::READ).unwrap();
        assert_eq!(mapping.address(), place as u64);
        assert!(Mapping::map_at(place, page, ProtFlags::READ).is_err(), "it is taken");
    }
}
