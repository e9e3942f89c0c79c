//! Walks over all blocks and expressions of a kernel.

use super::ast::{Address, Block, Expr, Kernel, Kind, LoopForm, Passed, Place, Statement};

impl Kernel {
    /// Visits each block, outer ones first.
    pub(super) fn for_each_block(&mut self, visit: &mut impl FnMut(&mut Block)) {
        for function in &mut self.functions {
            walk_blocks(&mut function.code.body, visit);
        }
        walk_blocks(&mut self.code.body, visit);
    }

    /// Visits each expression, outer ones first.
    pub(super) fn for_each_expr(&mut self, visit: &mut impl FnMut(&mut Expr)) {
        self.for_each_block(&mut |block| walk_block(block, visit));
    }

    /// Returns whether each function is called, perhaps by others.
    pub(super) fn called_functions(&self) -> Vec<bool> {
        let mut called = vec![false; self.functions.len()];
        mark_calls(self.code.body.clone(), &mut called);
        // Functions call only earlier ones.
        for (index, function) in self.functions.iter().enumerate().rev() {
            if called[index] {
                mark_calls(function.code.body.clone(), &mut called);
            }
        }
        called
    }
}

fn mark_calls(mut body: Block, called: &mut [bool]) {
    walk_blocks(&mut body, &mut |block| {
        for statement in &*block {
            if let Statement::Call { function, .. } = statement {
                called[*function] = true;
            }
        }
        walk_block(block, &mut |expr| {
            if let Kind::Call(function, _) = &*expr.kind {
                called[*function] = true;
            }
        });
    });
}

/// Visits the expressions of a block, without its inner blocks.
fn walk_block(block: &mut Block, visit: &mut impl FnMut(&mut Expr)) {
    block.iter_mut().for_each(|statement| walk_statement(statement, visit));
}

fn walk_blocks(block: &mut Block, visit: &mut impl FnMut(&mut Block)) {
    visit(block);
    for statement in block {
        match statement {
            Statement::If(_, yes, no) => {
                walk_blocks(yes, visit);
                walk_blocks(no, visit);
            }
            Statement::Loop(details) => walk_blocks(&mut details.body, visit),
            Statement::Switch(_, cases) => {
                cases.iter_mut().for_each(|case| walk_blocks(&mut case.body, visit));
            }
            _ => {}
        }
    }
}

/// Visits the expressions of a statement, without its blocks.
fn walk_statement(statement: &mut Statement, visit: &mut impl FnMut(&mut Expr)) {
    match statement {
        Statement::Declare(_, value) => walk(value, visit),
        Statement::DeclareArray(_, values) => {
            values.iter_mut().for_each(|value| walk(value, visit))
        }
        Statement::DeclarePointer(_, address) => walk_address(address, visit),
        Statement::Assign(place, value) => {
            if let Place::Element(_, index) | Place::Shared(_, index) = place {
                walk(index, visit);
            }
            walk(value, visit);
        }
        Statement::Atomic { index, value, .. } => {
            walk(index, visit);
            walk(value, visit);
        }
        Statement::Call { arguments, .. } => {
            for argument in arguments {
                match argument {
                    Passed::Value(value) => walk(value, visit),
                    Passed::Address(address) => walk_address(address, visit),
                    Passed::Array(_) | Passed::Shared(_) => {}
                }
            }
        }
        Statement::If(condition, ..) => walk(condition, visit),
        Statement::Switch(value, _) | Statement::Return(Some(value)) => walk(value, visit),
        Statement::Loop(details) => {
            walk(&mut details.limit, visit);
            if let LoopForm::While(condition) | LoopForm::Do(condition) = &mut details.form {
                walk(condition, visit);
            }
        }
        Statement::Barrier | Statement::Break | Statement::Continue | Statement::Return(None) => {}
    }
}

fn walk_address(address: &mut Address, visit: &mut impl FnMut(&mut Expr)) {
    match address {
        Address::Of(_) | Address::Copy(_) => {}
        Address::Element(_, index) => walk(index, visit),
        Address::Choose(condition, yes, no) => {
            walk(condition, visit);
            walk_address(yes, visit);
            walk_address(no, visit);
        }
    }
}

fn walk(expr: &mut Expr, visit: &mut impl FnMut(&mut Expr)) {
    visit(expr);
    operands(expr).into_iter().for_each(|operand| walk(operand, visit));
}

/// Returns the operands of an expression.
pub(super) fn operands(expr: &mut Expr) -> Vec<&mut Expr> {
    match &mut *expr.kind {
        Kind::Constant(_)
        | Kind::Id(_)
        | Kind::Argument(_)
        | Kind::Variable(_)
        | Kind::Target(_)
        | Kind::Output(_) => Vec::new(),
        Kind::Element(_, operand)
        | Kind::Shared(_, operand)
        | Kind::Input(operand)
        | Kind::Unary(_, operand)
        | Kind::Cast(operand)
        | Kind::Subgroup(_, operand, None) => vec![operand],
        Kind::Binary(_, left, right)
        | Kind::Modulo(left, right)
        | Kind::Compare(_, left, right)
        | Kind::Both(left, right)
        | Kind::Either(left, right)
        | Kind::Subgroup(_, left, Some(right)) => vec![left, right],
        Kind::Choose(condition, yes, no) => vec![condition, yes, no],
        Kind::Call(_, arguments) => arguments.iter_mut().collect(),
    }
}
