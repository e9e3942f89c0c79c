//! The profile of an image: separate variables for each function, as in images for GPUs.

use longshore_plugin_api::{ProfileSection, ProfileSectionKind};
use std::ops::Range;

/// Prefixes of the names of a profile's variables.
const PARTS: [(&str, ProfileSectionKind); 5] = [
    ("__profc_", ProfileSectionKind::Counters),
    ("__profd_", ProfileSectionKind::Data),
    ("__profbm_", ProfileSectionKind::Bitmap),
    ("__llvm_prf_nm", ProfileSectionKind::Names),
    ("__llvm_profile_raw_version", ProfileSectionKind::RawVersion),
];

/// Positions of the addresses of counters and of bitmaps in a data record, the same in every
/// version.
const ADDRESSES_AT: [Range<usize>; 2] = [16..24, 24..32];

/// Returns the part of a profile that a variable of this name belongs to; `None` if it belongs to
/// none.
pub fn profile_part(variable: &str) -> Option<ProfileSectionKind> {
    let of_name = |(start, kind): &(&str, _)| variable.starts_with(start).then_some(*kind);
    PARTS.iter().find_map(of_name)
}

/// Replaces addresses in data records by distances from the record. LLVM's records in memory have
/// distances, but not every GPU's compiler can express a distance in an initial value.
pub fn make_relative(sections: &mut [ProfileSection]) {
    let ranges: Vec<Range<u64>> = sections
        .iter()
        .filter(|section| section.kind != ProfileSectionKind::Data)
        .map(|section| section.address..section.address + section.contents.len() as u64)
        .collect();
    let records = sections.iter_mut().filter(|section| section.kind == ProfileSectionKind::Data);
    for record in records {
        for at in ADDRESSES_AT {
            let Some(field) = record.contents.get_mut(at) else { continue };
            let Ok(bytes) = field.try_into() else { continue };
            let address = u64::from_le_bytes(bytes);
            if ranges.iter().any(|range| range.contains(&address)) {
                let distance = address.wrapping_sub(record.address);
                field.copy_from_slice(&distance.to_le_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_counters_become_distances() {
        let mut record = vec![0; 64];
        record[16..24].copy_from_slice(&0x9000u64.to_le_bytes());
        let section = |kind, address, contents| ProfileSection::new(kind, address, contents);
        let mut sections = [
            section(ProfileSectionKind::Data, 0x1000, record),
            section(ProfileSectionKind::Counters, 0x9000, vec![0; 8]),
        ];
        make_relative(&mut sections);
        assert_eq!(sections[0].contents[16..24], 0x8000u64.to_le_bytes());
        make_relative(&mut sections);
        assert_eq!(sections[0].contents[16..24], 0x8000u64.to_le_bytes());
    }
}
