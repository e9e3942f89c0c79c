//! x86-64: the relocations of the System V supplement, and its relaxation of loads from the GOT.
//! JITLink's counterpart is `x86_64.h` with `ELF_x86_64.cpp`.

#[cfg(test)]
mod tests;

use object::elf::{self, RelocationType};

use super::{Arch, Fault, Need};

/// x86-64 with the System V psABI.
pub(crate) struct X86_64;

impl Arch for X86_64 {
    /// `jmp *slot(%rip)` has six bytes; with eight bytes, no stub straddles a cache line.
    const STUB_SIZE: usize = 8;
    const STUB_ALIGNMENT: u64 = 8;
    /// One page below 2 GiB: room for the length of the instruction and for small addends.
    const CALL_REACH: u64 = 0x7fff_f000;
    const RELAXED_REACH: u64 = 0x7fff_f000;

    fn name(kind: u32) -> Option<&'static str> {
        name(kind)
    }

    #[inline]
    fn need(kind: u32) -> Option<Need> {
        howto(kind).map(|howto| howto.need)
    }

    #[inline]
    fn apply(
        kind: u32,
        content: &mut [u8],
        offset: usize,
        place: u64,
        value: u64,
        addend: i64,
    ) -> Result<(), Fault> {
        let Some(howto) = howto(kind) else { return Err(unsupported(kind)) };
        let origin = if howto.relative { place } else { 0 };
        howto.field.write(content, offset, value.wrapping_add_signed(addend).wrapping_sub(origin))
    }

    #[inline]
    fn can_relax(kind: u32, content: &[u8], offset: usize, addend: i64) -> bool {
        Load::decode(kind, content, offset, addend).is_some()
    }

    /// Rewrites the instruction, which keeps its length. Where the field moves, the bytes around it
    /// still belong to the instruction.
    fn relax(
        kind: u32,
        content: &mut [u8],
        offset: usize,
        place: u64,
        target: u64,
        addend: i64,
    ) -> Result<(), Fault> {
        let Some(load) = Load::decode(kind, content, offset, addend) else {
            return Err(not_relaxable(content, offset));
        };
        let distance = target.wrapping_add_signed(addend).wrapping_sub(place);
        match load {
            Load::Move => {
                Field::Signed32.write(content, offset, distance)?;
                content[offset - 2] = LEA;
            }
            Load::Call => {
                Field::Signed32.write(content, offset, distance)?;
                content[offset - 2..offset].copy_from_slice(&[ADDR32, CALL]);
            }
            Load::Jump => {
                Field::Signed32.write(content, offset - 1, distance.wrapping_add(1))?;
                content[offset - 2] = JMP;
                content[offset + 3] = NOP;
            }
        }
        Ok(())
    }

    /// Writes the jump and two bytes of `int3`, which also stop processors that speculate past an
    /// indirect jump.
    fn write_stub(stub: &mut [u8], place: u64, slot: u64) -> Result<(), Fault> {
        let stub = stub.first_chunk_mut::<{ Self::STUB_SIZE }>().ok_or(Fault::Truncated)?;
        let after_jump = place.wrapping_add(6);
        Field::Signed32.write(stub, 2, slot.wrapping_sub(after_jump))?;
        stub[..2].copy_from_slice(&[GROUP_5, JMP_SLOT]);
        stub[6..].fill(INT3);
        Ok(())
    }
}

const ADDR32: u8 = 0x67;
const CALL: u8 = 0xe8;
const GROUP_5: u8 = 0xff;
const INT3: u8 = 0xcc;
const JMP: u8 = 0xe9;
const LEA: u8 = 0x8d;
const MOV: u8 = 0x8b;
const NOP: u8 = 0x90;
const REX2: u8 = 0xd5;
/// ModRM of `call *slot(%rip)`.
const CALL_SLOT: u8 = 0x15;
/// ModRM of `jmp *slot(%rip)`.
const JMP_SLOT: u8 = 0x25;

