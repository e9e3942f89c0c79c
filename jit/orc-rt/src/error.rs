//! Errors of the process in which linked code runs.

use serde::{Deserialize, Serialize};

/// The result of fallible functions in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason for a failure. It can be sent to the controller of this process.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Error {
    /// A failure to obtain memory, or to set its contents or protection.
    #[error("memory for {name}: {problem}")]
    Memory {
        /// The purpose of the memory.
        name: String,
        /// The failed operation, with the operating system's error.
        problem: String,
    },

    /// The errors of failed finalize and deallocate actions.
    #[error("{}", .0.join("; "))]
    Action(Vec<String>),

    /// A failure to open a library.
    #[error("{path}: {problem}")]
    Open {
        /// The path.
        path: String,
        /// The dynamic linker's error.
        problem: String,
    },
}
