//! The computation of each relocation, and its field.

use std::ops::RangeInclusive;

use object::elf::*;

use super::field::Field::{self, *};
use super::names::R_AARCH64_NONE_WITHDRAWN;
use crate::arch::{Fault, Need};

use Base::{Page, Place, Zero};
use Check::{Any, Either, Signed, Unsigned};

/// A row of the ABI's tables.
#[derive(Debug, Clone, Copy)]
pub(super) struct Relocation {
    /// The value from which the result is computed.
    pub(super) need: Need,
    base: Base,
    check: Check,
    /// The result's destination.
    pub(super) field: Field,
}

impl Relocation {
    /// Returns the row of a relocation number; `None` for an unsupported one.
    pub(super) fn from_type(kind: RelocationType) -> Option<Self> {
        data(kind).or_else(|| code(kind)).or_else(|| slot(kind)).or_else(|| thread_local(kind))
    }

    /// Returns the result X of the operation, checked for overflow.
    ///
    /// An instruction with a slot accepts no addend. The ABI means one slot for each S+A, which no
    /// linker makes, and an offset into the slot is useless.
    pub(super) fn compute(self, place: u64, value: u64, addend: i64) -> Result<u64, Fault> {
        if addend != 0 && self.uses_slot() && !self.field.is_data() {
            return Err(Fault::OutOfRange { value: addend.into(), min: 0, max: 0 });
        }
        let sum = value.wrapping_add_signed(addend);
        let result = match self.base {
            Base::Zero => sum,
            Base::Place => sum.wrapping_sub(place),
            Base::Page => page(sum).wrapping_sub(page(place)),
        };
        let range = self.check.range();
        if range.contains(&result.cast_signed()) {
            Ok(result)
        } else {
            let (min, max) = (*range.start(), *range.end());
            Err(Fault::OutOfRange {
                value: result.cast_signed().into(),
                min: min.into(),
                max: max.into(),
            })
        }
    }

    fn uses_slot(self) -> bool {
        use Need::*;
        matches!(
            self.need,
            Slot | SlotFromGot
                | SlotFromGotPage
                | TlsPair
                | TlsModule
                | TlsOffsetSlot
                | TlsDescriptor
        )
    }
}

/// The subtrahend.
#[derive(Debug, Clone, Copy)]
enum Base {
    /// Zero.
    Zero,
    /// P.
    Place,
    /// Page(P), subtracted from the page of the value.
    Page,
}

/// The overflow check of a result X.
#[derive(Debug, Clone, Copy)]
enum Check {
    /// No check.
    Any,
    /// The range -2^n <= X < 2^n.
    Signed(u32),
    /// The range 0 <= X < 2^n.
    Unsigned(u32),
    /// The range -2^(n-1) <= X < 2^n.
    Either(u32),
}

impl Check {
    fn range(self) -> RangeInclusive<i64> {
        match self {
            Self::Any => i64::MIN..=i64::MAX,
            Self::Signed(n) => -(1 << n)..=(1 << n) - 1,
            Self::Unsigned(n) => 0..=(1 << n) - 1,
            Self::Either(n) => -(1 << (n - 1))..=(1 << n) - 1,
        }
    }
}

const fn page(address: u64) -> u64 {
    address & !0xfff
}

const fn row(need: Need, base: Base, check: Check, field: Field) -> Option<Relocation> {
    Some(Relocation { need, base, check, field })
}

/// Returns the row of an ADRP to the page of the needed value.
const fn adrp(need: Need) -> Option<Relocation> {
    row(need, Page, Signed(32), Adrp)
}

/// Returns the row of an LDR from a literal at the needed value.
const fn literal(need: Need) -> Option<Relocation> {
    row(need, Place, Signed(20), Literal)
}

/// Returns the row of a MOVZ or MOVN of one of four groups of 16 bits, the topmost of the value.
const fn top(need: Need, base: Base, group: u32) -> Option<Relocation> {
    row(need, base, if group == 3 { Any } else { Signed(16 * (group + 1)) }, MoveSigned(group))
}

/// Returns the row of a MOVK or MOVZ of one of four groups of 16 bits, without a check.
const fn part(need: Need, base: Base, group: u32) -> Option<Relocation> {
    row(need, base, Any, Move(group))
}

