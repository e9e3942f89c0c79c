//! Profile counters: the sections that LLVM's instrumentation adds to an image.

use longshore_plugin_api::profile::{RawVersion, RecordLayout, infer_version};
use longshore_plugin_api::{Error, ErrorCode, ProfileSection, ProfileSectionKind, Result};

/// The sections and their names.
pub(super) const SECTIONS: [(ProfileSectionKind, &str); 4] = [
    (ProfileSectionKind::Counters, "__llvm_prf_cnts"),
    (ProfileSectionKind::Data, "__llvm_prf_data"),
    (ProfileSectionKind::Names, "__llvm_prf_names"),
    (ProfileSectionKind::Bitmap, "__llvm_prf_bits"),
];
/// The variable that holds the raw version. Front-end instrumentation emits no such variable.
pub(super) const RAW_VERSION: &str = "__llvm_profile_raw_version";
pub(super) const RAW_VERSION_BYTES: u64 = 8;

/// Returns the major version of the first clang that an image's section `.comment` names.
pub(super) fn compiler(comment: &[u8]) -> Option<u32> {
    const BEFORE: &[u8] = b"clang version ";
    let at = comment.windows(BEFORE.len()).position(|window| window == BEFORE)?;
    let version = &comment[at + BEFORE.len()..];
    let digits = version.iter().take_while(|byte| byte.is_ascii_digit()).count();
    str::from_utf8(&version[..digits]).ok()?.parse().ok()
}

/// A piece of a section, mapped and readable. A linked shared object has one piece of each kind,
/// relocatable objects have many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) kind: ProfileSectionKind,
    pub(super) address: u64,
    pub(super) bytes: u64,
}

/// Copies the sections: the parts of each kind one after the other, as a linker would place them,
/// from the address of the first part on. Also returns the raw version; if the image lacks it, the
/// records and the compiler's version determine it. No kernel runs meanwhile: the host reads
/// profiles after the last kernel.
///
/// # Errors
/// `Unsupported` for versions and variants with a different layout, `InvalidBinary` for records of
/// another version or without counters in the image.
pub(super) fn read(parts: &[Part], compiler: Option<u32>) -> Result<Vec<ProfileSection>> {
    let kinds = SECTIONS.iter().map(|(kind, _)| *kind);
    let joined: Vec<MergedProfile> =
        kinds.filter_map(|kind| MergedProfile::new(kind, parts)).collect();
    let of_kind = |kind| joined.iter().find(|joined| joined.kind == kind);
    let Some(counters) = of_kind(ProfileSectionKind::Counters) else { return Ok(Vec::new()) };
    let stated = parts.iter().find(|part| part.kind == ProfileSectionKind::RawVersion);
    let stated = stated.map(|part| (part.address, RawVersion(part.word())));
    if let Some((_, version)) = stated {
        version.layout()?;
    }
    let data = of_kind(ProfileSectionKind::Data).ok_or_else(no_records)?;
    let (address, version) = match stated {
        Some(stated) => stated,
        None => (0, data.infer_version(counters, compiler).ok_or_else(no_version)?),
    };
    let layout = version.layout()?;
    let mut sections: Vec<_> = joined.iter().map(MergedProfile::copy).collect();
    let copied = sections.iter_mut().find(|section| section.kind == data.kind);
    let copied = copied.expect("every joined section was copied");
    adjust_records(data, copied, &layout, counters, of_kind(ProfileSectionKind::Bitmap))?;
    let (kind, contents) = (ProfileSectionKind::RawVersion, version.0.to_le_bytes().to_vec());
    sections.push(ProfileSection::new(kind, address, contents));
    Ok(sections)
}

fn no_records() -> Error {
    Error::new(
        ErrorCode::Unsupported,
        "the image has profile counters and no records of them; compile it without \
         -profile-correlate",
    )
}

fn no_version() -> Error {
    Error::new(
        ErrorCode::InvalidBinary,
        "the records of the image's profile fit no raw version, expected 8, 9 or 10; compile all \
         of its objects with one version of clang",
    )
}