/// The application of a relocation: BFD's `reloc_howto_type`.
struct Howto {
    need: Need,
    /// Whether the place's address is subtracted.
    relative: bool,
    field: Field,
}

#[inline]
const fn howto(kind: u32) -> Option<Howto> {
    use Field::*;
    let (need, relative, field) = match RelocationType(kind) {
        elf::R_X86_64_NONE | elf::R_X86_64_TLSDESC_CALL => (Need::Nothing, false, Nothing),

        elf::R_X86_64_64 => (Need::Symbol, false, Any64),
        elf::R_X86_64_32 => (Need::Symbol, false, Unsigned32),
        elf::R_X86_64_32S => (Need::Symbol, false, Signed32),
        elf::R_X86_64_16 => (Need::Symbol, false, Any16),
        elf::R_X86_64_8 => (Need::Symbol, false, Any8),
        elf::R_X86_64_PC64 => (Need::Symbol, true, Any64),
        elf::R_X86_64_PC32 => (Need::Symbol, true, Signed32),
        elf::R_X86_64_PC16 => (Need::Symbol, true, Signed16),
        elf::R_X86_64_PC8 => (Need::Symbol, true, Signed8),
        elf::R_X86_64_PLT32 => (Need::Call, true, Signed32),
        elf::R_X86_64_SIZE32 => (Need::Size, false, Unsigned32),
        elf::R_X86_64_SIZE64 => (Need::Size, false, Any64),

        elf::R_X86_64_GOTPCREL
        | elf::R_X86_64_GOTPCRELX
        | elf::R_X86_64_REX_GOTPCRELX
        | elf::R_X86_64_CODE_4_GOTPCRELX
        | elf::R_X86_64_CODE_5_GOTPCRELX
        | elf::R_X86_64_CODE_6_GOTPCRELX => (Need::Slot, true, Signed32),
        elf::R_X86_64_GOTPCREL64 => (Need::Slot, true, Any64),
        elf::R_X86_64_GOT32 => (Need::SlotFromGot, false, Signed32),
        elf::R_X86_64_GOT64 | elf::R_X86_64_GOTPLT64 => (Need::SlotFromGot, false, Any64),
        elf::R_X86_64_GOTOFF64 => (Need::SymbolFromGot, false, Any64),
        elf::R_X86_64_PLTOFF64 => (Need::CallFromGot, false, Any64),
        elf::R_X86_64_GOTPC32 => (Need::Got, true, Signed32),
        elf::R_X86_64_GOTPC64 => (Need::Got, true, Any64),

        elf::R_X86_64_TLSGD => (Need::TlsPair, true, Signed32),
        elf::R_X86_64_TLSLD => (Need::TlsModule, true, Signed32),
        elf::R_X86_64_DTPOFF32 => (Need::TlsModuleOffset, false, Signed32),
        elf::R_X86_64_DTPOFF64 => (Need::TlsModuleOffset, false, Any64),
        elf::R_X86_64_GOTTPOFF
        | elf::R_X86_64_CODE_4_GOTTPOFF
        | elf::R_X86_64_CODE_5_GOTTPOFF
        | elf::R_X86_64_CODE_6_GOTTPOFF => (Need::TlsOffsetSlot, true, Signed32),
        elf::R_X86_64_TPOFF32 => (Need::TlsOffset, false, Signed32),
        elf::R_X86_64_TPOFF64 => (Need::TlsOffset, false, Any64),
        elf::R_X86_64_GOTPC32_TLSDESC
        | elf::R_X86_64_CODE_4_GOTPC32_TLSDESC
        | elf::R_X86_64_CODE_5_GOTPC32_TLSDESC
        | elf::R_X86_64_CODE_6_GOTPC32_TLSDESC => (Need::TlsDescriptor, true, Signed32),

        _ => return None,
    };
    Some(Howto { need, relative, field })
}