fn data(kind: RelocationType) -> Option<Relocation> {
    match kind {
        R_AARCH64_NONE | R_AARCH64_NONE_WITHDRAWN => row(Need::Nothing, Zero, Any, Nothing),
        R_AARCH64_ABS64 => row(Need::Symbol, Zero, Any, Data64),
        R_AARCH64_ABS32 => row(Need::Symbol, Zero, Either(32), Data32),
        R_AARCH64_ABS16 => row(Need::Symbol, Zero, Either(16), Data16),
        R_AARCH64_PREL64 => row(Need::Symbol, Place, Any, Data64),
        R_AARCH64_PREL32 => row(Need::Symbol, Place, Either(32), Data32),
        R_AARCH64_PREL16 => row(Need::Symbol, Place, Either(16), Data16),
        R_AARCH64_PLT32 => row(Need::Call, Place, Signed(31), Data32),
        R_AARCH64_GOTREL64 => row(Need::SymbolFromGot, Zero, Any, Data64),
        R_AARCH64_GOTREL32 => row(Need::SymbolFromGot, Zero, Signed(31), Data32),
        R_AARCH64_GOTPCREL32 => row(Need::Slot, Place, Signed(31), Data32),
        _ => None,
    }
}

fn code(kind: RelocationType) -> Option<Relocation> {
    use Need::{Call, Symbol};
    match kind {
        R_AARCH64_CALL26 | R_AARCH64_JUMP26 => row(Call, Place, Signed(27), Branch26),
        R_AARCH64_CONDBR19 => row(Call, Place, Signed(20), Branch19),
        R_AARCH64_TSTBR14 => row(Call, Place, Signed(15), Branch14),
        R_AARCH64_LD_PREL_LO19 => literal(Symbol),
        R_AARCH64_ADR_PREL_LO21 => row(Symbol, Place, Signed(20), Adr),
        R_AARCH64_ADR_PREL_PG_HI21 => adrp(Symbol),
        R_AARCH64_ADR_PREL_PG_HI21_NC => row(Symbol, Page, Any, Adrp),
        R_AARCH64_ADD_ABS_LO12_NC => row(Symbol, Zero, Any, AddLow),
        R_AARCH64_LDST8_ABS_LO12_NC => row(Symbol, Zero, Any, LoadStore(0)),
        R_AARCH64_LDST16_ABS_LO12_NC => row(Symbol, Zero, Any, LoadStore(1)),
        R_AARCH64_LDST32_ABS_LO12_NC => row(Symbol, Zero, Any, LoadStore(2)),
        R_AARCH64_LDST64_ABS_LO12_NC => row(Symbol, Zero, Any, LoadStore(3)),
        R_AARCH64_LDST128_ABS_LO12_NC => row(Symbol, Zero, Any, LoadStore(4)),
        R_AARCH64_MOVW_UABS_G0 => row(Symbol, Zero, Unsigned(16), Move(0)),
        R_AARCH64_MOVW_UABS_G1 => row(Symbol, Zero, Unsigned(32), Move(1)),
        R_AARCH64_MOVW_UABS_G2 => row(Symbol, Zero, Unsigned(48), Move(2)),
        R_AARCH64_MOVW_UABS_G0_NC => part(Symbol, Zero, 0),
        R_AARCH64_MOVW_UABS_G1_NC => part(Symbol, Zero, 1),
        R_AARCH64_MOVW_UABS_G2_NC => part(Symbol, Zero, 2),
        R_AARCH64_MOVW_UABS_G3 => part(Symbol, Zero, 3),
        R_AARCH64_MOVW_SABS_G0 => top(Symbol, Zero, 0),
        R_AARCH64_MOVW_SABS_G1 => top(Symbol, Zero, 1),
        R_AARCH64_MOVW_SABS_G2 => top(Symbol, Zero, 2),
        R_AARCH64_MOVW_PREL_G0 => top(Symbol, Place, 0),
        R_AARCH64_MOVW_PREL_G1 => top(Symbol, Place, 1),
        R_AARCH64_MOVW_PREL_G2 => top(Symbol, Place, 2),
        R_AARCH64_MOVW_PREL_G3 => top(Symbol, Place, 3),
        R_AARCH64_MOVW_PREL_G0_NC => part(Symbol, Place, 0),
        R_AARCH64_MOVW_PREL_G1_NC => part(Symbol, Place, 1),
        R_AARCH64_MOVW_PREL_G2_NC => part(Symbol, Place, 2),
        _ => None,
    }
}

