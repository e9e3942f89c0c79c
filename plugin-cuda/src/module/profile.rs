//! The profile of an image: variables of their own for each function, as NVPTX has no sections.

use super::CudaModule;
use longshore_cuda_image::{Contents, Linkage, Variable};
use longshore_plugin_api::{ProfileSection, ProfileSectionKind, Result};
use std::collections::HashSet;
use std::ops::Range;

/// The variable by which a profile asks for LLVM's runtime.
pub(super) const RUNTIME: &str = "__llvm_profile_runtime";
/// How the names of what belongs to a profile begin.
const PARTS: [(&str, ProfileSectionKind); 5] = [
    ("__profc_", ProfileSectionKind::Counters),
    ("__profd_", ProfileSectionKind::Data),
    ("__profbm_", ProfileSectionKind::Bitmap),
    ("__llvm_prf_nm", ProfileSectionKind::Names),
    ("__llvm_profile_raw_version", ProfileSectionKind::RawVersion),
];
/// Before the declaration of a variable that all can see.
const VISIBLE: &[u8] = b".visible ";
/// Where the addresses of counters and of bitmaps are in a record of every version.
const ADDRESSES_AT: [Range<usize>; 2] = [16..24, 24..32];

impl CudaModule {
    /// What the profile's variables hold now. Blocks.
    pub(super) fn profile_sections(&self) -> Result<Vec<ProfileSection>> {
        let mut sections = Vec::new();
        for variable in &self.contents().variables {
            let Some(kind) = kind_of(variable) else { continue };
            let Some(place) = self.place_of(variable)? else {
                log::warn!("the driver does not find '{}' of a profile", variable.name);
                continue;
            };
            let contents = self.read(place)?;
            sections.push(ProfileSection { kind, address: place.address, contents });
        }
        make_relative(&mut sections);
        Ok(sections)
    }
}

/// PTX in which the driver finds the parts of a profile. Compilers before LLVM 22 keep them to the image.
pub(super) fn visible(text: &[u8], contents: &Contents) -> Vec<u8> {
    let hidden =
        |variable: &&Variable| variable.linkage == Linkage::Internal && kind_of(variable).is_some();
    let names: HashSet<&[u8]> =
        contents.variables.iter().filter(hidden).map(|variable| variable.name.as_bytes()).collect();
    if names.is_empty() {
        return text.to_vec();
    }
    let mut edited = Vec::with_capacity(text.len() + names.len() * VISIBLE.len());
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        if declared(line).is_some_and(|name| names.contains(name)) {
            edited.extend_from_slice(VISIBLE);
        }
        edited.extend_from_slice(line);
    }
    edited
}

/// The variable that a line begins to declare: ".global .align 8 .b8 __profc_f[8] = ...".
fn declared(line: &[u8]) -> Option<&[u8]> {
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_$%".contains(byte);
    let words = line.strip_prefix(b".global ")?.split(|byte| byte.is_ascii_whitespace());
    let mut names =
        words.filter(|word| word.first().is_some_and(|first| !b".0123456789".contains(first)));
    let name = names.next()?;
    let end = name.iter().position(|byte| !is_of_name(byte)).unwrap_or(name.len());
    Some(&name[..end])
}

/// In memory that is no file, LLVM's records have distances from themselves. NVPTX cannot say that in an
/// initial value, so its compilers write addresses.
fn make_relative(sections: &mut [ProfileSection]) {
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

fn kind_of(variable: &Variable) -> Option<ProfileSectionKind> {
    let of_name = |(start, kind): &(&str, _)| variable.name.starts_with(start).then_some(*kind);
    PARTS.iter().find_map(of_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_a_profile_become_visible() {
        let text = ".version 8.0\n.target sm_90\n.global .align 8 .b8 __profc_f_$_more[8];\n\
                    .global .align 8 .b8 other[8];\n.visible .global .u64 __profc_g;\n\
                    .global .u64 r[2] = {generic(__profc_f_$_more), 0};\n";
        let edited = visible(text.as_bytes(), &Contents::of_ptx(text.as_bytes()));
        let expected = text
            .replace(".global .align 8 .b8 __profc_f", ".visible .global .align 8 .b8 __profc_f");
        assert_eq!(String::from_utf8(edited).unwrap(), expected);
    }

    #[test]
    fn addresses_of_counters_become_distances() {
        let mut record = vec![0; 64];
        record[16..24].copy_from_slice(&0x9000u64.to_le_bytes());
        let section = |kind, address, contents| ProfileSection { kind, address, contents };
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
