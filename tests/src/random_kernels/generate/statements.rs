//! Sequences of statements, and statements without others inside.

use super::super::ast::{
    Address, Block, Class, Expr, Kind, Passed, Place, Shape, Statement, Type, Variable,
};
use super::Generator;
use super::scope::{Flow, Mode, Scope};

/// Greatest depth of expressions.
const DEPTH: u32 = 3;

impl Generator {
    /// Appends statements until the budget is spent.
    pub(super) fn statements(&mut self, scope: &mut Scope, flow: Flow, body: &mut Block) {
        while scope.budget > 0 {
            self.statement(scope, flow, body);
        }
    }

    /// Returns a block of some statements. Its variables are invisible afterwards.
    pub(super) fn block(&mut self, scope: &mut Scope, flow: Flow) -> Block {
        let mut body = Block::new();
        self.fill(scope, flow, &mut body);
        body
    }

    /// Appends some statements, whose variables are invisible afterwards.
    pub(super) fn fill(&mut self, scope: &mut Scope, flow: Flow, body: &mut Block) {
        let visible = scope.visible.len();
        for _ in 0..self.random.within(1, 6) {
            self.statement(scope, flow, body);
        }
        scope.visible.truncate(visible);
    }

    fn statement(&mut self, scope: &mut Scope, flow: Flow, body: &mut Block) {
        scope.budget = scope.budget.saturating_sub(1);
        let may_nest = flow.depth < 4 && scope.budget > 0;
        let is_sync = flow.has_barriers();
        let weights = [
            12,
            3,
            2,
            20,
            if scope.shared.is_empty() { 0 } else { 5 },
            if is_sync { 9 } else { 0 },
            if self.functions.is_empty() { 0 } else { 8 },
            if may_nest { 9 } else { 0 },
            if may_nest && flow.loops < 2 && self.cost <= 16 { 9 } else { 0 },
            if may_nest { 3 } else { 0 },
            5,
            if is_sync && scope.is_kernel && self.cost <= 4 { 3 } else { 0 },
        ];
        match self.random.weighted(&weights) {
            0 => self.declare(scope, flow, body),
            1 => {
                let (ty, length) = (self.random.choice(&Type::ALL), self.random.within(1, 9));
                self.declare_array(scope, flow, ty, length, body);
            }
            2 => self.declare_pointer(scope, flow, body),
            3 => self.assign(scope, flow, body),
            4 => self.atomic(scope, flow, body),
            5 => {
                scope.end_phase();
                body.push(Statement::Barrier);
            }
            6 => self.call(scope, flow, body),
            7 => self.condition_statement(scope, flow, body),
            8 => self.loop_statement(scope, flow, body),
            9 => self.switch(scope, flow, body),
            10 => self.leave(scope, flow, body),
            _ => self.idiom(scope, flow, body),
        }
    }

    /// Returns a class for values where the flow has this class.
    pub(super) fn class(&mut self, flow: Flow) -> Class {
        let class = self.random.choice(&[
            Class::Group,
            Class::Group,
            Class::Subgroup,
            Class::Item,
            Class::Item,
        ]);
        class.max(flow.class)
    }

    fn declare(&mut self, scope: &mut Scope, flow: Flow, body: &mut Block) {
        let (ty, class) = (self.random.choice(&Type::ALL), self.class(flow));
        let value = self.expr(scope, flow, ty, class, DEPTH);
        self.declare_as(scope, value, class, body);
    }

    /// Declares a variable with this value.
    pub(super) fn declare_as(
        &mut self,
        scope: &mut Scope,
        value: Expr,
        class: Class,
        body: &mut Block,
    ) -> Variable {
        let variable = scope.add(value.ty, Shape::Scalar, class);
        scope.locals[variable.0].is_volatile = self.random.percent(4);
        scope.visible.push(variable);
        body.push(Statement::Declare(variable, value));
        variable
    }

    fn declare_array(
        &mut self,
        scope: &mut Scope,
        flow: Flow,
        ty: Type,
        length: u32,
        body: &mut Block,
    ) -> Variable {
        let elements = (0..length).map(|_| self.expr(scope, flow, ty, Class::Item, 1)).collect();
        let variable = scope.add(ty, Shape::Array(length), Class::Item);
        scope.visible.push(variable);
        body.push(Statement::DeclareArray(variable, elements));
        variable
    }

    fn declare_pointer(&mut self, scope: &mut Scope, flow: Flow, body: &mut Block) {
        let ty = self.random.choice(&Type::ALL);
        let address = self.address(scope, flow, ty, body);
        let variable = scope.add(ty, Shape::Pointer, Class::Item);
        scope.visible.push(variable);
        body.push(Statement::DeclarePointer(variable, address));
    }

