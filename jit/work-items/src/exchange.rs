//! Sub-group operations, as loops over the lanes of a sub-group.

use longshore_llvm::types::*;

use crate::chunk::{Chunk, WIDTH};
use crate::ir::{Build, ll};
use crate::markers::{Marker, Number, Operation, Scan};
use crate::regions::{Node, Obstacle};
use crate::shape::Place;
use crate::slots::{Kind, Slot};
use crate::transform::Body;
use crate::uniformity::Level;

/// The predicates of LLVM's comparisons of floating-point numbers: ordered, greater and less.
const OGT: u32 = 2;
const OLT: u32 = 4;

/// One sub-group operation.
struct Exchange {
    call: ValueRef,
    /// The operation's own block.
    block: BlockRef,
    group: usize,
    /// Block before, where each item's operands are known.
    before: BlockRef,
    /// Region of the chunk behind.
    behind: usize,
}

impl Body<'_, '_> {
    /// Replaces sub-group operations by code for whole sub-groups.
    pub(crate) fn exchange(&mut self) -> Result<(), Obstacle> {
        let mut blocks: Vec<BlockRef> = self.order.clone();
        blocks.retain(|block| self.nodes.get(block) == Some(&Node::Exchange));
        for block in blocks {
            let found = self.exchange_of(block)?;
            match Marker::called(self.ir, found.call) {
                Some(Marker::Shuffle | Marker::ShuffleOf) => self.shuffle(&found)?,
                Some(Marker::Ballot | Marker::BallotOf) => self.ballot(&found)?,
                Some(Marker::Scan(scan)) => self.scan(&found, scan)?,
                _ => unreachable!("the node was made from such a call"),
            }
        }
        self.number_subgroups();
        Ok(())
    }

    fn exchange_of(&self, block: BlockRef) -> Result<Exchange, Obstacle> {
        let ir = self.ir;
        let call = ir.instructions(block)[0];
        let lost = || Obstacle { at: Some(call), what: "a sub-group operation without a region" };
        let Some(Place::ChunkNode(group, _)) = self.places.get(&block) else {
            return Err(lost());
        };
        let leads = |it: &&BlockRef| ir.successors(**it).contains(&block);
        let before = *self.order.iter().find(leads).ok_or_else(lost)?;
        let next = ir.successors(block)[0];
        let behind = self.loops.items[*group].iter().position(|made| made.before == next);
        Ok(Exchange { call, block, group: *group, before, behind: behind.ok_or_else(lost)? })
    }

    /// Gives an operand of the operation a place for each lane.
    fn collect(&mut self, of: &Exchange, operand: u32) -> Result<Slot, Obstacle> {
        let ir = self.ir;
        let value = ir.operand(of.call, operand);
        let slot = self.slots.allocate(ir.type_of(value), Kind::Lanes);
        let end = ir.terminator(of.before);
        self.slots.store(slot, value, end, self.place(end), &self.loops)?;
        Ok(slot)
    }

    /// Emits a loop over the lanes in the operation's block. `body` emits the code for a lane;
    /// it is given the lane, and whether the lane is active.
    fn for_each_lane(&self, of: &Exchange, body: impl FnOnce(BlockRef, ValueRef, ValueRef)) {
        let ir = self.ir;
        let next = ir.successors(of.block)[0];
        ir.erase(ir.terminator(of.block));
        let lanes = self.loops.groups[of.group].lanes;
        let after = self.shaper.for_lanes(of.block, lanes, |block, lane| {
            let is_active = self.is_active(of.group, block, lane);
            body(block, lane, is_active);
            block
        });
        ir.at_end(after).br(next);
    }

    fn is_active(&self, group: usize, block: BlockRef, lane: ValueRef) -> ValueRef {
        let ir = self.ir;
        let Some(returned) = self.returned else { return ir.constant(1, 1) };
        let index = ir.at_end(block).add(self.loops.groups[group].first, lane);
        let flag = self.slots.item_address(returned.flags, index, block);
        let build = ir.at_end(block);
        let flag = build.load(returned.flags.ty, flag);
        build.compare(predicate::EQ, flag, ir.constant(8, 0))
    }

    /// Replaces the operation by what `slot` has for each item of the region behind.
    fn finish(&mut self, of: &Exchange, slot: Slot, level: Level) -> Result<(), Obstacle> {
        let ir = self.ir;
        let entry = self.chunks[of.group].list[of.behind].entry;
        let first = ir.first_after_phis(entry);
        let place = Place::Item(of.group, of.behind);
        let result = self.slots.load(slot, first, place, &self.loops)?;
        self.uniformity.set(result, level);
        ir.replace(of.call, result);
        ir.erase(of.call);
        Ok(())
    }

    fn shuffle(&mut self, of: &Exchange) -> Result<(), Obstacle> {
        let ir = self.ir;
        let (words, lanes) = (self.collect(of, 1)?, self.collect(of, 2)?);
        let results = self.slots.allocate(words.ty, Kind::Lanes);
        let count = self.loops.groups[of.group].lanes;
        self.for_each_lane(of, |block, lane, _| {
            let wanted = self.load_lane(lanes, lane, block);
            let build = ir.at_end(block);
            // Lanes of items that have returned have no value.
            let wanted = build.freeze(wanted);
            let wanted = build.cast(opcode::ZEXT, wanted, ir.int(64));
            let is_there = build.compare(predicate::ULT, wanted, count);
            let from = build.select(is_there, wanted, lane);
            let is_active = self.is_active(of.group, block, from);
            let from = ir.at_end(block).select(is_active, from, lane);
            let taken = self.load_lane(words, from, block);
            let result = self.slots.lane_address(results, lane, block);
            ir.at_end(block).store(taken, result);
        });
        self.finish(of, results, Level::Item)
    }