fn slot(kind: RelocationType) -> Option<Relocation> {
    use Need::{Slot, SlotFromGot, SlotFromGotPage};
    match kind {
        R_AARCH64_GOT_LD_PREL19 => literal(Slot),
        R_AARCH64_ADR_GOT_PAGE => adrp(Slot),
        R_AARCH64_LD64_GOT_LO12_NC => row(Slot, Zero, Any, LoadStore(3)),
        R_AARCH64_LD64_GOTOFF_LO15 => row(SlotFromGot, Zero, Unsigned(15), LoadFar),
        R_AARCH64_LD64_GOTPAGE_LO15 => row(SlotFromGotPage, Zero, Unsigned(15), LoadFar),
        R_AARCH64_MOVW_GOTOFF_G0 => top(SlotFromGot, Zero, 0),
        R_AARCH64_MOVW_GOTOFF_G1 => top(SlotFromGot, Zero, 1),
        R_AARCH64_MOVW_GOTOFF_G2 => top(SlotFromGot, Zero, 2),
        R_AARCH64_MOVW_GOTOFF_G3 => top(SlotFromGot, Zero, 3),
        R_AARCH64_MOVW_GOTOFF_G0_NC => part(SlotFromGot, Zero, 0),
        R_AARCH64_MOVW_GOTOFF_G1_NC => part(SlotFromGot, Zero, 1),
        R_AARCH64_MOVW_GOTOFF_G2_NC => part(SlotFromGot, Zero, 2),
        _ => None,
    }
}

fn thread_local(kind: RelocationType) -> Option<Relocation> {
    use Need::{TlsDescriptor, TlsModule, TlsOffsetSlot, TlsPair};
    match kind {
        R_AARCH64_TLSGD_ADR_PREL21 => row(TlsPair, Place, Signed(20), Adr),
        R_AARCH64_TLSGD_ADR_PAGE21 => adrp(TlsPair),
        R_AARCH64_TLSGD_ADD_LO12_NC => row(TlsPair, Zero, Any, AddLow),

        R_AARCH64_TLSLD_ADR_PREL21 => row(TlsModule, Place, Signed(20), Adr),
        R_AARCH64_TLSLD_ADR_PAGE21 => adrp(TlsModule),
        R_AARCH64_TLSLD_ADD_LO12_NC => row(TlsModule, Zero, Any, AddLow),
        R_AARCH64_TLSLD_LD_PREL19 => literal(TlsModule),

        R_AARCH64_TLSIE_ADR_GOTTPREL_PAGE21 => adrp(TlsOffsetSlot),
        R_AARCH64_TLSIE_LD64_GOTTPREL_LO12_NC => row(TlsOffsetSlot, Zero, Any, LoadStore(3)),
        R_AARCH64_TLSIE_LD_GOTTPREL_PREL19 => literal(TlsOffsetSlot),

        R_AARCH64_TLSDESC_LD_PREL19 => literal(TlsDescriptor),
        R_AARCH64_TLSDESC_ADR_PREL21 => row(TlsDescriptor, Place, Signed(20), Adr),
        R_AARCH64_TLSDESC_ADR_PAGE21 => adrp(TlsDescriptor),
        R_AARCH64_TLSDESC_LD64_LO12 => row(TlsDescriptor, Zero, Any, LoadStore(3)),
        R_AARCH64_TLSDESC_ADD_LO12 => row(TlsDescriptor, Zero, Any, AddLow),
        R_AARCH64_TLSDESC_LDR | R_AARCH64_TLSDESC_ADD | R_AARCH64_TLSDESC_CALL => {
            row(Need::Nothing, Zero, Any, Nothing)
        }

        _ => module_offset(kind).or_else(|| thread_offset(kind)),
    }
}

