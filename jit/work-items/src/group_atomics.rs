//! Atomic operations on the memory of a group, which one thread runs.
//!
//! Such an operation needs no lock, whatever its scope. Its load and its store stay atomic: plain
//! ones would say that items do not touch the same element.

use std::collections::HashSet;

use longshore_llvm::types::*;

use crate::early::is_group_memory;
use crate::ir::{Ir, ll};

/// `LLVMAtomicOrderingMonotonic`.
const MONOTONIC: u32 = 2;
/// `LLVMAtomicRMWBinOp`.
const XCHG: u32 = 0;
const MAX: u32 = 7;
const MIN: u32 = 8;
const UMAX: u32 = 9;
const UMIN: u32 = 10;

/// Replaces relaxed operations on the group's memory by a load and a store.
pub(crate) fn unlock(ir: &Ir<'_>, function: ValueRef) {
    let memory = is_group_memory(ir, function);
    if memory.is_empty() {
        return;
    }
    for instruction in ir.all_instructions(function) {
        let is_relaxed = || ll!(ir, LLVMGetOrdering(instruction)) == MONOTONIC;
        match ir.opcode(instruction) {
            opcode::ATOMIC_RMW if is_relaxed() && points_into(ir, instruction, &memory) => {
                unlock_operation(ir, instruction);
            }
            opcode::ATOMIC_CMP_XCHG if points_into(ir, instruction, &memory) => {
                unlock_exchange(ir, instruction);
            }
            _ => {}
        }
    }
}

/// Returns whether an access is within one of these memories.
fn points_into(ir: &Ir<'_>, access: ValueRef, memory: &HashSet<ValueRef>) -> bool {
    let mut address = ir.operand(access, 0);
    loop {
        if memory.contains(&address) {
            return true;
        }
        let is_step = ir.is_instruction(address)
            && matches!(ir.opcode(address), opcode::GET_ELEMENT_PTR | opcode::BIT_CAST);
        if !is_step {
            return false;
        }
        address = ir.operand(address, 0);
    }
}

fn load(ir: &Ir<'_>, place: ValueRef, ty: TypeRef, address: ValueRef) -> ValueRef {
    let old = ir.before(place).load(ty, address);
    ll!(ir, LLVMSetOrdering(old, MONOTONIC));
    ll!(ir, LLVMSetAlignment(old, natural(ir, ty)));
    old
}

fn store(ir: &Ir<'_>, place: ValueRef, value: ValueRef, address: ValueRef) {
    let stored = ir.before(place).store(value, address);
    ll!(ir, LLVMSetOrdering(stored, MONOTONIC));
    ll!(ir, LLVMSetAlignment(stored, natural(ir, ir.type_of(value))));
}

fn natural(ir: &Ir<'_>, ty: TypeRef) -> u32 {
    let layout = ll!(ir, LLVMGetModuleDataLayout(ir.module));
    ll!(ir, LLVMStoreSizeOfType(layout, ty)) as u32
}

fn unlock_operation(ir: &Ir<'_>, operation: ValueRef) {
    let (address, value) = (ir.operand(operation, 0), ir.operand(operation, 1));
    let kind = ll!(ir, LLVMGetAtomicRMWBinOp(operation));
    if kind != XCHG && arithmetic(kind).is_none() && comparison(kind).is_none() {
        return;
    }
    let old = load(ir, operation, ir.type_of(value), address);
    let build = ir.before(operation);
    let new = match (arithmetic(kind), comparison(kind)) {
        (Some(opcode), _) => build.binary(opcode, old, value),
        (_, Some(predicate)) => build.select(build.compare(predicate, old, value), old, value),
        _ => value,
    };
    store(ir, operation, new, address);
    ir.replace(operation, old);
    ir.erase(operation);
}

fn arithmetic(kind: u32) -> Option<u32> {
    Some(match kind {
        1 => opcode::ADD,
        2 => opcode::SUB,
        3 => opcode::AND,
        5 => opcode::OR,
        6 => opcode::XOR,
        11 => opcode::FADD,
        12 => opcode::FSUB,
        _ => return None,
    })
}

fn comparison(kind: u32) -> Option<u32> {
    Some(match kind {
        MAX => predicate::SGT,
        MIN => predicate::SLT,
        UMAX => predicate::UGT,
        UMIN => predicate::ULT,
        _ => return None,
    })
}

fn unlock_exchange(ir: &Ir<'_>, exchange: ValueRef) {
    let success = ll!(ir, LLVMGetCmpXchgSuccessOrdering(exchange));
    if success != MONOTONIC {
        return;
    }
    let [address, expected, new] = [0, 1, 2].map(|index| ir.operand(exchange, index));
    let ty = ir.type_of(expected);
    if ir.kind(ty) != type_kind::INTEGER {
        return;
    }
    let old = load(ir, exchange, ty, address);
    let build = ir.before(exchange);
    let is_equal = build.compare(predicate::EQ, old, expected);
    let stored = build.select(is_equal, new, old);
    store(ir, exchange, stored, address);
    let build = ir.before(exchange);
    let whole = ll!(ir, LLVMGetPoison(ir.type_of(exchange)));
    let whole = build.insert_value(whole, old, 0);
    let whole = build.insert_value(whole, is_equal, 1);
    ir.replace(exchange, whole);
    ir.erase(exchange);
}
