//! Types of kernel arguments, as images declare them and callers give them.

use std::fmt;

/// The kind of an argument. The values are the same in kernel descriptions.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ArgumentKind {
    /// A signed integer.
    Signed = 1,
    /// An unsigned integer.
    Unsigned = 2,
    /// A floating-point number.
    Float = 3,
    /// A pointer.
    Pointer = 4,
    /// A structure, by value.
    Structure = 5,
}

/// The type of a kernel's argument in one word, without its size.
///
/// The lowest byte is the [`ArgumentKind`], 0 where the type is unknown. For a pointer the second
/// byte is the kind of its elements and the upper half their size in bytes, both 0 where they are
/// unknown. The word has this form in kernel descriptions and in the plugin interface.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(from = "u32", into = "u32"))]
pub struct ArgumentType(u32);

/// Converts a word; an unknown word becomes [`ArgumentType::UNKNOWN`].
impl From<u32> for ArgumentType {
    fn from(word: u32) -> ArgumentType {
        ArgumentType::from_word(word).unwrap_or(ArgumentType::UNKNOWN)
    }
}

impl From<ArgumentType> for u32 {
    fn from(value: ArgumentType) -> u32 {
        value.word()
    }
}

impl ArgumentType {
    /// An unknown type.
    pub const UNKNOWN: ArgumentType = ArgumentType(0);

    /// Creates a type of this kind; a pointer has unknown elements.
    pub const fn new(kind: ArgumentKind) -> ArgumentType {
        ArgumentType(kind as u32)
    }

    /// Creates a pointer to numbers of a kind and a size in bytes. The elements are unknown for a
    /// kind that is not a number.
    pub const fn pointer_to(element: ArgumentKind, bytes: u16) -> ArgumentType {
        let pointer = ArgumentKind::Pointer as u32;
        match element {
            ArgumentKind::Pointer | ArgumentKind::Structure => ArgumentType(pointer),
            _ => ArgumentType(pointer | (element as u32) << 8 | (bytes as u32) << 16),
        }
    }

    /// Returns the type of a word; `None` for a word without a meaning.
    pub fn from_word(word: u32) -> Option<ArgumentType> {
        let [kind, element, ..] = word.to_le_bytes();
        let is_plain = element == 0 && word >> 16 == 0;
        match (kind, element) {
            (0..=3 | 5, _) => is_plain.then_some(ArgumentType(word)),
            (4, 1..=3) => (word >> 16 != 0).then_some(ArgumentType(word)),
            (4, _) => is_plain.then_some(ArgumentType(word)),
            _ => None,
        }
    }

    /// Returns the word of the type.
    pub const fn word(self) -> u32 {
        self.0
    }

    /// Returns the kind, `None` if it is unknown.
    pub fn kind(self) -> Option<ArgumentKind> {
        ArgumentKind::from_raw(self.0 & 0xff)
    }

    /// Returns the kind and the size in bytes of a pointer's elements; `None` if they are unknown
    /// or the type is not a pointer.
    pub fn element(self) -> Option<(ArgumentKind, u16)> {
        Some((ArgumentKind::from_raw(self.0 >> 8 & 0xff)?, (self.0 >> 16) as u16))
    }

    /// Returns whether an argument of this declared type takes a value of the type `given` and the
    /// same size. The kinds must agree, and so must the elements of pointers. Signed and unsigned
    /// integers agree with each other, unknown types with all; a declared structure takes any
    /// value.
    #[inline]
    pub fn takes(self, given: ArgumentType) -> bool {
        self == given || self.takes_other(given)
    }

    fn takes_other(self, given: ArgumentType) -> bool {
        let (Some(declared), Some(kind)) = (self.kind(), given.kind()) else { return true };
        if declared == ArgumentKind::Structure {
            return true;
        }
        declared.without_sign() == kind.without_sign()
            && match (self.element(), given.element()) {
                (Some((declared, bytes)), Some((kind, given_bytes))) => {
                    declared.without_sign() == kind.without_sign() && bytes == given_bytes
                }
                _ => true,
            }
    }

