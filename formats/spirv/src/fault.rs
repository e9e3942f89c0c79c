//! Why an image is none.

/// Why an image is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// What kind of fault it is.
    pub kind: FaultKind,
    /// What is wrong, and where.
    pub message: String,
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The bytes are not a module, or break the rules of one.
    Malformed,
    /// WGSL that does not compile.
    Source,
    /// It needs functions or variables that are defined nowhere.
    Undefined,
    /// Valid, but by none of the conventions.
    Unsupported,
}

impl Fault {
    pub(crate) fn malformed(message: impl Into<String>) -> Fault {
        Fault { kind: FaultKind::Malformed, message: message.into() }
    }

    pub(crate) fn source(message: impl Into<String>) -> Fault {
        Fault { kind: FaultKind::Source, message: message.into() }
    }

    pub(crate) fn undefined(message: impl Into<String>) -> Fault {
        Fault { kind: FaultKind::Undefined, message: message.into() }
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Fault {
        Fault { kind: FaultKind::Unsupported, message: message.into() }
    }
}
