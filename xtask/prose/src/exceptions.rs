//! Findings that stay, each with its reason.

use crate::rules::Finding;
use std::path::Path;

/// A text that may stay.
#[derive(Debug)]
pub(crate) struct Exception {
    /// The file, or the start of the paths of a folder's files.
    pub(crate) file: &'static str,
    /// A part of the offending text.
    pub(crate) text: &'static str,
    /// The reason for which it stays.
    reason: &'static str,
}

/// All exceptions.
const EXCEPTIONS: &[Exception] = &[];

/// Indices of the exceptions that a finding has used.
#[derive(Debug, Default)]
pub(crate) struct Exceptions {
    used: Vec<usize>,
}

impl Exceptions {
    /// Returns whether a finding may stay.
    pub(crate) fn allow(&mut self, file: &Path, finding: &Finding) -> bool {
        let fits = |exception: &Exception| {
            !exception.reason.is_empty()
                && file.to_string_lossy().starts_with(exception.file)
                && finding.text.contains(exception.text)
        };
        let found = EXCEPTIONS.iter().position(fits);
        self.used.extend(found);
        found.is_some()
    }

    /// Returns the exceptions that no finding has used.
    pub(crate) fn unused(&self) -> impl Iterator<Item = &'static Exception> + '_ {
        let unused = |(index, exception)| (!self.used.contains(&index)).then_some(exception);
        EXCEPTIONS.iter().enumerate().filter_map(unused)
    }
}