/// Returns the row of a local-dynamic relocation.
fn module_offset(kind: RelocationType) -> Option<Relocation> {
    use Need::TlsModuleOffset as Offset;
    match kind {
        R_AARCH64_TLSLD_MOVW_DTPREL_G2 => top(Offset, Zero, 2),
        R_AARCH64_TLSLD_MOVW_DTPREL_G1 => top(Offset, Zero, 1),
        R_AARCH64_TLSLD_MOVW_DTPREL_G0 => top(Offset, Zero, 0),
        R_AARCH64_TLSLD_MOVW_DTPREL_G1_NC => part(Offset, Zero, 1),
        R_AARCH64_TLSLD_MOVW_DTPREL_G0_NC => part(Offset, Zero, 0),
        R_AARCH64_TLSLD_ADD_DTPREL_HI12 => row(Offset, Zero, Unsigned(24), AddHigh),
        R_AARCH64_TLSLD_ADD_DTPREL_LO12 => row(Offset, Zero, Unsigned(12), AddLow),
        R_AARCH64_TLSLD_ADD_DTPREL_LO12_NC => row(Offset, Zero, Any, AddLow),
        R_AARCH64_TLSLD_LDST8_DTPREL_LO12 => row(Offset, Zero, Unsigned(12), LoadStore(0)),
        R_AARCH64_TLSLD_LDST8_DTPREL_LO12_NC => row(Offset, Zero, Any, LoadStore(0)),
        R_AARCH64_TLSLD_LDST16_DTPREL_LO12 => row(Offset, Zero, Unsigned(12), LoadStore(1)),
        R_AARCH64_TLSLD_LDST16_DTPREL_LO12_NC => row(Offset, Zero, Any, LoadStore(1)),
        R_AARCH64_TLSLD_LDST32_DTPREL_LO12 => row(Offset, Zero, Unsigned(12), LoadStore(2)),
        R_AARCH64_TLSLD_LDST32_DTPREL_LO12_NC => row(Offset, Zero, Any, LoadStore(2)),
        R_AARCH64_TLSLD_LDST64_DTPREL_LO12 => row(Offset, Zero, Unsigned(12), LoadStore(3)),
        R_AARCH64_TLSLD_LDST64_DTPREL_LO12_NC => row(Offset, Zero, Any, LoadStore(3)),
        R_AARCH64_TLSLD_LDST128_DTPREL_LO12 => row(Offset, Zero, Unsigned(12), LoadStore(4)),
        R_AARCH64_TLSLD_LDST128_DTPREL_LO12_NC => row(Offset, Zero, Any, LoadStore(4)),
        _ => None,
    }
}

/// Returns the row of a local-exec relocation.
fn thread_offset(kind: RelocationType) -> Option<Relocation> {
    use Need::TlsOffset as Offset;
    match kind {
        R_AARCH64_TLSLE_MOVW_TPREL_G2 => top(Offset, Zero, 2),
        R_AARCH64_TLSLE_MOVW_TPREL_G1 => top(Offset, Zero, 1),
        R_AARCH64_TLSLE_MOVW_TPREL_G0 => top(Offset, Zero, 0),
        R_AARCH64_TLSLE_MOVW_TPREL_G1_NC => part(Offset, Zero, 1),
        R_AARCH64_TLSLE_MOVW_TPREL_G0_NC => part(Offset, Zero, 0),
        R_AARCH64_TLSLE_ADD_TPREL_HI12 => row(Offset, Zero, Unsigned(24), AddHigh),
        R_AARCH64_TLSLE_ADD_TPREL_LO12 => row(Offset, Zero, Unsigned(12), AddLow),
        R_AARCH64_TLSLE_ADD_TPREL_LO12_NC => row(Offset, Zero, Any, AddLow),
        R_AARCH64_TLSLE_LDST8_TPREL_LO12 => row(Offset, Zero, Unsigned(12), LoadStore(0)),
        R_AARCH64_TLSLE_LDST8_TPREL_LO12_NC => row(Offset, Zero, Any, LoadStore(0)),
        R_AARCH64_TLSLE_LDST16_TPREL_LO12 => row(Offset, Zero, Unsigned(12), LoadStore(1)),
        R_AARCH64_TLSLE_LDST16_TPREL_LO12_NC => row(Offset, Zero, Any, LoadStore(1)),
        R_AARCH64_TLSLE_LDST32_TPREL_LO12 => row(Offset, Zero, Unsigned(12), LoadStore(2)),
        R_AARCH64_TLSLE_LDST32_TPREL_LO12_NC => row(Offset, Zero, Any, LoadStore(2)),
        R_AARCH64_TLSLE_LDST64_TPREL_LO12 => row(Offset, Zero, Unsigned(12), LoadStore(3)),
        R_AARCH64_TLSLE_LDST64_TPREL_LO12_NC => row(Offset, Zero, Any, LoadStore(3)),
        R_AARCH64_TLSLE_LDST128_TPREL_LO12 => row(Offset, Zero, Unsigned(12), LoadStore(4)),
        R_AARCH64_TLSLE_LDST128_TPREL_LO12_NC => row(Offset, Zero, Any, LoadStore(4)),
        _ => None,
    }
}
