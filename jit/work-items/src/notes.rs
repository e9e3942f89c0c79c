//! Notes of kernels, from which the backend learns how their items run.

use std::ffi::CString;

use longshore_llvm::types::*;

use crate::ir::{Ir, ll};

/// `LLVMAppendingLinkage` of `LLVMLinkage`.
const APPENDING_LINKAGE: u32 = 7;

/// Adds a note of a kernel, and the text behind it.
pub(crate) fn add(ir: &Ir<'_>, kernel: &str, kind: u32, value: u32, text: &str) {
    let words = [kind, value].into_iter().flat_map(u32::to_le_bytes);
    let bytes: Vec<ValueRef> =
        words.chain(text.bytes()).map(|byte| ir.constant(8, byte.into())).collect();
    let array = ll!(ir, LLVMConstArray(ir.int(8), bytes.as_ptr(), bytes.len() as u32));
    let name = format!("__longshore_body_{kernel}.longshore_note.{}", 1_000_000 + kind);
    let name = CString::new(name).expect("names have no NUL");
    let note = ll!(ir, LLVMAddGlobal(ir.module, ir.type_of(array), name.as_ptr()));
    ll!(ir, LLVMSetInitializer(note, array));
    ll!(ir, LLVMSetLinkage(note, INTERNAL_LINKAGE));
    ll!(ir, LLVMSetGlobalConstant(note, 1));
    ll!(ir, LLVMSetAlignment(note, 4));
    keep(ir, note);
}

/// Keeps a variable that no code uses.
pub(crate) fn keep(ir: &Ir<'_>, global: ValueRef) {
    const NAME: &std::ffi::CStr = c"llvm.used";
    let byte = ir.pointer_to(ir.int(8));
    let old = ll!(ir, LLVMGetNamedGlobal(ir.module, NAME.as_ptr())).present();
    let mut kept = Vec::new();
    if let Some(old) = old {
        kept = ir.operands(ll!(ir, LLVMGetInitializer(old)));
        ll!(ir, LLVMDeleteGlobal(old));
    }
    kept.push(ll!(ir, LLVMConstPointerCast(global, byte)));
    set_list(ir, NAME, &kept);
}

/// Makes the list of variables that the compiler keeps.
fn set_list(ir: &Ir<'_>, name: &std::ffi::CStr, kept: &[ValueRef]) {
    let byte = ir.pointer_to(ir.int(8));
    let array = ll!(ir, LLVMConstArray(byte, kept.as_ptr(), kept.len() as u32));
    let new = ll!(ir, LLVMAddGlobal(ir.module, ir.type_of(array), name.as_ptr()));
    ll!(ir, LLVMSetInitializer(new, array));
    ll!(ir, LLVMSetLinkage(new, APPENDING_LINKAGE));
    ll!(ir, LLVMSetSection(new, c"llvm.metadata".as_ptr()));
}

/// Returns the group size that a kernel's description requires, 0 in an open dimension.
pub(crate) fn required_group(ir: &Ir<'_>, kernel: &str) -> [u32; 3] {
    let Ok(name) = CString::new(format!("__longshore_kernel_{kernel}")) else { return [0; 3] };
    let global = ll!(ir, LLVMGetNamedGlobal(ir.module, name.as_ptr()));
    let value = global.present().and_then(|it| ll!(ir, LLVMGetInitializer(it)).present());
    // The description begins with an array of words, in a structure.
    let head = value.and_then(|value| ir.operands(value).first().copied());
    let Some(head) = head else { return [0; 3] };
    let word = |index| ir.constant_word(head, index).unwrap_or(0);
    [word(2), word(3), word(4)]
}
