//! The fields of relocations: data, and immediates of instructions.

use crate::arch::Fault;

/// The destination of a relocation's result X.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    /// No field.
    Nothing,
    /// Two bytes.
    Data16,
    /// Four bytes.
    Data32,
    /// Eight bytes.
    Data64,
    /// Bits `27:2` of X, in B and BL.
    Branch26,
    /// Bits `20:2` of X, in B.cond, BC.cond, CBZ and CBNZ.
    Branch19,
    /// Bits `15:2` of X, in TBZ and TBNZ.
    Branch14,
    /// Bits `20:2` of X, in LDR and its variants from a literal.
    Literal,
    /// Bits `20:0` of X, in ADR.
    Adr,
    /// Bits `32:12` of X, in ADRP.
    Adrp,
    /// Bits `11:0` of X, in ADD of an immediate.
    AddLow,
    /// Bits `23:12` of X, in ADD of an immediate.
    AddHigh,
    /// Bits `11:n` of X, in LDR, STR and their variants of 2^n bytes.
    LoadStore(u32),
    /// Bits `14:3` of X, in LDR of eight bytes.
    LoadFar,
    /// The n-th 16 bits of X, in MOVZ and MOVK.
    Move(u32),
    /// The n-th 16 bits of X or their complement, in MOVZ or MOVN, by the sign of X. In MOVK, the
    /// n-th 16 bits of X.
    MoveSigned(u32),
}

impl Field {
    /// Returns whether the field is data and not part of an instruction.
    pub(super) fn is_data(self) -> bool {
        matches!(self, Self::Data16 | Self::Data32 | Self::Data64)
    }

    /// Returns whether an instruction has this field.
    pub(super) fn accepts(self, instruction: u32) -> bool {
        let is = |mask, pattern| instruction & mask == pattern;
        let access = || is(0x3b00_0000, 0x3900_0000).then(|| access_scale(instruction));
        match self {
            Self::Nothing | Self::Data16 | Self::Data32 | Self::Data64 => true,
            Self::Branch26 => is(0x7c00_0000, 0x1400_0000),
            Self::Branch19 => is(0xff00_0000, 0x5400_0000) || is(0x7e00_0000, 0x3400_0000),
            Self::Branch14 => is(0x7e00_0000, 0x3600_0000),
            Self::Literal => is(0x3b00_0000, 0x1800_0000),
            Self::Adr => is(0x9f00_0000, 0x1000_0000),
            Self::Adrp => is(0x9f00_0000, 0x9000_0000),
            Self::AddLow | Self::AddHigh => is(0x5f80_0000, 0x1100_0000),
            Self::LoadStore(scale) => access() == Some(scale),
            Self::LoadFar => access() == Some(3),
            Self::Move(_) => is(0x5f80_0000, 0x5280_0000),
            Self::MoveSigned(_) => is(0x5f80_0000, 0x5280_0000) || is(0x7f80_0000, 0x1280_0000),
        }
    }

    /// Writes `x` to the field at `content[offset..]`.
    pub(super) fn write(self, content: &mut [u8], offset: usize, x: u64) -> Result<(), Fault> {
        match self {
            Self::Nothing => {}
            Self::Data16 => *chunk(content, offset)? = (x as u16).to_le_bytes(),
            Self::Data32 => *chunk(content, offset)? = (x as u32).to_le_bytes(),
            Self::Data64 => *chunk(content, offset)? = x.to_le_bytes(),
            _ => {
                let bytes = chunk(content, offset)?;
                *bytes = self.encode(u32::from_le_bytes(*bytes), x)?.to_le_bytes();
            }
        }
        Ok(())
    }

