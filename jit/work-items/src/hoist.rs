//! The code of a region that is the same for all items: it moves before the loops.

use longshore_llvm::types::{ValueRef, opcode};

use crate::ir::{Ir, ll};
use crate::shape::Place;
use crate::transform::Body;
use crate::uniformity::{Level, is_plain, is_speculatable};

impl Body<'_, '_> {
    /// Moves what all items of a group, or of a chunk, compute alike.
    pub(crate) fn hoist(&mut self) {
        let ir = self.ir;
        for level in [Level::Group, Level::Chunk] {
            // Whether code before, in the entry of the region, may have written memory.
            let mut has_written = false;
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
                has_written = block != entry;
                for instruction in ir.instructions(block) {
                    let can = self.uniformity.level(instruction) <= level
                        && self.can_move(instruction, to, level, has_written);
                    if can {
                        ir.move_before(instruction, ir.terminator(end));
                    } else {
                        has_written |= may_write(ir, instruction);
                    }
                }
            }
            let _ = has_written;
        }
    }

    fn can_move(&self, instruction: ValueRef, to: Place, level: Level, has_written: bool) -> bool {
        let ir = self.ir;
        let is_load =
            ir.opcode(instruction) == opcode::LOAD && is_plain(ir, instruction) && !has_written;
        (is_load || is_speculatable(ir, instruction))
            && ir.operands(instruction).into_iter().all(|it| self.is_there(it, to, level))
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

fn may_write(ir: &Ir<'_>, instruction: ValueRef) -> bool {
    match ir.opcode(instruction) {
        opcode::STORE | opcode::ATOMIC_RMW | opcode::ATOMIC_CMP_XCHG | opcode::FENCE => true,
        opcode::CALL => !is_speculatable(ir, instruction),
        _ => false,
    }
}
