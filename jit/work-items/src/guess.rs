//! Likely sizes of groups. A kernel in CUDA does not say its group's size, with which LLVM makes
//! better loops, but its shared arrays have it. So the kernel gets a copy for this size too.

use longshore_llvm::types::*;

use crate::early::group_items;
use crate::ir::{Ir, ll};

/// The attribute of an item's function with the likely size of its groups.
const ATTRIBUTE: &str = "longshore-likely-group";
/// Most items of a group, and in one dimension of a group of two.
const MOST_ITEMS: u64 = 1024;
const MOST_IN_SQUARE: u64 = 32;
/// Number of items that groups in one dimension have a multiple of.
const PART: u64 = 32;
/// Most neighbours of both ends of a row.
const MOST_NEIGHBOURS: u64 = 16;

/// Notes the likely size of a kernel's groups, by the types of its shared variables.
pub(crate) fn note(ir: &Ir<'_>, item: ValueRef, types: &[TypeRef]) {
    let of_squares = types.iter().find_map(|ty| square(ir, *ty));
    let Some([x, y]) = of_squares.or_else(|| types.iter().find_map(|ty| row(ir, *ty))) else {
        return;
    };
    let value = format!("{x},{y}");
    let (name, length) = (ATTRIBUTE.as_ptr().cast(), ATTRIBUTE.len() as u32);
    let (text, size) = (value.as_ptr().cast(), value.len() as u32);
    let attribute = ll!(ir, LLVMCreateStringAttribute(ir.context, name, length, text, size));
    ll!(ir, LLVMAddAttributeAtIndex(item, FUNCTION_INDEX, attribute));
}

/// Returns the likely size of a kernel's groups.
pub(crate) fn likely_group(ir: &Ir<'_>, item: ValueRef) -> Option<[u32; 3]> {
    let (name, length) = (ATTRIBUTE.as_ptr().cast(), ATTRIBUTE.len() as u32);
    let found = ll!(ir, LLVMGetStringAttributeAtIndex(item, FUNCTION_INDEX, name, length));
    let mut size = 0;
    let value = ll!(ir, LLVMGetStringAttributeValue(found.present()?, &raw mut size));
    // SAFETY: LLVM returns the text's address and length.
    let bytes = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), size as usize) };
    let (x, y) = std::str::from_utf8(bytes).ok()?.split_once(',')?;
    Some([x.parse().ok()?, y.parse().ok()?, 1])
}

/// Makes the sizes of the group constants in a copy of an item's function.
pub(crate) fn fix(ir: &Ir<'_>, function: ValueRef, group: [u32; 3]) {
    for (load, dimension) in group_items(ir, function) {
        let ty = ir.type_of(load);
        let items = ll!(ir, LLVMConstInt(ty, group[dimension].into(), 0));
        ir.replace(load, items);
        ir.erase(load);
    }
}

/// Returns the lengths of an array of arrays, the inner one first.
fn lengths(ir: &Ir<'_>, ty: TypeRef) -> Vec<u64> {
    let mut lengths = Vec::new();
    let mut ty = ty;
    while ir.kind(ty) == type_kind::ARRAY {
        lengths.insert(0, u64::from(ll!(ir, LLVMGetArrayLength(ty))));
        ty = ll!(ir, LLVMGetElementType(ty));
    }
    lengths
}

/// Returns the group of a tile, whose rows may have one more element against conflicts of banks.
fn square(ir: &Ir<'_>, ty: TypeRef) -> Option<[u64; 2]> {
    match lengths(ir, ty)[..] {
        [x, y, ..] if (x == y || x == y + 1) && (2..=MOST_IN_SQUARE).contains(&y) => Some([y, y]),
        _ => None,
    }
}

/// Returns the group of a row with an element for each item. A row of a stencil also has the
/// neighbours of both ends.
fn row(ir: &Ir<'_>, ty: TypeRef) -> Option<[u64; 2]> {
    let x = *lengths(ir, ty).first()?;
    let neighbours = x % PART;
    let items = x - neighbours;
    (neighbours <= MOST_NEIGHBOURS && (PART..=MOST_ITEMS).contains(&items)).then_some([items, 1])
}
