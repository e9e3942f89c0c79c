//! Loops of a kernel that all items of a chunk run alike, which are better outside of the loop over
//! items: LLVM vectorises innermost loops only.

use longshore_llvm::types::*;

use crate::flow::Flow;
use crate::ir::{Ir, ll};
use crate::regions::Nodes;
use crate::uniformity::{Level, Uniformity};

/// Most rounds of a loop that LLVM unrolls, so that the loop over items is the innermost one.
const UNROLLED_ROUNDS: u64 = 32;
/// Most instructions of such a loop, in all rounds.
const UNROLLED: u64 = 512;

/// Returns the block with the exit of a loop that should contain the loop over items.
pub(crate) fn next(
    ir: &Ir<'_>,
    flow: &Flow,
    region_of: &[Option<usize>],
    nodes: &Nodes,
    uniformity: &Uniformity,
) -> Option<usize> {
    let is_node = |block: usize| nodes.contains_key(&flow.blocks[block]);
    flow.numbers().find_map(|header| {
        let region = region_of[header]?;
        let body = natural_loop(flow, header, region, region_of)?;
        let leaves = |block: &usize| {
            flow.successors[*block].iter().any(|next| !body[*next] && flow.returns[*next])
        };
        let mut exits = flow.numbers().filter(|block| body[*block]).filter(leaves);
        let (exit, None) = (exits.next()?, exits.next()) else { return None };
        let is_uniform = uniformity.branch_level(ir, flow.blocks[exit]) <= Level::Chunk
            && flow.successors[exit].len() > 1;
        let inside = flow.numbers().filter(|block| body[*block]);
        let instructions: Vec<ValueRef> =
            inside.flat_map(|block| ir.instructions(flow.blocks[block])).collect();
        let works = instructions.iter().any(|it| is_work(ir, *it, uniformity));
        let is_good = is_uniform && works && !is_node(exit);
        (is_good
            && is_certain(flow, header, region, region_of)
            && !is_unrolled(ir, flow.blocks[exit], instructions.len() as u64))
        .then_some(exit)
    })
}

/// Returns the blocks of the loop with this header, if they are all in the region.
fn natural_loop(
    flow: &Flow,
    header: usize,
    region: usize,
    region_of: &[Option<usize>],
) -> Option<Vec<bool>> {
    let is_own = |block: usize| region_of[block] == Some(region);
    let from_header = flow.reach(vec![header], &flow.successors, is_own);
    let mut latches = flow.predecessors[header].clone();
    latches.retain(|block| is_own(*block) && from_header[*block]);
    if latches.is_empty() || header == region {
        return None;
    }
    let mut body = flow.reach(latches, &flow.predecessors, |block| block != header);
    body[header] = true;
    // With another entry, the loop has blocks that the header does not reach first.
    let has_one_entry = flow
        .numbers()
        .filter(|block| body[*block] && *block != header)
        .all(|it| is_own(it) && flow.predecessors[it].iter().all(|before| body[*before]));
    has_one_entry.then_some(body)
}

/// Returns whether all items of the region come to a block.
pub(crate) fn is_certain(
    flow: &Flow,
    block: usize,
    region: usize,
    region_of: &[Option<usize>],
) -> bool {
    let is_open = |it: usize| it != block && region_of[it] == Some(region);
    let around = flow.reach(vec![region], &flow.successors, is_open);
    let leaves = |it: usize| {
        let out = |next: &usize| region_of[*next] != Some(region) && flow.returns[*next];
        flow.successors[it].iter().any(out)
    };
    !flow.numbers().any(|it| around[it] && region_of[it] == Some(region) && leaves(it))
}

/// Returns whether an instruction does something for each item that is worth vectors.
fn is_work(ir: &Ir<'_>, instruction: ValueRef, uniformity: &Uniformity) -> bool {
    let is_of_item = uniformity.level(instruction) == Level::Item;
    match ir.opcode(instruction) {
        opcode::STORE => uniformity.level(ir.operand(instruction, 1)) == Level::Item,
        opcode::FADD | opcode::FSUB | opcode::FMUL | opcode::FDIV | opcode::LOAD => is_of_item,
        opcode::ADD | opcode::MUL | opcode::XOR => is_of_item,
        _ => false,
    }
}

/// Returns whether a loop has few rounds, of a known number.
fn is_unrolled(ir: &Ir<'_>, exit: BlockRef, instructions: u64) -> bool {
    let condition = ir.operand(ir.terminator(exit), 0);
    if !ir.is_instruction(condition) || ir.opcode(condition) != opcode::ICMP {
        return false;
    }
    let [counter, limit] = [ir.operand(condition, 0), ir.operand(condition, 1)];
    let Some(limit) = ir.constant_value(limit) else { return false };
    let mut phi = counter;
    if ir.is_instruction(phi) && ir.opcode(phi) == opcode::ADD {
        phi = ir.operand(phi, 0);
    }
    if !ir.is_instruction(phi) || ll!(ir, LLVMGetInstructionOpcode(phi)) != opcode::PHI {
        return false;
    }
    let starts = ir.incoming(phi).into_iter().filter_map(|(value, _)| ir.constant_value(value));
    let rounds = starts.map(|start| limit.abs_diff(start)).max();
    rounds.is_some_and(|rounds| {
        rounds <= UNROLLED_ROUNDS && rounds.saturating_mul(instructions) <= UNROLLED
    })
}
