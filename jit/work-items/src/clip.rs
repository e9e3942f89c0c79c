//! Kernels whose items never wait, and in which some items return at once, as in
//! `if (i >= n) return;`. The loops over a row of items begin and end with the items that go on.
//!
//! Before the loops of a row, a loop evaluates the conditions for each of its items. If the items
//! that go on are not side by side, the function of one item runs for each item of the row.

use std::collections::HashMap;

use longshore_llvm::types::*;

use crate::ir::{Ir, ll};
use crate::metadata::is_for_debuggers;
use crate::shape::GroupLoops;
use crate::transform::Body;
use crate::uniformity::{is_plain, is_speculatable};

/// The conditions under which items go on.
pub(crate) struct Clip {
    /// Conditions, with their values for items that go on. Each has a value only if the ones before
    /// it hold.
    conditions: Vec<(ValueRef, bool)>,
    /// The function of one item.
    item: ValueRef,
}

/// The items of a row that go on: the first one, and the end, as `i32`.
pub(crate) struct Row {
    pub(crate) first: ValueRef,
    pub(crate) end: ValueRef,
}

/// Removes the branches to the return at the beginning of a function of one item. `start` is the
/// block before the item's code, and `end` the return. `item` is a function with the same code.
pub(crate) fn take_returns(
    ir: &Ir<'_>,
    start: BlockRef,
    end: BlockRef,
    item: ValueRef,
) -> Option<Clip> {
    let mut conditions = Vec::new();
    let mut block = *ir.successors(start).first()?;
    while let Some((condition, rest)) = early_return(ir, block, end, conditions.is_empty()) {
        let [yes, no] = *ir.successors(block) else { break };
        let is_yes = rest == yes;
        ir.erase(ir.terminator(block));
        ir.at_end(block).br(rest);
        erase_unreached(ir, if is_yes { no } else { yes }, end);
        conditions.push((condition, is_yes));
        block = rest;
    }
    (!conditions.is_empty()).then_some(Clip { conditions, item })
}

/// Returns the condition of a branch to the return, and the block where other items go on; `None`
/// if a block does anything else.
fn early_return(
    ir: &Ir<'_>,
    block: BlockRef,
    end: BlockRef,
    is_first: bool,
) -> Option<(ValueRef, BlockRef)> {
    let mut instructions = ir.instructions(block);
    let branch = instructions.pop()?;
    let is_free = |it: &ValueRef| {
        let is_load = is_first && ir.opcode(*it) == opcode::LOAD && is_plain(ir, *it);
        is_load || is_speculatable(ir, *it) || is_for_debuggers(ir, *it)
    };
    let [yes, no] = *ir.successors(block) else { return None };
    if ir.opcode(branch) != opcode::BR || !instructions.iter().all(is_free) {
        return None;
    }
    let rest = match [yes, no].map(|it| returns_at_once(ir, it, end)) {
        [true, false] => no,
        [false, true] => yes,
        _ => return None,
    };
    let is_loop = predecessors(ir, rest) > 1;
    let has_phi = ir.opcode(*ir.instructions(rest).first()?) == opcode::PHI;
    (!is_loop && !has_phi).then(|| (ir.operand(branch, 0), rest))
}

fn returns_at_once(ir: &Ir<'_>, mut block: BlockRef, end: BlockRef) -> bool {
    while block != end {
        match *ir.successors(block) {
            [next] if is_empty(ir, block) && next != block => block = next,
            _ => return false,
        }
    }
    true
}

fn is_empty(ir: &Ir<'_>, block: BlockRef) -> bool {
    let mut instructions = ir.instructions(block);
    instructions.pop();
    instructions.into_iter().all(|it| is_for_debuggers(ir, it))
}

fn predecessors(ir: &Ir<'_>, block: BlockRef) -> usize {
    ir.users(ll!(ir, LLVMBasicBlockAsValue(block))).len()
}

/// Deletes the blocks of a way to the return that nothing takes any more.
fn erase_unreached(ir: &Ir<'_>, mut block: BlockRef, end: BlockRef) {
    while block != end && predecessors(ir, block) == 0 {
        let next = ir.successors(block)[0];
        ll!(ir, LLVMDeleteBasicBlock(block));
        block = next;
    }
}

