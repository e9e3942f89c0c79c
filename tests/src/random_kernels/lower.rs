//! Lowering of kernels to steps for the interpreter: calls are inlined, and control flow becomes
//! jumps. Every item has private slots, whose numbers serve as addresses of private variables.

mod expressions;
mod loops;

use super::ast::{
    Argument, Binary, Block, Case, Code, Combine, Compare, Expr, Function, Id, Kernel, Passed,
    Place, Statement, Subgroup, Type, Unary, Variable,
};

/// The number of a private slot.
pub(super) type Slot = u32;

/// An operation on slots. The first slot of each is its result.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Constant(Slot, u64),
    Copy(Slot, Slot),
    Id(Slot, Id),
    Argument(Slot, Argument),
    Unary(Slot, Unary, Type, Slot),
    Binary(Slot, Binary, Type, Slot, Slot),
    /// The remainder of a division by a number that must not be 0.
    Modulo(Slot, Slot, Slot),
    Compare(Slot, Compare, Type, Slot, Slot),
    /// A conversion to the first type, from the second.
    Cast(Slot, Type, Type, Slot),
    /// The number of the slot at an index modulo the length of an array.
    Element {
        result: Slot,
        array: Slot,
        length: u32,
        index: Slot,
    },
    /// A read of the slot whose number is the value of the second.
    Load(Slot, Slot),
    /// A write to the slot whose number is the value of the first.
    Store(Slot, Slot),
    LoadShared(Slot, usize, Slot),
    StoreShared {
        array: usize,
        index: Slot,
        value: Slot,
    },
    Atomic {
        combine: Combine,
        array: usize,
        index: Slot,
        value: Slot,
    },
    LoadInput(Slot, Slot),
    LoadOutput(Slot, Type, u32),
    StoreOutput {
        ty: Type,
        slot: u32,
        value: Slot,
    },
    Jump(usize),
    JumpIfZero(Slot, usize),
    Barrier,
    Exchange {
        result: Slot,
        subgroup: Subgroup,
        ty: Type,
        value: Slot,
        other: Slot,
    },
    End,
}

/// The steps of a kernel.
#[derive(Debug)]
pub(super) struct Steps {
    pub(super) steps: Vec<Step>,
    /// Number of private slots of an item.
    pub(super) slots: u32,
}

/// Lowers a kernel.
pub(super) fn lower(kernel: &Kernel) -> Result<Steps, String> {
    let mut lowering = Lowering { kernel, steps: Vec::new(), slots: 0 };
    let shared: Vec<usize> = (0..kernel.shared.len()).collect();
    let mut frame = Frame::new(&kernel.code, shared);
    lowering.block(&mut frame, &kernel.code.body)?;
    frame.returns.iter().for_each(|at| lowering.steps[*at] = Step::End);
    lowering.steps.push(Step::End);
    Ok(Steps { steps: lowering.steps, slots: lowering.slots })
}

struct Lowering<'a> {
    kernel: &'a Kernel,
    steps: Vec<Step>,
    slots: u32,
}

/// The kernel, or an inlined call.
struct Frame<'a> {
    code: &'a Code,
    /// First slot of each declared local.
    locals: Vec<Option<Slot>>,
    /// The kernel's shared array for each shared array of the code.
    shared: Vec<usize>,
    result: Slot,
    /// Jumps to the end.
    returns: Vec<usize>,
    /// Jumps of the loops that surround the code.
    loops: Vec<Jumps>,
}

#[derive(Default)]
struct Jumps {
    breaks: Vec<usize>,
    continues: Vec<usize>,
}

impl<'a> Frame<'a> {
    fn new(code: &'a Code, shared: Vec<usize>) -> Frame<'a> {
        let locals = vec![None; code.locals.len()];
        Frame { code, locals, shared, result: 0, returns: Vec::new(), loops: Vec::new() }
    }

    fn slot(&self, variable: Variable) -> Result<Slot, String> {
        self.locals[variable.0].ok_or_else(|| format!("v{} is used undeclared", variable.0))
    }
}

impl<'a> Lowering<'a> {
    fn take(&mut self, count: u32) -> Slot {
        self.slots += count;
        self.slots - count
    }

    /// Appends a step and returns its position.
    fn push(&mut self, step: Step) -> usize {
        self.steps.push(step);
        self.steps.len() - 1
    }

    /// Sets the target of a jump to the next step.
    fn land(&mut self, jump: usize) {
        let next = self.steps.len();
        match &mut self.steps[jump] {
            Step::Jump(target) | Step::JumpIfZero(_, target) => *target = next,
            step => unreachable!("{step:?} does not jump"),
        }
    }

    fn constant(&mut self, value: u64) -> Slot {
        let slot = self.take(1);
        self.push(Step::Constant(slot, value));
        slot
    }

    fn block(&mut self, frame: &mut Frame<'a>, block: &'a Block) -> Result<(), String> {
        block.iter().try_for_each(|statement| self.statement(frame, statement))
    }