    /// Returns the address of a private variable, after a declaration if none is suitable.
    fn address(&mut self, scope: &mut Scope, flow: Flow, ty: Type, body: &mut Block) -> Address {
        if self.random.percent(20) {
            let condition = self.condition(scope, flow, Class::Item, 1);
            // Only some items compute the index of each address.
            let flow = Flow { exchanges: false, ..flow };
            let yes = self.simple_address(scope, flow, ty, body);
            let no = self.simple_address(scope, flow, ty, body);
            return Address::Choose(condition, Box::new(yes), Box::new(no));
        }
        self.simple_address(scope, flow, ty, body)
    }

    fn simple_address(
        &mut self,
        scope: &mut Scope,
        flow: Flow,
        ty: Type,
        body: &mut Block,
    ) -> Address {
        let mut suitable =
            scope.find(|local| local.ty == ty && local.class == Class::Item && !local.is_volatile);
        suitable.retain(|variable| !scope.frozen[variable.0]);
        if suitable.is_empty() {
            let value = self.expr(scope, flow, ty, Class::Item, 1);
            let variable = self.declare_as(scope, value, Class::Item, body);
            scope.locals[variable.0].is_volatile = false;
            return Address::Of(variable);
        }
        let variable = self.random.choice(&suitable);
        match scope.locals[variable.0].shape {
            Shape::Scalar => Address::Of(variable),
            Shape::Pointer => Address::Copy(variable),
            Shape::Array(_) => {
                Address::Element(variable, self.expr(scope, flow, Type::U32, Class::Item, 1))
            }
        }
    }

    /// Appends an assignment to a block of its own.
    pub(super) fn assign_in(&mut self, scope: &mut Scope, flow: Flow, body: &mut Block) {
        let visible = scope.visible.len();
        self.assign(scope, flow, body);
        scope.visible.truncate(visible);
    }

    pub(super) fn assign(&mut self, scope: &mut Scope, flow: Flow, body: &mut Block) {
        let (place, ty, class) = match self.random.below(10) {
            0 if scope.is_kernel => {
                let ty = self.random.choice(&[Type::U32, Type::U64]);
                (Place::Output(self.random.within(0, 4)), ty, Class::Item)
            }
            1 | 2 => match self.own_place(scope) {
                Some((place, ty)) => (place, ty, Class::Item),
                None => return self.declare(scope, flow, body),
            },
            3..6 => {
                let suitable = scope.find(|local| local.shape != Shape::Scalar);
                if suitable.is_empty() {
                    return self.declare(scope, flow, body);
                }
                let variable = self.random.choice(&suitable);
                let place = match scope.locals[variable.0].shape {
                    Shape::Pointer => Place::Target(variable),
                    _ => {
                        let index = self.expr(scope, flow, Type::U32, Class::Item, 2);
                        Place::Element(variable, index)
                    }
                };
                (place, scope.locals[variable.0].ty, Class::Item)
            }
            _ => {
                let suitable = scope.assignable(flow.class);
                if suitable.is_empty() {
                    return self.declare(scope, flow, body);
                }
                let variable = self.random.choice(&suitable);
                let local = &scope.locals[variable.0];
                (Place::Variable(variable), local.ty, local.class)
            }
        };
        let value = self.expr(scope, flow, ty, class, DEPTH);
        body.push(Statement::Assign(place, value));
    }

    /// Returns the item's own element of a shared array that permits it.
    fn own_place(&mut self, scope: &mut Scope) -> Option<(Place, Type)> {
        let is_suitable = |array: &usize| {
            let region = &scope.shared[*array];
            region.has_items() && matches!(region.mode, None | Some(Mode::Own(_)))
        };
        let suitable: Vec<usize> = (0..scope.shared.len()).filter(is_suitable).collect();
        if suitable.is_empty() {
            return None;
        }
        let array = self.random.choice(&suitable);
        let owner = match &scope.shared[array].mode {
            Some(Mode::Own(owner)) => owner.clone(),
            _ => self.owner(scope),
        };
        scope.shared[array].mode = Some(Mode::Own(owner.clone()));
        Some((Place::Shared(array, owner.index()), scope.shared[array].ty))
    }