/// The field that a relocation writes, and its accepted values. Sums wrap at 64 bits, as addresses
/// do. Where the supplement states no range, fields of 8 and 16 bits have LLD's, and a size has GNU
/// ld's: it has no sign.
#[derive(Clone, Copy)]
enum Field {
    Nothing,
    /// A number with or without a sign.
    Any8,
    /// A number with or without a sign.
    Any16,
    Any64,
    Signed8,
    Signed16,
    Signed32,
    Unsigned32,
}

impl Field {
    #[inline]
    fn write(self, content: &mut [u8], offset: usize, value: u64) -> Result<(), Fault> {
        match self {
            Self::Nothing => Ok(()),
            Self::Any8 => put::<1>(content, offset, value, i8::MIN, u8::MAX),
            Self::Any16 => put::<2>(content, offset, value, i16::MIN, u16::MAX),
            Self::Any64 => put::<8>(content, offset, value, i64::MIN, i64::MAX),
            Self::Signed8 => put::<1>(content, offset, value, i8::MIN, i8::MAX),
            Self::Signed16 => put::<2>(content, offset, value, i16::MIN, i16::MAX),
            Self::Signed32 => put::<4>(content, offset, value, i32::MIN, i32::MAX),
            Self::Unsigned32 => put::<4>(content, offset, value, 0, u32::MAX),
        }
    }
}

/// Writes the low `N` bytes of `value` if, as a signed number, it is from `min` to `max`.
#[inline]
fn put<const N: usize>(
    content: &mut [u8],
    offset: usize,
    value: u64,
    min: impl Into<i64>,
    max: impl Into<i64>,
) -> Result<(), Fault> {
    let (min, max) = (min.into(), max.into());
    let field = content.get_mut(offset..).and_then(|rest| rest.first_chunk_mut::<N>());
    let field = field.ok_or(Fault::Truncated)?;
    if !(min..=max).contains(&value.cast_signed()) {
        return Err(out_of_range(value, min, max));
    }
    *field = *value.to_le_bytes().first_chunk().expect("a field has at most 8 bytes");
    Ok(())
}

/// A relaxable instruction that loads an address from a GOT slot.
enum Load {
    /// `mov slot(%rip), %reg`, which becomes `lea target(%rip), %reg`.
    Move,
    /// `call *slot(%rip)`, which becomes `addr32 call target`.
    Call,
    /// `jmp *slot(%rip)`, which becomes `jmp target; nop`.
    Jump,
}

impl Load {
    /// Returns the instruction whose displacement is at `offset`. The relocation kind locates the
    /// opcode; the plain `GOTPCREL` does not, so any bytes could stand there. With an addend
    /// other than -4, that of a displacement at the end of an instruction, the instruction reads
    /// something else than the slot.
    #[inline]
    fn decode(kind: u32, content: &[u8], offset: usize, addend: i64) -> Option<Self> {
        let end = offset.checked_add(4)?;
        if addend != -4 || end > content.len() {
            return None;
        }
        let before = &content[..offset];
        match RelocationType(kind) {
            elf::R_X86_64_GOTPCRELX => Self::unprefixed(before),
            elf::R_X86_64_REX_GOTPCRELX => match *before.last_chunk()? {
                [0x40..=0x4f, MOV, modrm] if is_rip_relative(modrm) => Some(Self::Move),
                _ => None,
            },
            // The high bit of the prefix's second byte selects the opcodes behind 0F.
            elf::R_X86_64_CODE_4_GOTPCRELX => match *before.last_chunk()? {
                [REX2, 0x00..=0x7f, MOV, modrm] if is_rip_relative(modrm) => Some(Self::Move),
                _ => None,
            },
            _ => None,
        }
    }

