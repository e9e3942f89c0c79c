//! Lowering of expressions and addresses.

use super::super::ast::{Address, Compare, Expr, Kind, Shape, Variable};
use super::{Frame, Lowering, Slot, Step};

impl<'a> Lowering<'a> {
    pub(super) fn expr(&mut self, frame: &Frame, expr: &'a Expr) -> Result<Slot, String> {
        let ty = expr.ty;
        if let Kind::Variable(variable) = &*expr.kind {
            return frame.slot(*variable);
        }
        let result = self.take(1);
        let step = match &*expr.kind {
            Kind::Constant(bits) => Step::Constant(result, *bits),
            Kind::Id(id) => Step::Id(result, *id),
            Kind::Argument(argument) => Step::Argument(result, *argument),
            Kind::Variable(_) => unreachable!("handled above"),
            Kind::Element(..)
            | Kind::Target(_)
            | Kind::Shared(..)
            | Kind::Input(_)
            | Kind::Output(_) => self.load(frame, expr, result)?,
            Kind::Unary(unary, operand) => {
                Step::Unary(result, *unary, operand.ty, self.expr(frame, operand)?)
            }
            Kind::Binary(binary, left, right) => {
                let (left, right) = (self.expr(frame, left)?, self.expr(frame, right)?);
                Step::Binary(result, *binary, ty, left, right)
            }
            Kind::Modulo(left, right) => {
                let (left, right) = (self.expr(frame, left)?, self.expr(frame, right)?);
                Step::Modulo(result, left, right)
            }
            Kind::Compare(compare, left, right) => {
                let of = left.ty;
                let (left, right) = (self.expr(frame, left)?, self.expr(frame, right)?);
                Step::Compare(result, *compare, of, left, right)
            }
            Kind::Both(..) | Kind::Either(..) | Kind::Choose(..) => {
                self.lazy(frame, &expr.kind, result)?;
                return Ok(result);
            }
            Kind::Cast(operand) => Step::Cast(result, ty, operand.ty, self.expr(frame, operand)?),
            Kind::Subgroup(subgroup, value, other) => {
                let of = value.ty;
                let value = self.expr(frame, value)?;
                let other = match other {
                    Some(other) => self.expr(frame, other)?,
                    None => value,
                };
                Step::Exchange { result, subgroup: *subgroup, ty: of, value, other }
            }
            Kind::Call(function, arguments) => {
                let passed: Vec<Slot> = arguments
                    .iter()
                    .map(|argument| self.expr(frame, argument))
                    .collect::<Result<_, _>>()?;
                Step::Copy(result, self.pure_call(*function, &passed)?)
            }
        };
        self.push(step);
        Ok(result)
    }

    /// Returns the step that reads memory.
    fn load(&mut self, frame: &Frame, expr: &'a Expr, result: Slot) -> Result<Step, String> {
        Ok(match &*expr.kind {
            Kind::Element(variable, index) => {
                Step::Load(result, self.element(frame, *variable, index)?)
            }
            Kind::Target(variable) => Step::Load(result, frame.slot(*variable)?),
            Kind::Shared(array, index) => {
                let index = self.expr(frame, index)?;
                Step::LoadShared(result, frame.shared[*array], index)
            }
            Kind::Input(index) => Step::LoadInput(result, self.expr(frame, index)?),
            Kind::Output(slot) => Step::LoadOutput(result, expr.ty, *slot),
            _ => unreachable!("the caller looked"),
        })
    }

    /// Lowers an expression that evaluates one side only, or the second after the first.
    fn lazy(&mut self, frame: &Frame, kind: &'a Kind, result: Slot) -> Result<(), String> {
        let (condition, yes, no) = match kind {
            Kind::Both(left, right) => (left, Some(right), None),
            Kind::Either(left, right) => (left, None, Some(right)),
            Kind::Choose(condition, yes, no) => (condition, Some(yes), Some(no)),
            _ => unreachable!("the caller looked"),
        };
        let is_choice = matches!(kind, Kind::Choose(..));
        let condition = self.expr(frame, condition)?;
        let skip = self.push(Step::JumpIfZero(condition, 0));
        self.arm(frame, yes, 1, is_choice, result)?;
        let end = self.push(Step::Jump(0));
        self.land(skip);
        self.arm(frame, no, 0, is_choice, result)?;
        self.land(end);
        Ok(())
    }

    /// Lowers one side of a lazy expression: a value, or its truth, or without it a constant.
    fn arm(
        &mut self,
        frame: &Frame,
        value: Option<&'a Expr>,
        constant: u64,
        is_choice: bool,
        result: Slot,
    ) -> Result<(), String> {
        let step = match value {
            None => Step::Constant(result, constant),
            Some(value) => {
                let slot = self.expr(frame, value)?;
                if is_choice {
                    Step::Copy(result, slot)
                } else {
                    let zero = self.constant(0);
                    Step::Compare(result, Compare::NotEqual, value.ty, slot, zero)
                }
            }
        };
        self.push(step);
        Ok(())
    }

    fn pure_call(&mut self, index: usize, passed: &[Slot]) -> Result<Slot, String> {
        let function = &self.kernel.functions[index];
        let mut inner = Frame::new(&function.code, Vec::new());
        inner.result = self.take(1);
        for (variable, value) in (0..function.parameters).map(Variable).zip(passed) {
            self.declare(&mut inner, variable, *value);
        }
        self.inline(&mut inner, function)?;
        inner.returns.into_iter().for_each(|jump| self.land(jump));
        Ok(inner.result)
    }

    pub(super) fn address(&mut self, frame: &Frame, address: &'a Address) -> Result<Slot, String> {
        Ok(match address {
            Address::Of(variable) => self.constant(frame.slot(*variable)?.into()),
            Address::Element(variable, index) => self.element(frame, *variable, index)?,
            Address::Copy(variable) => frame.slot(*variable)?,
            Address::Choose(condition, yes, no) => {
                let condition = self.expr(frame, condition)?;
                let result = self.take(1);
                let (yes, no) = (self.address(frame, yes)?, self.address(frame, no)?);
                self.push(Step::Copy(result, yes));
                let skip = self.push(Step::JumpIfZero(condition, 0));
                let end = self.push(Step::Jump(0));
                self.land(skip);
                self.push(Step::Copy(result, no));
                self.land(end);
                result
            }
        })
    }

    pub(super) fn element(
        &mut self,
        frame: &Frame,
        array: Variable,
        index: &'a Expr,
    ) -> Result<Slot, String> {
        let Shape::Array(length) = frame.code.locals[array.0].shape else {
            return Err(format!("v{} is no array", array.0));
        };
        let (index, result) = (self.expr(frame, index)?, self.take(1));
        self.push(Step::Element { result, array: frame.slot(array)?, length, index });
        Ok(result)
    }
}
