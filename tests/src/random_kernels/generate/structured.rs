//! Conditions, loops, switches, and the builds out of them.

use super::super::ast::{
    Binary, Block, Case, Class, Compare, Expr, Id, Loop, LoopForm, Shape, Statement, Type,
};
use super::Generator;
use super::scope::{Flow, Scope, remainder};

impl Generator {
    pub(super) fn condition_statement(&mut self, scope: &mut Scope, flow: Flow, body: &mut Block) {
        let class = self.class(flow);
        let condition = self.condition(scope, flow, class, 2);
        let inner = flow.under(class);
        let modes = scope.modes();
        let yes = self.block(scope, inner);
        if !inner.has_barriers() {
            // Modes stay from one arm to the other: only a barrier would end them.
            let no = if self.random.percent(50) { self.block(scope, inner) } else { Block::new() };
            return body.push(Statement::If(condition, yes, no));
        }
        let after = scope.modes();
        scope.set_modes(modes);
        let no = if self.random.percent(50) { self.block(scope, inner) } else { Block::new() };
        scope.merge_modes(after);
        body.push(Statement::If(condition, yes, no));
    }

    pub(super) fn loop_statement(&mut self, scope: &mut Scope, flow: Flow, body: &mut Block) {
        let class = self.class(flow);
        let is_sync = flow.has_barriers() && class == Class::Group && self.random.percent(65);
        let outside = Flow { barriers: is_sync, ..flow };
        let (form, limit, most) = self.loop_head(scope, outside, class, is_sync);
        let counter = scope.add(Type::U32, Shape::Scalar, class);
        scope.frozen[counter.0] = true;
        let inner = Flow {
            barriers: is_sync,
            loops: flow.loops + 1,
            in_loop: Some(class),
            can_break: true,
            can_continue: true,
            ..flow.under(class)
        };
        let outer_cost = self.cost;
        self.cost *= most;
        let visible = scope.visible.len();
        scope.visible.push(counter);
        let inner_body = match is_sync {
            true => self.synchronous_body(scope, inner),
            false => self.block(scope, inner),
        };
        scope.visible.truncate(visible);
        self.cost = outer_cost;
        let form = match form {
            Head::Plain(form) => form,
            Head::Do => LoopForm::Do(self.loop_condition(scope, outside, class, is_sync)),
        };
        body.push(Statement::Loop(Box::new(Loop { form, counter, limit, body: inner_body })));
    }

    /// Returns the head of a loop, its limit, and a number that its iterations do not exceed.
    fn loop_head(
        &mut self,
        scope: &mut Scope,
        flow: Flow,
        class: Class,
        is_sync: bool,
    ) -> (Head, Expr, u32) {
        let most = self.random.within(1, 7);
        if scope.has_self && self.random.percent(12) {
            let limit = match self.random.percent(50) {
                true => Expr::id(Id::Items),
                false => Expr::number(self.random.choice(&[8, 32, 64])),
            };
            let form = self.random.choice(&[LoopForm::Double, LoopForm::Halve]);
            return (Head::Plain(form), limit, 11);
        }
        let value = self.varying(scope, flow, Type::U32, class, 2);
        let limit = match self.random.percent(40) {
            true => Expr::number(most),
            false => remainder(value, Expr::number(most + 1)),
        };
        let head = match self.random.below(4) {
            0 | 1 => Head::Plain(LoopForm::Count),
            2 => Head::Plain(LoopForm::While(self.loop_condition(scope, flow, class, is_sync))),
            _ => Head::Do,
        };
        (head, limit, most.max(1))
    }

    /// Returns a condition that each iteration evaluates.
    fn loop_condition(
        &mut self,
        scope: &mut Scope,
        flow: Flow,
        class: Class,
        is_sync: bool,
    ) -> Expr {
        // With barriers in the body, accesses in the condition would belong to two phases.
        let flow = Flow { class: flow.class.max(class), shared: !is_sync, ..flow };
        self.condition(scope, flow, class, 2)
    }

