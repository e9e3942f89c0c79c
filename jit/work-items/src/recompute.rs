//! Values that are computed again where they are used, because that is cheaper than a slot.

use longshore_llvm::types::{ValueRef, opcode};

use crate::ir::{Ir, ll};
use crate::shape::Place;
use crate::slots::use_points;
use crate::transform::Body;
use crate::uniformity::{Level, is_speculatable};

/// Most instructions that replace a slot.
const MOST: usize = 6;

impl Body<'_, '_> {
    /// Computes cheap values again in all regions that use them, so that no region computes a value
    /// only for others.
    pub(crate) fn recompute_cheap_values(&mut self) {
        let ir = self.ir;
        for block in self.order.clone() {
            for value in ir.instructions(block) {
                let own = self.place(value);
                for user in ir.users(value) {
                    for (index, point) in use_points(ir, value, user) {
                        let place = self.place(point);
                        if !own.reaches(place) {
                            self.recompute(value, user, index, point, place);
                        }
                    }
                }
            }
        }
    }

    /// Computes a value again for one use, if few instructions compute it from the item's place and
    /// from values of the whole group. Returns whether it did.
    pub(crate) fn recompute(
        &mut self,
        value: ValueRef,
        user: ValueRef,
        index: u32,
        point: ValueRef,
        place: Place,
    ) -> bool {
        let level = self.uniformity.level(value);
        // The check of all rows needs numbers of rows.
        let is_of_items = level == Level::Item || level == Level::Chunk && self.is_checked;
        if !is_of_items || !matches!(place, Place::Item(..)) {
            return false;
        }
        let mut cost = 0;
        if !self.is_cheap(value, place, &mut cost) {
            return false;
        }
        let again = self.emit_again(value, point, place);
        ll!(self.ir, LLVMSetOperand(user, index, again));
        true
    }

    fn is_cheap(&self, value: ValueRef, place: Place, cost: &mut usize) -> bool {
        if self.is_leaf(value, place) {
            return true;
        }
        *cost += 1;
        let ir = self.ir;
        *cost <= MOST
            && is_simple(ir, value)
            && ir.operands(value).into_iter().all(|operand| self.is_cheap(operand, place, cost))
    }

    /// Returns whether code at a place can use a value as it is.
    fn is_known(&self, value: ValueRef, place: Place) -> bool {
        !self.ir.is_instruction(value) || self.place(value).reaches(place)
    }

    /// Returns whether code at a place can use a value, which may come through a slot of the group.
    fn is_leaf(&self, value: ValueRef, place: Place) -> bool {
        self.is_known(value, place) || self.uniformity.level(value) == Level::Group
    }

    fn emit_again(&mut self, value: ValueRef, point: ValueRef, place: Place) -> ValueRef {
        if self.is_leaf(value, place) {
            return value;
        }
        let ir = self.ir;
        let copy = ll!(ir, LLVMInstructionClone(value));
        for (index, operand) in ir.operands(value).into_iter().enumerate() {
            let operand = self.emit_again(operand, point, place);
            ll!(ir, LLVMSetOperand(copy, index as u32, operand));
        }
        ir.insert_before(copy, point);
        self.uniformity.set(copy, self.uniformity.level(value));
        copy
    }
}

/// Returns whether an instruction costs about as much as a load.
fn is_simple(ir: &Ir<'_>, value: ValueRef) -> bool {
    let is_slow = matches!(
        ir.opcode(value),
        opcode::UDIV..=opcode::FREM | opcode::CALL | opcode::PHI | opcode::FMUL | opcode::FADD
    );
    !is_slow && is_speculatable(ir, value)
}
