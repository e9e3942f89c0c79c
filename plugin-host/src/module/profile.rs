//! Profile counters: the sections that LLVM's instrumentation adds to an image.

use super::pointer;
use longshore_plugin_api::{Error, ErrorCode, ProfileSection, ProfileSectionKind, Result};
use std::ops::Range;

/// The sections and their names.
pub(super) const SECTIONS: [(ProfileSectionKind, &str); 4] = [
    (ProfileSectionKind::Counters, "__llvm_prf_cnts"),
    (ProfileSectionKind::Data, "__llvm_prf_data"),
    (ProfileSectionKind::Names, "__llvm_prf_names"),
    (ProfileSectionKind::Bitmap, "__llvm_prf_bits"),
];
/// The variable that holds the raw version.
pub(super) const RAW_VERSION: &str = "__llvm_profile_raw_version";
pub(super) const RAW_VERSION_BYTES: u64 = 8;
/// In the raw version: a counter is a byte, which says that its block was entered.
const BYTE_COVERAGE: u64 = 1 << 60;

/// A record of the data section says where its function's counters and bitmap are, as distances
/// from the record. The numbers are those of raw version 10, the one that the host writes.
const RECORD_BYTES: usize = 64;
const DISTANCES: [(ProfileSectionKind, usize); 2] =
    [(ProfileSectionKind::Counters, 16), (ProfileSectionKind::Bitmap, 24)];
/// How many places a function has at which values are recorded, one number for each kind of them.
const VALUE_SITES: Range<usize> = 52..58;

/// A piece of a section: a linked shared object has one of each kind, relocatable objects have
/// many. It is mapped and readable.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) kind: ProfileSectionKind,
    pub(super) address: u64,
    pub(super) bytes: u64,
}

/// Copies the sections: the parts of each kind one behind the other, as a linker would have put
/// them, from the address of the first part on. No kernel runs meanwhile: the host reads profiles
/// after the last one.
///
/// # Errors
/// `Unsupported` for counters that are single bytes.
pub(super) fn read(parts: &[Part]) -> Result<Vec<ProfileSection>> {
    let kinds = SECTIONS.iter().map(|(kind, _)| *kind);
    let joined: Vec<Joined> = kinds.filter_map(|kind| Joined::of(kind, parts)).collect();
    let mut sections: Vec<_> = joined.iter().map(Joined::copy).collect();
    if let Some(data) = joined.iter().find(|joined| joined.kind == ProfileSectionKind::Data) {
        let copied = sections.iter_mut().find(|section| section.kind == data.kind);
        adjust_records(data, copied.expect("every joined section was copied"), &joined);
    }
    let version = parts.iter().find(|part| part.kind == ProfileSectionKind::RawVersion);
    let version = version.map(|part| ProfileSection {
        kind: part.kind,
        address: part.address,
        contents: part.copy(),
    });
    version.as_ref().map_or(Ok(()), check_version)?;
    sections.extend(version);
    Ok(sections)
}

fn check_version(version: &ProfileSection) -> Result<()> {
    let raw = version.contents.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    if raw & BYTE_COVERAGE == 0 {
        return Ok(());
    }
    Err(Error::new(
        ErrorCode::Unsupported,
        "the image counts in single bytes; compile it without -pgo-function-entry-coverage and \
         -pgo-block-coverage",
    ))
}

