//! The kernels of a module, by the descriptions that `longshore_device.h` leaves in it.

use crate::globals;
use crate::names::{DESCRIPTION, NOTE};
use longshore_llvm::types::*;
use longshore_llvm::{Ir, ll};
use std::ffi::CString;

const BODY: &str = "__longshore_body_";
/// The kind of the notes of dynamic shared memory.
const DYNAMIC_SHARED: u32 = 5;
/// Bytes of a description before the arguments.
const HEAD_BYTES: usize = 32;

/// A kernel.
pub(crate) struct Kernel {
    pub(crate) name: String,
    pub(crate) function: ValueRef,
    /// Items in a group in x, y and z; 0 for any number.
    pub(crate) size: [u32; 3],
    pub(crate) parameters: Vec<Parameter>,
    /// Whether its source uses dynamic shared memory.
    pub(crate) has_dynamic_shared: bool,
}

/// A parameter of a kernel.
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) bytes: u32,
    pub(crate) kind: Kind,
}

/// A kind of parameters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Integer,
    Float,
    Pointer,
    ByValue,
}

/// Returns the kernels of a module, in the order of their descriptions.
pub(crate) fn find(ir: &Ir<'_>) -> Result<Vec<Kernel>, String> {
    let notes = dynamic_notes(ir)?;
    let mut kernels = Vec::new();
    for global in ir.all_globals() {
        let symbol = ir.name(global);
        let Some(name) = symbol.strip_prefix(DESCRIPTION) else { continue };
        let bytes = globals::initial_bytes(ir, global)?.bytes;
        let text = CString::new(name).map_err(|_| format!("'{symbol}' has a NUL"))?;
        let function = ll!(ir, LLVMGetNamedFunction(ir.module, text.as_ptr())).present();
        let function = function.filter(|it| ir.is_defined(*it));
        let dynamic = notes.iter().any(|note| is_of(note, name));
        let kernel = function.and_then(|function| read(name, function, &bytes, dynamic));
        kernels.push(
            kernel.ok_or_else(|| format!("the description of kernel '{name}' is malformed"))?,
        );
    }
    match kernels.is_empty() {
        true => Err("the sources have no LONGSHORE_KERNEL or LONGSHORE_GROUP_KERNEL".to_owned()),
        false => Ok(kernels),
    }
}

/// Reads a description; `None` if it is malformed.
fn read(name: &str, function: ValueRef, bytes: &[u8], has_dynamic_shared: bool) -> Option<Kernel> {
    let word = |at: usize| {
        let bytes = bytes.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    let count = word(20)? as usize;
    let text_at = HEAD_BYTES.checked_add(count.checked_mul(8)?)?;
    let text = bytes.get(text_at..text_at.checked_add(word(24)? as usize)?)?;
    let text = String::from_utf8_lossy(text.split(|byte| *byte == 0).next()?).into_owned();
    let names = names(&text);
    let parameter = |index: usize| {
        let at = HEAD_BYTES + index * 8;
        let kind = match word(at + 4)? & 0xff {
            1 | 2 => Kind::Integer,
            3 => Kind::Float,
            4 => Kind::Pointer,
            5 => Kind::ByValue,
            _ => return None,
        };
        let name = names.get(index).cloned().unwrap_or_else(|| format!("argument_{index}"));
        Some(Parameter { name, bytes: word(at)?, kind })
    };
    let size = [word(8)?, word(12)?, word(16)?];
    let parameters = (0..count).map(parameter).collect::<Option<_>>()?;
    Some(Kernel { name: name.to_owned(), function, size, parameters, has_dynamic_shared })
}

/// Returns the symbols of the notes of dynamic shared memory.
fn dynamic_notes(ir: &Ir<'_>) -> Result<Vec<String>, String> {
    let mut notes = Vec::new();
    for global in ir.all_globals() {
        let symbol = ir.name(global);
        if symbol.contains(NOTE) && ir.is_defined(global) {
            let bytes = globals::initial_bytes(ir, global)?.bytes;
            let is_dynamic = bytes.first_chunk() == Some(&DYNAMIC_SHARED.to_le_bytes());
            notes.extend(is_dynamic.then_some(symbol));
        }
    }
    Ok(notes)
}

/// Returns whether a note is in a kernel of this name, or in a function that it may call.
fn is_of(note: &str, kernel: &str) -> bool {
    let Some((before, rest)) = note.split_once(BODY) else { return true };
    let Some(rest) = rest.strip_prefix(kernel) else { return false };
    // In C++ a number before the name is its length.
    let length = (BODY.len() + kernel.len()).to_string();
    rest.starts_with('.') || before.ends_with(&length)
}

/// Returns the names in a list of parameters in parentheses.
fn names(text: &str) -> Vec<String> {
    let inner = text.trim().strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    split(inner.unwrap_or(text)).into_iter().map(name_of).collect()
}

/// Splits a text at the commas outside of brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut parts) = (0i32, 0, Vec::new());
    for (at, character) in text.char_indices() {
        match character {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' | '>' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[begin..]);
    parts
}

/// Returns the name of a parameter: the last word before the brackets of an array.
fn name_of(parameter: &str) -> String {
    let parameter = parameter.trim();
    if let Some(inner) = parameter.strip_prefix("LONGSHORE_BY_VALUE") {
        let inner = inner.trim().trim_start_matches('(').trim_end_matches(')');
        return split(inner).last().map_or_else(String::new, |name| name.trim().to_owned());
    }
    let declared = parameter.split('[').next().unwrap_or_default();
    let mut words = declared.split(|it: char| !it.is_alphanumeric() && it != '_');
    words.rfind(|word| !word.is_empty()).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::{is_of, names};

    #[test]
    fn notes_belong_to_the_kernel_in_their_symbol() {
        assert!(is_of("__longshore_body_scale.longshore_note.3", "scale"));
        assert!(!is_of("__longshore_body_scale_2.longshore_note", "scale"));
        let note = "_ZZL22__longshore_body_scaleP14longshore_selfE14longshore_note_3";
        assert!(is_of(note, "scale") && !is_of(note, "scal"));
        assert!(is_of("other.longshore_note", "scale"));
    }

    #[test]
    fn names_of_parameters_are_found_in_their_text() {
        let text = "(float factor, const float *__restrict x, LONGSHORE_BY_VALUE(struct s, pair), \
                    uint32_t (*rows)[4], std::pair<int, int> both, int flags[2])";
        let found = names(text);
        assert_eq!(found, ["factor", "x", "pair", "rows", "both", "flags"]);
    }
}
