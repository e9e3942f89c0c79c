//! Structured control flow.
//!
//! LLVM's passes leave loops with one way back and one way out, and branches whose ways join. Each
//! block is emitted once. Each merge block and each continue block of SPIR-V is a new one, so that
//! none serves two constructs. The values of phis are in variables, which drivers make registers.

use crate::body::Body;
use crate::constants::located;
use crate::numbers::numbers;
use longshore_llvm::types::*;
use longshore_llvm::{Ir, ll};
use rspirv::spirv::{Op, Word};
use std::collections::{HashMap, HashSet};

/// Message for kernels that are not structured.
const NOT_STRUCTURED: &str = "its control flow cannot be structured as SPIR-V demands; avoid goto \
     into loops, and loops that never end";

/// The blocks of a kernel.
struct Graph {
    successors: HashMap<BlockRef, Vec<BlockRef>>,
    /// The block where all ways from a block join; absent at the end of the kernel.
    joins: HashMap<BlockRef, BlockRef>,
    /// The blocks after loops, by the first blocks of the loops.
    loops: HashMap<BlockRef, Option<BlockRef>>,
}

/// An open loop under emission.
#[derive(Clone, Copy)]
struct Open {
    header: BlockRef,
    exit: Option<BlockRef>,
    next: Word,
    merge: Word,
}

/// The way from the last block of a loop: the condition and whether it leads out.
type Back = Option<(Word, bool)>;

/// The emission of a kernel's blocks.
struct Flow<'b, 'a> {
    body: &'b mut Body<'a>,
    graph: Graph,
    emitted: HashSet<BlockRef>,
    open: Vec<Open>,
    /// The ends of open loops, as far as they are known.
    backs: Vec<Option<Back>>,
}

impl Body<'_> {
    /// Emits all blocks of the kernel after the first one, which is open.
    pub(crate) fn emit_blocks(&mut self) -> Result<(), String> {
        let function = self.kernel.function;
        let graph = Graph::read(self.ir, function)?;
        self.declare_phis()?;
        let first = ll!(self.ir, LLVMGetEntryBasicBlock(function));
        let mut flow = Flow {
            body: self,
            graph,
            emitted: HashSet::new(),
            open: Vec::new(),
            backs: Vec::new(),
        };
        flow.chain(first, None)
    }

    /// Declares variables for the phis.
    fn declare_phis(&mut self) -> Result<(), String> {
        for instruction in self.ir.all_instructions(self.kernel.function) {
            if self.ir.opcode(instruction) != opcode::PHI {
                continue;
            }
            let mut variables = Vec::new();
            for (number, _) in numbers(self.ir, self.ir.type_of(instruction))? {
                let ty = self.to.register(number);
                variables.push(self.to.local(ty));
            }
            self.phis.insert(instruction, variables);
        }
        Ok(())
    }

    /// Emits the stores of the values that the phis of the next blocks take from a block.
    fn leave(&mut self, block: BlockRef, successors: &[BlockRef]) -> Result<(), String> {
        for next in successors {
            for phi in self.ir.instructions(*next) {
                let Some(variables) = self.phis.get(&phi).cloned() else { break };
                let count = ll!(self.ir, LLVMCountIncoming(phi));
                let from = |it: &u32| ll!(self.ir, LLVMGetIncomingBlock(phi, *it)) == block;
                let Some(index) = (0..count).find(from) else { continue };
                let value = ll!(self.ir, LLVMGetIncomingValue(phi, index));
                if ll!(self.ir, LLVMIsUndef(value)) != 0 {
                    continue;
                }
                for (variable, value) in variables.into_iter().zip(self.value(value)?) {
                    self.to.act(Op::Store, &[variable, value]);
                }
            }
        }
        Ok(())
    }

    /// Emits the loads of a block's phis.
    fn enter(&mut self, phi: ValueRef) -> Result<(), String> {
        let variables = self.phis.get(&phi).cloned().unwrap_or_default();
        let mut loaded = Vec::new();
        for ((number, _), variable) in numbers(self.ir, self.ir.type_of(phi))?.iter().zip(variables)
        {
            let ty = self.to.register(*number);
            loaded.push(self.to.op(Op::Load, ty, &[variable]));
        }
        self.values.insert(phi, loaded);
        Ok(())
    }
}

impl Flow<'_, '_> {
    /// Emits the blocks from `start` until `stop`, with a branch to its label there.
    fn chain(&mut self, start: BlockRef, stop: Option<(BlockRef, Word)>) -> Result<(), String> {
        let mut block = start;
        loop {
            if let Some(target) = self.jump(block, stop) {
                self.body.to.branch(target);
                return Ok(());
            }
            let is_header = self.graph.loops.contains_key(&block);
            if is_header && self.open.last().is_none_or(|open| open.header != block) {
                match self.whole_loop(block)? {
                    Some(exit) => block = exit,
                    None => return Ok(()),
                }
                continue;
            }
            match self.block(block)? {
                Some(next) => block = next,
                None => return Ok(()),
            }
        }
    }

