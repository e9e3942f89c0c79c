//! The ways out of regions, and items that return before the others.

use std::collections::HashSet;

use longshore_llvm::types::*;

use crate::ir::ll;
use crate::regions::{Node, Obstacle, Region};
use crate::shape::Place;
use crate::slots::{Kind, Slot};
use crate::transform::Body;

/// The record of items that have returned.
#[derive(Clone, Copy)]
pub(crate) struct Returned {
    /// Whether an item has returned, for each item.
    pub(crate) flags: Slot,
    /// The number of these items.
    pub(crate) count: Slot,
}

impl Body<'_, '_> {
    /// Makes the edges out of loops lead to the loops' ends, and these to where the items go on.
    pub(crate) fn leave_regions(&mut self) -> Result<(), Obstacle> {
        let (partial, returned) = (self.partial(), self.returned);
        for group in 0..self.groups.list.len() {
            self.leave_group(group, returned.filter(|_| partial.contains(&group)));
        }
        if let Some(returned) = returned {
            self.guard(&partial, returned)?;
        }
        self.erase_barriers();
        Ok(())
    }

    fn leave_group(&mut self, group: usize, returned: Option<Returned>) {
        let ir = self.ir;
        for item in 0..self.chunks[group].list.len() {
            self.leave_items(group, item, returned);
            let end = self.loops.groups[group].chunk_end;
            let target = self.chunks[group].list[item].exit;
            let target = target.and_then(|target| self.inside(group, target)).unwrap_or(end);
            ir.at_end(self.loops.items[group][item].after).br(target);
        }
        let branches = self.nodes.iter().filter(|(_, node)| matches!(node, Node::Branch(_)));
        let nodes: Vec<BlockRef> = branches.map(|(block, _)| *block).collect();
        let inside: HashSet<BlockRef> = self.blocks_of_chunks(group);
        for node in nodes {
            let place = self.places.get(&node).copied();
            if place == Some(Place::ChunkNode(group, node)) {
                for target in ir.successors(node) {
                    if !inside.contains(&target) {
                        ir.redirect(node, target, self.loops.groups[group].chunk_end);
                    }
                }
            }
        }
        let exit = self.groups.list[group].exit;
        let target = exit.map_or(self.end, |exit| self.address(exit));
        let after = self.loops.groups[group].after;
        match returned {
            None => ir.at_end(after).br(target),
            Some(returned) => {
                let build = ir.at_end(after);
                let count = build.load(returned.count.ty, self.slots.memory(returned.count));
                let all = build.cast(opcode::TRUNC, self.shaper.sizes.all, returned.count.ty);
                let is_over = build.compare(predicate::EQ, count, all);
                build.cond_br(is_over, self.end, target);
            }
        }
    }

    /// Returns the blocks to which edges inside of a group's region may lead.
    fn blocks_of_chunks(&self, group: usize) -> HashSet<BlockRef> {
        let before = self.loops.items[group].iter().map(|item| item.before);
        let nodes =
            self.nodes.keys().copied().filter(|node| {
                self.places.get(node).copied() == Some(Place::ChunkNode(group, *node))
            });
        before.chain(nodes).collect()
    }

    fn leave_items(&mut self, group: usize, item: usize, returned: Option<Returned>) {
        let ir = self.ir;
        let end = self.loops.items[group][item].end;
        let mut away = end;
        if let Some(returned) = returned.filter(|_| self.chunks[group].list[item].returns) {
            away = ir.append_block(self.function, c"return");
            let index = self.loops.items[group][item].index;
            let flag = self.slots.item_address(returned.flags, index, away);
            let build = ir.at_end(away);
            build.store(ir.constant(8, 1), flag);
            let count = self.slots.memory(returned.count);
            let before = build.load(returned.count.ty, count);
            build.store(build.add(before, ir.constant(32, 1)), count);
            build.br(end);
        }
        let blocks = &self.chunks[group].list[item].blocks;
        for block in blocks {
            for target in ir.successors(*block) {
                if !blocks.contains(&target) {
                    ir.redirect(*block, target, if target == self.end { away } else { end });
                }
            }
        }
    }