impl Body<'_, '_> {
    /// Emits the search for the items of a row that go on, at the beginning of the row. The row
    /// ends at once if no item does.
    pub(crate) fn clip_row(&self, clip: &Clip, group: &mut GroupLoops) -> Row {
        let ir = self.ir;
        let (i32, i64) = (ir.int(32), ir.int(64));
        let [count, first, end] =
            [0, 1, 2].map(|_| ir.before(ir.terminator(self.start)).alloca(i64));
        let build = ir.at_end(group.chunk);
        let zero = ir.constant(64, 0);
        build.store(zero, count);
        build.store(group.lanes, first);
        build.store(zero, end);
        let place = group.place;
        let after = self.shaper.for_lanes(group.chunk, group.lanes, |block, lane| {
            let goes_on = self.goes_on(clip, [lane, place[1], place[2]], block);
            let build = ir.at_end(block);
            let one = build.cast(opcode::ZEXT, goes_on, i64);
            build.store(build.add(build.load(i64, count), one), count);
            let before = build.load(i64, first);
            let is_first = build.compare(predicate::ULT, lane, before);
            let is_first = build.binary(opcode::AND, goes_on, is_first);
            build.store(build.select(is_first, lane, before), first);
            let next = build.add(lane, ir.constant(64, 1));
            build.store(build.select(goes_on, next, build.load(i64, end)), end);
            block
        });
        let [some, alone, together] =
            [c"some", c"alone", c"together"].map(|name| ir.append_block(self.function, name));
        let build = ir.at_end(after);
        let [count, first, end] = [count, first, end].map(|it| build.load(i64, it));
        let is_some = build.compare(predicate::NE, count, zero);
        build.cond_br(is_some, some, group.chunk_end);
        let build = ir.at_end(some);
        let between = build.binary(opcode::SUB, end, first);
        let is_row = build.compare(predicate::EQ, between, count);
        build.cond_br(is_row, together, alone);
        self.run_alone(clip.item, alone, group);
        group.chunk = together;
        let before = ir.before(ir.terminator(some));
        let [first, end] = [first, end].map(|it| before.cast(opcode::TRUNC, it, i32));
        Row { first, end }
    }

    /// Runs the function of one item for all items of a row, at the end of a block.
    fn run_alone(&self, item: ValueRef, block: BlockRef, group: &GroupLoops) {
        let ir = self.ir;
        let ty = ll!(ir, LLVMGlobalGetValueType(item));
        let own = [0, 1].map(|index| ir.parameter(self.function, index));
        let after = self.shaper.for_lanes(block, group.lanes, |block, lane| {
            let build = ir.at_end(block);
            let [x, y, z] = [lane, group.place[1], group.place[2]]
                .map(|it| build.cast(opcode::TRUNC, it, ir.int(32)));
            build.call(ty, item, &[own[0], own[1], x, y, z]);
            block
        });
        ir.at_end(after).br(group.chunk_end);
    }

    /// Emits whether an item goes on, at the end of a block.
    fn goes_on(&self, clip: &Clip, place: [ValueRef; 3], block: BlockRef) -> ValueRef {
        let ir = self.ir;
        let mut known = HashMap::new();
        for (dimension, id) in place.into_iter().enumerate() {
            let id = ir.at_end(block).cast(opcode::TRUNC, id, ir.int(32));
            known.insert(ir.parameter(self.function, 2 + dimension as u32), id);
        }
        let mut all = ir.constant(1, 1);
        for (condition, value) in &clip.conditions {
            let mut holds = self.copy_of(*condition, &mut known, block);
            let build = ir.at_end(block);
            if !value {
                holds = build.binary(opcode::XOR, holds, ir.constant(1, 1));
            }
            all = build.select(all, holds, ir.constant(1, 0));
        }
        all
    }

    /// Emits a value of an item again, at the end of a block.
    fn copy_of(
        &self,
        value: ValueRef,
        known: &mut HashMap<ValueRef, ValueRef>,
        block: BlockRef,
    ) -> ValueRef {
        let ir = self.ir;
        if let Some(known) = known.get(&value) {
            return *known;
        }
        if !ir.is_instruction(value) || ir.block_of(value) == self.start {
            return value;
        }
        let operands: Vec<ValueRef> =
            ir.operands(value).into_iter().map(|it| self.copy_of(it, known, block)).collect();
        let copy = ll!(ir, LLVMInstructionClone(value));
        ir.insert_at_end(copy, block);
        for (index, operand) in operands.into_iter().enumerate() {
            ll!(ir, LLVMSetOperand(copy, index as u32, operand));
        }
        known.insert(value, copy);
        copy
    }
}
