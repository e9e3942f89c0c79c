//! Descriptions of kernels, which Longshore's device header leaves in an image, the same on all
//! targets.
//!
//! Each kernel has a constant global `__longshore_kernel_<name>`, whose bytes are little-endian
//! 32-bit words:
//!
//! | words | |
//! | --- | --- |
//! | 1 | version of the description, 1 |
//! | 1 | form: 0 items, 1 regions |
//! | 3 | required group size in x, y, z, 0 for any size |
//! | 1 | number of arguments |
//! | 1 | size of the text at the end in bytes, with its NUL |
//! | 1 | flags, 0 |
//! | 2 each | an argument: its size in bytes and its type, an [`ArgumentType`] |
//! | | the text: the parameters as they were written, "(uint64_t n, float *x)" |
//!
//! The header knows the features that a kernel's code uses only at the place of their use. There it
//! leaves *notes*: constants `longshore_note` of two words, kind and value, local to their
//! function. The function of a kernel's code is `__longshore_body_<name>`; notes of other functions
//! belong to the image.

use crate::argument_type::{ArgumentKind, ArgumentType};
use crate::error::{Error, ErrorCode, Result};
use crate::request::KernelAttributes;

/// Prefix of a kernel's name in the name of its description.
pub const KERNEL_DESCRIPTION_PREFIX: &str = "__longshore_kernel_";
/// Prefix of a kernel's name in the name of the function with its code.
pub const KERNEL_BODY_PREFIX: &str = "__longshore_body_";
/// Name of every note, inside its function.
pub const KERNEL_NOTE: &str = "longshore_note";

/// The description of a kernel in its image.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelDescription {
    /// Form in which the kernel was written.
    pub form: KernelForm,
    /// Group size that the kernel requires in each dimension, 0 for any size.
    pub required_group: [u32; 3],
    /// Arguments, in order.
    pub arguments: Vec<ArgumentDescription>,
    /// Parameters as they were written: "(uint64_t n, float *x)".
    pub declaration: String,
}

/// The form in which a kernel was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KernelForm {
    /// Code of one work-item.
    Items,
    /// Code of a group, with regions of work-items between barriers.
    Regions,
}

/// The description of a kernel's argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArgumentDescription {
    /// Size in bytes.
    pub bytes: u32,
    /// Kind of the argument.
    pub kind: ArgumentKind,
    /// Type: the kind and, for a pointer, the elements.
    pub argument_type: ArgumentType,
}

