//! Errors, with the object, the section and the offset at which they occurred.

use std::fmt;

/// The result of each fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a link, a look-up or a removal failed. A failed call has changed nothing.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Damaged bytes: they are not in the format that they claim to have.
    #[error("{file}: {problem}")]
    Malformed {
        /// The object, or `archive(member)`.
        file: String,
        /// The damage, with the value found and the expected one.
        problem: String,
    },

    /// A sound object with a feature that this linker, or its target process, does not support.
    #[error("{file}: {problem}")]
    Unsupported {
        /// The object, or `archive(member)`.
        file: String,
        /// The feature, and the alternative.
        problem: String,
    },

    /// A failure to make a piece of a [`Source`](crate::lazy::Source) on demand.
    #[error("{file}: {piece} could not be made: {problem}")]
    Piece {
        /// The source's name.
        file: String,
        /// The piece's name.
        piece: String,
        /// The attempt, and the error that it met.
        problem: String,
    },

    /// A relocation of a kind that is not supported.
    #[error("{place}: relocation {kind} is not supported")]
    UnsupportedRelocation {
        /// The relocation's place.
        place: Place,
        /// The kind's name in the ELF supplement, or its number.
        kind: String,
    },

    /// A relocation that could not be applied.
    #[error("{0}")]
    Relocation(Box<RelocationError>),

    /// All symbols without a definition.
    #[error("undefined symbols: {}", list(.0))]
    Undefined(Vec<Undefined>),

    /// Two strong definitions of one name in a library.
    #[error("symbol {symbol} is defined in {first} and again in {second}")]
    Duplicate {
        /// The name.
        symbol: String,
        /// The file that defines it already.
        first: String,
        /// The file that would define it again.
        second: String,
    },

    /// An object that cannot be removed, because other objects use its symbols.
    #[error("{object} is used by {}", .users.join(", "))]
    InUse {
        /// The object that was to be removed.
        object: String,
        /// The objects that use its symbols.
        users: Vec<String>,
    },

    /// A failed request to a memory manager.
    #[error("memory for {name}: {problem}")]
    Memory {
        /// The memory's purpose.
        name: String,
        /// The failed operation, with the operating system's error.
        problem: String,
    },

    /// The errors of one or several finalize or deallocate actions.
    #[error("{}", .0.join("; "))]
    Action(Vec<String>),

    /// A file or a library that could not be opened.
    #[error("{path}: {problem}")]
    Open {
        /// The path.
        path: String,
        /// The operating system's error.
        problem: String,
    },

    /// The end of the process that executes the code.
    #[error("the process that executes the code is gone: {how}")]
    ProcessGone {
        /// The end of the process, or of the connection to it.
        how: String,
    },

    /// A call of a function of the executing process that could not be started or finished.
    #[error("calling {function} in the process that executes the code: {problem}")]
    Call {
        /// The function's name, or its address.
        function: String,
        /// The reason.
        problem: String,
    },
}

impl From<longshore_orc_rt::Error> for Error {
    fn from(error: longshore_orc_rt::Error) -> Self {
        match error {
            longshore_orc_rt::Error::Memory { name, problem } => Self::Memory { name, problem },
            longshore_orc_rt::Error::Action(messages) => Self::Action(messages),
            longshore_orc_rt::Error::Open { path, problem } => Self::Open { path, problem },
        }
    }
}

/// A relocation that could not be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelocationError {
    /// The relocation's place.
    pub place: Place,
    /// The kind's name in the ELF supplement.
    pub kind: String,
    /// The symbol that the relocation refers to.
    pub symbol: String,
    /// The reason.
    pub fault: crate::arch::Fault,
}

impl fmt::Display for RelocationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, kind, symbol, fault } = self;
        write!(f, "{place}: relocation {kind} against {symbol}: {fault}")
    }
}

/// A symbol without a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undefined {
    /// The symbol's name.
    pub symbol: String,
    /// A file that refers to it; empty for a name that was looked up.
    pub file: String,
}

/// A place in an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The object, or `archive(member)`.
    pub file: String,
    /// The section.
    pub section: String,
    /// The offset in bytes from the start of the section.
    pub offset: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({}+{:#x})", self.file, self.section, self.offset)
    }
}

/// Returns an object's name for a message, cut after 4096 bytes: a hostile object's names may be of
/// any length.
pub(crate) fn for_message(name: &[u8]) -> String {
    const LONGEST: usize = 4096;
    match name.get(..LONGEST) {
        Some(start) => String::from_utf8_lossy(start).into_owned() + "...",
        None => String::from_utf8_lossy(name).into_owned(),
    }
}

fn list(missing: &[Undefined]) -> String {
    let one = |m: &Undefined| match m.file.as_str() {
        "" => m.symbol.clone(),
        file => format!("{} (used by {file})", m.symbol),
    };
    missing.iter().map(one).collect::<Vec<_>>().join(", ")
}
