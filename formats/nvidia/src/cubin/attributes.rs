//! The attributes of sections `.nv.info` and `.nv.compat`.

use crate::fields::Fields;

/// A parameter: index, ordinal and offset, and its size in the upper 14 bits of the last word.
pub(super) const PARAMETER: u8 = 0x17;
/// A parameter with a 32-bit size, for kernels with a large parameter.
pub(super) const LARGE_PARAMETER: u8 = 0x45;
pub(super) const MAX_GROUP: u8 = 0x05;
pub(super) const REQUIRED_GROUP: u8 = 0x10;
pub(super) const CLUSTER: u8 = 0x3d;
/// Number of registers. This attribute and the following ones have a symbol's index and a number.
pub(super) const REGISTERS: u8 = 0x2f;
/// Stack bytes of a function alone.
pub(super) const FRAME_BYTES: u8 = 0x11;
/// Stack bytes of a linked function, including the functions that it calls.
pub(super) const STACK_BYTES: u8 = 0x12;

/// Formats of an attribute, which determine how its value is stored.
const BYTE: u8 = 2;
const HALF: u8 = 3;
const WITH_SIZE: u8 = 4;

/// An attribute.
#[derive(Clone, Copy)]
pub(super) struct Attribute<'a> {
    pub(super) id: u8,
    value: Fields<'a>,
}

impl Attribute<'_> {
    /// Returns a byte of the value.
    pub(super) fn byte(self, at: usize) -> Option<u8> {
        self.value.0.get(at).copied()
    }

    pub(super) fn half(self, at: u64) -> Option<u16> {
        self.value.u16(at)
    }

    /// Returns the 32-bit number with this index.
    pub(super) fn word(self, index: u64) -> Option<u32> {
        self.value.u32(index * 4)
    }

    pub(super) fn three_words(self) -> Option<[u32; 3]> {
        Some([self.word(0)?, self.word(1)?, self.word(2)?])
    }
}

/// Returns the attributes in a section, up to an incomplete one.
pub(super) fn read(section: &[u8]) -> impl Iterator<Item = Attribute<'_>> {
    let mut rest = section;
    std::iter::from_fn(move || {
        let (head, behind) = rest.split_at_checked(4)?;
        let stored = match head[0] {
            WITH_SIZE => usize::from(u16::from_le_bytes([head[2], head[3]])),
            _ => 0,
        };
        let (sized, behind) = behind.split_at_checked(stored)?;
        rest = behind;
        let value = match head[0] {
            BYTE => &head[2..3],
            HALF => &head[2..4],
            _ => sized,
        };
        Some(Attribute { id: head[1], value: Fields(value) })
    })
}
