//! The fields of `struct longshore_self` that never change: an item's own copy of the structure
//! stays in memory if a function that is not inlined takes its address.

use longshore_llvm::types::*;

use crate::entry::{SELF_GROUP, SELF_ITEMS, SELF_WIDTH, SELF_WORK};
use crate::ir::{Ir, ll};

/// Offsets of the structure's members.
const MEMBERS: [u64; 8] = [0, SELF_GROUP, SELF_ITEMS, 36, SELF_WIDTH, 52, 56, SELF_WORK];

/// Reads constant fields from the group's structure, in place of the item's copy. Returns whether
/// there was one.
pub(crate) fn read_from_group(ir: &Ir<'_>, function: ValueRef) -> bool {
    let is_copy = |it: &ValueRef| {
        ir.opcode(*it) == opcode::ALLOCA && {
            let ty = ll!(ir, LLVMGetAllocatedType(*it));
            ir.kind(ty) == type_kind::STRUCT && ir.show_type(ty).contains("longshore_self")
        }
    };
    let copies: Vec<ValueRef> = ir.all_instructions(function).into_iter().filter(is_copy).collect();
    let mut any = false;
    for address in copies.into_iter().flat_map(|copy| ir.users(copy)) {
        let Some(offset) = offset(ir, address).filter(|offset| is_constant(*offset)) else {
            continue;
        };
        for load in ir.users(address) {
            if ir.opcode(load) == opcode::LOAD {
                replace(ir, function, load, offset);
                any = true;
            }
        }
    }
    any
}

fn is_constant(offset: u64) -> bool {
    (SELF_GROUP..=SELF_WIDTH).contains(&offset) || offset == SELF_WORK
}

fn replace(ir: &Ir<'_>, function: ValueRef, load: ValueRef, offset: u64) {
    let group = ir.parameter(function, 1);
    let ty = ir.type_of(load);
    let value = match offset {
        SELF_WIDTH => ir.constant(32, crate::chunk::WIDTH),
        _ => {
            let build = ir.before(load);
            build.load_field(group, offset, ty)
        }
    };
    ir.replace(load, value);
    ir.erase(load);
}

/// Returns the offset that an instruction adds to the address of the structure.
fn offset(ir: &Ir<'_>, address: ValueRef) -> Option<u64> {
    if !ir.is_instruction(address) || ir.opcode(address) != opcode::GET_ELEMENT_PTR {
        return None;
    }
    let indices = ir.operands(address).into_iter().skip(1);
    let indices = indices.map(|index| ir.constant_value(index)).collect::<Option<Vec<_>>>()?;
    let ty = ll!(ir, LLVMGetGEPSourceElementType(address));
    match (ir.kind(ty), indices.as_slice()) {
        (type_kind::INTEGER, [bytes]) if ty == ir.int(8) => Some(*bytes),
        (type_kind::STRUCT, [0, member]) => MEMBERS.get(*member as usize).copied(),
        (type_kind::STRUCT, [0, member, index]) => {
            Some(MEMBERS.get(*member as usize)? + index.checked_mul(4)?)
        }
        _ => None,
    }
}