/// Makes the distances in the records those between where things are now. No values are recorded,
/// so that there are no places at which they would be: readers look for the values of each place.
fn adjust_records(data: &Joined, copied: &mut ProfileSection, joined: &[Joined]) {
    if data.parts.iter().any(|(part, _)| !part.bytes.is_multiple_of(RECORD_BYTES as u64)) {
        return;
    }
    let originals = data
        .parts
        .iter()
        .flat_map(|(part, _)| (part.address..part.address + part.bytes).step_by(RECORD_BYTES));
    let records = copied.contents.chunks_exact_mut(RECORD_BYTES).zip(originals);
    for (index, (record, original)) in records.enumerate() {
        record[VALUE_SITES].fill(0);
        let now = copied.address + (index * RECORD_BYTES) as u64;
        for (kind, at) in DISTANCES {
            let Some(target) = joined.iter().find(|joined| joined.kind == kind) else { continue };
            let field = record[at..].first_chunk_mut().expect("the field lies in the record");
            let address = original.wrapping_add(u64::from_le_bytes(*field));
            if let Some(moved) = target.moved(address) {
                *field = moved.wrapping_sub(now).to_le_bytes();
            }
        }
    }
}

/// The parts of one kind, in the order of their addresses, each with its offset in the whole.
struct Joined {
    kind: ProfileSectionKind,
    parts: Vec<(Part, u64)>,
}

impl Joined {
    /// `None` if there is nothing of this kind.
    fn of(kind: ProfileSectionKind, parts: &[Part]) -> Option<Joined> {
        let mut of_kind: Vec<Part> =
            parts.iter().filter(|part| part.kind == kind && part.bytes > 0).copied().collect();
        of_kind.sort_unstable_by_key(|part| part.address);
        let mut offset = 0;
        let placed = of_kind.into_iter().map(|part| {
            offset += part.bytes;
            (part, offset - part.bytes)
        });
        let parts: Vec<_> = placed.collect();
        (!parts.is_empty()).then_some(Joined { kind, parts })
    }

    fn start(&self) -> u64 {
        self.parts[0].0.address
    }

    /// Where what is at an address of a part is in the whole.
    fn moved(&self, address: u64) -> Option<u64> {
        let behind = self.parts.partition_point(|(part, _)| part.address <= address);
        let (part, offset) = self.parts[..behind].last()?;
        let inside = address - part.address;
        (inside < part.bytes).then_some(self.start() + offset + inside)
    }

    fn copy(&self) -> ProfileSection {
        let contents = self.parts.iter().flat_map(|(part, _)| part.copy()).collect();
        ProfileSection { kind: self.kind, address: self.start(), contents }
    }
}

impl Part {
    fn copy(&self) -> Vec<u8> {
        let start = pointer::<u8>(self.address);
        let mut contents = vec![0; self.bytes as usize];
        // SAFETY: who made the part promised that it is mapped and readable.
        unsafe { start.copy_to_nonoverlapping(contents.as_mut_ptr(), contents.len()) };
        contents
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_find_their_counters_when_parts_are_joined() {
        let counters = [[1u64, 2], [3, 4]];
        let mut records = [[0u64; 8]; 2];
        // The first record has the counters that lie last.
        for (record, of) in [(0, 1), (1, 0)] {
            let distance =
                (&raw const counters[of] as u64).wrapping_sub(&raw const records[record] as u64);
            records[record][2] = distance;
        }
        let part = |kind, address, bytes| Part { kind, address, bytes };
        let data = records.each_ref().map(|record| {
            part(ProfileSectionKind::Data, record.as_ptr().expose_provenance() as u64, 64)
        });
        let of_counters = counters.each_ref().map(|pair| {
            part(ProfileSectionKind::Counters, pair.as_ptr().expose_provenance() as u64, 16)
        });
        let sections = read(&[data[1], of_counters[1], of_counters[0], data[0]]).unwrap();
        let of = |kind| sections.iter().find(|section| section.kind == kind).unwrap();
        let (counted, data) = (of(ProfileSectionKind::Counters), of(ProfileSectionKind::Data));
        let first_counter = |record: usize| {
            let field = data.contents[record * 64 + 16..].first_chunk().unwrap();
            let address =
                (data.address + record as u64 * 64).wrapping_add(u64::from_le_bytes(*field));
            counted.contents[(address - counted.address) as usize]
        };
        assert_eq!((first_counter(0), first_counter(1)), (3, 1));
    }
}
