//! The profile of an image: separate variables for each function, as NVPTX has no sections.

use super::CudaImage;
use crate::driver::Driver;
use longshore_format_nvidia::{Contents, Linkage, Variable};
use longshore_plugin_api::{ProfileSection, ProfileSectionKind, Result};
use longshore_plugin_streams::{ModuleCore, make_relative, profile_part};
use std::collections::HashSet;

/// The variable that refers to LLVM's profile runtime.
pub(super) const RUNTIME: &str = "__llvm_profile_runtime";
/// The directive before the declaration of a visible variable.
const VISIBLE: &[u8] = b".visible ";

impl CudaImage {
    /// Returns the present contents of the profile's variables. Blocks.
    pub(super) fn profile_sections(
        &self,
        module: &ModuleCore<Driver>,
    ) -> Result<Vec<ProfileSection>> {
        let mut sections = Vec::new();
        for variable in &self.contents().variables {
            let Some(kind) = kind_of(variable) else { continue };
            let Some(place) = self.place_of(module, variable)? else {
                log::warn!("the driver does not find the profile variable '{}'", variable.name);
                continue;
            };
            let contents = module.read(place)?;
            sections.push(ProfileSection::new(kind, place.address, contents));
        }
        make_relative(&mut sections);
        Ok(sections)
    }
}

/// Returns the PTX with the variables of a profile made visible to the driver. Compilers before
/// LLVM 22 make them internal.
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

/// Returns the variable whose declaration starts on this line:
/// `.global .align 8 .b8 __profc_f[8] = ...`.
fn declared(line: &[u8]) -> Option<&[u8]> {
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_$%".contains(byte);
    let words = line.strip_prefix(b".global ")?.split(|byte| byte.is_ascii_whitespace());
    let mut names =
        words.filter(|word| word.first().is_some_and(|first| !b".0123456789".contains(first)));
    let name = names.next()?;
    let end = name.iter().position(|byte| !is_of_name(byte)).unwrap_or(name.len());
    Some(&name[..end])
}

fn kind_of(variable: &Variable) -> Option<ProfileSectionKind> {
    profile_part(&variable.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_a_profile_become_visible() {
        let text = ".version 8.0\n.target sm_90\n.global .align 8 .b8 __profc_f_$_more[8];\n\
                    .global .align 8 .b8 other[8];\n.visible .global .u64 __profc_g;\n\
                    .global .u64 r[2] = {generic(__profc_f_$_more), 0};\n";
        let edited = visible(text.as_bytes(), &Contents::from_ptx(text.as_bytes()));
        let expected = text
            .replace(".global .align 8 .b8 __profc_f", ".visible .global .align 8 .b8 __profc_f");
        assert_eq!(String::from_utf8(edited).unwrap(), expected);
    }
}
