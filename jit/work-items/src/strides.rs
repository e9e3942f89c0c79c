//! Loops in which each item strides through the elements, as in
//! `for (i = begin + id; i < end; i += step)`.
//!
//! Items leave such a loop at different times, so that it would be a loop of each item, with
//! addresses that are far from each other. With `begin`, `end` and `step` the same for all items,
//! the loop becomes one of the chunk, over the first item's `i`. In each round, the items below the
//! end do theirs, with addresses side by side; the rest waits. A second copy of the loop is for
//! numbers near the end of their range, where `i` could wrap around.

use std::collections::HashMap;

use longshore_llvm::types::*;

use crate::chunk::Chunk;
use crate::copy::{Copied, copy_blocks};
use crate::flow::Flow;
use crate::ir::{Ir, ll};
use crate::markers::Marker;
use crate::metadata;
use crate::uniformity::{Level, Uniformity, is_speculatable};

/// Most values that items keep from round to round.
const KEPT: usize = 8;
/// Greatest number of items in x that a bound has room for.
const ITEMS: u64 = 1 << 16;
/// A loop with the beginning, the end and the step of a chunk.
struct Stride {
    /// Block that leads to the loop alone.
    before: BlockRef,
    header: BlockRef,
    latch: BlockRef,
    /// First block behind the loop, which nothing else leads to.
    exit: BlockRef,
    /// The loop's blocks, the header first.
    blocks: Vec<BlockRef>,
    /// The item's `i`.
    counter: ValueRef,
    condition: ValueRef,
    /// First `i` of the item with id 0, of the counter's type or narrower; `None` for zero.
    begin: Option<ValueRef>,
    end: ValueRef,
    step: ValueRef,
    is_signed: bool,
    includes_end: bool,
}

/// Makes loops of the chunk of all strides of a function. Returns whether there were any.
pub(crate) fn interchange(ir: &Ir<'_>, function: ValueRef, chunk: Chunk) -> bool {
    let mut kept = Vec::new();
    loop {
        let flow = Flow::new(ir, function);
        let uniformity = Uniformity::new(ir, function, &flow, chunk);
        let search = Search { ir, function, flow: &flow, uniformity: &uniformity };
        let mut headers = flow.numbers().filter(|it| !kept.contains(&flow.blocks[*it]));
        let Some(stride) = headers.find_map(|header| search.stride(header)) else {
            return !kept.is_empty();
        };
        kept.push(stride.header);
        kept.push(stride.change(ir, function));
    }
}

struct Search<'a, 'l> {
    ir: &'a Ir<'l>,
    function: ValueRef,
    flow: &'a Flow,
    uniformity: &'a Uniformity,
}

impl Search<'_, '_> {
    fn stride(&self, header: usize) -> Option<Stride> {
        let (ir, flow) = (self.ir, self.flow);
        let [yes, no] = *ir.successors(flow.blocks[header]) else { return None };
        let [one, other] = *flow.predecessors[header] else { return None };
        let body = |latch| self.body(header, latch);
        let (before, latch, inside) = match (body(one), body(other)) {
            (None, Some(inside)) => (one, other, inside),
            (Some(inside), None) => (other, one, inside),
            _ => return None,
        };
        let has =
            |block: &BlockRef| flow.numbers().any(|it| inside[it] && flow.blocks[it] == *block);
        let (exit, stays) = match (has(&yes), has(&no)) {
            (true, false) => (no, true),
            (false, true) => (yes, false),
            _ => return None,
        };
        let blocks = |number: usize| flow.blocks[number];
        let (before, latch) = (blocks(before), blocks(latch));
        let is_alone = flow.predecessors.get(self.number(exit)?)?.len() == 1;
        let leads = ir.successors(before).len() == 1 && ir.successors(latch).len() == 1;
        if !is_alone || !leads || !self.is_plain(header, &inside) || !self.is_certain(before)? {
            return None;
        }
        let rest = flow.numbers().filter(|it| inside[*it] && *it != header).map(blocks);
        let blocks: Vec<BlockRef> = std::iter::once(blocks(header)).chain(rest).collect();
        let stride = self.recognise(before, latch, exit, blocks, stays)?;
        self.is_closed(&stride).then_some(stride)
    }

    fn number(&self, block: BlockRef) -> Option<usize> {
        self.flow.numbers().find(|number| self.flow.blocks[*number] == block)
    }