impl KernelDescription {
    /// Reads the bytes of a `__longshore_kernel_<name>`. Does not panic for any bytes. Ignores
    /// bytes after the text.
    ///
    /// # Errors
    /// `Unsupported` for a later version or unknown flags, `InvalidBinary` for bytes that are too
    /// short or not a description.
    pub fn parse(bytes: &[u8]) -> Result<KernelDescription> {
        const ARGUMENTS_AT: usize = 8;
        let word = |index| word(bytes, index);
        let version = word(0)?;
        if version != 1 {
            let message = format!("a kernel description has version {version}, expected 1");
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        let form = match word(1)? {
            0 => KernelForm::Items,
            1 => KernelForm::Regions,
            form => {
                return Err(invalid(format!("form {form} is neither items (0) nor regions (1)")));
            }
        };
        let required_group = [word(2)?, word(3)?, word(4)?];
        let (count, text_bytes, flags) = (word(5)? as usize, word(6)? as usize, word(7)?);
        if flags != 0 {
            let message = format!("a kernel description has the unknown flags {flags:#x}");
            return Err(Error::new(ErrorCode::Unsupported, message));
        }
        let text_at = count.checked_mul(2).and_then(|words| words.checked_add(ARGUMENTS_AT));
        let text_at = text_at.and_then(|words| words.checked_mul(4)).unwrap_or(usize::MAX);
        let text =
            bytes.get(text_at..).and_then(|rest| rest.get(..text_bytes)).ok_or_else(|| {
                let there = bytes.len();
                invalid(format!(
                    "{count} arguments and {text_bytes} bytes of text exceed its {there} bytes"
                ))
            })?;
        let argument = |index| argument(bytes, ARGUMENTS_AT + 2 * index);
        Ok(KernelDescription {
            form,
            required_group,
            arguments: (0..count).map(argument).collect::<Result<_>>()?,
            declaration: declaration(text)?,
        })
    }

    /// Returns the sizes of the arguments in bytes.
    pub fn argument_sizes(&self) -> Vec<u32> {
        self.arguments.iter().map(|argument| argument.bytes).collect()
    }

    /// Completes the attributes of the kernel with the declaration of its arguments, and with their
    /// types if the target has the same number of arguments. The sizes of the arguments and the
    /// required group size come from the description only if the target has none.
    pub fn complete(self, attributes: &mut KernelAttributes) {
        let sizes = attributes.argument_sizes.get_or_insert_with(|| self.argument_sizes());
        if sizes.len() == self.arguments.len() {
            attributes.argument_types =
                self.arguments.iter().map(|one| one.argument_type).collect();
        }
        attributes.declaration = self.declaration;
        if attributes.required_group == [0; 3] {
            attributes.required_group = self.required_group;
        }
    }
}

fn argument(bytes: &[u8], at: usize) -> Result<ArgumentDescription> {
    let found = word(bytes, at + 1)?;
    let known = ArgumentType::from_word(found).and_then(|known| Some((known, known.kind()?)));
    let Some((argument_type, kind)) = known else {
        return Err(invalid(format!(
            "an argument has type {found:#x}, expected a kind of 1 to 5, elements only of pointers"
        )));
    };
    Ok(ArgumentDescription { bytes: word(bytes, at)?, kind, argument_type })
}

fn declaration(text: &[u8]) -> Result<String> {
    match text {
        [] => Ok(String::new()),
        [text @ .., 0] => Ok(as_written(&String::from_utf8_lossy(text))),
        _ => Err(invalid("its text does not end with NUL".to_owned())),
    }
}

/// Returns the text with parameters passed by value as they were written: the C header turns
/// `LONGSHORE_BY_VALUE(T, name)` into `register __typeof__(T) name`, which becomes `T name`.
fn as_written(text: &str) -> String {
    const BEFORE: &str = "register __typeof__(";
    let mut written = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once(BEFORE) {
        let Some((name, after)) = behind.split_at_checked(closing(behind)) else { break };
        written.extend([before, name.trim()]);
        rest = &after[1..];
    }
    written + rest
}

/// Returns the index of the parenthesis that closes one opened before the text; without one, an
/// index beyond the text.
fn closing(text: &str) -> usize {
    let mut open = 1usize;
    let closes = |(_, letter): &(usize, char)| {
        match letter {
            '(' => open += 1,
            ')' => open -= 1,
            _ => {}
        }
        open == 0
    };
    text.char_indices().find(closes).map_or(text.len() + 1, |(at, _)| at)
}

fn word(bytes: &[u8], index: usize) -> Result<u32> {
    let at = index.saturating_mul(4);
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    found
        .map(|word| u32::from_le_bytes(*word))
        .ok_or_else(|| invalid(format!("word {index} is beyond its {} bytes", bytes.len())))
}

fn invalid(what: String) -> Error {
    Error::new(ErrorCode::InvalidBinary, format!("a kernel description is malformed: {what}"))
}

/// A feature that a function uses, from one of its notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KernelNote {
    /// A barrier of the group.
    Barrier,
    /// An operation of the sub-group.
    SubGroup,
    /// A barrier of the whole grid.
    GridBarrier,
    /// Shared memory that the function declares, in bytes. Several notes add up.
    StaticShared(u32),
    /// Shared memory whose size is a parameter of the launch.
    DynamicShared,
    /// A barrier of the group form: no thread waits there if one thread runs the group.
    GroupBarrier,
    /// Loops instead of items that wait for each other, in a kernel for a CPU.
    ItemLoops(ItemLoops),
    /// Items that wait for each other, where loops were not possible. The reason follows the note:
    /// a text of this number of bytes.
    NoItemLoops(u32),
}

/// Loops over the items of a group, made from a kernel whose items wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemLoops {
    /// Bytes on the stack for each item of a group.
    pub item_bytes: u32,
    /// Whether sub-groups exchange values. Then the loops need a group of one dimension, or a
    /// multiple of 32 items in x.
    pub has_subgroups: bool,
}