    fn load_lane(&self, slot: Slot, lane: ValueRef, block: BlockRef) -> ValueRef {
        let address = self.slots.lane_address(slot, lane, block);
        self.ir.at_end(block).load(slot.ty, address)
    }

    fn ballot(&mut self, of: &Exchange) -> Result<(), Obstacle> {
        let ir = self.ir;
        let conditions = self.collect(of, 1)?;
        let mask = self.slots.allocate(ir.int(64), Kind::One);
        let memory = self.slots.memory(mask);
        ir.before(of.call).store(ir.constant(64, 0), memory);
        self.for_each_lane(of, |block, lane, is_active| {
            let condition = self.load_lane(conditions, lane, block);
            let build = ir.at_end(block);
            let bit = build.cast(opcode::TRUNC, condition, ir.int(1));
            let bit = build.binary(opcode::AND, bit, is_active);
            let bit = build.cast(opcode::ZEXT, bit, ir.int(64));
            let bit = build.binary(opcode::SHL, bit, lane);
            let sum = build.binary(opcode::OR, build.load(mask.ty, memory), bit);
            build.store(sum, memory);
        });
        self.finish(of, mask, Level::Chunk)
    }

    fn scan(&mut self, of: &Exchange, scan: Scan) -> Result<(), Obstacle> {
        let ir = self.ir;
        let mode = ir.constant_value(ir.operand(of.call, 3));
        let unknown = Obstacle { at: Some(of.call), what: "a scan of unknown kind" };
        let mode = mode.filter(|mode| *mode < 3).ok_or(unknown)?;
        let values = self.collect(of, 1)?;
        let total = self.slots.allocate(values.ty, Kind::One);
        let memory = self.slots.memory(total);
        let identity = self.identity(scan, values.ty);
        ir.before(of.call).store(identity, memory);
        let results = (mode != 0).then(|| self.slots.allocate(values.ty, Kind::Lanes));
        self.for_each_lane(of, |block, lane, is_active| {
            let value = self.load_lane(values, lane, block);
            let build = ir.at_end(block);
            let old = build.load(values.ty, memory);
            let sum = combine(&build, scan, old, value);
            let sum = build.select(is_active, sum, old);
            build.store(sum, memory);
            if let Some(results) = results {
                let result = self.slots.lane_address(results, lane, block);
                ir.at_end(block).store(if mode == 1 { sum } else { old }, result);
            }
        });
        match results {
            Some(results) => self.finish(of, results, Level::Item),
            None => self.finish(of, total, Level::Chunk),
        }
    }

    fn identity(&self, scan: Scan, ty: TypeRef) -> ValueRef {
        let ir = self.ir;
        if scan.number == Number::Float {
            let value = match scan.operation {
                Operation::Min => f64::INFINITY,
                Operation::Max => f64::NEG_INFINITY,
                _ => 0.0,
            };
            return ll!(ir, LLVMConstReal(ty, value));
        }
        let bits = ll!(ir, LLVMGetIntTypeWidth(ty));
        let ones = u64::MAX >> (64 - bits);
        ir.constant(
            bits,
            match (scan.operation, scan.number) {
                (Operation::And, _) | (Operation::Min, Number::Unsigned) => ones,
                (Operation::Min, _) => ones >> 1,
                (Operation::Max, Number::Signed) => 1 << (bits - 1),
                _ => 0,
            },
        )
    }

    /// Replaces the numbers of items' sub-groups.
    fn number_subgroups(&mut self) {
        let ir = self.ir;
        for block in self.order.clone() {
            for call in ir.instructions(block) {
                if Marker::called(ir, call) != Some(Marker::SubgroupOf) {
                    continue;
                }
                let width = ir.constant(32, WIDTH);
                let index = ir.operand(call, 0);
                let number = ir.before(call).binary(opcode::UDIV, index, width);
                // The index is the item's, but the number is the chunk's.
                let level = match self.shaper.chunk {
                    Chunk::Row => Level::Item,
                    Chunk::Subgroup | Chunk::Flat => Level::Chunk,
                };
                self.uniformity.set(number, level);
                ir.replace(call, number);
                ir.erase(call);
            }
        }
    }
}

/// Emits `old` combined with `value`.
fn combine(build: &Build<'_, '_>, scan: Scan, old: ValueRef, value: ValueRef) -> ValueRef {
    let is_float = scan.number == Number::Float;
    let choose = |of_ints: (u32, u32), of_floats: u32| {
        let takes = match scan.number {
            Number::Float => build.compare_floats(of_floats, value, old),
            Number::Signed => build.compare(of_ints.0, value, old),
            Number::Unsigned => build.compare(of_ints.1, value, old),
        };
        build.select(takes, value, old)
    };
    match scan.operation {
        Operation::Add if is_float => build.binary(opcode::FADD, old, value),
        Operation::Add => build.binary(opcode::ADD, old, value),
        Operation::And => build.binary(opcode::AND, old, value),
        Operation::Or => build.binary(opcode::OR, old, value),
        Operation::Xor => build.binary(opcode::XOR, old, value),
        Operation::Min => choose((predicate::SLT, predicate::ULT), OLT),
        Operation::Max => choose((predicate::SGT, predicate::UGT), OGT),
    }
}
