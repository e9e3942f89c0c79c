//! Instruction sets: the value that each relocation needs, and its application.

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
    /// Returns the instruction set that this program was compiled for; `None` for an unsupported
    /// one.
    pub const fn native() -> Option<Self> {
        if cfg!(target_arch = "x86_64") {
            Some(Self::X86_64)
        } else if cfg!(target_arch = "aarch64") {
            Some(Self::Aarch64)
        } else {
            None
        }
    }

    /// Returns the triple of Linux with glibc on this instruction set.
    pub const fn triple(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64-unknown-linux-gnu",
            Self::Aarch64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// Returns the name of a relocation in the ELF supplement, e.g. `R_X86_64_PC32`.
    pub fn relocation_name(self, number: u32) -> Option<&'static str> {
        match self {
            Self::X86_64 => x86_64::X86_64::name(number),
            Self::Aarch64 => aarch64::Aarch64::name(number),
        }
    }
}

/// The value from which a relocation is computed. S is the symbol's address, A the addend, P the
/// place; GOT is the address of the graph's global offset table. `Arch::apply` receives it as
/// `value`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// No value: the relocation is a marker.
    Nothing,
    /// S.
    Symbol,
    /// S, or a stub that jumps there if S is out of a call's or jump's reach.
    Call,
    /// The address of the GOT slot with S. Where `Arch::relax` can rewrite the instruction, S
    /// itself suffices.
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
    /// The address of a pair of slots: module and offset of a thread-local symbol (general
    /// dynamic).
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

/// The reason why a relocation cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// A distance or value that does not fit into its field.
    OutOfRange {
        /// The value.
        value: i128,
        /// The smallest value that fits.
        min: i128,
        /// The largest value that fits.
        max: i128,
    },
    /// A value that is not a multiple of the instruction's unit.
    Misaligned {
        /// The value.
        value: u64,
        /// The instruction's unit in bytes.
        alignment: u64,
    },
    /// A field that ends behind the end of the section's content.
    Truncated,
    /// An instruction to which the relocation does not apply.
    UnexpectedInstruction {
        /// The bytes found, as a number.
        found: u64,
        /// The expected instructions.
        expected: &'static str,
    },
    /// A symbol that was taken out of the link with its section.
    Discarded,
    /// A symbol of another object, of which only the address is known.
    UnknownSize,
    /// A variable without a fixed offset from the thread pointer.
    NoStaticTls,
    /// A symbol without an entry, because its edge was added after the graph's tables were made.
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
                "it needs a fixed offset from the thread pointer, which this variable does not have; \
                 compile with -fPIC and without -ftls-model=initial-exec or local-exec",
            ),
            Self::NoEntry => f.write_str("the graph's tables were made before this edge was added"),
        }
    }
}

/// An instruction set. Its functions are total: any bytes and any numbers give a result or a
/// [`Fault`].
pub(crate) trait Arch {
    /// Size of a stub, a jump through a GOT slot, in bytes.
    const STUB_SIZE: usize;
    /// Alignment of a stub in bytes.
    const STUB_ALIGNMENT: u64;
    /// Guaranteed reach of a call or a program-counter-relative reference, in bytes in both
    /// directions.
    const CALL_REACH: u64;
    /// Reach of an instruction rewritten by [`Arch::relax`], in bytes.
    const RELAXED_REACH: u64;

    /// Returns the name of a relocation number in the ELF supplement; `None` for unknown numbers.
    fn name(kind: u32) -> Option<&'static str>;

    /// Returns the value that a relocation needs; `None` for an unsupported one.
    fn need(kind: u32) -> Option<Need>;

    /// Writes the relocation's field at `content[offset..]`, which will execute at address `place`.
    fn apply(
        kind: u32,
        content: &mut [u8],
        offset: usize,
        place: u64,
        value: u64,
        addend: i64,
    ) -> Result<(), Fault>;

    /// Returns whether [`Arch::relax`] can rewrite the instruction at `offset`, at any distance.
    fn can_relax(kind: u32, content: &[u8], offset: usize, addend: i64) -> bool;

    /// Rewrites an instruction that loads an address from a GOT slot into one that computes it, for
    /// a target within [`Arch::RELAXED_REACH`]. [`Arch::can_relax`] must have returned true.
    fn relax(
        kind: u32,
        content: &mut [u8],
        offset: usize,
        place: u64,
        target: u64,
        addend: i64,
    ) -> Result<(), Fault>;

    /// Writes a stub that will execute at `place` and jumps to the address in `slot`.
    fn write_stub(stub: &mut [u8], place: u64, slot: u64) -> Result<(), Fault>;
}
