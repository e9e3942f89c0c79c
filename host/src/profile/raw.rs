//! The content of a `.profraw` file: a header of 64-bit words, which grew with the versions, then
//! records, counters, bitmap and names, each at a multiple of 8 bytes. LLVM: `lprofWriteData`.

use super::Profile;

/// The bytes FF, "lprofr", 81, as a number.
pub(super) const MAGIC: u64 = 0xff6c_7072_6f66_7281;
/// No identifiers of binaries are written.
const BINARY_IDS_BYTES: u64 = 0;
/// Records are multiples of 8 bytes.
const NO_PADDING: u64 = 0;

/// The file's content.
pub(super) fn file(profile: &Profile<'_>) -> Vec<u8> {
    let parts = [&profile.data.contents, &profile.counters.contents, profile.bitmap()];
    let mut file: Vec<u8> = header(profile).iter().flat_map(|word| word.to_le_bytes()).collect();
    for part in parts.into_iter().chain([profile.names()]) {
        file.extend_from_slice(part);
        file.resize(file.len().next_multiple_of(8), 0);
    }
    file
}

/// `INSTR_PROF_RAW_HEADER` in LLVM's `InstrProfData.inc`.
fn header(profile: &Profile<'_>) -> Vec<u64> {
    let Profile { version, layout, counters, data, .. } = profile;
    let has_bitmap = version.number() >= 9;
    let has_vtables = version.number() >= 10;
    let bitmap_bytes = profile.bitmap().len();
    let bitmap_distance =
        profile.bitmap.map_or(0, |bitmap| bitmap.address.wrapping_sub(data.address));
    let mut header = vec![
        MAGIC,
        version.0,
        BINARY_IDS_BYTES,
        (data.contents.len() / layout.bytes) as u64,
        NO_PADDING,
        (counters.contents.len() / layout.counter_bytes) as u64,
        padding(counters.contents.len()),
    ];
    if has_bitmap {
        header.extend([bitmap_bytes as u64, padding(bitmap_bytes)]);
    }
    header.extend([profile.names().len() as u64, counters.address.wrapping_sub(data.address)]);
    if has_bitmap {
        header.push(bitmap_distance);
    }
    header.push(profile.names.map_or(0, |names| names.address));
    if has_vtables {
        // No tables of virtual functions, no bytes of their names.
        header.extend([0, 0]);
    }
    header.push(last_value_kind(version.number()));
    header
}

fn padding(bytes: usize) -> u64 {
    (bytes.next_multiple_of(8) - bytes) as u64
}

/// The highest kind of value that the version knows: sizes of memory operations, and from version
/// 10 on tables of virtual functions.
fn last_value_kind(version: u64) -> u64 {
    if version >= 10 { 2 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::super::testing::sections;
    use super::*;

    fn word(file: &[u8], index: usize) -> u64 {
        u64::from_le_bytes(file[index * 8..index * 8 + 8].try_into().unwrap())
    }

    #[test]
    fn a_profile_has_its_versions_header_and_padded_parts() {
        for (version, words, record, names_at) in [(8, 11, 48, 7), (9, 14, 64, 9), (10, 16, 64, 9)]
        {
            let sections = sections(version, b"\x03\0abc");
            let file = file(&Profile::of(&sections).unwrap().unwrap());
            assert_eq!(file.len(), words * 8 + record + 16 + 8, "version {version}");
            assert_eq!((word(&file, 0), word(&file, 1)), (MAGIC, version));
            assert_eq!((word(&file, 3), word(&file, 5)), (1, 2));
            assert_eq!(word(&file, names_at), 5);
            assert_eq!(word(&file, names_at + 1), 0x1000u64.wrapping_sub(0x2000));
            assert_eq!(word(&file, words - 1), last_value_kind(version));
        }
    }

    #[test]
    fn variant_bits_stay_in_the_version() {
        let sections = sections(10 | 1 << 56 | 1 << 63, b"");
        let file = file(&Profile::of(&sections).unwrap().unwrap());
        assert_eq!(word(&file, 1), 10 | 1 << 56 | 1 << 63);
        assert_eq!(file.len(), 128 + 64 + 16);
    }
}
