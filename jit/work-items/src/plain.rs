//! Kernels whose items never wait. The header's loop over items runs them, and LLVM vectorises that
//! loop, unless an item has loops itself: LLVM vectorises innermost loops only. Then the pass moves
//! the item's loops around the loops over items, as it does in kernels with barriers.
//!
//! That is not always better, so such a kernel keeps its code too, for groups with short rows.

use std::collections::HashMap;

use longshore_llvm::types::*;

use crate::chunk::Chunk;
use crate::flow::Flow;
use crate::ir::{Ir, ll};
use crate::kernels::Calls;
use crate::markers::Marker;
use crate::metadata::{is_for_debuggers, is_together};
use crate::uniformity::{Level, Uniformity, is_plain, is_pure_intrinsic};

/// Units of work that are worth an access that LLVM makes item by item.
const WORK_OF_SCATTERED: usize = 4;
/// Instructions that are a unit of work.
const WORK: [u32; 9] = [
    opcode::CALL,
    opcode::FADD,
    opcode::FSUB,
    opcode::FMUL,
    opcode::FDIV,
    opcode::UDIV,
    opcode::SDIV,
    opcode::UREM,
    opcode::SREM,
];

/// Returns whether the code of a kernel's item has loops. Code for debuggers, without optimization,
/// does not count.
pub(crate) fn has_loops(ir: &Ir<'_>, calls: &Calls, item: ValueRef) -> bool {
    let mut inside = calls.reach(item);
    inside.insert(item);
    inside.retain(|it| ir.is_defined(*it) && Marker::from_symbol(&ir.name(*it)).is_none());
    !inside.iter().any(|it| ir.has_attribute(*it, "optnone"))
        && inside.iter().any(|it| !loops(&Flow::new(ir, *it)).is_empty())
}

/// The value of loops over items inside of the loops of an item's function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worth {
    Better,
    NotBetter,
    /// Items may depend on the order in which they come to the code of a loop.
    Wrong,
}

/// Returns the worth for a function.
pub(crate) fn worth(ir: &Ir<'_>, function: ValueRef) -> Worth {
    let flow = Flow::new(ir, function);
    let loops = loops(&flow);
    let code = |loops: &[Vec<bool>]| {
        let blocks = flow.numbers().filter(|block| loops.iter().any(|body| body[*block]));
        blocks.flat_map(|block| ir.instructions(flow.blocks[block])).collect::<Vec<ValueRef>>()
    };
    if code(&loops).into_iter().any(|it| is_ordered(ir, it)) {
        return Worth::Wrong;
    }
    let uniformity = Uniformity::new(ir, function, &flow, Chunk::Row);
    let is_uniform = |body: &Vec<bool>| {
        let leaves = |block: &usize| flow.successors[*block].iter().any(|next| !body[*next]);
        let mut exits = flow.numbers().filter(|block| body[*block]).filter(leaves);
        exits.all(|it| {
            let block = flow.blocks[it];
            uniformity.branch_level(ir, block) <= Level::Chunk
                || is_together(ir, ir.terminator(block))
        })
    };
    let (together, alone): (Vec<_>, Vec<_>) = loops.into_iter().partition(is_uniform);
    let is_nested = |inner: &Vec<bool>| {
        let block = flow.numbers().find(|block| inner[*block]);
        block.is_some_and(|block| together.iter().any(|body| body[block]))
    };
    if together.is_empty() || alone.iter().any(is_nested) {
        return Worth::NotBetter;
    }
    let mut steps = Steps { ir, function, uniformity: &uniformity, known: HashMap::new() };
    let (mut work, mut dense, mut scattered) = (0, 0, 0);
    for instruction in code(&together) {
        match ir.opcode(instruction) {
            opcode::LOAD | opcode::STORE => match steps.is_dense(instruction) {
                Some(true) => dense += 1,
                Some(false) => scattered += 1,
                None => {}
            },
            opcode if WORK.contains(&opcode) => {
                work += usize::from(uniformity.level(instruction) == Level::Item);
            }
            _ => {}
        }
    }
    // If each item has elements of its own, LLVM may vectorise the item's loop.
    let is_better = dense > 0 && scattered * WORK_OF_SCATTERED <= work + dense;
    if scattered == 0 || is_better { Worth::Better } else { Worth::NotBetter }
}

/// Returns whether items may depend on the order in which they come to an instruction.
fn is_ordered(ir: &Ir<'_>, instruction: ValueRef) -> bool {
    match ir.opcode(instruction) {
        opcode::LOAD | opcode::STORE => !is_plain(ir, instruction),
        opcode::FENCE | opcode::ATOMIC_CMP_XCHG | opcode::ATOMIC_RMW => true,
        opcode::CALL => !is_harmless(ir, instruction),
        _ => false,
    }
}

/// Returns whether a call has no effect that other items see.
fn is_harmless(ir: &Ir<'_>, call: ValueRef) -> bool {
    const NAMES: [&str; 3] = ["llvm.lifetime.", "llvm.assume", "llvm.experimental.noalias"];
    let Some(callee) = ir.callee(call) else { return false };
    let name = ir.name(callee);
    is_pure_intrinsic(ir, call)
        || is_for_debuggers(ir, call)
        || NAMES.iter().any(|harmless| name.starts_with(harmless))
        || Marker::from_symbol(&name).is_some_and(|marker| !marker.waits())
}