    /// Returns the label for a jump out of the open construct; `None` for a block within.
    fn jump(&self, block: BlockRef, stop: Option<(BlockRef, Word)>) -> Option<Word> {
        if let Some((stop, label)) = stop.filter(|(stop, _)| *stop == block) {
            debug_assert_eq!(stop, block);
            return Some(label);
        }
        let open = self.open.last()?;
        if open.exit == Some(block) {
            return Some(open.merge);
        }
        (open.header == block && self.emitted.contains(&block)).then_some(open.next)
    }

    /// Emits a loop, and returns the block after it, with an open block of SPIR-V.
    fn whole_loop(&mut self, header: BlockRef) -> Result<Option<BlockRef>, String> {
        let exit = self.graph.loops[&header];
        let to = &mut *self.body.to;
        let [label, first, next, merge] = [(); 4].map(|()| to.id());
        to.branch(label);
        to.label(label);
        to.a_loop(merge, next);
        to.branch(first);
        to.label(first);
        self.open.push(Open { header, exit, next, merge });
        self.backs.push(None);
        self.chain(header, None)?;
        self.open.pop();
        let back = self.backs.pop().flatten().flatten();
        let to = &mut *self.body.to;
        to.label(next);
        match back {
            Some((condition, true)) => to.branch_if(condition, merge, label),
            Some((condition, false)) => to.branch_if(condition, label, merge),
            None => to.branch(label),
        }
        to.label(merge);
        if exit.is_none() {
            to.unreachable();
        }
        Ok(exit)
    }

    /// Emits a block, and returns the next one of the same chain.
    fn block(&mut self, block: BlockRef) -> Result<Option<BlockRef>, String> {
        if !self.emitted.insert(block) {
            return Err(NOT_STRUCTURED.to_owned());
        }
        let ir = self.body.ir;
        let instructions = ir.instructions(block);
        let (last, before) = instructions.split_last().ok_or("a block is empty")?;
        for instruction in before {
            let opcode = ir.opcode(*instruction);
            if opcode == opcode::PHI {
                self.body.enter(*instruction)?;
                continue;
            }
            let made = self.body.instruction(*instruction, opcode);
            let made = made.map_err(|problem| located(ir, *instruction, problem))?;
            self.body.values.insert(*instruction, made);
        }
        let successors = self.graph.successors[&block].clone();
        self.body.leave(block, &successors)?;
        match (ir.opcode(*last), successors.as_slice()) {
            (opcode::RET, _) => {
                self.body.to.ret();
                Ok(None)
            }
            (opcode::UNREACHABLE, _) => {
                self.body.to.unreachable();
                Ok(None)
            }
            (opcode::BR, [next]) => Ok(Some(*next)),
            (opcode::BR, [yes, no]) if yes == no => Ok(Some(*yes)),
            (opcode::BR, [yes, no]) => {
                let condition = self.body.one(ll!(ir, LLVMGetCondition(*last)))?;
                self.branch(block, condition, *yes, *no)
            }
            _ => Err(located(ir, *last, "this kind of jump does not exist in SPIR-V".into())),
        }
    }

    /// Emits a conditional branch, and returns the block where its ways join.
    fn branch(
        &mut self,
        block: BlockRef,
        condition: Word,
        yes: BlockRef,
        no: BlockRef,
    ) -> Result<Option<BlockRef>, String> {
        if let Some(open) = self.open.last().copied() {
            let is_back = |block: BlockRef| block == open.header;
            let is_out = |block: BlockRef| open.exit == Some(block);
            if is_back(yes) && is_out(no) || is_back(no) && is_out(yes) {
                let back = self.backs.last_mut().expect("the loop is open");
                if back.replace(Some((condition, is_out(yes)))).is_some() {
                    return Err(NOT_STRUCTURED.to_owned());
                }
                self.body.to.branch(open.next);
                return Ok(None);
            }
        }
        let join = self.join(block);
        let [first, second, merge] = [(); 3].map(|()| self.body.to.id());
        self.body.to.selection(merge);
        let label = |way: BlockRef, label: Word| if join == Some(way) { merge } else { label };
        let (first_label, second_label) = (label(yes, first), label(no, second));
        self.body.to.branch_if(condition, first_label, second_label);
        for (way, label) in [(yes, first_label), (no, second_label)] {
            if label != merge {
                self.body.to.label(label);
                self.chain(way, join.map(|join| (join, merge)))?;
            }
        }
        self.body.to.label(merge);
        if join.is_none() {
            self.body.to.unreachable();
        }
        Ok(join)
    }