impl KernelNote {
    /// Reads the bytes of a `longshore_note`; `None` for an unknown kind and for bytes that are too
    /// short. Does not panic for any bytes.
    pub fn parse(bytes: &[u8]) -> Option<KernelNote> {
        Some(match word(bytes, 0).ok()? {
            1 => KernelNote::Barrier,
            2 => KernelNote::SubGroup,
            3 => KernelNote::GridBarrier,
            4 => KernelNote::StaticShared(word(bytes, 1).ok()?),
            5 => KernelNote::DynamicShared,
            6 => KernelNote::GroupBarrier,
            kind @ (7 | 8) => KernelNote::ItemLoops(ItemLoops {
                item_bytes: word(bytes, 1).ok()?,
                has_subgroups: kind == 8,
            }),
            9 => KernelNote::NoItemLoops(word(bytes, 1).ok()?),
            _ => return None,
        })
    }
}

/// The owner of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoteOwner<'a> {
    /// The kernel of this name, with the note in its code.
    Kernel(&'a str),
    /// The image: the note is in another function.
    Image,
}

/// Returns the owner of a note, `None` for a symbol that is not a note. Compilers derive the
/// symbol's name from a function's local constant. In C the name is
/// `__longshore_body_<name>.longshore_note` and a number that distinguishes several notes; PTX has
/// `_$_` for the point. In C++ the symbol is the mangled name, in which the length of the
/// function's name precedes the name. C of gcc names no function, so its notes belong to the image.
pub fn note_owner(symbol: &str) -> Option<NoteOwner<'_>> {
    let (function, _) = symbol.split_once(KERNEL_NOTE)?;
    let Some((before, name)) = function.split_once(KERNEL_BODY_PREFIX) else {
        return Some(NoteOwner::Image);
    };
    let name = match before.is_empty() {
        true => name.strip_suffix("_$_").or(name.strip_suffix(['.', '$'])),
        false => mangled_name(before, name),
    };
    Some(name.filter(|name| !name.is_empty()).map_or(NoteOwner::Image, NoteOwner::Kernel))
}

