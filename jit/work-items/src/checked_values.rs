//! The values of the items of a loop, computed before the loop.

use std::collections::HashMap;

use longshore_llvm::types::*;

use crate::checked_search::{Condition, Search};
use crate::ir::{Ir, ll};

/// The values of an item before the loop.
struct Lane {
    counter: ValueRef,
    row: ValueRef,
    known: HashMap<ValueRef, ValueRef>,
}

/// The items whose values show the values of all items: of a row, or of all rows of a group.
pub(crate) struct Lanes {
    /// The first row's first item, second item and last item.
    of_row: [Lane; 3],
    /// Number of steps from its first item to its last one, as `i64`.
    steps: ValueRef,
    /// The second row's first item, and the last row's first item and last item.
    of_others: Option<[Lane; 3]>,
    /// Number of steps from the first row to the last one, as `i64`.
    row_steps: ValueRef,
}

/// A value of the items in [`Lanes`].
pub(crate) struct Numbers {
    pub(crate) of_row: [ValueRef; 3],
    pub(crate) of_others: Option<[ValueRef; 3]>,
}

impl Lanes {
    /// Returns the items of rows whose counters begin with `first` and make some steps, as `i32`.
    /// With `row_steps`, as `i64`, they stand for all rows.
    pub(crate) fn new(
        ir: &Ir<'_>,
        (first, steps): (ValueRef, ValueRef),
        row_steps: Option<ValueRef>,
        block: BlockRef,
    ) -> Lanes {
        let (build, zero) = (ir.at_end(block), ir.constant(64, 0));
        let second = build.binary(opcode::ADD, first, ir.constant(32, 1));
        let last = build.binary(opcode::ADD, first, steps);
        let lane = |counter, row| Lane { counter, row, known: HashMap::new() };
        let one = ir.constant(64, 1);
        let of_others =
            row_steps.map(|steps| [lane(first, one), lane(first, steps), lane(last, steps)]);
        Lanes {
            of_row: [first, second, last].map(|counter| lane(counter, zero)),
            steps: build.cast(opcode::ZEXT, steps, ir.int(64)),
            of_others,
            row_steps: row_steps.unwrap_or(zero),
        }
    }
}

impl Numbers {
    /// Returns the values of the first item, and of the ends of the first and last row.
    fn ends(&self) -> impl Iterator<Item = ValueRef> {
        let [first, _, last] = self.of_row;
        let others = self.of_others.map(|[_, first, last]| [first, last]);
        [first, last].into_iter().chain(others.into_iter().flatten())
    }

    /// Returns the values after a change.
    fn map(self, mut change: impl FnMut(ValueRef) -> ValueRef) -> Numbers {
        Numbers {
            of_row: self.of_row.map(&mut change),
            of_others: self.of_others.map(|others| others.map(&mut change)),
        }
    }
}

impl Search<'_, '_> {
    /// Emits the counter's end. The counter begins with `first`.
    pub(crate) fn emit_end(&self, first: ValueRef, block: BlockRef) -> ValueRef {
        let row = self.ir.constant(64, 0);
        let mut lane = Lane { counter: first, row, known: HashMap::new() };
        self.emit(self.end(), &mut lane, block)
    }

    /// Emits a value of each of some items at the end of a block.
    pub(crate) fn emit_all(&self, value: ValueRef, lanes: &mut Lanes, block: BlockRef) -> Numbers {
        let Lanes { of_row, of_others, .. } = lanes;
        let mut emit = |lane: &mut Lane| self.emit(value, lane, block);
        Numbers {
            of_row: of_row.each_mut().map(&mut emit),
            of_others: of_others.as_mut().map(|lanes| lanes.each_mut().map(&mut emit)),
        }
    }

    /// Emits a value that all items have.
    pub(crate) fn emit_same(
        &self,
        value: ValueRef,
        lanes: &mut Lanes,
        block: BlockRef,
    ) -> ValueRef {
        self.emit(value, &mut lanes.of_row[0], block)
    }

    /// Emits whether an extension of a narrow number is linear.
    pub(crate) fn emit_is_linear(
        &self,
        extended: ValueRef,
        lanes: &mut Lanes,
        block: BlockRef,
    ) -> ValueRef {
        let ir = self.ir;
        let numbers = self.emit_all(extended, lanes, block);
        let build = ir.at_end(block);
        let numbers = numbers.map(|it| build.cast(ir.opcode(extended), it, ir.int(64)));
        leads_to_last(ir, &numbers, lanes, block)
    }

