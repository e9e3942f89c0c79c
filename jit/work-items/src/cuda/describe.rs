//! The description and the notes of a kernel, as `longshore_device.h` has them for its own. GPUs
//! need the description alone.

use std::ffi::CString;

use longshore_llvm::types::*;

use super::Kernel;
use super::context::Layout;
use super::parameters::Argument;
use crate::ir::{Ir, ll};
use crate::kernels::Calls;
use crate::markers::Marker;
use crate::notes;

/// Beginnings of the triples of GPUs, and the address space of their global memory.
const GPUS: [&str; 2] = ["nvptx", "amdgcn"];
const GLOBAL_SPACE: u32 = 1;
/// `LLVMProtectedVisibility` of `LLVMVisibility`.
const PROTECTED_VISIBILITY: u32 = 2;
/// Version of descriptions, and the form of kernels of items.
const VERSION: u32 = 1;
const FORM_ITEMS: u32 = 0;
/// Kinds of notes.
const NOTE_BARRIER: u32 = 1;
const NOTE_SUBGROUP: u32 = 2;
const NOTE_GRID_BARRIER: u32 = 3;
const NOTE_SHARED: u32 = 4;
const NOTE_DYNAMIC_SHARED: u32 = 5;

/// Adds the description and the notes of a kernel.
pub(super) fn describe(ir: &Ir<'_>, kernel: &Kernel, layout: &Layout, calls: &Calls) {
    let arguments: Vec<&Argument> = kernel.parameters.iter().map(|it| &it.argument).collect();
    add_description(ir, &kernel.name, &arguments);
    let mut reached = calls.reach(kernel.item);
    reached.insert(kernel.item);
    // Indirect calls may lead to any function that takes the item from the thread.
    for late in &layout.late {
        reached.insert(*late);
        reached.extend(calls.reach(*late));
    }
    let markers: Vec<Marker> =
        reached.iter().filter_map(|it| Marker::from_symbol(&ir.name(*it))).collect();
    let note = |kind, value| notes::add(ir, &kernel.name, kind, value, "");
    if markers.iter().any(|it| it.is_barrier()) {
        note(NOTE_BARRIER, 0);
    }
    if markers.iter().any(|it| it.is_of_subgroup()) {
        note(NOTE_SUBGROUP, 0);
    }
    if markers.contains(&Marker::GridBarrier) {
        note(NOTE_GRID_BARRIER, 0);
    }
    let bytes = layout.bytes.get(&kernel.item).copied().unwrap_or_default();
    if bytes > 0 {
        note(NOTE_SHARED, u32::try_from(bytes).unwrap_or(u32::MAX));
    }
    if reached.iter().any(|it| layout.dynamic.contains(it)) {
        note(NOTE_DYNAMIC_SHARED, 0);
    }
}

/// Adds the constant with a kernel's arguments.
pub(super) fn add_description(ir: &Ir<'_>, name: &str, arguments: &[&Argument]) {
    let texts: Vec<&str> = arguments.iter().map(|argument| argument.text.as_str()).collect();
    let text = match texts.is_empty() {
        true => "(void)".to_owned(),
        false => format!("({})", texts.join(", ")),
    };
    let count = arguments.len() as u32;
    let array = |bits: u32, values: Vec<u64>| {
        let values: Vec<ValueRef> =
            values.into_iter().map(|value| ir.constant(bits, value)).collect();
        ll!(ir, LLVMConstArray(ir.int(bits), values.as_ptr(), values.len() as u32))
    };
    let text_bytes = text.len() as u64 + 1;
    let head =
        array(32, vec![VERSION.into(), FORM_ITEMS.into(), 0, 0, 0, count.into(), text_bytes, 0]);
    let words = arguments.iter().flat_map(|it| [it.bytes, it.kind.into()]).collect();
    let text = array(8, text.bytes().chain([0]).map(u64::from).collect());
    let parts = [head, array(32, words), text];
    let types = parts.map(|part| ir.type_of(part));
    let ty = ll!(ir, LLVMStructTypeInContext(ir.context, types.as_ptr(), 3, 0));
    let value = ll!(ir, LLVMConstNamedStruct(ty, parts.as_ptr(), 3));
    let symbol = CString::new(format!("__longshore_kernel_{name}")).expect("names have no NUL");
    let target = ir.target();
    let is_for_gpu = GPUS.iter().any(|gpu| target.starts_with(gpu));
    let space = if is_for_gpu { GLOBAL_SPACE } else { 0 };
    let global = ll!(ir, LLVMAddGlobalInAddressSpace(ir.module, ty, symbol.as_ptr(), space));
    ll!(ir, LLVMSetInitializer(global, value));
    ll!(ir, LLVMSetGlobalConstant(global, 1));
    ll!(ir, LLVMSetAlignment(global, 4));
    if is_for_gpu {
        ll!(ir, LLVMSetVisibility(global, PROTECTED_VISIBILITY));
    }
    notes::keep(ir, global);
}
