//! Failures of a compilation.

use std::error::Error;
use std::fmt;

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exit {
    /// A compilation that failed, or a file that cannot be read.
    Runtime,
    /// Sources, targets or options that are not valid together.
    Usage,
    /// A missing compiler, or a missing tool of it.
    NothingFound,
}

/// A failure of a compilation, for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The kind.
    pub exit: Exit,
    /// The failure, the wrong value and the expected value.
    pub message: String,
    /// The remedy, where there is one.
    pub hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Failure {
        Failure { exit, message: message.into(), hint: None }
    }

    /// Adds a hint unless the failure has one.
    pub(crate) fn or_hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint.get_or_insert_with(|| hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.hint.iter().try_for_each(|hint| write!(f, "\nhint: {hint}"))
    }
}

impl Error for Failure {}