    fn statement(&mut self, frame: &mut Frame<'a>, statement: &'a Statement) -> Result<(), String> {
        match statement {
            Statement::Declare(variable, value) => {
                let value = self.expr(frame, value)?;
                self.declare(frame, *variable, value);
            }
            Statement::DeclareArray(variable, values) => {
                let slot = self.take(values.len() as u32);
                for (element, value) in (slot..).zip(values) {
                    let value = self.expr(frame, value)?;
                    self.push(Step::Copy(element, value));
                }
                frame.locals[variable.0] = Some(slot);
            }
            Statement::DeclarePointer(variable, address) => {
                let address = self.address(frame, address)?;
                self.declare(frame, *variable, address);
            }
            Statement::Assign(place, value) => self.assign(frame, place, value)?,
            Statement::Atomic { combine, shared, index, value, .. } => {
                let (index, value) = (self.expr(frame, index)?, self.expr(frame, value)?);
                let array = frame.shared[*shared];
                self.push(Step::Atomic { combine: *combine, array, index, value });
            }
            Statement::Barrier => {
                self.push(Step::Barrier);
            }
            Statement::Call { result, function, arguments } => {
                let value = self.call(frame, *function, arguments)?;
                if let Some(variable) = result {
                    let slot = frame.slot(*variable)?;
                    self.push(Step::Copy(slot, value));
                }
            }
            Statement::If(condition, yes, no) => self.condition(frame, condition, yes, no)?,
            Statement::Loop(details) => self.repeat(frame, details)?,
            Statement::Switch(value, cases) => self.switch(frame, value, cases)?,
            Statement::Break | Statement::Continue => {
                let jump = self.push(Step::Jump(0));
                let jumps = frame.loops.last_mut().ok_or("a break outside loops")?;
                match statement {
                    Statement::Break => jumps.breaks.push(jump),
                    _ => jumps.continues.push(jump),
                }
            }
            Statement::Return(value) => {
                if let Some(value) = value {
                    let value = self.expr(frame, value)?;
                    self.push(Step::Copy(frame.result, value));
                }
                let jump = self.push(Step::Jump(0));
                frame.returns.push(jump);
            }
        }
        Ok(())
    }

    fn declare(&mut self, frame: &mut Frame, variable: Variable, value: Slot) {
        let slot = self.take(1);
        self.push(Step::Copy(slot, value));
        frame.locals[variable.0] = Some(slot);
    }

    fn assign(&mut self, frame: &Frame, place: &'a Place, value: &'a Expr) -> Result<(), String> {
        let ty = value.ty;
        let value = self.expr(frame, value)?;
        let step = match place {
            Place::Variable(variable) => Step::Copy(frame.slot(*variable)?, value),
            Place::Element(variable, index) => {
                Step::Store(self.element(frame, *variable, index)?, value)
            }
            Place::Target(variable) => Step::Store(frame.slot(*variable)?, value),
            Place::Shared(array, index) => {
                let index = self.expr(frame, index)?;
                Step::StoreShared { array: frame.shared[*array], index, value }
            }
            Place::Output(slot) => Step::StoreOutput { ty, slot: *slot, value },
        };
        self.push(step);
        Ok(())
    }

    fn condition(
        &mut self,
        frame: &mut Frame<'a>,
        condition: &'a Expr,
        yes: &'a Block,
        no: &'a Block,
    ) -> Result<(), String> {
        let condition = self.expr(frame, condition)?;
        let skip = self.push(Step::JumpIfZero(condition, 0));
        self.block(frame, yes)?;
        let end = self.push(Step::Jump(0));
        self.land(skip);
        self.block(frame, no)?;
        self.land(end);
        Ok(())
    }

    fn switch(
        &mut self,
        frame: &mut Frame<'a>,
        value: &'a Expr,
        cases: &'a [Case],
    ) -> Result<(), String> {
        let ty = value.ty;
        let (value, is_this) = (self.expr(frame, value)?, self.take(1));
        let (mut ends, mut falls) = (Vec::new(), None);
        for (number, case) in (0..).zip(cases) {
            let number = self.constant(number);
            self.push(Step::Compare(is_this, Compare::Equal, ty, value, number));
            let next = self.push(Step::JumpIfZero(is_this, 0));
            if let Some(jump) = falls.take() {
                self.land(jump);
            }
            self.block(frame, &case.body)?;
            let jump = self.push(Step::Jump(0));
            if case.falls {
                falls = Some(jump)
            } else {
                ends.push(jump)
            }
            self.land(next);
        }
        ends.into_iter().chain(falls).for_each(|jump| self.land(jump));
        Ok(())
    }

    fn call(&mut self, frame: &Frame, index: usize, passed: &'a [Passed]) -> Result<Slot, String> {
        let function = &self.kernel.functions[index];
        let mut inner = Frame::new(&function.code, Vec::new());
        inner.result = self.take(1);
        let mut variables = (0..function.parameters).map(Variable);
        for argument in passed {
            let value = match argument {
                Passed::Shared(array) => {
                    inner.shared.push(frame.shared[*array]);
                    continue;
                }
                Passed::Array(array) => {
                    let variable = variables.next().ok_or("too many arguments")?;
                    inner.locals[variable.0] = Some(frame.slot(*array)?);
                    continue;
                }
                Passed::Value(value) => self.expr(frame, value)?,
                Passed::Address(address) => self.address(frame, address)?,
            };
            let variable = variables.next().ok_or("too many arguments")?;
            self.declare(&mut inner, variable, value);
        }
        self.inline(&mut inner, function)?;
        inner.returns.into_iter().for_each(|jump| self.land(jump));
        Ok(inner.result)
    }

    fn inline(&mut self, frame: &mut Frame<'a>, function: &'a Function) -> Result<(), String> {
        let body = &function.code.body;
        if function.result.is_some() && !matches!(body.last(), Some(Statement::Return(_))) {
            return Err("a function ends without a result".to_owned());
        }
        self.block(frame, body)
    }
}
