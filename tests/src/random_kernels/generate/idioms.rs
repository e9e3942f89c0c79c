//! Algorithms over shared memory: first values, trees, scans and exchanges.

use super::super::ast::{
    Binary, Block, Class, Compare, Expr, Extent, Id, Kind, Loop, LoopForm, Place, Shape, Statement,
    Type,
};
use super::Generator;
use super::expressions::kept;
use super::scope::{Flow, Mode, Owner, Scope};

impl Generator {
    /// Writes each element of a shared array. All items of the group must come here.
    pub(super) fn define(&mut self, scope: &mut Scope, array: usize, body: &mut Block) {
        let ty = scope.shared[array].ty;
        let flow = Flow { exchanges: false, shared: false, ..Flow::for_kernel() };
        let value = self.expr(scope, flow, ty, Class::Item, 2);
        if let Extent::Fixed(length) = scope.shared[array].extent {
            let counter = scope.add(Type::U32, Shape::Scalar, Class::Item);
            let index = Expr::new(Type::U32, Kind::Variable(counter));
            let inner = vec![Statement::Assign(Place::Shared(array, index), value)];
            let (form, limit) = (LoopForm::Stride, Expr::number(length));
            body.push(Statement::Loop(Box::new(Loop { form, counter, limit, body: inner })));
            scope.shared[array].mode = Some(Mode::Other);
        } else {
            let owner = self.owner(scope);
            body.push(Statement::Assign(Place::Shared(array, owner.index()), value));
            scope.shared[array].mode = Some(Mode::Own(owner));
        }
        scope.shared[array].is_defined = true;
    }

    /// Appends an algorithm, where all items of the group are.
    pub(super) fn idiom(&mut self, scope: &mut Scope, flow: Flow, body: &mut Block) {
        let has_items = |array: &usize| scope.shared[*array].has_items();
        let suitable: Vec<usize> = (0..scope.shared.len()).filter(has_items).collect();
        let undefined: Vec<usize> =
            (0..scope.shared.len()).filter(|array| !scope.shared[*array].is_defined).collect();
        if !undefined.is_empty() && flow.depth == 0 {
            let array = self.random.choice(&undefined);
            if scope.shared[array].mode.is_some() {
                barrier(scope, body);
            }
            self.define(scope, array, body);
            return barrier(scope, body);
        }
        if suitable.is_empty() {
            return self.assign(scope, flow, body);
        }
        let array = self.random.choice(&suitable);
        if scope.shared[array].mode.is_some() {
            barrier(scope, body);
        }
        let flow = Flow { shared: false, ..flow };
        let value = self.expr(scope, flow, scope.shared[array].ty, Class::Item, 2);
        let place = Place::Shared(array, Owner::Same.index());
        body.push(Statement::Assign(place, value));
        scope.shared[array].is_defined |= flow.depth == 0;
        barrier(scope, body);
        match self.random.below(3) {
            0 => self.tree(scope, array, body),
            1 => self.running_sum(scope, array, body),
            _ => self.sort(scope, array, body),
        }
        scope.has_barrier = true;
        scope.shared[array].mode = Some(Mode::Read);
        let first = element(scope, array, Expr::number(0));
        self.declare_as(scope, first, Class::Group, body);
    }

    fn tree(&mut self, scope: &mut Scope, array: usize, body: &mut Block) {
        let counter = scope.add(Type::U32, Shape::Scalar, Class::Group);
        let (step, item) = (Expr::new(Type::U32, Kind::Variable(counter)), Expr::id(Id::ItemIndex));
        let partner = Expr::binary(Binary::Add, item.clone(), step.clone());
        let condition = Expr::new(
            Type::U32,
            Kind::Both(
                Expr::compare(Compare::Less, item.clone(), step),
                Expr::compare(Compare::Less, partner.clone(), Expr::id(Id::Items)),
            ),
        );
        let sum = sum(element(scope, array, item.clone()), element(scope, array, partner));
        let add = Statement::Assign(Place::Shared(array, item), sum);
        let inner = vec![Statement::If(condition, vec![add], Block::new()), Statement::Barrier];
        let limit = match self.random.percent(50) {
            true => Expr::number(512),
            false => Expr::id(Id::Items),
        };
        let form = LoopForm::Halve;
        body.push(Statement::Loop(Box::new(Loop { form, counter, limit, body: inner })));
    }

    fn running_sum(&mut self, scope: &mut Scope, array: usize, body: &mut Block) {
        let counter = scope.add(Type::U32, Shape::Scalar, Class::Group);
        let (step, item) = (Expr::new(Type::U32, Kind::Variable(counter)), Expr::id(Id::ItemIndex));
        let ty = scope.shared[array].ty;
        let earlier = Expr::binary(Binary::Sub, item.clone(), step.clone());
        let value = Expr::new(
            ty,
            Kind::Choose(
                Expr::compare(Compare::LessEqual, step, item.clone()),
                element(scope, array, earlier),
                Expr::new(ty, Kind::Constant(0)),
            ),
        );
        let before = scope.add(ty, Shape::Scalar, Class::Item);
        let read = Expr::new(ty, Kind::Variable(before));
        let sum = sum(element(scope, array, item.clone()), read);
        let inner = vec![
            Statement::Declare(before, value),
            Statement::Barrier,
            Statement::Assign(Place::Shared(array, item), sum),
            Statement::Barrier,
        ];
        let (form, limit) = (LoopForm::Double, Expr::id(Id::Items));
        body.push(Statement::Loop(Box::new(Loop { form, counter, limit, body: inner })));
    }

    fn sort(&mut self, scope: &mut Scope, array: usize, body: &mut Block) {
        let counter = scope.add(Type::U32, Shape::Scalar, Class::Group);
        let (step, item) = (Expr::new(Type::U32, Kind::Variable(counter)), Expr::id(Id::ItemIndex));
        let partner = Expr::binary(Binary::Xor, item.clone(), step);
        let condition = Expr::new(
            Type::U32,
            Kind::Both(
                Expr::compare(Compare::Less, item.clone(), partner.clone()),
                Expr::compare(Compare::Less, partner.clone(), Expr::id(Id::Items)),
            ),
        );
        let ty = scope.shared[array].ty;
        let (mine, other) =
            (element(scope, array, item.clone()), element(scope, array, partner.clone()));
        let old = scope.add(ty, Shape::Scalar, Class::Item);
        let swap = vec![
            Statement::Declare(old, mine.clone()),
            Statement::Assign(Place::Shared(array, item), other.clone()),
            Statement::Assign(Place::Shared(array, partner), Expr::new(ty, Kind::Variable(old))),
        ];
        let exchange = Statement::If(Expr::compare(Compare::Less, other, mine), swap, Block::new());
        let inner =
            vec![Statement::If(condition, vec![exchange], Block::new()), Statement::Barrier];
        let (form, limit) = (LoopForm::Double, Expr::id(Id::Items));
        body.push(Statement::Loop(Box::new(Loop { form, counter, limit, body: inner })));
    }
}

fn barrier(scope: &mut Scope, body: &mut Block) {
    scope.end_phase();
    body.push(Statement::Barrier);
}

fn element(scope: &Scope, array: usize, index: Expr) -> Expr {
    Expr::new(scope.shared[array].ty, Kind::Shared(array, index))
}

fn sum(left: Expr, right: Expr) -> Expr {
    let is_float = left.ty == Type::F32;
    let sum = Expr::binary(Binary::Add, left, right);
    if is_float { kept(sum) } else { sum }
}
