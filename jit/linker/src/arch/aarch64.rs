//! AArch64: the relocations of "ELF for the Arm 64-bit Architecture", and its relaxation of loads
//! from the GOT. JITLink's counterpart is `aarch64.h` with `ELF_aarch64.cpp`.

mod field;
mod names;
mod relocation;
#[cfg(test)]
mod tests;

use object::elf::{self, RelocationType};

use super::{Arch, Fault, Need};
use field::Field;
use relocation::Relocation;

/// AArch64, little-endian, 64-bit pointers.
pub(crate) struct Aarch64;

impl Arch for Aarch64 {
    const STUB_SIZE: usize = 12;
    const STUB_ALIGNMENT: u64 = 4;
    const CALL_REACH: u64 = (1 << 27) - 4;
    /// ADRP's reach less one page: ADRP counts from the page of the place to the page of the
    /// target.
    const RELAXED_REACH: u64 = (1 << 32) - 4096;

    fn name(kind: u32) -> Option<&'static str> {
        names::name(kind)
    }

    fn need(kind: u32) -> Option<Need> {
        Some(Relocation::from_type(RelocationType(kind))?.need)
    }

    fn apply(
        kind: u32,
        content: &mut [u8],
        offset: usize,
        place: u64,
        value: u64,
        addend: i64,
    ) -> Result<(), Fault> {
        let relocation =
            Relocation::from_type(RelocationType(kind)).ok_or_else(|| unsupported(kind))?;
        let result = relocation.compute(place, value, addend)?;
        relocation.field.write(content, offset, result)
    }

    fn can_relax(kind: u32, content: &[u8], offset: usize, addend: i64) -> bool {
        addend == 0
            && instruction(content, offset).is_ok_and(|found| relaxed(kind, found).is_some())
    }

    fn relax(
        kind: u32,
        content: &mut [u8],
        offset: usize,
        place: u64,
        target: u64,
        addend: i64,
    ) -> Result<(), Fault> {
        let found = instruction(content, offset)?;
        let (instruction, direct) = relaxed(kind, found).ok_or(Fault::UnexpectedInstruction {
            found: found.into(),
            expected: "ADRP or LDR of a GOT slot",
        })?;
        let relocation = Relocation::from_type(direct).ok_or_else(|| unsupported(kind))?;
        let result = relocation.compute(place, target, addend)?;
        let mut bytes = instruction.to_le_bytes();
        relocation.field.write(&mut bytes, 0, result)?;
        content[offset..][..4].copy_from_slice(&bytes);
        Ok(())
    }

    fn write_stub(stub: &mut [u8], place: u64, slot: u64) -> Result<(), Fault> {
        const ADRP_X16: u32 = 0x9000_0010;
        const LDR_X16_X16: u32 = 0xf940_0210;
        const BR_X16: u32 = 0xd61f_0200;

        let stub = stub.first_chunk_mut::<{ Self::STUB_SIZE }>().ok_or(Fault::Truncated)?;
        for (bytes, instruction) in stub.chunks_exact_mut(4).zip([ADRP_X16, LDR_X16_X16, BR_X16]) {
            bytes.copy_from_slice(&instruction.to_le_bytes());
        }
        Self::apply(elf::R_AARCH64_ADR_GOT_PAGE.0, stub, 0, place, slot, 0)?;
        Self::apply(elf::R_AARCH64_LD64_GOT_LO12_NC.0, stub, 4, place.wrapping_add(4), slot, 0)
    }
}

/// Returns the replacement of an instruction that uses a GOT slot, and the relocation that then
/// applies to it; `None` for an instruction that cannot be rewritten.
///
/// `ADRP x, slot` becomes `ADRP x, target`, and `LDR x, [y, slot]` becomes `ADD x, y, target`. A
/// load to XZR cannot be rewritten: register 31 is SP in ADD.
fn relaxed(kind: u32, found: u32) -> Option<(u32, RelocationType)> {
    const LDR_X: u32 = 0xf940_0000;
    const ADD_X: u32 = 0x9100_0000;
    const XZR: u32 = 31;

    match RelocationType(kind) {
        elf::R_AARCH64_ADR_GOT_PAGE if Field::Adrp.accepts(found) => {
            Some((found, elf::R_AARCH64_ADR_PREL_PG_HI21))
        }
        elf::R_AARCH64_LD64_GOT_LO12_NC if found & 0xffc0_0000 == LDR_X && found & 31 != XZR => {
            Some((ADD_X | found & 0x3ff, elf::R_AARCH64_ADD_ABS_LO12_NC))
        }
        _ => None,
    }
}

fn instruction(content: &[u8], offset: usize) -> Result<u32, Fault> {
    let bytes =
        content.get(offset..).and_then(|rest| rest.first_chunk()).ok_or(Fault::Truncated)?;
    Ok(u32::from_le_bytes(*bytes))
}

#[cold]
fn unsupported(kind: u32) -> Fault {
    Fault::UnexpectedInstruction { found: kind.into(), expected: "a relocation that is supported" }
}
