//! The code of a region that is the same for all items: it moves before the loops.

use std::collections::HashSet;

use longshore_llvm::types::*;

use crate::checked;
use crate::ir::{Ir, ll};
use crate::shape::Place;
use crate::transform::Body;
use crate::uniformity::{Level, is_plain, is_speculatable};

impl Body<'_, '_> {
    /// Moves what all items of a group, or of a chunk, compute alike.
    pub(crate) fn hoist(&mut self) {
        let ir = self.ir;
        for level in [Level::Group, Level::Chunk] {
            // Entries of the regions in which items may have gone different ways.
            let mut parted = HashSet::new();
            for block in self.order.clone() {
                let Some(Place::Item(group, item)) = self.places.get(&block).copied() else {
                    continue;
                };
                let (entry, to, end) = match level {
                    Level::Group => {
                        let entry = self.groups.list[group].entry;
                        (entry, Place::Group(group), self.loops.groups[group].before)
                    }
                    _ => {
                        let entry = self.chunks[group].list[item].entry;
                        (entry, Place::Chunk(group, item), self.loops.items[group][item].before)
                    }
                };
                // Whether code before, in the entry of the region, may have written memory.
                let mut has_written = block != entry;
                // LLVM moves a division that all items do itself, and then knows more about it.
                let is_for_some = parted.contains(&entry) || self.returned.is_some();
                if self.uniformity.branch_level(ir, block) == Level::Item {
                    parted.insert(entry);
                }
                for instruction in ir.instructions(block) {
                    let can = self.uniformity.level(instruction) <= level
                        && (is_for_some || !may_trap(ir, instruction))
                        && self.can_move(instruction, to, level, has_written);
                    if can && !may_trap(ir, instruction) {
                        ir.move_before(instruction, ir.terminator(end));
                    } else if can {
                        self.move_division(instruction, ir.terminator(end));
                    } else {
                        has_written |= may_write(ir, instruction);
                    }
                }
            }
        }
    }

    fn can_move(&self, instruction: ValueRef, to: Place, level: Level, has_written: bool) -> bool {
        let ir = self.ir;
        let is_load = is_load(ir, instruction) && !has_written;
        let is_free = is_speculatable(ir, instruction) || checked::is_shared(ir, instruction);
        (is_load || may_trap(ir, instruction) || is_free)
            && ir.operands(instruction).into_iter().all(|it| self.is_there(it, to, level))
    }

    /// Moves a division that only some items do. Where it would trap, no item needs its result, so
    /// it divides by 1. It must not stay: in masked loops, LLVM 19 and 22 do a division by the same
    /// number for all lanes only if the first lane does it.
    fn move_division(&mut self, division: ValueRef, to: ValueRef) {
        let ir = self.ir;
        let (number, divisor) = (ir.operand(division, 0), ir.operand(division, 1));
        let ty = ir.type_of(divisor);
        let build = ir.before(to);
        // Where no item divides, it may have no value.
        let divisor = build.freeze(divisor);
        let (zero, one) = (ll!(ir, LLVMConstNull(ty)), ll!(ir, LLVMConstInt(ty, 1, 0)));
        let mut is_bad = build.compare(predicate::EQ, divisor, zero);
        let mut new = vec![divisor, is_bad];
        let is_signed = matches!(ir.opcode(division), opcode::SDIV | opcode::SREM);
        let minus_one = ll!(ir, LLVMConstInt(ty, u64::MAX, 1));
        let is_minus_one = is_signed.then(|| build.compare(predicate::EQ, divisor, minus_one));
        if let Some(is_minus_one) = is_minus_one {
            is_bad = build.binary(opcode::OR, is_bad, is_minus_one);
            new.extend([is_minus_one, is_bad]);
        }
        let divisor = build.select(is_bad, one, divisor);
        new.push(divisor);
        ll!(ir, LLVMSetOperand(division, 1, divisor));
        ir.move_before(division, to);
        // The remainder by -1 is that by 1.
        if let (opcode::SDIV, Some(is_minus_one)) = (ir.opcode(division), is_minus_one) {
            let users = ir.users(division);
            let negative = build.binary(opcode::SUB, zero, number);
            let result = build.select(is_minus_one, negative, division);
            for user in users {
                let uses = ir.operands(user).into_iter().enumerate();
                for (at, _) in uses.filter(|(_, used)| *used == division) {
                    ll!(ir, LLVMSetOperand(user, at as u32, result));
                }
            }
            new.extend([negative, result]);
        }
        let level = self.uniformity.level(division);
        new.into_iter().for_each(|value| self.uniformity.set(value, level));
    }

    /// Returns whether an operand is known before the loops.
    fn is_there(&self, operand: ValueRef, to: Place, level: Level) -> bool {
        let ir = self.ir;
        if !ll!(ir, LLVMIsAArgument(operand)).is_null() {
            return self.uniformity.level(operand) <= level;
        }
        if !ir.is_instruction(operand) {
            return true;
        }
        let from = self.place(operand);
        if from.reaches(to) {
            return true;
        }
        // A value of another region comes through a slot.
        let is_other = match to {
            Place::Group(group) => from.group() != Some(group),
            _ => !matches!((from, to), (Place::Item(a, b), Place::Chunk(c, d)) if (a, b) == (c, d)),
        };
        let kept = self.uniformity.level(operand);
        is_other && kept <= level
    }
}

fn is_load(ir: &Ir<'_>, instruction: ValueRef) -> bool {
    ir.opcode(instruction) == opcode::LOAD && is_plain(ir, instruction)
}

/// Returns whether an instruction divides integers, and may trap.
fn may_trap(ir: &Ir<'_>, instruction: ValueRef) -> bool {
    let is_division =
        matches!(ir.opcode(instruction), opcode::UDIV | opcode::SDIV | opcode::UREM | opcode::SREM);
    is_division
        && ir.kind(ir.type_of(instruction)) == type_kind::INTEGER
        && !is_speculatable(ir, instruction)
}

fn may_write(ir: &Ir<'_>, instruction: ValueRef) -> bool {
    match ir.opcode(instruction) {
        opcode::STORE | opcode::ATOMIC_RMW | opcode::ATOMIC_CMP_XCHG | opcode::FENCE => true,
        opcode::CALL => !is_speculatable(ir, instruction),
        _ => false,
    }
}
