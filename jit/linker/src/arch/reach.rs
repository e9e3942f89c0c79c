//! The reach of references to symbols, which decides whether a symbol elsewhere needs an entry
//! nearby.

use object::elf;

use super::Arch;
use super::aarch64::Aarch64;
use super::x86_64::X86_64;

/// The reach of a reference to a symbol's own address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The whole address space.
    Any,
    /// The instruction's reach from its place.
    Relative,
    /// The first 2 or 4 GiB of the address space.
    Narrow,
}

/// An instruction set that knows the reach of its relocations.
pub(crate) trait RelocationReach: Arch {
    /// Returns the reach of a relocation that needs [`Need::Symbol`](super::Need::Symbol).
    fn reach(kind: u32) -> Reach;

    /// Returns the reach of a relocation that takes a function's address, itself or by a slot,
    /// other than for a call. `None` for other relocations, and for the address of a place inside a
    /// function.
    fn address_taken(kind: u32, content: &[u8], offset: u64, addend: i64) -> Option<Reach>;
}

impl RelocationReach for X86_64 {
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

    fn address_taken(kind: u32, content: &[u8], offset: u64, addend: i64) -> Option<Reach> {
        let kind = elf::RelocationType(kind);
        let is_start = match kind {
            elf::R_X86_64_64
            | elf::R_X86_64_32
            | elf::R_X86_64_32S
            | elf::R_X86_64_GOTOFF64
            | elf::R_X86_64_GOT64
            | elf::R_X86_64_GOTPCREL64 => addend == 0,
            elf::R_X86_64_PC32
            | elf::R_X86_64_GOTPCREL
            | elf::R_X86_64_GOTPCRELX
            | elf::R_X86_64_REX_GOTPCRELX
            | elf::R_X86_64_CODE_4_GOTPCRELX => addend == -4 && !is_branch(content, offset),
            _ => false,
        };
        is_start.then_some(match kind {
            elf::R_X86_64_32 | elf::R_X86_64_32S => Reach::Narrow,
            elf::R_X86_64_PC32 => Reach::Relative,
            _ => Reach::Any,
        })
    }
}

/// Returns whether the instruction with its last four bytes at `offset` is a call or a jump, direct
/// or by a slot.
fn is_branch(content: &[u8], offset: u64) -> bool {
    let before = usize::try_from(offset).ok().and_then(|offset| content.get(..offset));
    matches!(before, Some([.., 0xe8 | 0xe9] | [.., 0x0f, 0x80..=0x8f] | [.., 0xff, 0x15 | 0x25]))
}

impl RelocationReach for Aarch64 {
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

    fn address_taken(kind: u32, _: &[u8], _: u64, addend: i64) -> Option<Reach> {
        let reach = match elf::RelocationType(kind) {
            elf::R_AARCH64_ABS64
            | elf::R_AARCH64_ADR_GOT_PAGE
            | elf::R_AARCH64_LD64_GOT_LO12_NC
            | elf::R_AARCH64_LD64_GOTPAGE_LO15
            | elf::R_AARCH64_MOVW_UABS_G0
            | elf::R_AARCH64_MOVW_UABS_G0_NC
            | elf::R_AARCH64_MOVW_UABS_G1
            | elf::R_AARCH64_MOVW_UABS_G1_NC
            | elf::R_AARCH64_MOVW_UABS_G2
            | elf::R_AARCH64_MOVW_UABS_G2_NC
            | elf::R_AARCH64_MOVW_UABS_G3 => Reach::Any,
            // Pairs of instructions: the second one uses the first one's result.
            elf::R_AARCH64_ADR_PREL_PG_HI21
            | elf::R_AARCH64_ADR_PREL_PG_HI21_NC
            | elf::R_AARCH64_ADD_ABS_LO12_NC
            | elf::R_AARCH64_LDST8_ABS_LO12_NC
            | elf::R_AARCH64_LDST16_ABS_LO12_NC
            | elf::R_AARCH64_LDST32_ABS_LO12_NC
            | elf::R_AARCH64_LDST64_ABS_LO12_NC
            | elf::R_AARCH64_LDST128_ABS_LO12_NC => Reach::Relative,
            _ => return None,
        };
        (addend == 0).then_some(reach)
    }
}