/// Adjusts the distances in the records to the new addresses. Clears the counts of value sites: no
/// values are recorded, but readers would expect values for each site.
fn adjust_records(
    data: &MergedProfile,
    copied: &mut ProfileSection,
    layout: &RecordLayout,
    counters: &MergedProfile,
    bitmap: Option<&MergedProfile>,
) -> Result<()> {
    let size = layout.bytes as u64;
    let parts = || data.parts.iter().map(|(part, _)| part);
    if let Some(odd) = parts().find(|part| !part.bytes.is_multiple_of(size)) {
        return Err(malformed(format!("{} bytes of records, expected {size} for each", odd.bytes)));
    }
    let originals =
        parts().flat_map(|part| (part.address..part.address + part.bytes).step_by(layout.bytes));
    let records = copied.contents.chunks_exact_mut(layout.bytes).zip(originals);
    for (index, (record, original)) in records.enumerate() {
        record[layout.value_sites.clone()].fill(0);
        let now = copied.address + (index * layout.bytes) as u64;
        let count = layout.counters_of(record);
        let first = layout.counters_at(record, original);
        let bytes = u64::from(count) * layout.counter_bytes as u64;
        let are_there = first.is_some_and(|first| counters.holds(first, bytes));
        if !are_there || !move_distance(record, layout.counters, [original, now], counters) {
            return Err(malformed(format!(
                "a record, number {index}, whose {count} counters are not in the image"
            )));
        }
        if let (Some(at), Some(bitmap)) = (layout.bitmap, bitmap) {
            move_distance(record, at, [original, now], bitmap);
        }
    }
    Ok(())
}

/// Changes a distance from a record's old address to one from its new address. Returns `false` if
/// the distance does not lead to the target.
fn move_distance(
    record: &mut [u8],
    at: usize,
    [was, now]: [u64; 2],
    target: &MergedProfile,
) -> bool {
    let field = record[at..].first_chunk_mut().expect("the field lies in the record");
    let Some(moved) = target.moved(was.wrapping_add(u64::from_le_bytes(*field))) else {
        return false;
    };
    *field = moved.wrapping_sub(now).to_le_bytes();
    true
}

fn malformed(what: String) -> Error {
    Error::new(
        ErrorCode::InvalidBinary,
        format!(
            "the image's profile has {what}; compile all of its objects with one version of clang"
        ),
    )
}

/// The parts of one kind, in the order of their addresses, each with its offset in the joined
/// section.
struct MergedProfile {
    kind: ProfileSectionKind,
    parts: Vec<(Part, u64)>,
}

impl MergedProfile {
    /// Joins the parts of one kind. `None` without parts of this kind.
    fn new(kind: ProfileSectionKind, parts: &[Part]) -> Option<MergedProfile> {
        let mut of_kind: Vec<Part> =
            parts.iter().filter(|part| part.kind == kind && part.bytes > 0).copied().collect();
        of_kind.sort_unstable_by_key(|part| part.address);
        let mut offset = 0;
        let placed = of_kind.into_iter().map(|part| {
            offset += part.bytes;
            (part, offset - part.bytes)
        });
        let parts: Vec<_> = placed.collect();
        (!parts.is_empty()).then_some(MergedProfile { kind, parts })
    }

    fn start(&self) -> u64 {
        self.parts[0].0.address
    }

    /// Returns the new address for an address in a part.
    fn moved(&self, address: u64) -> Option<u64> {
        let behind = self.parts.partition_point(|(part, _)| part.address <= address);
        let (part, offset) = self.parts[..behind].last()?;
        let inside = address - part.address;
        (inside < part.bytes).then_some(self.start() + offset + inside)
    }

    /// Returns whether one part contains all of these bytes. `false` for 0 bytes.
    fn holds(&self, address: u64, bytes: u64) -> bool {
        let Some(last) = bytes.checked_sub(1).and_then(|rest| address.checked_add(rest)) else {
            return false;
        };
        let ends = self.moved(address).zip(self.moved(last));
        ends.is_some_and(|(first, last)| last.wrapping_sub(first) == bytes - 1)
    }

    /// Returns the version that the records imply.
    fn infer_version(&self, counters: &MergedProfile, compiler: Option<u32>) -> Option<RawVersion> {
        let copies: Vec<_> =
            self.parts.iter().map(|(part, _)| (part.address, part.copy())).collect();
        let records: Vec<_> = copies.iter().map(|(at, copy)| (*at, copy.as_slice())).collect();
        let counters =
            counters.parts.iter().map(|(part, _)| part.address..part.address + part.bytes);
        infer_version(&records, &counters.collect::<Vec<_>>(), compiler)
    }

    fn copy(&self) -> ProfileSection {
        let contents = self.parts.iter().flat_map(|(part, _)| part.copy()).collect();
        ProfileSection::new(self.kind, self.start(), contents)
    }
}

impl Part {
    fn copy(&self) -> Vec<u8> {
        let start = std::ptr::with_exposed_provenance::<u8>(self.address as usize);
        let mut contents = vec![0; self.bytes as usize];
        // SAFETY: the creator of the part promised that it is mapped and readable.
        unsafe { start.copy_to_nonoverlapping(contents.as_mut_ptr(), contents.len()) };
        contents
    }