/// Returns the blocks of each loop of a function.
fn loops(flow: &Flow) -> Vec<Vec<bool>> {
    let order = flow.post_order();
    let mut place = vec![None; flow.blocks.len()];
    order.iter().enumerate().for_each(|(at, block)| place[*block] = Some(at));
    let mut found: Vec<(usize, Vec<usize>)> = Vec::new();
    for (from, to) in
        order.iter().flat_map(|from| flow.successors[*from].iter().map(move |to| (*from, *to)))
    {
        if place[to] < place[from] {
            continue;
        }
        match found.iter_mut().find(|(header, _)| *header == to) {
            Some((_, latches)) => latches.push(from),
            None => found.push((to, vec![from])),
        }
    }
    let body = |(header, latches): (usize, Vec<usize>)| {
        let mut body = flow.reach(latches, &flow.predecessors, |block| block != header);
        body[header] = true;
        body
    };
    found.into_iter().map(body).collect()
}

/// Returns whether an address is in a variable of the function. Each item has its own copy, behind
/// that of the item before.
fn is_of_variable(ir: &Ir<'_>, mut address: ValueRef) -> bool {
    const STEPS: [u32; 2] = [opcode::GET_ELEMENT_PTR, opcode::BIT_CAST];
    while ir.is_instruction(address) && STEPS.contains(&ir.opcode(address)) {
        address = ir.operand(address, 0);
    }
    !ll!(ir, LLVMIsAAllocaInst(address)).is_null()
}

/// The search for the distances of values from an item to the next one in x.
struct Steps<'a, 'l> {
    ir: &'a Ir<'l>,
    function: ValueRef,
    uniformity: &'a Uniformity,
    known: HashMap<ValueRef, Option<i64>>,
}

impl Steps<'_, '_> {
    /// Returns whether the accesses of neighbouring items are side by side; `None` if they are of
    /// the same memory.
    fn is_dense(&mut self, access: ValueRef) -> Option<bool> {
        let ir = self.ir;
        let is_store = ir.opcode(access) == opcode::STORE;
        let address = ir.operand(access, u32::from(is_store));
        let is_scattered = is_of_variable(ir, address);
        if self.uniformity.level(address) <= Level::Chunk && !is_scattered {
            return None;
        }
        let ty = if is_store { ir.type_of(ir.operand(access, 0)) } else { ir.type_of(access) };
        Some(!is_scattered && self.step(address) == i64::try_from(self.bytes(ty)).ok())
    }

    fn bytes(&self, ty: TypeRef) -> u64 {
        let data = ll!(self.ir, LLVMGetModuleDataLayout(self.ir.module));
        ll!(self.ir, LLVMABISizeOfType(data, ty))
    }

    /// Returns the difference of the next item's value; of addresses in bytes.
    fn step(&mut self, value: ValueRef) -> Option<i64> {
        let ir = self.ir;
        if value == ir.parameter(self.function, 2) {
            return Some(1);
        }
        if self.uniformity.level(value) <= Level::Chunk {
            return Some(0);
        }
        if let Some(known) = self.known.get(&value) {
            return *known;
        }
        self.known.insert(value, None);
        let step = self.computed(value);
        self.known.insert(value, step);
        step
    }

    fn computed(&mut self, value: ValueRef) -> Option<i64> {
        let ir = self.ir;
        let operands = ir.operands(value);
        let constant = |value| ir.constant_value(value).map(|value| value as i64);
        match ir.opcode(value) {
            // A disjoint `or` is a sum.
            opcode::ADD | opcode::OR => {
                self.step(operands[0])?.checked_add(self.step(operands[1])?)
            }
            opcode::SUB => self.step(operands[0])?.checked_sub(self.step(operands[1])?),
            opcode::MUL => self.step(operands[0])?.checked_mul(constant(operands[1])?),
            opcode::SHL => {
                let factor = 1_i64.checked_shl(constant(operands[1])?.try_into().ok()?)?;
                self.step(operands[0])?.checked_mul(factor)
            }
            opcode::TRUNC
            | opcode::ZEXT
            | opcode::SEXT
            | opcode::BIT_CAST
            | opcode::ADDR_SPACE_CAST
            | opcode::FREEZE => self.step(operands[0]),
            opcode::GET_ELEMENT_PTR => self.address_step(value, &operands),
            opcode::PHI => {
                let values = ir.incoming(value).into_iter().map(|(value, _)| value);
                let (rounds, starts): (Vec<_>, Vec<_>) = values
                    .partition(|it| ir.is_instruction(*it) && ir.operands(*it).contains(&value));
                let step = self.step(*starts.first()?)?;
                self.known.insert(value, Some(step));
                let mut all = starts.into_iter().chain(rounds);
                all.all(|it| self.step(it) == Some(step)).then_some(step)
            }
            _ => None,
        }
    }

    fn address_step(&mut self, address: ValueRef, operands: &[ValueRef]) -> Option<i64> {
        let ir = self.ir;
        let mut step = self.step(operands[0])?;
        let mut ty = ll!(ir, LLVMGetGEPSourceElementType(address));
        for (number, index) in operands[1..].iter().enumerate() {
            if number > 0 {
                match ir.kind(ty) {
                    type_kind::ARRAY => ty = ll!(ir, LLVMGetElementType(ty)),
                    // Behind a structure's member, only the address matters.
                    _ => {
                        return operands[number + 1..]
                            .iter()
                            .all(|it| self.step(*it) == Some(0))
                            .then_some(step);
                    }
                }
            }
            let bytes = i64::try_from(self.bytes(ty)).ok()?;
            step = step.checked_add(self.step(*index)?.checked_mul(bytes)?)?;
        }
        Some(step)
    }
}