    /// Returns the block for edges to `target`, an exit of a region of a chunk, if it is inside the
    /// region of the group.
    fn inside(&self, group: usize, target: BlockRef) -> Option<BlockRef> {
        if target == self.groups.list[group].entry || self.groups.of.get(&target) != Some(&group) {
            return None;
        }
        let item = self.chunks[group].of.get(&target);
        Some(item.map_or(target, |item| self.loops.items[group][*item].before))
    }

    /// Returns the block for edges to `target`, an exit of a region of the group.
    fn address(&self, target: BlockRef) -> BlockRef {
        match self.groups.of.get(&target) {
            Some(group) => self.loops.groups[*group].before,
            None => target,
        }
    }

    /// Returns the regions of the group in which some items may return and others go on.
    pub(crate) fn partial(&self) -> Vec<usize> {
        let is_partial = |group: &usize| {
            let goes_on = |region: &Region| region.exit.is_some() && region.returns;
            goes_on(&self.groups.list[*group]) || self.chunks[*group].list.iter().any(goes_on)
        };
        (0..self.groups.list.len()).filter(is_partial).collect()
    }

    /// Makes the record of items that have returned, if some may return before others.
    pub(crate) fn record_returns(&mut self) {
        if self.partial().is_empty() {
            return;
        }
        let ir = self.ir;
        let flags = self.slots.allocate(ir.int(8), Kind::Items);
        let count = self.slots.allocate(ir.int(32), Kind::One);
        let end = ir.terminator(self.start);
        let next = ir.successors(self.start)[0];
        ir.before(end).store(ir.constant(32, 0), self.slots.memory(count));
        ir.erase(end);
        let after = self.shaper.for_lanes(self.start, self.shaper.sizes.all, |block, index| {
            let flag = self.slots.item_address(flags, index, block);
            ir.at_end(block).store(ir.constant(8, 0), flag);
            block
        });
        ir.at_end(after).br(next);
        self.returned = Some(Returned { flags, count });
    }

    /// Leaves out items that have returned, in regions between their return and the next barrier.
    fn guard(&mut self, partial: &[usize], returned: Returned) -> Result<(), Obstacle> {
        let ir = self.ir;
        let (late, barriers) = self.behind(partial);
        for barrier in barriers {
            self.refuse_at_barrier(barrier, returned)?;
        }
        for group in 0..self.groups.list.len() {
            let is_late = late.contains(&group);
            if !is_late && (!partial.contains(&group) || self.chunks[group].list.len() < 2) {
                continue;
            }
            for item in 0..self.chunks[group].list.len() {
                let entry = self.chunks[group].list[item].entry;
                let (begin, end, index) = {
                    let made = &self.loops.items[group][item];
                    (made.begin, made.end, made.index)
                };
                // Addresses of slots are still to come, before the branch.
                let guarded = ir.append_block(self.function, c"present");
                let flag = self.slots.item_address(returned.flags, index, begin);
                let build = ir.at_end(begin);
                let flag = build.load(returned.flags.ty, flag);
                let is_gone = build.compare(predicate::NE, flag, ir.constant(8, 0));
                build.cond_br(is_gone, end, guarded);
                self.loops.items[group][item].begin = guarded;
                let _ = entry;
                if self.chunks[group].list[item].returns {
                    self.leave_empty_chunk(group, self.loops.items[group][item].after, returned);
                }
            }
            if is_late {
                let chunk = self.loops.groups[group].chunk;
                let rest = ir.append_block(self.function, c"chunk");
                self.check_chunk(group, chunk, rest, returned);
                self.loops.groups[group].chunk = rest;
            }
        }
        Ok(())
    }

    /// Makes the block behind a loop leave the chunk if all its items have returned.
    fn leave_empty_chunk(&self, group: usize, after: BlockRef, returned: Returned) {
        let ir = self.ir;
        let next = ir.successors(after)[0];
        ir.erase(ir.terminator(after));
        self.check_chunk(group, after, next, returned);
    }