/// Returns the part of a mangled name that the length before it covers, without the prefix.
fn mangled_name<'a>(before: &str, rest: &'a str) -> Option<&'a str> {
    let digits = before.len() - before.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let length: usize = before[before.len() - digits..].parse().ok()?;
    rest.get(..length.checked_sub(KERNEL_BODY_PREFIX.len())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u32], text: &str) -> Vec<u8> {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend(text.bytes());
        bytes
    }

    #[test]
    fn parameters_passed_by_value_are_as_they_were_written() {
        for (text, written) in [
            ("(register __typeof__(struct point) p, float *x)", "(struct point p, float *x)"),
            (
                "(register __typeof__(T (*)(int)) f, register __typeof__(U) u)",
                "(T (*)(int) f, U u)",
            ),
            ("(register __typeof__(", "(register __typeof__("),
            ("(register __typeof__((x)", "(register __typeof__((x)"),
            ("(uint64_t n)", "(uint64_t n)"),
        ] {
            assert_eq!(as_written(text), written);
        }
    }

    fn saxpy() -> Vec<u8> {
        let arguments = [8, 2, 4, 3, 8, 0x4_0304, 12, 5, 1, 1];
        let head = [1, 1, 64, 0, 0, 5, 30, 0];
        words(&[&head[..], &arguments].concat(), "(uint64_t n, float a, char c)\0")
    }

    #[test]
    fn a_description_says_form_group_arguments_and_text() {
        let described = KernelDescription::parse(&saxpy()).unwrap();
        assert_eq!(described.form, KernelForm::Regions);
        assert_eq!(described.required_group, [64, 0, 0]);
        assert_eq!(described.argument_sizes(), [8, 4, 8, 12, 1]);
        let kinds: Vec<_> = described.arguments.iter().map(|argument| argument.kind).collect();
        use ArgumentKind::*;
        assert_eq!(kinds, [Unsigned, Float, Pointer, Structure, Signed]);
        let elements = described.arguments[2].argument_type.element();
        assert_eq!(elements, Some((Float, 4)));
        assert_eq!(described.declaration, "(uint64_t n, float a, char c)");
        let empty = KernelDescription::parse(&words(&[1, 0, 0, 0, 0, 0, 0, 0], "")).unwrap();
        assert_eq!((empty.form, empty.declaration.as_str()), (KernelForm::Items, ""));
    }

    #[test]
    fn every_truncation_is_refused_and_every_flipped_bit_harmless() {
        let whole = saxpy();
        for end in 0..whole.len() {
            let error = KernelDescription::parse(&whole[..end]).unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidBinary, "{end}: {error}");
        }
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let _ = KernelDescription::parse(&damaged);
        }
    }

    #[test]
    fn impossible_descriptions_are_refused() {
        use ErrorCode::*;
        for (words_of, text, code) in [
            (&[2, 0, 0, 0, 0, 0, 0, 0][..], "", Unsupported),
            (&[1, 2, 0, 0, 0, 0, 0, 0], "", InvalidBinary),
            (&[1, 0, 0, 0, 0, 0, 0, 1], "", Unsupported),
            (&[1, 0, 0, 0, 0, u32::MAX, 0, 0], "", InvalidBinary),
            (&[1, 0, 0, 0, 0, 0, u32::MAX, 0], "", InvalidBinary),
            (&[1, 0, 0, 0, 0, 1, 0, 0, 4, 6], "", InvalidBinary),
            (&[1, 0, 0, 0, 0, 0, 2, 0], "()", InvalidBinary),
        ] {
            let error = KernelDescription::parse(&words(words_of, text)).unwrap_err();
            assert_eq!(error.code(), code, "{words_of:?}: {error}");
        }
    }

    #[test]
    fn notes_have_a_kind_and_a_value() {
        assert_eq!(KernelNote::parse(&words(&[1, 0], "")), Some(KernelNote::Barrier));
        assert_eq!(KernelNote::parse(&words(&[4, 256], "")), Some(KernelNote::StaticShared(256)));
        assert_eq!(KernelNote::parse(&words(&[5, 0], "")), Some(KernelNote::DynamicShared));
        assert_eq!(KernelNote::parse(&words(&[6, 0], "")), Some(KernelNote::GroupBarrier));
        let loops = |has_subgroups| {
            Some(KernelNote::ItemLoops(ItemLoops { item_bytes: 24, has_subgroups }))
        };
        assert_eq!(KernelNote::parse(&words(&[7, 24], "")), loops(false));
        assert_eq!(KernelNote::parse(&words(&[8, 24], "")), loops(true));
        assert_eq!(KernelNote::parse(&words(&[9, 2], "ab")), Some(KernelNote::NoItemLoops(2)));
        assert_eq!(KernelNote::parse(&words(&[10, 0], "")), None);
        assert_eq!(KernelNote::parse(&[1, 0]), None);
    }

    #[test]
    fn the_owner_of_a_note_is_in_its_symbol() {
        use NoteOwner::*;
        for (symbol, owner) in [
            ("__longshore_body_saxpy.longshore_note", Some(Kernel("saxpy"))),
            ("__longshore_body_saxpy.longshore_note.12", Some(Kernel("saxpy"))),
            ("__longshore_body_saxpy_$_longshore_note1", Some(Kernel("saxpy"))),
            ("__longshore_body_saxpy$longshore_note", Some(Kernel("saxpy"))),
            ("_ZZL22__longshore_body_saxpymPfE14longshore_note_0", Some(Kernel("saxpy"))),
            ("_ZZ18__longshore_body_xE14longshore_note", Some(Kernel("x"))),
            ("_ZZN2ns18__longshore_body_xEvE14longshore_noteE_0", Some(Kernel("x"))),
            ("helper.longshore_note", Some(Image)),
            ("longshore_note.3", Some(Image)),
            ("_ZZL6helpervE14longshore_note", Some(Image)),
            ("_ZZL99__longshore_body_xE14longshore_note", Some(Image)),
            ("_ZZL3__longshore_body_xE14longshore_note", Some(Image)),
            ("__longshore_body_.longshore_note", Some(Image)),
            ("__longshore_body_saxpy", None),
            ("", None),
        ] {
            assert_eq!(note_owner(symbol), owner, "{symbol}");
        }
    }
}