    /// Returns the blocks of the loop with a header and a latch; `None` if that is no loop.
    fn body(&self, header: usize, latch: usize) -> Option<Vec<bool>> {
        let flow = self.flow;
        let mut body = flow.reach(vec![latch], &flow.predecessors, |block| block != header);
        let from_header = flow.reach(vec![header], &flow.successors, |_| true);
        body[header] = true;
        let is_loop = from_header[latch] && latch != header && !body[0];
        let has_one_entry = flow
            .numbers()
            .filter(|block| body[*block] && *block != header)
            .all(|block| flow.predecessors[block].iter().all(|before| body[*before]));
        (is_loop && has_one_entry).then_some(body)
    }

    /// Returns whether a loop has no other exits, no loops inside, nothing that waits, and a header
    /// that can run for items that are done.
    fn is_plain(&self, header: usize, inside: &[bool]) -> bool {
        let (ir, flow) = (self.ir, self.flow);
        let is_idle = |it: ValueRef| {
            matches!(ir.opcode(it), opcode::PHI | opcode::BR)
                || is_speculatable(ir, it)
                || crate::metadata::is_for_debuggers(ir, it)
        };
        let position: HashMap<usize, usize> =
            flow.post_order().into_iter().enumerate().map(|(at, block)| (block, at)).collect();
        flow.numbers().filter(|block| inside[*block]).all(|block| {
            let is_header = block == header;
            let stays = flow.successors[block].iter().all(|next| {
                let goes_on = *next == header || position.get(next) < position.get(&block);
                is_header || inside[*next] && goes_on
            });
            stays
                && ir.instructions(flow.blocks[block]).into_iter().all(|it| {
                    let waits = Marker::called(ir, it).is_some();
                    !waits && (!is_header || is_idle(it))
                })
        })
    }

    /// Returns whether all items of a chunk come to a block together.
    fn is_certain(&self, block: BlockRef) -> Option<bool> {
        let (ir, flow) = (self.ir, self.flow);
        let block = self.number(block)?;
        let nearest = flow.post_dominators();
        let depends = |on: usize| {
            let end = nearest[on];
            let inside = |number: usize| Some(number) != end;
            let starts = flow.successors[on].iter().copied().filter(|it| inside(*it)).collect();
            flow.reach(starts, &flow.successors, inside)[block]
        };
        let is_divergent =
            |it: &usize| self.uniformity.branch_level(ir, flow.blocks[*it]) > Level::Chunk;
        Some(!flow.numbers().filter(is_divergent).any(depends))
    }

    fn recognise(
        &self,
        before: BlockRef,
        latch: BlockRef,
        exit: BlockRef,
        blocks: Vec<BlockRef>,
        stays: bool,
    ) -> Option<Stride> {
        let ir = self.ir;
        let header = blocks[0];
        let condition = ir.operand(ir.terminator(header), 0);
        if !ir.is_instruction(condition) || ir.opcode(condition) != opcode::ICMP {
            return None;
        }
        let predicate = ll!(ir, LLVMGetICmpPredicate(condition));
        let [left, right] = [ir.operand(condition, 0), ir.operand(condition, 1)];
        let is_counter = |it: ValueRef| {
            ir.is_instruction(it) && ir.opcode(it) == opcode::PHI && ir.block_of(it) == header
        };
        let (counter, end, predicate) = match (is_counter(left), is_counter(right)) {
            (true, false) => (left, right, predicate),
            (false, true) => (right, left, crate::predicates::swapped(predicate)),
            _ => return None,
        };
        let predicate = if stays { predicate } else { crate::predicates::inverted(predicate) };
        let (is_signed, includes_end) = match predicate {
            predicate::ULT => (false, false),
            predicate::ULE => (false, true),
            predicate::SLT => (true, false),
            predicate::SLE => (true, true),
            _ => return None,
        };
        let from = |block| ir.incoming(counter).into_iter().find(|(_, from)| *from == block);
        let begin = self.begin(from(before)?.0)?;
        let step = self.step(counter, from(latch)?.0)?;
        for value in [end, step] {
            self.move_before(value, before, &blocks);
        }
        let is_of_chunk = |value: ValueRef| {
            let is_inside = ir.is_instruction(value) && blocks.contains(&ir.block_of(value));
            !is_inside && self.uniformity.level(value) <= Level::Chunk
        };
        [Some(end), Some(step), begin].into_iter().flatten().all(is_of_chunk).then_some(Stride {
            before,
            header,
            latch,
            exit,
            blocks,
            counter,
            condition,
            begin,
            end,
            step,
            is_signed,
            includes_end,
        })
    }