    /// Emits the choice between the end of a chunk, if all its items have returned, and `next`.
    fn check_chunk(&self, group: usize, from: BlockRef, next: BlockRef, returned: Returned) {
        let ir = self.ir;
        let made = &self.loops.groups[group];
        let (start, count) = (ir.terminator(self.start), ir.int(64));
        let present = ir.before(start).alloca(count);
        ir.at_end(from).store(ir.constant(64, 0), present);
        let after = self.shaper.for_lanes(from, made.lanes, |block, lane| {
            let index = ir.at_end(block).add(made.first, lane);
            let flag = self.slots.item_address(returned.flags, index, block);
            let build = ir.at_end(block);
            let flag = build.load(returned.flags.ty, flag);
            let is_here = build.compare(predicate::EQ, flag, ir.constant(8, 0));
            let one = build.cast(opcode::ZEXT, is_here, count);
            let sum = build.add(build.load(count, present), one);
            build.store(sum, present);
            block
        });
        let build = ir.at_end(after);
        let sum = build.load(count, present);
        let is_empty = build.compare(predicate::EQ, sum, ir.constant(64, 0));
        build.cond_br(is_empty, made.chunk_end, next);
    }

    /// Returns the regions of the group that items may not reach any more which others reach, and
    /// the barriers behind them.
    fn behind(&self, partial: &[usize]) -> (HashSet<usize>, HashSet<BlockRef>) {
        let (mut late, mut barriers, mut seen) = (HashSet::new(), HashSet::new(), HashSet::new());
        let mut rest: Vec<BlockRef> =
            partial.iter().filter_map(|group| self.groups.list[*group].exit).collect();
        while let Some(block) = rest.pop() {
            if !seen.insert(block) {
                continue;
            }
            match (self.groups.of.get(&block), self.nodes.get(&block)) {
                (Some(group), _) => {
                    late.insert(*group);
                    rest.extend(self.groups.list[*group].exit);
                }
                (None, Some(Node::Barrier | Node::GridBarrier)) => {
                    barriers.insert(block);
                }
                _ => {
                    for target in self.ir.successors(block) {
                        rest.push(self.entry_behind(target));
                    }
                }
            }
        }
        (late, barriers)
    }

    /// Returns the entry of the region whose loops begin with a block, or the block.
    fn entry_behind(&self, block: BlockRef) -> BlockRef {
        let mut groups = self.loops.groups.iter().zip(&self.groups.list);
        let found = groups.find(|(made, _)| made.before == block);
        found.map_or(block, |(_, region)| region.entry)
    }

    /// Makes a barrier fail if an item has returned.
    fn refuse_at_barrier(&self, barrier: BlockRef, returned: Returned) -> Result<(), Obstacle> {
        let ir = self.ir;
        let head = ir.split_before(ir.instructions(barrier)[0], c"wait");
        ir.erase(ir.terminator(head));
        let stuck = ir.append_block(self.function, c"stuck");
        let build = ir.at_end(head);
        let count = build.load(returned.count.ty, self.slots.memory(returned.count));
        let is_stuck = build.compare(predicate::NE, count, ir.constant(32, 0));
        build.cond_br(is_stuck, stuck, barrier);
        self.fail(stuck);
        Ok(())
    }

    /// Emits the end of the launch: items wait at different places.
    fn fail(&self, block: BlockRef) {
        let ir = self.ir;
        let (i8, i32, i64) = (ir.int(8), ir.int(32), ir.int(64));
        let byte = ir.pointer_to(i8);
        let group = ir.parameter(self.function, 1);
        let types = [byte, byte, byte, i32, i64];
        let void = ll!(ir, LLVMVoidTypeInContext(ir.context));
        let ty = ll!(ir, LLVMFunctionType(void, types.as_ptr(), 5, 0));
        let build = ir.at_end(block);
        let work = build.load_field(group, crate::entry::SELF_WORK, byte);
        let calls = build.load_field(work, crate::entry::WORK_CALLS, byte);
        let fail = build.load_field(calls, crate::entry::CALLS_FAIL, ir.pointer_to(ty));
        let null = ll!(ir, LLVMConstNull(byte));
        let (line, from) = (ir.constant(32, 0), ir.constant(64, 0));
        build.call(ty, fail, &[work, crate::entry::stuck_text(ir), null, line, from]);
        build.unreachable();
    }

    /// Removes the calls of barriers of the group: one thread runs all items.
    fn erase_barriers(&self) {
        let ir = self.ir;
        for (block, node) in &self.nodes {
            if matches!(node, Node::Barrier | Node::BarrierOfRest) {
                let call = ir.instructions(*block)[0];
                if self.is_checked {
                    self.tell_of_barrier(call);
                }
                ir.erase(call);
            }
        }
    }
}
