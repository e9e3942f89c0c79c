//! What differs between instruction sets: what each relocation needs and how it is applied.

pub mod aarch64;
pub(crate) mod reach;
pub mod x86_64;

use std::fmt;

/// An instruction set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Architecture {
    /// x86-64, little-endian, 64-bit pointers.
    X86_64,
    /// AArch64, little-endian, 64-bit pointers.
    Aarch64,
}

impl Architecture {
    /// The one that this program was compiled for; `None` if it is neither.
    pub const fn native() -> Option<Self> {
        if cfg!(target_arch = "x86_64") {
            Some(Self::X86_64)
        } else if cfg!(target_arch = "aarch64") {
            Some(Self::Aarch64)
        } else {
            None
        }
    }

    /// The triple of Linux with glibc on it.
    pub const fn triple(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64-unknown-linux-gnu",
            Self::Aarch64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// The name of a relocation in the ELF supplement, e.g. `R_X86_64_PC32`.
    pub fn relocation_name(self, number: u32) -> Option<&'static str> {
        match self {
            Self::X86_64 => x86_64::X86_64::name(number),
            Self::Aarch64 => aarch64::Aarch64::name(number),
        }
    }
}

/// Which value a relocation is computed from. S is the symbol's address, A the addend, P the place; GOT is the address of
/// the global offset table of the graph. `value` is what `Arch::apply` is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Nothing: a marker.
    Nothing,
    /// S.
    Symbol,
    /// S, or a stub that jumps there when S is out of reach (a call or a jump).
    Call,
    /// The address of the GOT slot that holds S. If `Arch::relax` can rewrite the instruction, S itself will do.
    Slot,
    /// The slot's offset from GOT.
    SlotFromGot,
    /// The slot's address minus the page of GOT.
    SlotFromGotPage,
    /// S - GOT.
    SymbolFromGot,
    /// The address of a stub for S, or S, minus GOT.
    CallFromGot,
    /// GOT.
    Got,
    /// The size of the symbol.
    Size,
    /// The address of a pair of slots: module and offset of a thread-local symbol (general dynamic).
    TlsPair,
    /// The address of a pair of slots: module of this graph, zero (local dynamic).
    TlsModule,
    /// The offset of a thread-local symbol in its module's block.
    TlsModuleOffset,
    /// The address of a slot with the symbol's offset from the thread pointer (initial exec).
    TlsOffsetSlot,
    /// The symbol's offset from the thread pointer (local exec).
    TlsOffset,
    /// The address of a pair of slots: resolver function and its argument (TLS descriptor).
    TlsDescriptor,
}

/// Why a relocation cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The distance or value does not fit.
    OutOfRange {
        /// What was to be encoded.
        value: i128,
        /// The smallest value that fits.
        min: i128,
        /// The largest value that fits.
        max: i128,
    },
    /// The value is not a multiple of what the instruction encodes.
    Misaligned {
        /// What was to be encoded.
        value: u64,
        /// What it must be a multiple of.
        alignment: u64,
    },
    /// The field ends behind the end of the section's content.
    Truncated,
    /// The instruction is not one that this relocation can apply to.
    UnexpectedInstruction {
        /// The bytes found, as a number.
        found: u64,
        /// What was expected.
        expected: &'static str,
    },
    /// The symbol was taken out of the link with its section.
    Discarded,
    /// The symbol is another object's, of which only the address is known.
    UnknownSize,
    /// The variable is not at a fixed offset from the thread pointer.
    NoStaticTls,
    /// The graph was changed after its tables were made: there is no entry for the symbol.
    NoEntry,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange { value, min, max } => {
                let sign = if *value < 0 { "-" } else { "" };
                write!(f, "{sign}{:#x} is not within {min} to {max}", value.unsigned_abs())
            }
            Self::Misaligned { value, alignment } => write!(f, "{value:#x} is not a multiple of {alignment}"),
            Self::Truncated => f.write_str("the field is outside of the section"),
            Self::UnexpectedInstruction { found, expected } => {
                write!(f, "found the instruction {found:#x}, expected {expected}")
            }
            Self::Discarded => f.write_str("the symbol is in a section that was taken out of the link"),
            Self::UnknownSize => f.write_str("the size of a symbol of another object is not known"),
            Self::NoStaticTls => f.write_str(
                "it needs a fixed offset from the thread pointer, which there is not for this variable; \
                 compile with -fPIC and without -ftls-model=initial-exec or local-exec",
            ),
            Self::NoEntry => f.write_str("the graph's tables were made before this edge was added"),
        }
    }
}

/// One instruction set. Its functions are total: any bytes and any numbers give a result or a [`Fault`].
pub(crate) trait Arch {
    /// Bytes of a stub: a jump through a GOT slot.
    const STUB_SIZE: usize;
    /// Alignment of a stub.
    const STUB_ALIGNMENT: u64;
    /// How far a call or a program-counter-relative reference reaches at least, in bytes in both directions.
    const CALL_REACH: u64;
    /// How far an instruction reaches that [`Arch::relax`] has rewritten.
    const RELAXED_REACH: u64;

    /// The name of a relocation number in the ELF supplement; `None` for unknown numbers.
    fn name(kind: u32) -> Option<&'static str>;

    /// What a relocation needs; `None` if it is not supported.
    fn need(kind: u32) -> Option<Need>;

    /// Writes the relocation's field at `content[offset..]`, which will execute at the address `place`.
    fn apply(
        kind: u32,
        content: &mut [u8],
        offset: usize,
        place: u64,
        value: u64,
        addend: i64,
    ) -> Result<(), Fault>;

    /// Whether [`Arch::relax`] can rewrite the instruction at `offset`, whatever the distance.
    fn can_relax(kind: u32, content: &[u8], offset: usize, addend: i64) -> bool;

    /// Rewrites an instruction that loads an address from a GOT slot into one that computes it, for a target within
    /// [`Arch::RELAXED_REACH`]. Only called where [`Arch::can_relax`] said so.
    fn relax(
        kind: u32,
        content: &mut [u8],
        offset: usize,
        place: u64,
        target: u64,
        addend: i64,
    ) -> Result<(), Fault>;

    /// Writes a stub that will execute at `place` and jumps to where `slot` points.
    fn write_stub(stub: &mut [u8], place: u64, slot: u64) -> Result<(), Fault>;
}