    /// Moves a value that is the same for all rounds of a loop before the loop, if it is one.
    fn move_before(&self, value: ValueRef, before: BlockRef, blocks: &[BlockRef]) {
        let ir = self.ir;
        if !ir.is_instruction(value) || !blocks.contains(&ir.block_of(value)) {
            return;
        }
        if ir.opcode(value) == opcode::PHI || !is_speculatable(ir, value) {
            return;
        }
        let operands = ir.operands(value);
        operands.iter().for_each(|operand| self.move_before(*operand, before, blocks));
        let is_before =
            |it: &ValueRef| !ir.is_instruction(*it) || !blocks.contains(&ir.block_of(*it));
        if operands.iter().all(is_before) {
            ir.move_before(value, ir.terminator(before));
        }
    }

    /// Returns the first `i` of the item with id 0, if that of others is their id further on.
    fn begin(&self, mut first: ValueRef) -> Option<Option<ValueRef>> {
        let ir = self.ir;
        let id = ir.parameter(self.function, 2);
        let is_cast = |it: ValueRef| {
            ir.is_instruction(it) && matches!(ir.opcode(it), opcode::ZEXT | opcode::SEXT)
        };
        let is_id = |it: ValueRef| it == id || is_cast(it) && ir.operand(it, 0) == id;
        if is_id(first) {
            return Some(None);
        }
        if is_cast(first) {
            first = ir.operand(first, 0);
        }
        if !ir.is_instruction(first) || ir.opcode(first) != opcode::ADD {
            return None;
        }
        match [ir.operand(first, 0), ir.operand(first, 1)] {
            [own, begin] | [begin, own] if is_id(own) && !is_id(begin) => Some(Some(begin)),
            _ => None,
        }
    }

    fn step(&self, counter: ValueRef, next: ValueRef) -> Option<ValueRef> {
        let ir = self.ir;
        if !ir.is_instruction(next) || ir.opcode(next) != opcode::ADD {
            return None;
        }
        match [ir.operand(next, 0), ir.operand(next, 1)] {
            [own, step] | [step, own] if own == counter => Some(step),
            _ => None,
        }
    }

    /// Returns whether all that the loop leaves behind are values that items keep, few of them, and
    /// not `i`.
    fn is_closed(&self, stride: &Stride) -> bool {
        let ir = self.ir;
        let phis = ir.instructions(stride.header).into_iter();
        let is_few = phis.filter(|it| ir.opcode(*it) == opcode::PHI).count() <= KEPT;
        let values = stride.blocks.iter().flat_map(|block| ir.instructions(*block));
        is_few
            && values.into_iter().all(|value| {
                let is_kept = ir.opcode(value) == opcode::PHI
                    && ir.block_of(value) == stride.header
                    && value != stride.counter;
                ir.users(value).into_iter().all(|user| {
                    let block = ir.block_of(user);
                    let is_end = ir.opcode(user) == opcode::PHI && block == stride.exit;
                    stride.blocks.contains(&block) || is_kept && is_end
                })
            })
    }
}

