//! Faults of images.

/// The reason why an image cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// The kind of fault.
    pub kind: FaultKind,
    /// The fault and its place.
    pub message: String,
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Bytes that are not a module, or break the rules of one.
    Malformed,
    /// WGSL that does not compile.
    Source,
    /// A module that needs undefined functions or variables.
    Undefined,
    /// A valid module that follows none of the conventions.
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
