//! Selections of backends, the values of `LONGSHORE_BACKEND`.

use longshore_plugin_api::{Error, ErrorCode, Result};
use std::fmt;

const GRAMMAR: &str = "expected backend names separated by commas, in order of preference, \
                       such as \"cuda,host\"";

/// A selection of backends, in order of preference: "cuda,host". Plugins of other backends are not
/// loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendSelection {
    names: Vec<String>,
    /// Whether each named backend must have a plugin.
    required: bool,
}

impl BackendSelection {
    /// Parses a list such as "cuda,host". Upper case and spaces around a name do not matter; a
    /// repeated name counts at its first place.
    ///
    /// # Errors
    /// `InvalidValue` for an empty list and for an entry that cannot be a backend's name.
    pub fn parse(text: &str) -> Result<BackendSelection> {
        let mut names = Vec::new();
        for part in text.split(',') {
            let name = part.trim().to_ascii_lowercase();
            if !is_backend_name(&name) {
                let message = format!("'{part}' in \"{text}\" is no backend's name: {GRAMMAR}");
                return Err(Error::new(ErrorCode::InvalidValue, message));
            }
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Ok(BackendSelection { names, required: true })
    }

    /// Returns the selection with optional backends: a backend without a plugin is no error.
    #[must_use]
    pub fn with_optional_backends(self) -> BackendSelection {
        BackendSelection { required: false, ..self }
    }

    /// Returns the backend's position in the order of preference, from 0; `None` for a backend
    /// outside the selection.
    pub fn rank(&self, backend: &str) -> Option<usize> {
        self.names.iter().position(|name| name == backend)
    }

    /// Checks that every selected backend is in `there`, the backends of the plugins found.
    /// Optional backends are not checked.
    ///
    /// # Errors
    /// `NotFound` for the first missing backend; the message lists the backends of `there`.
    pub fn check(&self, there: &[&str]) -> Result<()> {
        let is_missing = |name: &&String| self.required && !there.contains(&name.as_str());
        let Some(missing) = self.names.iter().find(is_missing) else { return Ok(()) };
        let mut known: Vec<&str> = Vec::new();
        for backend in there.iter().filter(|backend| !backend.is_empty()) {
            if !known.contains(backend) {
                known.push(backend);
            }
        }
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let message = format!("there is no plugin for backend '{missing}'; there are: {known}");
        Err(Error::new(ErrorCode::NotFound, message))
    }
}

impl fmt::Display for BackendSelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names.join(","))
    }
}

/// Returns whether `name` can be a backend's name: lower case letters, digits, `-` and `_`.
pub(crate) fn is_backend_name(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    !name.is_empty() && name.chars().all(legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_order_and_other_backends_are_ruled_out() {
        let selection = BackendSelection::parse(" CUDA, host,cuda").unwrap();
        assert_eq!(selection.rank("cuda"), Some(0));
        assert_eq!(selection.rank("host"), Some(1));
        assert_eq!(selection.rank("vulkan"), None);
        assert_eq!(selection.to_string(), "cuda,host");
    }

    #[test]
    fn an_invalid_name_is_refused_with_the_grammar() {
        for text in ["", "cuda,", ",", "cuda;host", "cu da", "größe", "cuda:0"] {
            let error = BackendSelection::parse(text).unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidValue, "{text}");
            assert!(error.message().contains("separated by commas"), "{error}");
        }
    }

    #[test]
    fn a_name_without_a_plugin_is_an_error_that_lists_what_there_is() {
        let selection = BackendSelection::parse("host,cuda").unwrap();
        assert_eq!(selection.check(&["cuda", "host"]), Ok(()));
        let error = selection.check(&["host", "vulkan", "host"]).unwrap_err();
        assert_eq!(error.code(), ErrorCode::NotFound);
        assert!(error.message().contains("'cuda'; there are: host, vulkan"), "{error}");
        let error = selection.check(&[]).unwrap_err();
        assert!(error.message().ends_with("there are: none"), "{error}");
        assert_eq!(selection.with_optional_backends().check(&["vulkan"]), Ok(()));
    }
}
