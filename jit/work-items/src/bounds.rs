//! Bounds of loops: a region that does nothing for items outside of a range of ids in x runs for
//! this range only, as in `if (id < half) ...`.

use longshore_llvm::types::*;

use crate::chunk::Chunk;
use crate::ir::{Ir, ll};
use crate::predicates::{inverted, swapped};
use crate::shape::Place;
use crate::transform::Body;
use crate::uniformity::{Level, is_speculatable};

/// A comparison of an item's id in x, or of a sum with the id, with a value of the chunk.
struct Comparison {
    predicate: u32,
    /// The other addend, if the id is part of a sum.
    offset: Option<ValueRef>,
    limit: ValueRef,
}

impl Body<'_, '_> {
    /// Bounds the loops over items by conditions at their beginning.
    pub(crate) fn bound_loops(&mut self) {
        for group in 0..self.chunks.len() {
            for item in 0..self.chunks[group].list.len() {
                self.bound_loop(group, item);
            }
        }
    }

    fn bound_loop(&self, group: usize, item: usize) {
        let ir = self.ir;
        if self.shaper.chunk == Chunk::Flat {
            return;
        }
        let region = &self.chunks[group].list[item];
        let terminator = ir.terminator(region.entry);
        let [yes, no] = *ir.successors(region.entry) else { return };
        let is_inside = [yes, no].map(|it| !self.leaves_at_once(group, item, it));
        // Items outside of the range would have to be recorded as returned.
        let records = region.returns && self.partial().contains(&group);
        if records || !self.is_idle(group, item, region.entry) {
            return;
        }
        let condition = ir.operand(terminator, 0);
        let Some(comparison) = self.comparison(condition, group, item) else { return };
        let (inside, predicate) = match is_inside {
            [true, false] => (yes, comparison.predicate),
            [false, true] => (no, inverted(comparison.predicate)),
            _ => return,
        };
        let Some((start, end)) = self.range(predicate, &comparison, group, item) else { return };
        let made = &self.loops.items[group][item];
        let before = ir.terminator(made.before);
        let i32 = ir.int(32);
        let [start, end] =
            [start, end].map(|lane| ir.before(before).cast(opcode::TRUNC, lane, i32));
        let is_needed = ir.before(before).compare(predicate::ULT, start, end);
        ir.at_end(made.before).cond_br(is_needed, made.begin, made.after);
        ir.erase(before);
        ll!(ir, LLVMSetOperand(made.counter, 0, start));
        let more = ir.operand(ir.terminator(made.end), 0);
        ll!(ir, LLVMSetOperand(more, 1, end));
        ir.erase(terminator);
        ir.at_end(region.entry).br(inside);
    }

    /// Returns whether nothing happens on the way from a block out of its region.
    fn leaves_at_once(&self, group: usize, item: usize, mut block: BlockRef) -> bool {
        let region = &self.chunks[group].list[item];
        while region.blocks.contains(&block) && block != region.entry {
            let is_empty = self.ir.instructions(block).len() == 1;
            match *self.ir.successors(block) {
                [next] if is_empty => block = next,
                _ => return false,
            }
        }
        true
    }

    /// Returns whether a region's entry has no effect beyond the region.
    fn is_idle(&self, group: usize, item: usize, entry: BlockRef) -> bool {
        let ir = self.ir;
        let own = Place::Item(group, item);
        let mut instructions = ir.instructions(entry);
        instructions.pop();
        instructions.into_iter().all(|it| {
            let is_local = ir.users(it).into_iter().all(|user| self.place(user) == own);
            let is_for_debuggers = crate::metadata::is_for_debuggers(ir, it);
            is_for_debuggers || is_local && is_speculatable(ir, it)
        })
    }

    fn comparison(&self, condition: ValueRef, group: usize, item: usize) -> Option<Comparison> {
        let ir = self.ir;
        if !ir.is_instruction(condition) || ir.opcode(condition) != opcode::ICMP {
            return None;
        }
        let predicate = ll!(ir, LLVMGetICmpPredicate(condition));
        let [left, right] = [ir.operand(condition, 0), ir.operand(condition, 1)];
        let of = |id, limit, predicate| {
            let offset = self.offset_of_id(id)?;
            let mut used = [Some(limit), offset].into_iter().flatten();
            let known = used.all(|value| self.is_known_before(value, group, item));
            known.then_some(Comparison { predicate, offset, limit })
        };
        of(left, right, predicate).or_else(|| of(right, left, swapped(predicate)))
    }

    /// Returns whether a value is the same for all items of a chunk, and known before their loop.
    fn is_known_before(&self, value: ValueRef, group: usize, item: usize) -> bool {
        let ir = self.ir;
        let is_own = || self.place(value) == Place::Item(group, item);
        let place = Place::Chunk(group, item);
        let level = self.uniformity.level(value);
        if !ir.is_instruction(value) {
            return level == Level::Group;
        }
        !is_own()
            && (level == Level::Group || self.place(value).reaches(place))
            && level <= Level::Chunk
    }

