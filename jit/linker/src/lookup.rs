//! The strictness of look-ups of names, in a session or in a process.

/// Whether a name that is looked up must be defined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// The name must be defined.
    Required,
    /// The name may be undefined.
    Optional,
}
