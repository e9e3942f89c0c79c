//! How far a reference to a symbol reaches: what decides whether a symbol elsewhere needs a stand-in nearby.

use object::elf;

use super::Arch;
use super::aarch64::Aarch64;
use super::x86_64::X86_64;

/// How far a reference to a symbol's own address reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Everywhere.
    Any,
    /// As far as the instruction does from where it is.
    Relative,
    /// Addresses in the first two or four gigabytes.
    Narrow,
}

/// An instruction set that knows how far its relocations reach.
pub(crate) trait Reaching: Arch {
    /// For a relocation that needs [`Need::Symbol`](super::Need::Symbol).
    fn reach(kind: u32) -> Reach;
}

impl Reaching for X86_64 {
    #[inline]
    fn reach(kind: u32) -> Reach {
        match elf::RelocationType(kind) {
            elf::R_X86_64_64 | elf::R_X86_64_PC64 => Reach::Any,
            elf::R_X86_64_32 | elf::R_X86_64_32S | elf::R_X86_64_16 | elf::R_X86_64_8 => {
                Reach::Narrow
            }
            _ => Reach::Relative,
        }
    }
}

impl Reaching for Aarch64 {
    #[inline]
    fn reach(kind: u32) -> Reach {
        match elf::RelocationType(kind) {
            elf::R_AARCH64_ABS32 | elf::R_AARCH64_ABS16 => Reach::Narrow,
            elf::R_AARCH64_PREL32
            | elf::R_AARCH64_PREL16
            | elf::R_AARCH64_ADR_PREL_LO21
            | elf::R_AARCH64_ADR_PREL_PG_HI21
            | elf::R_AARCH64_ADR_PREL_PG_HI21_NC
            | elf::R_AARCH64_LD_PREL_LO19 => Reach::Relative,
            _ => Reach::Any,
        }
    }
}
