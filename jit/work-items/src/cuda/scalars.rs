//! Small structures as their members.
//!
//! The x86-64 ABI passes a `float4` as two vectors of two floats, and clang copies structures by
//! `memcpy`. LLVM would keep both in the loops over items, which it cannot vectorise then.

use longshore_llvm::types::*;

use crate::ir::{Ir, ll};
use crate::metadata::metadata_kind;
use crate::uniformity::is_plain;

/// Most elements of a vector that is divided.
const MOST_ELEMENTS: u32 = 4;
/// Most bytes of a structure whose copy is divided.
const MOST_BYTES: u64 = 64;

/// Divides loads, stores and copies of small structures of a function.
pub(super) fn divide(ir: &Ir<'_>, function: ValueRef) {
    for instruction in ir.all_instructions(function) {
        match ir.opcode(instruction) {
            opcode::LOAD if is_plain(ir, instruction) => {
                let ty = ir.type_of(instruction);
                if is_divided(ir, ty) {
                    let value = load(ir, instruction, ir.operand(instruction, 0), ty);
                    ir.replace(instruction, value);
                    ir.erase(instruction);
                }
            }
            opcode::STORE if is_plain(ir, instruction) => {
                let (value, address) = (ir.operand(instruction, 0), ir.operand(instruction, 1));
                if is_divided(ir, ir.type_of(value)) {
                    store(ir, instruction, value, address);
                    ir.erase(instruction);
                }
            }
            opcode::CALL => divide_copy(ir, instruction),
            _ => {}
        }
    }
}

/// Returns whether a type is a small vector, or a structure with one.
fn is_divided(ir: &Ir<'_>, ty: TypeRef) -> bool {
    match ir.kind(ty) {
        type_kind::VECTOR => {
            let element = ll!(ir, LLVMGetElementType(ty));
            let is_number = match ir.kind(element) {
                type_kind::INTEGER => ll!(ir, LLVMGetIntTypeWidth(element)) % 8 == 0,
                kind => matches!(kind, type_kind::FLOAT | type_kind::DOUBLE | type_kind::HALF),
            };
            is_number && ll!(ir, LLVMGetVectorSize(ty)) <= MOST_ELEMENTS
        }
        type_kind::STRUCT => ir.members(ty).into_iter().any(|member| is_divided(ir, member)),
        _ => false,
    }
}

/// Returns the parts of a type with their offsets in bytes.
fn parts(ir: &Ir<'_>, ty: TypeRef) -> Vec<(TypeRef, u64)> {
    let layout = ll!(ir, LLVMGetModuleDataLayout(ir.module));
    match ir.kind(ty) {
        type_kind::STRUCT => (0..)
            .zip(ir.members(ty))
            .map(|(index, member)| (member, ll!(ir, LLVMOffsetOfElement(layout, ty, index))))
            .collect(),
        _ => {
            let element = ll!(ir, LLVMGetElementType(ty));
            let bytes = ll!(ir, LLVMABISizeOfType(layout, element));
            (0..ll!(ir, LLVMGetVectorSize(ty)))
                .map(|index| (element, u64::from(index) * bytes))
                .collect()
        }
    }
}

/// Emits loads of a value's parts, and the value.
fn load(ir: &Ir<'_>, place: ValueRef, address: ValueRef, ty: TypeRef) -> ValueRef {
    if !is_divided(ir, ty) {
        let value = ir.before(place).load_field(address, 0, ty);
        ll!(ir, LLVMSetAlignment(value, 1));
        return value;
    }
    let mut whole = ll!(ir, LLVMGetPoison(ty));
    for (index, (part, offset)) in parts(ir, ty).into_iter().enumerate() {
        let at = ir.before(place).field(address, offset, part);
        let value = load(ir, place, at, part);
        let build = ir.before(place);
        whole = match ir.kind(ty) {
            type_kind::STRUCT => build.insert_value(whole, value, index as u32),
            _ => build.insert_element(whole, value, ir.constant(32, index as u64)),
        };
    }
    whole
}

/// Emits stores of a value's parts.
fn store(ir: &Ir<'_>, place: ValueRef, value: ValueRef, address: ValueRef) {
    let ty = ir.type_of(value);
    if !is_divided(ir, ty) {
        let build = ir.before(place);
        let address = build.cast(opcode::BIT_CAST, address, ir.pointer_to(ty));
        ll!(ir, LLVMSetAlignment(build.store(value, address), 1));
        return;
    }
    for (index, (part, offset)) in parts(ir, ty).into_iter().enumerate() {
        let build = ir.before(place);
        let of_part = match ir.kind(ty) {
            type_kind::STRUCT => build.extract_value(value, index as u32),
            _ => build.extract_element(value, ir.constant(32, index as u64)),
        };
        let at = build.field(address, offset, part);
        store(ir, place, of_part, at);
    }
}

/// Makes loads and stores of the members from a copy of a structure.
fn divide_copy(ir: &Ir<'_>, call: ValueRef) {
    let name = ir.callee(call).map(|callee| ir.name(callee)).unwrap_or_default();
    let is_volatile = || ir.constant_value(ir.operand(call, 3)) != Some(0);
    if !name.starts_with("llvm.memcpy.") || is_volatile() {
        return;
    }
    let (to, from) = (ir.operand(call, 0), ir.operand(call, 1));
    let bytes = ir.constant_value(ir.operand(call, 2));
    let Some(bytes) = bytes.filter(|bytes| *bytes <= MOST_BYTES) else { return };
    let Some(members) = members_of_copy(ir, call) else { return };
    let is_whole = members.iter().map(|(_, size)| size).sum::<u64>() == bytes;
    if !is_whole || members.iter().any(|(_, size)| !matches!(size, 1 | 2 | 4 | 8)) {
        return;
    }
    let mut values = Vec::new();
    for (offset, size) in &members {
        let ty = ir.int(8 * *size as u32);
        let value = ir.before(call).load_field(from, *offset, ty);
        ll!(ir, LLVMSetAlignment(value, 1));
        values.push((value, *offset, ty));
    }
    for (value, offset, ty) in values {
        let build = ir.before(call);
        let at = build.field(to, offset, ty);
        ll!(ir, LLVMSetAlignment(build.store(value, at), 1));
    }
    ir.erase(call);
}

/// Returns the offsets and sizes of the members that a copy has, as clang describes them.
fn members_of_copy(ir: &Ir<'_>, call: ValueRef) -> Option<Vec<(u64, u64)>> {
    let kind = metadata_kind(ir, "tbaa.struct");
    let node = ll!(ir, LLVMGetMetadata(call, kind)).present()?;
    let count = ll!(ir, LLVMGetMDNodeNumOperands(node));
    let mut operands = vec![ValueRef::NULL; count as usize];
    ll!(ir, LLVMGetMDNodeOperands(node, operands.as_mut_ptr()));
    let number = |value: ValueRef| ir.constant_value(value.present()?);
    operands.chunks(3).map(|part| Some((number(part[0])?, number(*part.get(1)?)?))).collect()
}
