//! Target IDs: a processor, and settings of features that differ between devices with this
//! processor.

use crate::{Malformed, processor};
use std::fmt;

/// The target of code or of a device: "gfx90a:sramecc+:xnack-".
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// The processor: "gfx90a", or a generic one such as "gfx9-4-generic".
    pub processor: String,
    /// Setting of error correction in memory.
    pub sramecc: Feature,
    /// Setting of retries after page faults.
    pub xnack: Feature,
    /// The version of a generic processor, known from code objects and not from target IDs.
    pub generic_version: Option<u8>,
}

/// The setting of a feature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Feature {
    /// No setting: code works with both settings; a device lacks the feature.
    #[default]
    Any,
    /// Enabled on a device, or required by code.
    On,
    /// Disabled on a device, or required to be by code.
    Off,
}

/// Most bytes of a target ID.
const LONGEST: usize = 128;

impl Target {
    /// Parses a target ID, alone or after a triple: "gfx90a:xnack+",
    /// "amdgcn-amd-amdhsa--gfx90a:xnack+". Unknown processors are accepted.
    ///
    /// # Errors
    /// A text that is not a target ID.
    pub fn parse(text: &str) -> Result<Target, Malformed> {
        if text.len() > LONGEST {
            return Err(Malformed(format!("a text of {} bytes is not a target ID", text.len())));
        }
        let wrong = |why: &str| Malformed(format!("'{text}' is not a target ID: {why}"));
        let mut parts = without_triple(text).split(':');
        let processor = parts.next().filter(|name| is_processor(name));
        let processor = processor.ok_or_else(|| wrong("it has no processor, such as gfx90a"))?;
        let mut target = Target::from_processor(processor.to_owned());
        for part in parts {
            let (name, setting) = match part.as_bytes() {
                [.., b'+'] => (&part[..part.len() - 1], Feature::On),
                [.., b'-'] => (&part[..part.len() - 1], Feature::Off),
                _ => return Err(wrong("a feature is neither on (+) nor off (-)")),
            };
            let feature = match name {
                "sramecc" => &mut target.sramecc,
                "xnack" => &mut target.xnack,
                _ => return Err(wrong("it has a feature other than sramecc and xnack")),
            };
            if std::mem::replace(feature, setting) != Feature::Any {
                return Err(wrong("it has a feature twice"));
            }
        }
        Ok(target)
    }

    /// Creates a target without settings of features.
    pub(crate) fn from_processor(processor: String) -> Target {
        Target { processor, sramecc: Feature::Any, xnack: Feature::Any, generic_version: None }
    }

    /// Returns whether the processor is generic, and so covers others.
    #[must_use]
    pub fn is_generic(&self) -> bool {
        processor::is_generic(&self.processor)
    }
}

/// Returns whether a triple is one of code objects: "amdgcn-amd-amdhsa", or, from later compilers,
/// "amdgpu9.4-amd-amdhsa-unknown".
#[must_use]
pub fn is_triple(text: &str) -> bool {
    let mut parts = text.split('-');
    let is_architecture = |part: &str| part == "amdgcn" || part.starts_with("amdgpu");
    parts.next().is_some_and(is_architecture)
        && parts.next() == Some("amd")
        && parts.next() == Some("amdhsa")
}

/// Returns the text after a triple.
fn without_triple(text: &str) -> &str {
    match text.split_once("-gfx") {
        Some((triple, _)) if is_triple(triple) => &text[triple.len() + 1..],
        _ => text,
    }
}

fn is_processor(name: &str) -> bool {
    let is_of_it = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let number = name.strip_prefix("gfx").unwrap_or_default().as_bytes();
    number.first().is_some_and(u8::is_ascii_digit) && number.iter().copied().all(is_of_it)
}

/// Formats the canonical form, with features in alphabetical order.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.processor)?;
        for (name, feature) in [("sramecc", self.sramecc), ("xnack", self.xnack)] {
            match feature {
                Feature::Any => {}
                Feature::On => write!(f, ":{name}+")?,
                Feature::Off => write!(f, ":{name}-")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_ids_are_read_and_written_in_canonical_form() {
        for (text, canonical) in [
            ("gfx90a", "gfx90a"),
            ("gfx90a:xnack-:sramecc+", "gfx90a:sramecc+:xnack-"),
            ("gfx9-4-generic:xnack+", "gfx9-4-generic:xnack+"),
            ("amdgcn-amd-amdhsa--gfx90a:xnack+", "gfx90a:xnack+"),
            ("amdgcn-amd-amdhsa-gfx906", "gfx906"),
            ("amdgpu9.4-amd-amdhsa-unknown-gfx942:sramecc-", "gfx942:sramecc-"),
            ("gfx9999", "gfx9999"),
        ] {
            let target = Target::parse(text).unwrap();
            assert_eq!(target.to_string(), canonical);
            assert_eq!(Target::parse(canonical), Ok(target));
        }
        let target = Target::parse("gfx90a:sramecc+:xnack-").unwrap();
        assert_eq!((target.sramecc, target.xnack), (Feature::On, Feature::Off));
        assert_eq!((target.is_generic(), target.generic_version), (false, None));
        assert!(Target::parse("gfx12-generic").unwrap().is_generic());
    }

    #[test]
    fn triples_of_code_objects_are_known() {
        for triple in ["amdgcn-amd-amdhsa", "amdgcn-amd-amdhsa--", "amdgpu9.4-amd-amdhsa-unknown"] {
            assert!(is_triple(triple), "{triple}");
        }
        for triple in ["", "amdgcn", "amdgcn-amd-amdpal", "r600-amd-amdhsa", "spirv64-amd-amdhsa"] {
            assert!(!is_triple(triple), "{triple}");
        }
    }

    #[test]
    fn an_invalid_target_id_is_refused_with_the_reason() {
        for (text, why) in [
            ("", "processor"),
            ("sm_90", "processor"),
            ("gfx", "processor"),
            ("gfxx", "processor"),
            ("gfx90A", "processor"),
            ("gfx90a\u{e9}", "processor"),
            ("amdgcn-amd-amdhsa--", "processor"),
            ("amdgcn-mesa-mesa3d--gfx900", "processor"),
            ("nvptx64-amd-amdhsa--gfx900", "processor"),
            ("gfx90a:", "neither on"),
            ("gfx90a:xnack", "neither on"),
            ("gfx90a:+", "other than"),
            ("gfx90a:tgsplit+", "other than"),
            ("gfx90a:xnack+:xnack+", "twice"),
            ("gfx90a:xnack+:sramecc-:xnack-", "twice"),
        ] {
            let error = Target::parse(text).unwrap_err();
            assert!(error.0.contains(why) && error.0.contains(text), "{error}");
        }
        assert!(Target::parse(&"gfx9".repeat(1000)).unwrap_err().0.contains("4000 bytes"));
    }
}