    fn atomic(&mut self, scope: &mut Scope, flow: Flow, body: &mut Block) {
        let is_suitable = |array: &usize| {
            let region = &scope.shared[*array];
            let is_free = matches!(region.mode, None | Some(Mode::Atomic(_)));
            region.ty != Type::F32 && region.is_defined && is_free
        };
        let suitable: Vec<usize> = (0..scope.shared.len()).filter(is_suitable).collect();
        if suitable.is_empty() {
            return self.assign(scope, flow, body);
        }
        let shared = self.random.choice(&suitable);
        let combine = match scope.shared[shared].mode {
            Some(Mode::Atomic(combine)) => combine,
            _ => self.combine(),
        };
        scope.shared[shared].mode = Some(Mode::Atomic(combine));
        let index = self.expr(scope, flow, Type::U32, Class::Item, 2);
        let index = scope.shared[shared].bounded(index);
        let value = self.expr(scope, flow, scope.shared[shared].ty, Class::Item, 2);
        let is_scoped = self.random.percent(50);
        body.push(Statement::Atomic { combine, shared, index, value, is_scoped });
    }

    fn call(&mut self, scope: &mut Scope, flow: Flow, body: &mut Block) {
        let can_call = |index: &usize| {
            let summary = &self.summaries[*index];
            flow.class <= summary.base
                && (scope.has_self || !self.functions[*index].has_self)
                && (!summary.has_barrier || flow.has_barriers())
                && (!summary.has_exchange || flow.has_exchanges())
                && summary.cost * self.cost <= 40
        };
        let suitable: Vec<usize> = (0..self.functions.len()).filter(can_call).collect();
        if suitable.is_empty() {
            return self.assign(scope, flow, body);
        }
        let function = self.random.choice(&suitable);
        let Some(arrays) = self.shared_arguments(scope, flow, function, body) else {
            return self.assign(scope, flow, body);
        };
        let count = self.functions[function].parameters;
        let parameters = self.functions[function].code.locals[..count].to_vec();
        let mut arguments = Vec::new();
        // No read of an array that the function may write.
        let flow = Flow { shared: flow.shared && arrays.is_empty(), ..flow };
        for local in parameters {
            arguments.push(match local.shape {
                Shape::Scalar => Passed::Value(self.expr(scope, flow, local.ty, local.class, 2)),
                Shape::Pointer => Passed::Address(self.address(scope, flow, local.ty, body)),
                Shape::Array(length) => {
                    Passed::Array(self.private_array(scope, flow, local.ty, length, body))
                }
            });
        }
        let summary = &self.summaries[function];
        let class = summary.result_class.max(flow.class);
        for (array, mode) in arrays.iter().zip(&summary.exit) {
            scope.shared[*array].mode.clone_from(mode);
        }
        scope.has_barrier |= summary.has_barrier;
        scope.has_exchange |= summary.has_exchange;
        arguments.extend(arrays.into_iter().map(Passed::Shared));
        let result = self.functions[function].result.map(|ty| {
            let mut suitable = scope.assignable(class);
            suitable.retain(|variable| scope.locals[variable.0].ty == ty);
            match suitable.is_empty() {
                false => self.random.choice(&suitable),
                true => {
                    let zero = Expr::new(ty, Kind::Constant(0));
                    self.declare_as(scope, zero, class, body)
                }
            }
        });
        body.push(Statement::Call { result, function, arguments });
    }

    /// Returns different shared arrays without accesses for a function's parameters.
    fn shared_arguments(
        &mut self,
        scope: &mut Scope,
        flow: Flow,
        function: usize,
        body: &mut Block,
    ) -> Option<Vec<usize>> {
        let mut arrays = Vec::new();
        for ty in self.functions[function].shared.clone() {
            let is_suitable = |array: &usize| {
                let region = &scope.shared[*array];
                let is_free = region.mode.is_none() || flow.has_barriers();
                let is_right = region.ty == ty && region.has_items() && region.is_defined;
                is_right && is_free && !arrays.contains(array)
            };
            let suitable: Vec<usize> = (0..scope.shared.len()).filter(is_suitable).collect();
            if suitable.is_empty() {
                return None;
            }
            arrays.push(self.random.choice(&suitable));
        }
        if arrays.iter().any(|array| scope.shared[*array].mode.is_some()) {
            scope.end_phase();
            body.push(Statement::Barrier);
        }
        Some(arrays)
    }

    /// Returns a private array of at least this length, after a declaration if none is suitable.
    fn private_array(
        &mut self,
        scope: &mut Scope,
        flow: Flow,
        ty: Type,
        length: u32,
        body: &mut Block,
    ) -> Variable {
        let is_suitable = |shape| matches!(shape, Shape::Array(other) if other >= length);
        let suitable = scope.find(|local| local.ty == ty && is_suitable(local.shape));
        match suitable.is_empty() {
            false => self.random.choice(&suitable),
            true => self.declare_array(scope, flow, ty, length, body),
        }
    }
}
