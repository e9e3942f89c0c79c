//! What can go wrong, with the object, the section and the offset at which it did.

use std::fmt;

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a link, a look-up or a removal failed. What failed has changed nothing.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are not what they claim to be.
    #[error("{file}: {problem}")]
    Malformed {
        /// The object, or `archive(member)`.
        file: String,
        /// What is wrong, with the value found and what was expected.
        problem: String,
    },

    /// The bytes are fine, but ask for something that this linker, or the place it links for, does not have.
    #[error("{file}: {problem}")]
    Unsupported {
        /// The object, or `archive(member)`.
        file: String,
        /// What is asked for, and what could be done instead.
        problem: String,
    },

    /// A piece of a [`Source`](crate::lazy::Source) could not be made when it was asked for.
    #[error("{file}: {piece} could not be made: {problem}")]
    Piece {
        /// Where it is a piece of.
        file: String,
        /// Which one.
        piece: String,
        /// What was tried, and what was said to it.
        problem: String,
    },

    /// A relocation of a kind that is not supported.
    #[error("{place}: relocation {kind} is not supported")]
    UnsupportedRelocation {
        /// Where the relocation is.
        place: Place,
        /// Its name in the ELF supplement, or its number.
        kind: String,
    },

    /// A relocation could not be applied.
    #[error("{0}")]
    Relocation(Box<RelocationError>),

    /// Symbols that nothing defines, all of them.
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

    /// An object cannot be removed: others use its symbols.
    #[error("{object} is used by {}", .users.join(", "))]
    InUse {
        /// The object that was to be removed.
        object: String,
        /// The objects that use it.
        users: Vec<String>,
    },

    /// A memory manager could not do what it was asked.
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

    /// A file or a library could not be opened.
    #[error("{path}: {problem}")]
    Open {
        /// The path.
        path: String,
        /// What the operating system said.
        problem: String,
    },

    /// The process that executes the code is gone.
    #[error("the process that executes the code is gone: {how}")]
    ProcessGone {
        /// How it ended, or how the connection did.
        how: String,
    },

    /// A function of the process that executes the code could not be called, or not to its end.
    #[error("calling {function} in the process that executes the code: {problem}")]
    Call {
        /// Its name, or its address.
        function: String,
        /// What is wrong.
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
    /// Where the relocation is.
    pub place: Place,
    /// Its name in the ELF supplement.
    pub kind: String,
    /// The symbol it refers to.
    pub symbol: String,
    /// Why not.
    pub fault: crate::arch::Fault,
}

impl fmt::Display for RelocationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, kind, symbol, fault } = self;
        write!(f, "{place}: relocation {kind} against {symbol}: {fault}")
    }
}

/// A symbol that nothing defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undefined {
    /// Its name.
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

/// A name of an object in a message: not all of it if somebody made it absurdly long.
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