    /// Returns the name, for messages, of the type of an argument with this size in bytes: "f32",
    /// "pointer to f64".
    pub fn name(self, bytes: usize) -> String {
        match (self.kind(), self.element()) {
            (None, _) => format!("{bytes} bytes of unknown type"),
            (Some(ArgumentKind::Pointer), None) => "pointer".to_owned(),
            (Some(ArgumentKind::Pointer), Some((element, bytes))) => {
                format!("pointer to {}", number_name(element, bytes.into()))
            }
            (Some(ArgumentKind::Structure), _) => format!("structure of {bytes} bytes"),
            (Some(kind), _) => number_name(kind, bytes),
        }
    }
}

impl fmt::Debug for ArgumentType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind(), self.element()) {
            (None, _) => f.write_str("unknown"),
            (Some(kind), None) => write!(f, "{kind:?}"),
            (Some(kind), Some((element, bytes))) => {
                write!(f, "{kind:?} to {}", number_name(element, bytes.into()))
            }
        }
    }
}

impl ArgumentKind {
    fn from_raw(kind: u32) -> Option<ArgumentKind> {
        Some(match kind {
            1 => ArgumentKind::Signed,
            2 => ArgumentKind::Unsigned,
            3 => ArgumentKind::Float,
            4 => ArgumentKind::Pointer,
            5 => ArgumentKind::Structure,
            _ => return None,
        })
    }

    fn without_sign(self) -> ArgumentKind {
        match self {
            ArgumentKind::Signed => ArgumentKind::Unsigned,
            kind => kind,
        }
    }
}

fn number_name(kind: ArgumentKind, bytes: usize) -> String {
    let letter = match kind {
        ArgumentKind::Signed => 'i',
        ArgumentKind::Unsigned => 'u',
        _ => 'f',
    };
    format!("{letter}{}", bytes.saturating_mul(8))
}

#[cfg(test)]
mod tests {
    use super::ArgumentKind::*;
    use super::*;

    #[test]
    fn words_that_have_a_meaning_survive_the_trip() {
        let types = [
            ArgumentType::UNKNOWN,
            ArgumentType::new(Float),
            ArgumentType::new(Pointer),
            ArgumentType::pointer_to(Unsigned, 8),
            ArgumentType::pointer_to(Structure, 24),
        ];
        for one in types {
            assert_eq!(ArgumentType::from_word(one.word()), Some(one));
        }
        for wrong in [6, 0x0101, 0x4_0003, 0x0104, 0x4_0004, 0x4_0404, u32::MAX] {
            assert_eq!(ArgumentType::from_word(wrong), None, "{wrong:#x}");
        }
    }

    #[test]
    fn a_declared_type_takes_what_means_the_same() {
        let floats = ArgumentType::pointer_to(Float, 4);
        for (declared, given, fits) in [
            (ArgumentType::new(Signed), ArgumentType::new(Unsigned), true),
            (ArgumentType::new(Float), ArgumentType::new(Unsigned), false),
            (ArgumentType::new(Unsigned), ArgumentType::new(Pointer), false),
            (ArgumentType::new(Pointer), ArgumentType::new(Unsigned), false),
            (ArgumentType::new(Structure), ArgumentType::new(Unsigned), true),
            (ArgumentType::new(Float), ArgumentType::UNKNOWN, true),
            (ArgumentType::UNKNOWN, ArgumentType::new(Float), true),
            (floats, floats, true),
            (floats, ArgumentType::new(Pointer), true),
            (floats, ArgumentType::pointer_to(Float, 8), false),
            (floats, ArgumentType::pointer_to(Signed, 4), false),
            (ArgumentType::pointer_to(Signed, 4), ArgumentType::pointer_to(Unsigned, 4), true),
        ] {
            assert_eq!(declared.takes(given), fits, "{declared:?} takes {given:?}");
        }
    }

    #[test]
    fn types_have_the_names_of_rust() {
        assert_eq!(ArgumentType::new(Unsigned).name(4), "u32");
        assert_eq!(ArgumentType::pointer_to(Float, 8).name(8), "pointer to f64");
        assert_eq!(ArgumentType::new(Structure).name(12), "structure of 12 bytes");
        assert_eq!(ArgumentType::UNKNOWN.name(3), "3 bytes of unknown type");
    }
}
