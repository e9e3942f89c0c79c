//! The description and the notes of a copied kernel: copies of the kernel's, with the variant's
//! group size. `longshore_device.h` defines both.

use std::ffi::CString;

use longshore_llvm::types::*;

use super::{Copy, Source};
use crate::ir::{Ir, ll};
use crate::notes;

/// Prefix of a kernel's name in the name of the function with its code.
const BODY: &str = "__longshore_body_";
/// Name of every note, inside its function.
const NOTE: &str = "longshore_note";

/// Gives a copied kernel the description and the notes of the kernel.
pub(super) fn describe(ir: &Ir<'_>, source: &Source<'_>, copy: &Copy) {
    let (name, symbol) = (source.variant.kernel, ir.name(copy.kernel));
    let Some(description) = &source.description else { return };
    let value = ll!(ir, LLVMGetInitializer(description.global));
    let value = source.variant.group.map_or(value, |group| with_group(ir, value, group));
    copy_global(ir, description.global, &format!("__longshore_kernel_{symbol}"), value);
    for (number, note) in (1..).zip(notes_of(ir, name)) {
        let value = ll!(ir, LLVMGetInitializer(note));
        copy_global(ir, note, &format!("{BODY}{symbol}.{NOTE}.{number}"), value);
    }
}

/// Returns a description with a required group size.
fn with_group(ir: &Ir<'_>, description: ValueRef, group: [u32; 3]) -> ValueRef {
    const GROUP_AT: usize = 2;
    const WORDS: u32 = 8;
    let mut parts = ir.operands(description);
    let word = |index| ir.constant_word(parts[0], index).unwrap_or(0);
    let head = (0..WORDS).map(|index| ir.constant(32, word(index).into()));
    let mut head: Vec<ValueRef> = head.collect();
    for (at, size) in (GROUP_AT..).zip(group) {
        head[at] = ir.constant(32, size.into());
    }
    parts[0] = ll!(ir, LLVMConstArray(ir.int(32), head.as_ptr(), WORDS));
    let ty = ir.type_of(description);
    ll!(ir, LLVMConstNamedStruct(ty, parts.as_ptr(), parts.len() as u32))
}

/// Adds a constant that is like another one except for its name and value.
fn copy_global(ir: &Ir<'_>, from: ValueRef, name: &str, value: ValueRef) {
    let name = CString::new(name).expect("names of kernels have no NUL");
    let space = ll!(ir, LLVMGetPointerAddressSpace(ir.type_of(from)));
    let ty = ir.type_of(value);
    let to = ll!(ir, LLVMAddGlobalInAddressSpace(ir.module, ty, name.as_ptr(), space));
    ll!(ir, LLVMSetInitializer(to, value));
    let (linkage, visibility) = (ll!(ir, LLVMGetLinkage(from)), ll!(ir, LLVMGetVisibility(from)));
    ll!(ir, LLVMSetLinkage(to, linkage));
    ll!(ir, LLVMSetVisibility(to, visibility));
    let (is_constant, alignment) =
        (ll!(ir, LLVMIsGlobalConstant(from)), ll!(ir, LLVMGetAlignment(from)));
    ll!(ir, LLVMSetGlobalConstant(to, is_constant));
    ll!(ir, LLVMSetAlignment(to, alignment));
    notes::keep(ir, to);
}

/// Returns the notes of a kernel.
fn notes_of(ir: &Ir<'_>, kernel: &str) -> Vec<ValueRef> {
    let mut next = ll!(ir, LLVMGetFirstGlobal(ir.module)).present();
    let globals = std::iter::from_fn(|| {
        let global = next?;
        next = ll!(ir, LLVMGetNextGlobal(global)).present();
        Some(global)
    });
    globals
        .filter(|it| is_note_of(&ir.name(*it), kernel))
        .filter(|it| !ll!(ir, LLVMGetInitializer(*it)).is_null())
        .collect()
}

/// Returns whether a variable is a note of a kernel. In C++ its name is mangled.
fn is_note_of(name: &str, kernel: &str) -> bool {
    let Some((function, _)) = name.split_once(NOTE) else { return false };
    let body = format!("{BODY}{kernel}");
    match function.strip_prefix(&body) {
        Some(rest) => matches!(rest, "." | "$" | "_$_"),
        None => function.split_once(&format!("{}{body}", body.len())).is_some_and(|(before, _)| {
            !before.is_empty() && !before.ends_with(|last: char| last.is_ascii_digit())
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::is_note_of;

    #[test]
    fn notes_are_found_by_the_kernel_that_contains_them() {
        for (name, expected) in [
            ("__longshore_body_scale.longshore_note", true),
            ("__longshore_body_scale.longshore_note.3", true),
            ("__longshore_body_scale$longshore_note3", true),
            ("_ZZL22__longshore_body_scaleP14longshore_selfE14longshore_note_3", true),
            ("_ZZL23__longshore_body_scale2P14longshore_selfE14longshore_note", false),
            ("_ZZL122__longshore_body_scaleP14longshore_selfE14longshore_note", false),
            ("__longshore_body_scale2.longshore_note", false),
            ("helper.longshore_note", false),
            ("__longshore_kernel_scale", false),
        ] {
            assert_eq!(is_note_of(name, "scale"), expected, "{name}");
        }
    }
}