    /// Returns the first 8 bytes as a number; 0 for a shorter part.
    fn word(&self) -> u64 {
        self.copy().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiler_is_named_by_the_comment() {
        let linked = b"GCC: (Debian) 12.2.0\0Debian clang version 18.1.8 (1)\0";
        assert_eq!(compiler(linked), Some(18));
        for comment in [&b""[..], b"clang version ", b"clang version x", b"GCC: 12"] {
            assert_eq!(compiler(comment), None);
        }
    }

    const COUNTERS: [[u64; 2]; 2] = [[1, 2], [3, 4]];

    /// Creates two records of `WORDS` words each, with two counters at word `count_at`. The first
    /// record refers to the last counters.
    fn records<const WORDS: usize>(
        counters: &[[u64; 2]; 2],
        count_at: usize,
    ) -> Box<[[u64; WORDS]; 2]> {
        let mut records = Box::new([[0u64; WORDS]; 2]);
        for (record, of) in [(0, 1), (1, 0)] {
            let target = &raw const counters[of] as u64;
            let distance = target.wrapping_sub(&raw const records[record] as u64);
            (records[record][2], records[record][count_at]) = (distance, 2);
        }
        records
    }

    fn part<T>(kind: ProfileSectionKind, of: &T) -> Part {
        let address = (of as *const T).expose_provenance() as u64;
        Part { kind, address, bytes: size_of::<T>() as u64 }
    }

    /// Returns the first counters of both records, found in the way of a reader of the sections.
    fn first_counters(sections: &[ProfileSection], layout: &RecordLayout) -> Vec<u8> {
        let of = |kind| sections.iter().find(|section| section.kind == kind).unwrap();
        let (counted, data) = (of(ProfileSectionKind::Counters), of(ProfileSectionKind::Data));
        let places = (data.address..).step_by(layout.bytes);
        let records = data.contents.chunks_exact(layout.bytes).zip(places);
        let found = records.map(|(record, at)| layout.counters_at(record, at).unwrap());
        found.map(|address| counted.contents[(address - counted.address) as usize]).collect()
    }

    #[test]
    fn records_find_their_counters_when_parts_are_joined() {
        let counters = COUNTERS;
        let of_counters = counters.each_ref().map(|pair| part(ProfileSectionKind::Counters, pair));
        let (long, short) = (records::<8>(&counters, 6), records::<6>(&counters, 5));
        let of_long = long.each_ref().map(|record| part(ProfileSectionKind::Data, record));
        let of_short = short.each_ref().map(|record| part(ProfileSectionKind::Data, record));
        for (version, data) in [(10, of_long), (8, of_short)] {
            let parts = [data[1], of_counters[1], of_counters[0], data[0]];
            let sections = read(&parts, None).unwrap();
            let layout = RawVersion(version).layout().unwrap();
            assert_eq!(first_counters(&sections, &layout), [3, 1], "version {version}");
            let copied =
                sections.iter().find(|s| s.kind == ProfileSectionKind::RawVersion).unwrap();
            assert_eq!(copied.contents, version.to_le_bytes());
        }
        // Objects of two compilers.
        let mixed = [of_long[0], of_short[0], of_counters[0], of_counters[1]];
        assert_eq!(read(&mixed, None).unwrap_err().code(), ErrorCode::InvalidBinary);
        let version = 10u64;
        let of_version = part(ProfileSectionKind::RawVersion, &version);
        let mixed = [&mixed[..], &[of_version]].concat();
        assert_eq!(read(&mixed, None).unwrap_err().code(), ErrorCode::InvalidBinary);
    }

    #[test]
    fn records_without_counters_are_refused() {
        let counters = COUNTERS;
        let of_counters = part(ProfileSectionKind::Counters, &counters);
        let version = 10u64;
        let of_version = part(ProfileSectionKind::RawVersion, &version);
        let mut records = records::<8>(&counters, 6);
        records[1][2] = 0;
        let data = part(ProfileSectionKind::Data, &*records);
        let refused = read(&[data, of_counters, of_version], None).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::InvalidBinary);
        assert!(refused.message().contains("number 1"), "{refused}");
        assert_eq!(read(&[data, of_counters], None).unwrap_err().code(), ErrorCode::InvalidBinary);
        let refused = read(&[of_counters, of_version], None).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::Unsupported);
        assert!(refused.message().contains("-profile-correlate"), "{refused}");
    }
}