    /// Emits whether a comparison holds for all items. It does if it holds for both ends of the
    /// first and of the last row, and if the numbers of all other items are between these.
    pub(crate) fn emit_holds(
        &self,
        condition: Condition,
        lanes: &mut Lanes,
        block: BlockRef,
    ) -> ValueRef {
        let ir = self.ir;
        let Condition { predicate, left, right } = condition;
        let numbers = self.emit_all(left, lanes, block);
        let limit = self.emit_same(right, lanes, block);
        let build = ir.at_end(block);
        if !self.is_linear(left) {
            return build.compare(predicate, numbers.of_row[0], limit);
        }
        let and = |one: ValueRef, other: ValueRef| build.binary(opcode::AND, one, other);
        let ends = numbers.ends().map(|value| build.compare(predicate, value, limit));
        let ends = ends.reduce(and).expect("there is a first item");
        let is_signed = matches!(predicate, predicate::SGT..=predicate::SLE);
        if ll!(ir, LLVMGetIntTypeWidth(ir.type_of(left))) < 64 {
            let extend = if is_signed { opcode::SEXT } else { opcode::ZEXT };
            let numbers = numbers.map(|it| build.cast(extend, it, ir.int(64)));
            let between = leads_to_last(ir, &numbers, lanes, block);
            return ir.at_end(block).binary(opcode::AND, ends, between);
        }
        // The sum of few small steps wraps around at most once.
        let first = numbers.of_row[0];
        let seconds = [Some(numbers.of_row[1]), numbers.of_others.map(|[second, ..]| second)];
        let last = numbers.ends().last().expect("there is a last item");
        let below = if is_signed { predicate::SLE } else { predicate::ULE };
        let mut holds = and(ends, build.compare(below, first, last));
        for second in seconds.into_iter().flatten() {
            let step = build.binary(opcode::SUB, second, first);
            holds = and(holds, build.compare(predicate::ULT, step, ir.constant(64, 1 << 31)));
        }
        holds
    }

    /// Emits a value of a lane at the end of a block.
    fn emit(&self, value: ValueRef, lane: &mut Lane, block: BlockRef) -> ValueRef {
        let ir = self.ir;
        match &self.rows {
            _ if value == self.made.counter => return lane.counter,
            Some(rows) if value == rows.row => return lane.row,
            Some(rows) if value == rows.plane => return self.ir.constant(64, 0),
            _ => {}
        }
        if !self.is_inside(value) {
            return value;
        }
        if let Some(known) = lane.known.get(&value) {
            return *known;
        }
        if let Some(stored) = self.stored(value) {
            return self.emit(stored, lane, block);
        }
        let operands: Vec<ValueRef> =
            ir.operands(value).into_iter().map(|it| self.emit(it, lane, block)).collect();
        let ty = ir.type_of(value);
        let is_linear = self.is_linear(value);
        let build = ir.at_end(block);
        // Beyond the loop's rounds, sums may overflow, and addresses may leave their objects.
        let new = match ir.opcode(value) {
            opcode::GET_ELEMENT_PTR if is_linear => {
                let element = ll!(ir, LLVMGetGEPSourceElementType(value));
                build.any_elements(element, operands[0], &operands[1..])
            }
            opcode @ (opcode::TRUNC | opcode::ZEXT | opcode::SEXT | opcode::BIT_CAST)
                if is_linear =>
            {
                build.cast(opcode, operands[0], ty)
            }
            opcode if is_linear => build.binary(opcode, operands[0], operands[1]),
            _ => {
                let new = ll!(ir, LLVMInstructionClone(value));
                ir.insert_at_end(new, block);
                for (index, operand) in operands.into_iter().enumerate() {
                    ll!(ir, LLVMSetOperand(new, index as u32, operand));
                }
                new
            }
        };
        lane.known.insert(value, new);
        new
    }
}

/// Emits whether the steps from the first item's number to the next item's and to the next row's
/// lead to the numbers of the last items. The numbers have fewer bits than their type, `i64`, so
/// that no step wraps around.
fn leads_to_last(ir: &Ir<'_>, numbers: &Numbers, lanes: &Lanes, block: BlockRef) -> ValueRef {
    let build = ir.at_end(block);
    let way = |from: ValueRef, to: ValueRef, steps: ValueRef| {
        build.binary(opcode::MUL, build.binary(opcode::SUB, to, from), steps)
    };
    let [first, second, last] = numbers.of_row;
    let in_row = way(first, second, lanes.steps);
    let is = |number: ValueRef, from: ValueRef, way: ValueRef| {
        build.compare(predicate::EQ, number, build.binary(opcode::ADD, from, way))
    };
    let leads = is(last, first, in_row);
    let Some([below, last_below, last_of_all]) = numbers.of_others else { return leads };
    let to_last_row = way(first, below, lanes.row_steps);
    let and = |one: ValueRef, other: ValueRef| build.binary(opcode::AND, one, other);
    let leads = and(leads, is(last_below, first, to_last_row));
    and(leads, is(last_of_all, last_below, in_row))
}