    fn encode(self, found: u32, x: u64) -> Result<u32, Fault> {
        if !self.accepts(found) {
            return Err(Fault::UnexpectedInstruction {
                found: found.into(),
                expected: self.expected(),
            });
        }
        let alignment = self.alignment();
        if x & (alignment - 1) != 0 {
            return Err(Fault::Misaligned { value: x, alignment });
        }
        Ok(match self {
            Self::Nothing | Self::Data16 | Self::Data32 | Self::Data64 => found,
            Self::Branch26 => insert(found, 0, 26, x >> 2),
            Self::Branch19 | Self::Literal => insert(found, 5, 19, x >> 2),
            Self::Branch14 => insert(found, 5, 14, x >> 2),
            Self::Adr => insert_split(found, x),
            Self::Adrp => insert_split(found, x >> 12),
            Self::AddLow => insert(found, 10, 12, x),
            Self::AddHigh => insert(found, 10, 12, x >> 12),
            Self::LoadStore(scale) => insert(found, 10, 12, (x & 0xfff) >> scale),
            Self::LoadFar => insert(found, 10, 12, x >> 3),
            Self::Move(group) => insert(found, 5, 16, x >> (16 * group)),
            Self::MoveSigned(group) => move_signed(found, x.cast_signed(), group),
        })
    }

    fn alignment(self) -> u64 {
        match self {
            Self::Branch26 | Self::Branch19 | Self::Branch14 | Self::Literal => 4,
            Self::LoadStore(scale) => 1 << scale,
            Self::LoadFar => 8,
            _ => 1,
        }
    }

    /// Returns a description of the instructions that have this field.
    fn expected(self) -> &'static str {
        match self {
            Self::Nothing | Self::Data16 | Self::Data32 | Self::Data64 => "data",
            Self::Branch26 => "B or BL",
            Self::Branch19 => "B.cond, CBZ or CBNZ",
            Self::Branch14 => "TBZ or TBNZ",
            Self::Literal => "a load from a literal",
            Self::Adr => "ADR",
            Self::Adrp => "ADRP",
            Self::AddLow | Self::AddHigh => "ADD of an immediate",
            Self::LoadStore(0) => "a load or store of 1 byte with an unsigned offset",
            Self::LoadStore(1) => "a load or store of 2 bytes with an unsigned offset",
            Self::LoadStore(2) => "a load or store of 4 bytes with an unsigned offset",
            Self::LoadStore(4) => "a load or store of 16 bytes with an unsigned offset",
            Self::LoadStore(_) | Self::LoadFar => {
                "a load or store of 8 bytes with an unsigned offset"
            }
            Self::Move(_) => "MOVZ or MOVK",
            Self::MoveSigned(_) => "MOVZ, MOVN or MOVK",
        }
    }
}

fn chunk<const N: usize>(content: &mut [u8], offset: usize) -> Result<&mut [u8; N], Fault> {
    content.get_mut(offset..).and_then(|rest| rest.first_chunk_mut()).ok_or(Fault::Truncated)
}

fn insert(instruction: u32, lowest: u32, width: u32, x: u64) -> u32 {
    let mask = (1 << width) - 1;
    instruction & !(mask << lowest) | (x as u32 & mask) << lowest
}

/// Inserts the immediate of ADR and ADRP: two bits in `30:29`, the others in `23:5`.
fn insert_split(instruction: u32, x: u64) -> u32 {
    insert(insert(instruction, 29, 2, x), 5, 19, x >> 2)
}

fn move_signed(instruction: u32, x: i64, group: u32) -> u32 {
    const KEEP: u32 = 1 << 29;
    const ZERO: u32 = 1 << 30;
    let (instruction, x) = match instruction & KEEP == 0 {
        true if x < 0 => (instruction & !ZERO, !x),
        true => (instruction | ZERO, x),
        false => (instruction, x),
    };
    insert(instruction, 5, 16, x.cast_unsigned() >> (16 * group))
}

/// Returns the logarithm of the access size of a load or store with an unsigned offset.
fn access_scale(instruction: u32) -> u32 {
    let size = instruction >> 30;
    let vector = instruction >> 26 & 1;
    let wide = instruction >> 23 & 1;
    size + 4 * (vector & wide)
}