    /// Returns the block where the ways from a block join; the block after the open loop if they
    /// join later.
    fn join(&self, block: BlockRef) -> Option<BlockRef> {
        self.graph.joins.get(&block).copied()
    }
}

impl Graph {
    fn read(ir: &Ir<'_>, function: ValueRef) -> Result<Graph, String> {
        let first = ll!(ir, LLVMGetEntryBasicBlock(function));
        let mut successors = HashMap::new();
        for block in ir.blocks(function) {
            let last = ll!(ir, LLVMGetBasicBlockTerminator(block));
            let count = ll!(ir, LLVMGetNumSuccessors(last));
            let next: Vec<_> = (0..count).map(|it| ll!(ir, LLVMGetSuccessor(last, it))).collect();
            successors.insert(block, next);
        }
        let (order, backs) = walk(first, &successors);
        let joins = joins(&order, &successors);
        let mut graph = Graph { successors, joins, loops: HashMap::new() };
        for (latch, header) in backs {
            graph.add_loop(latch, header)?;
        }
        Ok(graph)
    }

    /// Adds the loop of a way back.
    fn add_loop(&mut self, latch: BlockRef, header: BlockRef) -> Result<(), String> {
        let mut before: HashMap<BlockRef, Vec<BlockRef>> = HashMap::new();
        for (block, next) in &self.successors {
            next.iter().for_each(|next| before.entry(*next).or_default().push(*block));
        }
        let mut blocks = HashSet::from([header]);
        let mut pending = vec![latch];
        while let Some(block) = pending.pop() {
            if blocks.insert(block) {
                pending.extend(before.get(&block).into_iter().flatten());
            }
        }
        let outside = |next: &&BlockRef| !blocks.contains(*next);
        let exits: HashSet<BlockRef> = blocks
            .iter()
            .flat_map(|block| self.successors[block].iter().filter(outside))
            .copied()
            .collect();
        let exit = exits.iter().next().copied();
        if exits.len() > 1 || self.loops.insert(header, exit).is_some() {
            return Err(NOT_STRUCTURED.to_owned());
        }
        Ok(())
    }
}

/// Returns the blocks in postorder, and the ways back: from a block to one before it on the way
/// from the first block.
fn walk(
    first: BlockRef,
    successors: &HashMap<BlockRef, Vec<BlockRef>>,
) -> (Vec<BlockRef>, Vec<(BlockRef, BlockRef)>) {
    let (mut order, mut backs) = (Vec::new(), Vec::new());
    let (mut seen, mut on_way) = (HashSet::from([first]), HashSet::from([first]));
    let mut way = vec![(first, 0)];
    while let Some((block, at)) = way.last_mut() {
        let block = *block;
        let Some(next) = successors[&block].get(*at).copied() else {
            on_way.remove(&block);
            order.push(block);
            way.pop();
            continue;
        };
        *at += 1;
        if on_way.contains(&next) {
            backs.push((block, next));
        } else if seen.insert(next) {
            on_way.insert(next);
            way.push((next, 0));
        }
    }
    (order, backs)
}

/// Returns for each block the first block that all ways from it pass: its immediate postdominator.
fn joins(
    order: &[BlockRef],
    successors: &HashMap<BlockRef, Vec<BlockRef>>,
) -> HashMap<BlockRef, BlockRef> {
    // Positions in postorder: the end of the kernel comes before all. `None` is not known yet.
    let number: HashMap<BlockRef, usize> = (1..).zip(order).map(|(at, it)| (*it, at)).collect();
    let mut join: Vec<Option<usize>> = vec![None; order.len() + 1];
    join[0] = Some(0);
    let mut changed = true;
    while changed {
        changed = false;
        for (at, block) in (1..).zip(order) {
            let next = &successors[block];
            let ways = next.iter().map(|next| number[next]).filter(|it| join[*it].is_some());
            let joined = match next.is_empty() {
                true => Some(0),
                false => ways.reduce(|first, second| meet(&join, first, second)),
            };
            changed |= joined != join[at];
            join[at] = joined;
        }
    }
    let known = (1..).zip(order).filter_map(|(at, block)| {
        let join = join[at].filter(|join| *join > 0)?;
        Some((*block, order[join - 1]))
    });
    known.collect()
}

/// Returns the first common block of two ways, by their positions.
fn meet(join: &[Option<usize>], first: usize, second: usize) -> usize {
    let (mut passed, mut at) = (HashSet::new(), Some(first));
    while let Some(block) = at.filter(|block| passed.insert(*block)) {
        at = join[block];
    }
    let (mut seen, mut at) = (HashSet::new(), second);
    while !passed.contains(&at) && seen.insert(at) {
        at = join[at].unwrap_or(0);
    }
    if passed.contains(&at) { at } else { 0 }
}
