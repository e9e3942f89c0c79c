//! Conditions for few items inside of a region, as in `if (id < 4) ...`. The region is cut before
//! and behind them, so that their loop runs for these items only.

use longshore_llvm::types::*;

use crate::flow::Flow;
use crate::inner_loops::is_certain;
use crate::ir::{Ir, ll};
use crate::regions::{Node, Nodes};
use crate::uniformity::Level;

/// Number of items in a row whose number is not known, for the choice alone.
const ROW: u64 = 64;

/// A condition for few items.
pub(crate) struct Cut {
    branch: BlockRef,
    /// Block where all items go on.
    join: BlockRef,
}

/// Returns a condition around which a region of a chunk is to be cut. `row` is the number of a
/// chunk's items, if it is known.
pub(crate) fn next(
    ir: &Ir<'_>,
    function: ValueRef,
    flow: &Flow,
    region_of: &[Option<usize>],
    row: Option<u64>,
) -> Option<Cut> {
    let nearest = flow.post_dominators();
    flow.numbers().find_map(|block| {
        let region = region_of[block].filter(|region| *region != block)?;
        let [yes, no] = *flow.successors[block] else { return None };
        let (items, holds) = items(ir, function, flow.blocks[block])?;
        let skip = if holds { no } else { yes };
        let inside = if holds { yes } else { no };
        let join = nearest[block]?;
        let is_small = 2 * items <= row.unwrap_or(ROW);
        let is_join = skips(ir, flow, skip, join) && !has_phis(ir, flow.blocks[join]);
        let is_own = |it: usize| region_of[it] == Some(region);
        let starts: Vec<usize> =
            flow.successors[block].iter().copied().filter(|it| is_own(*it)).collect();
        let is_in_loop = flow.reach(starts, &flow.successors, is_own)[block];
        let arm = flow.reach(vec![inside], &flow.successors, |it| it != join && is_own(it));
        let works = flow.numbers().filter(|it| arm[*it]).any(|it| {
            let instructions = ir.instructions(flow.blocks[it]);
            instructions.into_iter().any(|it| matches!(ir.opcode(it), opcode::LOAD | opcode::STORE))
        });
        let is_good = is_small && is_join && is_own(join) && !is_in_loop && works && inside != join;
        (is_good && is_certain(flow, block, region, region_of))
            .then(|| Cut { branch: flow.blocks[block], join: flow.blocks[join] })
    })
}

impl Cut {
    /// Makes nodes at both places. Returns their blocks and the block of the condition.
    pub(crate) fn apply(&self, ir: &Ir<'_>, nodes: &mut Nodes) -> [BlockRef; 3] {
        let behind = ir.split_before(ir.instructions(self.join)[0], c"cut");
        let condition = ir.split_off_terminator(self.branch, c"few");
        let before = ir.split_off_terminator(self.branch, c"cut");
        for block in [before, behind] {
            nodes.insert(block, Node::Branch(Level::Chunk));
        }
        [before, behind, condition]
    }
}

/// Returns for how many items in x a block's branch goes one way, and whether that is the first
/// way.
fn items(ir: &Ir<'_>, function: ValueRef, block: BlockRef) -> Option<(u64, bool)> {
    let terminator = ir.terminator(block);
    if ir.opcode(terminator) != opcode::BR {
        return None;
    }
    let condition = ir.operand(terminator, 0);
    if !ir.is_instruction(condition) || ir.opcode(condition) != opcode::ICMP {
        return None;
    }
    let id = ir.parameter(function, 2);
    let own = ir.operand(condition, 0);
    let is_wide = ir.is_instruction(own) && ir.opcode(own) == opcode::ZEXT;
    let is_id = own == id || is_wide && ir.operand(own, 0) == id;
    let limit = ir.constant_value(ir.operand(condition, 1)).filter(|_| is_id)?;
    match ll!(ir, LLVMGetICmpPredicate(condition)) {
        predicate::EQ => Some((1, true)),
        predicate::NE => Some((1, false)),
        predicate::ULT | predicate::SLT => Some((limit, true)),
        predicate::ULE | predicate::SLE => Some((limit.checked_add(1)?, true)),
        predicate::UGE | predicate::SGE => Some((limit, false)),
        predicate::UGT | predicate::SGT => Some((limit.checked_add(1)?, false)),
        _ => None,
    }
}

/// Returns whether a way leads to the join without doing anything.
fn skips(ir: &Ir<'_>, flow: &Flow, mut block: usize, join: usize) -> bool {
    while block != join {
        match *flow.successors[block] {
            [next] if ir.instructions(flow.blocks[block]).len() == 1 => block = next,
            _ => return false,
        }
    }
    true
}

fn has_phis(ir: &Ir<'_>, block: BlockRef) -> bool {
    ir.instructions(block).into_iter().any(|it| ir.opcode(it) == opcode::PHI)
}
