//! Errors of calls, and of the search for a library.

use std::fmt;

/// Error of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MpiError {
    /// Name of the function in C.
    pub function: &'static str,
    /// Error code that the function returned, or a class for errors of this crate.
    pub code: i32,
    /// Error class of the code. Its number depends on the library's
    /// [`Implementation`](crate::Implementation).
    pub class: i32,
    /// Description by `MPI_Error_string`, or by this crate.
    pub text: String,
}

impl fmt::Display for MpiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.function, self.text)
    }
}

impl std::error::Error for MpiError {}

/// Reasons why no MPI library was loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadError {
    /// File names that were tried, each with the reason of its failure.
    pub tried: Vec<(String, String)>,
}

impl LoadError {
    pub(crate) fn from_reason(name: impl Into<String>, reason: impl Into<String>) -> LoadError {
        LoadError { tried: vec![(name.into(), reason.into())] }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no MPI library was loaded")?;
        for (index, (name, reason)) in self.tried.iter().enumerate() {
            let separator = if index == 0 { ": " } else { "; " };
            write!(f, "{separator}'{name}': {reason}")?;
        }
        Ok(())
    }
}

impl std::error::Error for LoadError {}