    /// Decodes an instruction without a prefix. A general-dynamic TLS sequence ends in `data16
    /// rex.W call`, which stays as it is: in `data16 rex.W addr32 call` the REX prefix is void, and
    /// AMD's processors would read a 16-bit call.
    #[inline]
    fn unprefixed(before: &[u8]) -> Option<Self> {
        match *before.last_chunk()? {
            [MOV, modrm] if is_rip_relative(modrm) => Some(Self::Move),
            [GROUP_5, CALL_SLOT] if !before.ends_with(&[0x66, 0x48, GROUP_5, CALL_SLOT]) => {
                Some(Self::Call)
            }
            [GROUP_5, JMP_SLOT] => Some(Self::Jump),
            _ => None,
        }
    }
}

/// Returns whether the memory operand is `displacement(%rip)`.
#[inline]
const fn is_rip_relative(modrm: u8) -> bool {
    modrm & 0xc7 == 0x05
}

#[cold]
fn out_of_range(value: u64, min: i64, max: i64) -> Fault {
    let value = if min < 0 { value.cast_signed().into() } else { value.into() };
    Fault::OutOfRange { value, min: min.into(), max: max.into() }
}

#[cold]
fn unsupported(kind: u32) -> Fault {
    Fault::UnexpectedInstruction { found: kind.into(), expected: "a relocation that is supported" }
}

#[cold]
fn not_relaxable(content: &[u8], offset: usize) -> Fault {
    let opcode = offset.checked_sub(2).and_then(|start| content.get(start..)?.first_chunk());
    match opcode {
        Some(&opcode) => {
            let found = u16::from_be_bytes(opcode).into();
            Fault::UnexpectedInstruction { found, expected: "mov, call or jmp through a GOT slot" }
        }
        None => Fault::Truncated,
    }
}

fn name(kind: u32) -> Option<&'static str> {
    macro_rules! names {
        ($($name:ident)*) => {
            match RelocationType(kind) {
                $(elf::$name => Some(stringify!($name)),)*
                RelocationType(39) => Some("R_X86_64_PC32_BND"),
                RelocationType(40) => Some("R_X86_64_PLT32_BND"),
                _ => None,
            }
        };
    }
    names! {
        R_X86_64_NONE R_X86_64_64 R_X86_64_PC32 R_X86_64_GOT32 R_X86_64_PLT32 R_X86_64_COPY
        R_X86_64_GLOB_DAT R_X86_64_JUMP_SLOT R_X86_64_RELATIVE R_X86_64_GOTPCREL R_X86_64_32
        R_X86_64_32S R_X86_64_16 R_X86_64_PC16 R_X86_64_8 R_X86_64_PC8 R_X86_64_DTPMOD64
        R_X86_64_DTPOFF64 R_X86_64_TPOFF64 R_X86_64_TLSGD R_X86_64_TLSLD R_X86_64_DTPOFF32
        R_X86_64_GOTTPOFF R_X86_64_TPOFF32 R_X86_64_PC64 R_X86_64_GOTOFF64 R_X86_64_GOTPC32
        R_X86_64_GOT64 R_X86_64_GOTPCREL64 R_X86_64_GOTPC64 R_X86_64_GOTPLT64 R_X86_64_PLTOFF64
        R_X86_64_SIZE32 R_X86_64_SIZE64 R_X86_64_GOTPC32_TLSDESC R_X86_64_TLSDESC_CALL
        R_X86_64_TLSDESC R_X86_64_IRELATIVE R_X86_64_RELATIVE64 R_X86_64_GOTPCRELX
        R_X86_64_REX_GOTPCRELX R_X86_64_CODE_4_GOTPCRELX R_X86_64_CODE_4_GOTTPOFF
        R_X86_64_CODE_4_GOTPC32_TLSDESC R_X86_64_CODE_5_GOTPCRELX R_X86_64_CODE_5_GOTTPOFF
        R_X86_64_CODE_5_GOTPC32_TLSDESC R_X86_64_CODE_6_GOTPCRELX R_X86_64_CODE_6_GOTTPOFF
        R_X86_64_CODE_6_GOTPC32_TLSDESC
    }
}
