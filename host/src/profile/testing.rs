//! Sections of synthetic profiles, and tests of all profiles.

use super::*;

/// Returns the sections of a profile of one function `abc` with the counters 7 and 41. `names` is
/// the section of names.
pub(super) fn sections(version: u64, names: &[u8]) -> Vec<ProfileSection> {
    let layout = RawVersion(version).layout().unwrap();
    let mut record = vec![0; layout.bytes];
    record[..8].copy_from_slice(&counters::name_hash(b"abc").to_le_bytes());
    record[8..16].copy_from_slice(&0x18u64.to_le_bytes());
    record[16..24].copy_from_slice(&0x1000u64.wrapping_sub(0x2000).to_le_bytes());
    record[layout.counter_count] = 2;
    let counts = [7u64, 41].map(u64::to_le_bytes).concat();
    let section = |kind, address, contents| ProfileSection::new(kind, address, contents);
    vec![
        section(ProfileSectionKind::Counters, 0x1000, counts),
        section(ProfileSectionKind::Data, 0x2000, record),
        section(ProfileSectionKind::Names, 0x3000, names.to_vec()),
        section(ProfileSectionKind::RawVersion, 0x4000, version.to_le_bytes().to_vec()),
    ]
}

#[test]
fn an_image_without_counters_has_no_profile() {
    assert!(Profile::from_sections(&[]).unwrap().is_none());
    assert!(Profile::from_sections(&sections(10, b"")[1..]).unwrap().is_none());
}

#[test]
fn sections_that_do_not_fit_are_refused() {
    for (section, bytes) in [(0, 15), (1, 63), (1, 47)] {
        let mut sections = sections(10, b"");
        sections[section].contents.truncate(bytes);
        assert_eq!(
            Profile::from_sections(&sections).err().unwrap().code(),
            ErrorCode::InvalidBinary
        );
    }
    let mut sections = sections(10, b"");
    sections[3].contents[0] = 11;
    assert_eq!(Profile::from_sections(&sections).err().unwrap().code(), ErrorCode::Unsupported);
}

#[test]
fn a_version_that_the_image_lacks_is_that_of_the_records() {
    for version in [8, 10] {
        let sections = sections(version, b"");
        let profile = Profile::from_sections(&sections[..3]).unwrap().unwrap();
        assert_eq!(profile.version, RawVersion(version));
    }
}
