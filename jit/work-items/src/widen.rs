//! Differences of ids, as in `if (id >= near) ... tile[id - near]`. As 32-bit numbers they could
//! wrap around for all that LLVM knows, so that addresses of neighbours would not be side by side.
//! Behind the condition, the difference of the wide numbers is the same.

use longshore_llvm::types::*;

use crate::flow::Flow;
use crate::ir::{Ir, ll};

/// Most branches above a difference among which its condition is looked for.
const BRANCHES: usize = 8;

/// A number that is taken off another one.
#[derive(Clone, Copy)]
enum Less {
    Constant(u32),
    Value(ValueRef),
}

/// Widens the differences of a function that do not wrap around.
pub(crate) fn widen_differences(ir: &Ir<'_>, function: ValueRef) {
    let flow = Flow::new(ir, function);
    for (block, instructions) in flow.blocks.iter().map(|it| ir.instructions(*it)).enumerate() {
        for cast in instructions {
            let is_wide = ir.opcode(cast) == opcode::ZEXT && ir.type_of(cast) == ir.int(64);
            let parts = is_wide.then(|| parts(ir, ir.operand(cast, 0))).flatten();
            let Some((from, less)) = parts.filter(|it| holds(ir, &flow, block, *it)) else {
                continue;
            };
            let build = ir.before(cast);
            let from = build.cast(opcode::ZEXT, from, ir.int(64));
            let wide = match less {
                Less::Constant(less) => {
                    build.binary(opcode::ADD, from, ir.constant(64, u64::from(less).wrapping_neg()))
                }
                Less::Value(less) => {
                    let less = build.cast(opcode::ZEXT, less, ir.int(64));
                    build.binary(opcode::SUB, from, less)
                }
            };
            ir.replace(cast, wide);
            ir.erase(cast);
        }
    }
}

/// Returns the parts of a difference of 32-bit numbers.
fn parts(ir: &Ir<'_>, value: ValueRef) -> Option<(ValueRef, Less)> {
    if !ir.is_instruction(value) || ir.type_of(value) != ir.int(32) {
        return None;
    }
    match ir.opcode(value) {
        opcode::SUB => Some((ir.operand(value, 0), Less::Value(ir.operand(value, 1)))),
        opcode::ADD => {
            let added = ir.constant_value(ir.operand(value, 1))? as u32 as i32;
            (added < 0).then(|| (ir.operand(value, 0), Less::Constant(added.unsigned_abs())))
        }
        _ => None,
    }
}

/// Returns whether the difference cannot be negative, by the branches that lead to a block.
fn holds(ir: &Ir<'_>, flow: &Flow, block: usize, (from, less): (ValueRef, Less)) -> bool {
    let mut block = block;
    for _ in 0..BRANCHES {
        let [before] = *flow.predecessors[block] else { return false };
        let terminator = ir.terminator(flow.blocks[before]);
        if ir.opcode(terminator) == opcode::BR && flow.successors[before].len() == 2 {
            let is_first = ir.successors(flow.blocks[before])[0] == flow.blocks[block];
            let condition = ir.operand(terminator, 0);
            if says(ir, condition, is_first, from, less) {
                return true;
            }
        }
        block = before;
    }
    false
}

/// Returns whether a condition that holds, or does not hold, says that `from` is not below `less`.
fn says(ir: &Ir<'_>, condition: ValueRef, is_true: bool, from: ValueRef, less: Less) -> bool {
    if !ir.is_instruction(condition) || ir.opcode(condition) != opcode::ICMP {
        return false;
    }
    let predicate = ll!(ir, LLVMGetICmpPredicate(condition));
    let [left, right] = [ir.operand(condition, 0), ir.operand(condition, 1)];
    let (other, predicate) = match (left == from, right == from) {
        (true, _) => (right, predicate),
        (_, true) => (left, crate::predicates::swapped(predicate)),
        _ => return false,
    };
    let predicate = if is_true { predicate } else { crate::predicates::inverted(predicate) };
    let least = ir.constant_value(other).map(|other| match predicate {
        predicate::UGE => other,
        predicate::UGT => other.saturating_add(1),
        predicate::NE if other == 0 => 1,
        _ => 0,
    });
    match less {
        Less::Constant(less) => least.is_some_and(|least| least >= less.into()),
        Less::Value(less) => less == other && matches!(predicate, predicate::UGE | predicate::UGT),
    }
}