    /// Returns the body of a loop with barriers. It begins or ends with a barrier, so that the
    /// accesses of two iterations are apart.
    fn synchronous_body(&mut self, scope: &mut Scope, flow: Flow) -> Block {
        let before = scope.modes();
        let mut body = Block::new();
        let is_first = self.random.percent(35);
        if is_first {
            scope.end_phase();
            body.push(Statement::Barrier);
        }
        scope.exits.push(Vec::new());
        let flow = Flow { can_continue: is_first, ..flow };
        self.fill(scope, flow, &mut body);
        if !is_first && scope.has_modes() {
            scope.end_phase();
            body.push(Statement::Barrier);
        }
        for modes in scope.exits.pop().expect("pushed above") {
            scope.merge_modes(modes);
        }
        scope.merge_modes(before);
        body
    }

    pub(super) fn switch(&mut self, scope: &mut Scope, flow: Flow, body: &mut Block) {
        let class = self.class(flow);
        let count = self.random.within(1, 5);
        let value = self.varying(scope, flow, Type::U32, class, 2);
        let value = remainder(value, Expr::number(count + self.random.within(0, 2)));
        let inner = Flow { can_break: false, ..flow.under(class) };
        let before = scope.modes();
        let (mut ends, mut cases) = (Vec::new(), Vec::new());
        for number in 0..count {
            let case = self.block(scope, inner);
            let falls = number + 1 < count && self.random.percent(30);
            cases.push(Case { body: case, falls });
            if !inner.has_barriers() {
                continue;
            }
            if falls {
                scope.merge_modes(before.clone());
            } else {
                ends.push(scope.modes());
                scope.set_modes(before.clone());
            }
        }
        ends.into_iter().for_each(|modes| scope.merge_modes(modes));
        body.push(Statement::Switch(value, cases));
    }

    /// Appends a conditional break, continue or return, where one is permitted.
    pub(super) fn leave(&mut self, scope: &mut Scope, flow: Flow, body: &mut Block) {
        let is_loops = flow.in_loop == Some(flow.class);
        let may_return = flow.is_tail || flow.class <= scope.base;
        let statement = match self.random.below(4) {
            0 | 1 if is_loops && flow.can_break => Statement::Break,
            2 if is_loops && flow.can_continue => Statement::Continue,
            3 if may_return => return self.return_early(scope, flow, body),
            _ => return self.assign(scope, flow, body),
        };
        let class = flow.in_loop.expect("looked at above");
        let condition = self.condition(scope, flow, class, 1);
        let inner = flow.under(class);
        let mut arm = Block::new();
        let modes = scope.modes();
        if self.random.percent(30) {
            self.assign_in(scope, inner, &mut arm);
        }
        if statement == Statement::Break && inner.has_barriers() {
            let now = scope.modes();
            scope.exits.last_mut().expect("barriers are in such loops only").push(now);
        }
        scope.merge_modes(modes);
        arm.push(statement);
        body.push(Statement::If(condition, arm, Block::new()));
    }

    pub(super) fn return_early(&mut self, scope: &mut Scope, flow: Flow, body: &mut Block) {
        let class = match flow.is_tail {
            true => Class::Item,
            false => scope.base,
        };
        let divisor = self.random.within(2, 9);
        let value = self.varying(scope, flow, Type::U32, class, 2);
        let value = remainder(value, Expr::number(divisor));
        let mut condition = Expr::compare(Compare::Equal, value, Expr::number(1));
        if flow.is_tail && scope.has_self && self.random.percent(40) {
            let percent = self.random.within(1, 100);
            let product = Expr::binary(Binary::Mul, Expr::id(Id::Items), Expr::number(percent));
            let most = Expr::binary(Binary::Div, product, Expr::number(101));
            condition = Expr::compare(Compare::Less, most, Expr::id(Id::ItemIndex));
        }
        let mut arm = Block::new();
        if self.random.percent(50) {
            self.assign_in(scope, flow.under(class), &mut arm);
        }
        let inner = flow.under(class);
        let result = scope.result.map(|(ty, class)| self.expr(scope, inner, ty, class, 2));
        arm.push(Statement::Return(result));
        scope.returns.push(scope.modes());
        body.push(Statement::If(condition, arm, Block::new()));
    }
}

/// The form of a loop. The condition of `Do` follows the body.
enum Head {
    Plain(LoopForm),
    Do,
}