    /// Returns the offset of a value from the id in x: `Some(None)` for the id itself.
    fn offset_of_id(&self, value: ValueRef) -> Option<Option<ValueRef>> {
        let ir = self.ir;
        if self.is_id(value) {
            return Some(None);
        }
        let is_sum = ir.is_instruction(value) && ir.opcode(value) == opcode::ADD;
        if !is_sum || self.bits(value) != 64 {
            return None;
        }
        let [left, right] = [ir.operand(value, 0), ir.operand(value, 1)];
        let of =
            |id, offset| (self.is_id(id) && is_far_from_wrapping(ir, offset)).then_some(offset);
        of(left, right).or_else(|| of(right, left)).map(Some)
    }

    /// Returns whether a value is the id in x, as 32 or 64 bits.
    fn is_id(&self, value: ValueRef) -> bool {
        let ir = self.ir;
        let id = ir.parameter(self.function, 2);
        let is_wide = || {
            let is_cast = ir.is_instruction(value) && ir.opcode(value) == opcode::ZEXT;
            is_cast && self.bits(value) == 64 && ir.operand(value, 0) == id
        };
        value == id || is_wide()
    }

    fn bits(&self, value: ValueRef) -> u32 {
        let ty = self.ir.type_of(value);
        match self.ir.kind(ty) {
            type_kind::INTEGER => ll!(self.ir, LLVMGetIntTypeWidth(ty)),
            _ => 0,
        }
    }

    /// Emits the range of lanes for which a comparison holds, before the loop.
    fn range(
        &self,
        predicate: u32,
        comparison: &Comparison,
        group: usize,
        item: usize,
    ) -> Option<(ValueRef, ValueRef)> {
        let ir = self.ir;
        let loops = &self.loops.groups[group];
        let before = ir.terminator(self.loops.items[group][item].before);
        let build = ir.before(before);
        let (i64, zero) = (ir.int(64), ir.constant(64, 0));
        let is_narrow = self.bits(comparison.limit) == 32;
        let is_signed = matches!(predicate, predicate::SGT..=predicate::SLE);
        if is_signed && !is_narrow || self.bits(comparison.limit) < 32 {
            return None;
        }
        let mut limit = comparison.limit;
        if is_signed {
            let none = ir.constant(32, 0);
            let is_negative = build.compare(predicate::SLT, limit, none);
            // No id is less than a negative limit, and all are greater.
            limit = match predicate {
                predicate::SLT | predicate::SGE => build.select(is_negative, none, limit),
                _ => return None,
            };
        }
        let limit = build.cast(opcode::ZEXT, limit, i64);
        let less = |a, b| {
            let is_less = build.compare(predicate::ULT, a, b);
            build.select(is_less, a, b)
        };
        // Differences that do not go below zero.
        let minus = |a, b| build.binary(opcode::SUB, a, less(b, a));
        let limit = match comparison.offset {
            Some(offset) => minus(limit, build.cast(opcode::ZEXT, offset, i64)),
            None => limit,
        };
        let lane = less(minus(limit, loops.place[0]), loops.lanes);
        let next = less(
            minus(
                build.add(less(limit, ir.constant(64, u64::MAX >> 1)), ir.constant(64, 1)),
                loops.place[0],
            ),
            loops.lanes,
        );
        let has_offset = comparison.offset.is_some();
        match predicate {
            predicate::ULT | predicate::SLT => Some((zero, lane)),
            predicate::ULE if !has_offset => Some((zero, next)),
            predicate::EQ if !has_offset => Some((lane, next)),
            predicate::UGE | predicate::SGE if !has_offset => Some((lane, loops.lanes)),
            predicate::UGT if !has_offset => Some((next, loops.lanes)),
            _ => None,
        }
    }
}

/// Returns whether a sum of a value and an id cannot wrap around in 64 bits.
fn is_far_from_wrapping(ir: &Ir<'_>, value: ValueRef) -> bool {
    let is_narrow = |value: ValueRef| {
        let is_cast = ir.is_instruction(value) && ir.opcode(value) == opcode::ZEXT;
        is_cast || ir.constant_value(value).is_some_and(|value| value <= u32::MAX.into())
    };
    if is_narrow(value) {
        return true;
    }
    if !ir.is_instruction(value) {
        return false;
    }
    let operands = || ir.operands(value);
    match ir.opcode(value) {
        opcode::MUL => operands().into_iter().all(is_narrow),
        opcode::SHL => {
            let by = ir.constant_value(ir.operand(value, 1));
            is_narrow(ir.operand(value, 0)) && by.is_some_and(|by| by < 31)
        }
        _ => false,
    }
}