impl Stride {
    /// Makes the loop one of the chunk. Returns the header of the copy that remains as it was.
    fn change(&self, ir: &Ir<'_>, function: ValueRef) -> BlockRef {
        let ends: Vec<ValueRef> = ir
            .instructions(self.exit)
            .into_iter()
            .filter(|it| ir.opcode(*it) == opcode::PHI)
            .collect();
        let Copied { blocks, values } = copy_blocks(ir, function, &self.blocks, c"apart");
        let copy = blocks[&self.header];
        let wide = ir.type_of(self.counter);
        ir.erase(ir.terminator(self.before));
        let build = ir.at_end(self.before);
        let begin = match self.begin {
            None => ll!(ir, LLVMConstInt(wide, 0, 0)),
            Some(begin) if self.is_signed => build.cast(opcode::SEXT, begin, wide),
            Some(begin) => build.cast(opcode::ZEXT, begin, wide),
        };
        let fits = self.fits(ir, begin);
        let round = ir.append_block(function, c"stride");
        let chosen = ir.at_end(self.before).cond_br(fits, round, copy);
        metadata::take_together(ir, chosen);
        let kept = self.keep_values(ir, round);
        self.rounds(ir, function, round, begin);
        ir.redirect(self.header, self.exit, round);
        ir.redirect(self.latch, self.header, round);
        for (new, old) in &kept {
            let incoming = ir.incoming(*old);
            let from = |block| incoming.iter().find(|(_, from)| *from == block);
            let [first, last] = [self.before, self.latch].map(|block| from(block).map(|it| it.0));
            ir.add_incoming(*new, first.expect("a phi has both"), self.before);
            ir.add_incoming(*new, *new, self.header);
            ir.add_incoming(*new, last.expect("a phi has both"), self.latch);
        }
        for end in ends {
            let value = ir.incoming(end)[0].0;
            let merged = ir.before(end).phi(ir.type_of(end));
            ir.add_incoming(merged, value, round);
            ir.add_incoming(merged, values.get(&value).copied().unwrap_or(value), copy);
            ir.replace(end, merged);
            ir.erase(end);
        }
        for (new, old) in kept {
            ir.replace(old, new);
            ir.erase(old);
        }
        copy
    }

    /// Emits whether no item's `i` can wrap around.
    fn fits(&self, ir: &Ir<'_>, begin: ValueRef) -> ValueRef {
        let ty = ir.type_of(self.counter);
        let bits = ll!(ir, LLVMGetIntTypeWidth(ty));
        let most = ll!(ir, LLVMConstInt(ty, (1 << (bits - 2)) - ITEMS, 0));
        let build = ir.at_end(self.before);
        let mut narrow = vec![begin, self.end, self.step];
        // A narrow beginning must not have wrapped around either.
        let mut fits = match self.begin.filter(|begin| ir.type_of(*begin) != ty) {
            Some(begin) => {
                narrow.remove(0);
                let ty = ir.type_of(begin);
                let bits = ll!(ir, LLVMGetIntTypeWidth(ty));
                let most = ll!(ir, LLVMConstInt(ty, (1 << (bits - 2)) - ITEMS, 0));
                build.compare(predicate::ULT, begin, most)
            }
            None => ir.constant(1, 1),
        };
        for value in narrow {
            let is_low = build.compare(predicate::ULT, value, most);
            fits = build.binary(opcode::AND, fits, is_low);
        }
        fits
    }

    /// Makes phis of the new loop for the values that items keep. Returns them with the old ones.
    fn keep_values(&self, ir: &Ir<'_>, round: BlockRef) -> Vec<(ValueRef, ValueRef)> {
        let phis = ir.instructions(self.header).into_iter();
        let phis = phis.filter(|it| ir.opcode(*it) == opcode::PHI && *it != self.counter);
        phis.map(|old| (ir.at_end(round).phi(ir.type_of(old)), old)).collect()
    }

    /// Emits the loop of the chunk, and each item's part in a round.
    fn rounds(&self, ir: &Ir<'_>, function: ValueRef, round: BlockRef, begin: ValueRef) {
        let ty = ir.type_of(self.counter);
        let build = ir.at_end(round);
        let first = build.phi(ty);
        let next = build.add(first, self.step);
        let below = if self.includes_end { predicate::ULE } else { predicate::ULT };
        let mut left = build.binary(opcode::SUB, self.end, first);
        if self.includes_end {
            left = build.add(left, ll!(ir, LLVMConstInt(ty, 1, 0)));
        }
        let goes_on = build.compare(below, first, self.end);
        metadata::take_together(ir, build.cond_br(goes_on, self.header, self.exit));
        ir.add_incoming(first, begin, self.before);
        for from in [self.header, self.latch] {
            ir.add_incoming(first, next, from);
        }
        let build = ir.before(ir.first_after_phis(self.header));
        let id = build.cast(opcode::ZEXT, ir.parameter(function, 2), ty);
        let own = build.add(first, id);
        ir.replace(self.counter, own);
        let leaves_first = ir.successors(self.header)[0] == self.exit;
        let condition = match leaves_first {
            true => build.compare(predicate::UGE, id, left),
            false => build.compare(predicate::ULT, id, left),
        };
        ir.replace(self.condition, condition);
        ir.erase(self.counter);
        ir.erase(self.condition);
    }
}
