//! The name of a backend, in the forms that a project needs.

use crate::failure::{Exit, Failure};
use std::fmt;

/// Most characters of a name. A file's name, with prefix and suffix, has at most 255.
const MAX_CHARACTERS: usize = 64;
/// A word for all backends in `LONGSHORE_ISOLATE`.
const ALL: &str = "all";

/// The name of a backend: "my_gpu".
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PluginName(String);

impl PluginName {
    /// Checks a name.
    pub(super) fn parse(name: &str) -> Result<PluginName, Failure> {
        let refused = |expected: &str| {
            let message = format!("'{name}' cannot be a backend's name: expected {expected}");
            Failure::new(Exit::Usage, message)
        };
        if !is_legal(name) {
            let expected = "a lower-case letter, then lower-case letters, digits, '-' and '_'";
            let lower = name.to_ascii_lowercase();
            return Err(match is_legal(&lower) {
                true => refused(expected).or_hint(format!("'{lower}' would be one")),
                false => refused(expected),
            });
        }
        if name.len() > MAX_CHARACTERS {
            return Err(refused(&format!("at most {MAX_CHARACTERS} characters")));
        }
        if name == ALL {
            return Err(refused("another word: in LONGSHORE_ISOLATE 'all' means all backends"));
        }
        Ok(PluginName(name.to_owned()))
    }

    /// Refuses a name that cannot be part of a Rust library's name.
    pub(super) fn check_for_rust(&self) -> Result<(), Failure> {
        if !self.0.contains('-') {
            return Ok(());
        }
        let message = format!(
            "'{self}' cannot be the name of a backend in Rust: cargo allows no '-' in the name of a \
             library, which the file's name must match"
        );
        let other = self.0.replace('-', "_");
        Err(Failure::new(Exit::Usage, message).or_hint(format!("use '{other}'")))
    }

    /// Returns the name in capitals, as in the names of settings: "MY_GPU".
    pub(super) fn in_capitals(&self) -> String {
        self.0.to_ascii_uppercase().replace('-', "_")
    }

    /// Returns the name as the beginning of a type's name: "MyGpu".
    pub(super) fn in_camel_case(&self) -> String {
        let capitalized = |word: &str| {
            let (first, rest) = word.split_at(word.len().min(1));
            first.to_ascii_uppercase() + rest
        };
        self.0.split(['-', '_']).map(capitalized).collect()
    }

    /// Returns the name as a part of a package's name: "my-gpu".
    pub(super) fn in_package(&self) -> String {
        self.0.replace('_', "-")
    }
}

fn is_legal(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_lowercase();
    let is_part = |c: char| is_letter(c) || c.is_ascii_digit() || c == '-' || c == '_';
    name.starts_with(is_letter) && name.chars().all(is_part)
}

impl fmt::Display for PluginName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(name: &str) -> String {
        PluginName::parse(name).unwrap_err().to_string()
    }

    #[test]
    fn a_name_has_the_forms_that_files_need() {
        let name = PluginName::parse("my-gpu_2").unwrap();
        assert_eq!(name.in_capitals(), "MY_GPU_2");
        assert_eq!(name.in_camel_case(), "MyGpu2");
        assert_eq!(name.in_package(), "my-gpu-2");
        assert_eq!(PluginName::parse("a__b-").unwrap().in_camel_case(), "AB");
    }

    #[test]
    fn names_that_no_host_would_load_are_refused() {
        for name in ["", "2d", "-a", "a.b", "a b", "ä", "../a", "a/b"] {
            assert!(refusal(name).contains("expected a lower-case letter"), "{name}");
            assert!(!refusal(name).contains("hint"), "{name}");
        }
        assert!(refusal("MyGpu").ends_with("hint: 'mygpu' would be one\n"));
        assert!(refusal(&"a".repeat(65)).contains("at most 64 characters"));
        assert!(refusal("all").contains("LONGSHORE_ISOLATE"));
    }

    #[test]
    fn a_library_in_rust_has_no_hyphen() {
        let refusal = PluginName::parse("my-gpu").unwrap().check_for_rust().unwrap_err();
        assert!(refusal.to_string().ends_with("hint: use 'my_gpu'\n"));
        assert!(PluginName::parse("my_gpu").unwrap().check_for_rust().is_ok());
    }
}
