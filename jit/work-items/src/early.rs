//! Arguments, and facts about the group, at the beginning of a function of one item.
//!
//! LLVM moves a load behind the condition under which its value is used. It does not know that
//! arguments are always there and never change, so that the load would stay in the loops over
//! items, and keep them from being vectorised.

use std::collections::{HashMap, HashSet};

use longshore_llvm::types::*;

use crate::entry::{SELF_GROUP, SELF_ITEMS, SELF_WORK, WORK_DYNAMIC, WORK_FIXED, WORK_GROUPS};
use crate::ir::{Ir, ll};
use crate::uniformity::is_plain;

/// Memory that never changes while a group runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Memory {
    /// The array with the arguments' addresses.
    Arguments,
    /// The value of an argument.
    Argument,
    /// `struct longshore_self` of the group, from this offset on.
    Group(u64),
    /// `struct longshore_work`, from this offset on.
    Work(u64),
}

/// Returns the addresses of the group's memory that a function loads.
pub(crate) fn is_group_memory(ir: &Ir<'_>, function: ValueRef) -> HashSet<ValueRef> {
    const GROUPS: [Memory; 2] = [Memory::Work(WORK_FIXED), Memory::Work(WORK_DYNAMIC)];
    let mut known = parameters(ir, function);
    let mut memory = HashSet::new();
    // The loads are early, so that their addresses precede them.
    for instruction in ir.instructions(ll!(ir, LLVMGetEntryBasicBlock(function))) {
        let Some(found) = found(ir, instruction, &known) else { continue };
        let from = known.get(&ir.operand(instruction, 0)).copied();
        if ir.opcode(instruction) == opcode::LOAD && from.is_some_and(|it| GROUPS.contains(&it)) {
            memory.insert(instruction);
        }
        found.map(|found| known.insert(instruction, found));
    }
    memory
}

/// Returns the loads of the group's numbers of items, each with its dimension.
pub(crate) fn group_items(ir: &Ir<'_>, function: ValueRef) -> Vec<(ValueRef, usize)> {
    let mut known = parameters(ir, function);
    let mut loads = Vec::new();
    for instruction in ir.instructions(ll!(ir, LLVMGetEntryBasicBlock(function))) {
        let Some(found) = found(ir, instruction, &known) else { continue };
        let from = known.get(&ir.operand(instruction, 0)).copied();
        if let (opcode::LOAD, Some(Memory::Group(offset))) = (ir.opcode(instruction), from)
            && let Some(dimension) = [0, 1, 2].into_iter().find(|at| offset == SELF_ITEMS + 4 * at)
            && ir.type_of(instruction) == ir.int(32)
        {
            loads.push((instruction, dimension as usize));
        }
        found.map(|found| known.insert(instruction, found));
    }
    loads
}

fn parameters(ir: &Ir<'_>, function: ValueRef) -> HashMap<ValueRef, Memory> {
    HashMap::from([
        (ir.parameter(function, 0), Memory::Arguments),
        (ir.parameter(function, 1), Memory::Group(0)),
    ])
}

/// Moves the loads of arguments, and of the group's facts, to the function's first block.
pub(crate) fn load_early(ir: &Ir<'_>, function: ValueRef) {
    let mut known = parameters(ir, function);
    let first = ll!(ir, LLVMGetEntryBasicBlock(function));
    let end = ir.terminator(first);
    // A block can precede another one whose values it uses.
    loop {
        let before = known.len();
        for instruction in ir.all_instructions(function) {
            let Some(memory) = found(ir, instruction, &known) else { continue };
            let is_new = match memory {
                Some(memory) => known.insert(instruction, memory).is_none(),
                None => false,
            };
            if ir.block_of(instruction) != first {
                ir.move_before(instruction, end);
            } else if !is_new {
                continue;
            }
        }
        if known.len() == before {
            return;
        }
    }
}

/// Returns `Some` for an instruction that may be moved, with the memory to which it points.
fn found(
    ir: &Ir<'_>,
    instruction: ValueRef,
    known: &HashMap<ValueRef, Memory>,
) -> Option<Option<Memory>> {
    let is_address =
        matches!(ir.opcode(instruction), opcode::LOAD | opcode::GET_ELEMENT_PTR | opcode::BIT_CAST);
    let from = *known.get(&is_address.then(|| ir.operand(instruction, 0))?)?;
    match ir.opcode(instruction) {
        opcode::BIT_CAST => Some(Some(from)),
        opcode::GET_ELEMENT_PTR => {
            let bytes = offset(ir, instruction)?;
            Some(Some(match from {
                Memory::Group(offset) => Memory::Group(offset.checked_add(bytes)?),
                Memory::Work(offset) => Memory::Work(offset.checked_add(bytes)?),
                memory => memory,
            }))
        }
        _ if !is_plain(ir, instruction) => None,
        _ => match from {
            Memory::Arguments => Some(Some(Memory::Argument)),
            Memory::Argument => Some(None),
            Memory::Group(SELF_WORK) => Some(Some(Memory::Work(0))),
            Memory::Group(offset) => (offset >= SELF_GROUP).then_some(None),
            Memory::Work(offset) => {
                let is_shape = (WORK_GROUPS..WORK_GROUPS + 24).contains(&offset);
                (is_shape || offset >= WORK_FIXED).then_some(None)
            }
        },
    }
}

/// Returns the bytes that an instruction with constant indices adds to an address.
fn offset(ir: &Ir<'_>, address: ValueRef) -> Option<u64> {
    let indices = ir.operands(address).into_iter().skip(1);
    let indices = indices.map(|index| ir.constant_value(index)).collect::<Option<Vec<_>>>()?;
    let layout = ll!(ir, LLVMGetModuleDataLayout(ir.module));
    let mut ty = ll!(ir, LLVMGetGEPSourceElementType(address));
    let size = |ty: TypeRef| ll!(ir, LLVMABISizeOfType(layout, ty));
    let (first, rest) = indices.split_first()?;
    let mut bytes = first.checked_mul(size(ty))?;
    for index in rest {
        let part = match ir.kind(ty) {
            type_kind::STRUCT => {
                let member = u32::try_from(*index).ok()?;
                let at = ll!(ir, LLVMOffsetOfElement(layout, ty, member));
                ty = ll!(ir, LLVMStructGetTypeAtIndex(ty, member));
                at
            }
            type_kind::ARRAY => {
                ty = ll!(ir, LLVMGetElementType(ty));
                index.checked_mul(size(ty))?
            }
            _ => return None,
        };
        bytes = bytes.checked_add(part)?;
    }
    Some(bytes)
}
