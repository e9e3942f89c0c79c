//! What can go wrong in the process in which linked code runs.

use serde::{Deserialize, Serialize};

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something failed. It can be sent to the process that controls this one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Error {
    /// There is no memory of the wanted kind, or it cannot be made what it is to be.
    #[error("memory for {name}: {problem}")]
    Memory {
        /// What the memory is for.
        name: String,
        /// What failed, with the operating system's error.
        problem: String,
    },

    /// A finalize or deallocate action returned an error, or several did.
    #[error("{}", .0.join("; "))]
    Action(Vec<String>),

    /// A library could not be opened.
    #[error("{path}: {problem}")]
    Open {
        /// The path.
        path: String,
        /// What the dynamic linker said.
        problem: String,
    },
}
