//! Bounds of indices into shared memory. A processor gathers by 32-bit numbers twice as fast as by
//! 64-bit ones, but extends them with their sign. LLVM takes the fast way only if it knows that
//! the sign is not set. Shared memory has fewer elements than that, so the least of an index and
//! the largest positive number is the index. An access that is out of bounds stays so.

use longshore_llvm::types::*;

use crate::ir::{Ir, ll};
use crate::uniformity::{Level, Uniformity};

/// The largest positive 32-bit number.
const LARGEST: u64 = 0x7fff_ffff;
/// Most operations of an index that are looked at.
const DEPTH: usize = 8;

/// Bounds the indices of accesses to shared memory that are not side by side.
pub(crate) fn bound_indices(ir: &Ir<'_>, function: ValueRef, uniformity: &mut Uniformity) {
    for address in ir.all_instructions(function) {
        let is_address = ir.opcode(address) == opcode::GET_ELEMENT_PTR;
        let Some(cast) = is_address.then(|| wide_index(ir, address)).flatten() else { continue };
        let index = ir.operand(cast, 0);
        if is_scattered(ir, uniformity, index, DEPTH)
            && is_shared(ir, function, ir.operand(address, 0))
        {
            let build = ir.before(address);
            let largest = ir.constant(32, LARGEST);
            let is_less = build.compare(predicate::ULT, index, largest);
            let bounded = build.select(is_less, index, largest);
            let wide = build.cast(opcode::ZEXT, bounded, ir.int(64));
            for value in [is_less, bounded, wide] {
                uniformity.set(value, Level::Item);
            }
            let last = ir.operands(address).len() as u32 - 1;
            ll!(ir, LLVMSetOperand(address, last, wide));
        }
    }
}

/// Returns the extension of a 32-bit index, if it is the only index that is not constant.
fn wide_index(ir: &Ir<'_>, address: ValueRef) -> Option<ValueRef> {
    let indices = ir.operands(address).split_off(1);
    let (last, others) = indices.split_last()?;
    let is_wide = ir.is_instruction(*last)
        && ir.opcode(*last) == opcode::ZEXT
        && ir.type_of(*last) == ir.int(64)
        && ir.type_of(ir.operand(*last, 0)) == ir.int(32);
    let are_constant = others.iter().all(|index| ir.constant_value(*index).is_some());
    (is_wide && are_constant).then_some(*last)
}

/// Returns whether the items' indices have no constant distance.
fn is_scattered(ir: &Ir<'_>, uniformity: &Uniformity, index: ValueRef, depth: usize) -> bool {
    if depth == 0 || !ir.is_instruction(index) || uniformity.level(index) != Level::Item {
        return false;
    }
    let inside = |operand| is_scattered(ir, uniformity, ir.operand(index, operand), depth - 1);
    match ir.opcode(index) {
        opcode::ADD | opcode::SUB | opcode::MUL => inside(0) || inside(1),
        opcode::OR if ir.constant_value(ir.operand(index, 1)).is_some() => inside(0),
        opcode::SHL => inside(0),
        opcode::LSHR | opcode::AND | opcode::OR | opcode::XOR | opcode::LOAD => true,
        _ => false,
    }
}

/// Returns whether an address is in memory of the work, whose pointers are the group's shared
/// memory.
fn is_shared(ir: &Ir<'_>, function: ValueRef, address: ValueRef) -> bool {
    let load = |value: ValueRef| {
        let is_load = ir.is_instruction(value) && ir.opcode(value) == opcode::LOAD;
        is_load.then(|| base(ir, ir.operand(value, 0)))
    };
    let work = load(base(ir, address));
    work.and_then(load) == Some(ir.parameter(function, 1))
}

/// Returns the beginning of an address.
fn base(ir: &Ir<'_>, mut address: ValueRef) -> ValueRef {
    while ir.is_instruction(address)
        && matches!(ir.opcode(address), opcode::GET_ELEMENT_PTR | opcode::BIT_CAST)
    {
        address = ir.operand(address, 0);
    }
    address
}
