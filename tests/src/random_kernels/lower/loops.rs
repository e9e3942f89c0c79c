//! Lowering of loops.

use super::super::ast::{Binary, Compare, Id, Loop, LoopForm, Type};
use super::{Frame, Jumps, Lowering, Slot, Step};

/// The steps that all iterations share.
#[derive(Clone, Copy)]
struct Limits {
    increment: Step,
    /// Sets `is_inside` for a counter within the limit.
    check: Step,
    is_inside: Slot,
}

impl<'a> Lowering<'a> {
    pub(super) fn repeat(
        &mut self,
        frame: &mut Frame<'a>,
        details: &'a Loop,
    ) -> Result<(), String> {
        let Limits { increment, check, is_inside } = self.limits(frame, details)?;
        frame.loops.push(Jumps::default());
        let begin = self.steps.len();
        let mut exits = Vec::new();
        if let LoopForm::While(condition) = &details.form {
            let condition = self.expr(frame, condition)?;
            exits.push(self.push(Step::JumpIfZero(condition, 0)));
        }
        if !matches!(details.form, LoopForm::Do(_)) {
            self.push(check);
            // C increments on the build out too, where nothing uses the counter.
            exits.push(self.push(Step::JumpIfZero(is_inside, 0)));
        }
        if let LoopForm::While(_) = details.form {
            self.push(increment);
        }
        self.block(frame, &details.body)?;
        let jumps = frame.loops.pop().expect("pushed above");
        jumps.continues.into_iter().for_each(|jump| self.land(jump));
        if let LoopForm::Do(condition) = &details.form {
            let condition = self.expr(frame, condition)?;
            exits.push(self.push(Step::JumpIfZero(condition, 0)));
            self.push(increment);
            self.push(check);
            exits.push(self.push(Step::JumpIfZero(is_inside, 0)));
        } else if !matches!(details.form, LoopForm::While(_)) {
            self.push(increment);
        }
        self.push(Step::Jump(begin));
        exits.into_iter().chain(jumps.breaks).for_each(|jump| self.land(jump));
        Ok(())
    }

    /// Lowers the counter's declaration and the limit.
    fn limits(&mut self, frame: &mut Frame<'a>, details: &'a Loop) -> Result<Limits, String> {
        let (first, end, step, is_inside) =
            (self.take(1), self.take(1), self.take(1), self.take(1));
        let limit = self.expr(frame, &details.limit)?;
        // A copy: the loop may change a variable that is the limit.
        self.push(Step::Copy(end, limit));
        self.push(match details.form {
            LoopForm::Stride => Step::Id(first, Id::ItemIndex),
            LoopForm::Double => Step::Constant(first, 1),
            _ => Step::Constant(first, 0),
        });
        self.push(match details.form {
            LoopForm::Stride => Step::Id(step, Id::Items),
            _ => Step::Constant(step, 1),
        });
        let is_down = details.form == LoopForm::Halve;
        let (first, end) = if is_down { (end, first) } else { (first, end) };
        self.declare(frame, details.counter, first);
        let counter = frame.slot(details.counter)?;
        let (less, more) = if is_down { (end, counter) } else { (counter, end) };
        let operator = match details.form {
            LoopForm::Double => Binary::Left,
            LoopForm::Halve => Binary::Right,
            _ => Binary::Add,
        };
        Ok(Limits {
            increment: Step::Binary(counter, operator, Type::U32, counter, step),
            check: Step::Compare(is_inside, Compare::Less, Type::U32, less, more),
            is_inside,
        })
    }
}
