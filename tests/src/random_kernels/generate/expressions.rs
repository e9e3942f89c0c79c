//! Expressions of a type and a class.

use super::super::ast::{
    Argument, Binary, Class, Combine, Compare, Expr, Id, Kind, Shape, Subgroup, Type, Unary,
};
use super::Generator;
use super::scope::{Flow, Mode, Owner, Scope};

impl Generator {
    /// Returns an expression of at most this depth, which is the same for all items of a class.
    pub(super) fn expr(
        &mut self,
        scope: &mut Scope,
        flow: Flow,
        ty: Type,
        class: Class,
        depth: u32,
    ) -> Expr {
        if depth == 0 || self.random.percent(20) {
            return self.leaf(scope, flow, ty, class);
        }
        let lazy = Flow { exchanges: false, ..flow };
        match self.random.below(16) {
            0..6 => self.arithmetic(scope, flow, ty, class, depth),
            6 => self.unary(scope, flow, ty, class, depth),
            7 => {
                let condition = self.condition(scope, flow, class, depth - 1);
                let yes = self.expr(scope, lazy, ty, class, depth - 1);
                let no = self.expr(scope, lazy, ty, class, depth - 1);
                Expr::new(ty, Kind::Choose(condition, yes, no))
            }
            8 | 9 => {
                let from = self.random.choice(&Type::ALL);
                let value = self.expr(scope, flow, from, class, depth - 1);
                converted(value, ty)
            }
            10 if ty == Type::U32 => self.condition(scope, flow, class, depth),
            10 | 11 => self.memory(scope, flow, ty, class, depth - 1),
            12 | 13 if flow.has_exchanges() && scope.has_self && class != Class::Group => {
                self.exchange(scope, flow, ty, class, depth - 1)
            }
            14 if class == Class::Item => self.pure_call(scope, flow, ty, depth - 1),
            _ => self.leaf(scope, flow, ty, class),
        }
    }

    /// Returns a condition, of type `U32`.
    pub(super) fn condition(
        &mut self,
        scope: &mut Scope,
        flow: Flow,
        class: Class,
        depth: u32,
    ) -> Expr {
        let lazy = Flow { exchanges: false, ..flow };
        if depth > 0 && self.random.percent(15) {
            let left = self.condition(scope, flow, class, depth - 1);
            let right = self.condition(scope, lazy, class, depth - 1);
            let kind = match self.random.percent(50) {
                true => Kind::Both(left, right),
                false => Kind::Either(left, right),
            };
            return Expr::new(Type::U32, kind);
        }
        let ty = self.random.choice(&Type::ALL);
        let compares = [Compare::Less, Compare::LessEqual, Compare::Equal, Compare::NotEqual];
        let mut left = self.varying(scope, flow, ty, class, depth);
        let mut right = self.expr(scope, flow, ty, class, depth.saturating_sub(1));
        if self.random.percent(30) && ty != Type::F32 {
            // Values that are often equal.
            let mask = Expr::new(ty, Kind::Constant(self.random.choice(&[1, 3, 7])));
            left = Expr::binary(Binary::And, left, mask);
            right = Expr::new(ty, Kind::Constant(self.random.within(0, 4).into()));
        }
        Expr::compare(self.random.choice(&compares), left, right)
    }

    /// Returns an expression that is rather no constant.
    pub(super) fn varying(
        &mut self,
        scope: &mut Scope,
        flow: Flow,
        ty: Type,
        class: Class,
        depth: u32,
    ) -> Expr {
        let mut expr = self.expr(scope, flow, ty, class, depth);
        for _ in 0..3 {
            if !is_constant(&expr) {
                break;
            }
            expr = self.expr(scope, flow, ty, class, depth);
        }
        expr
    }

    fn arithmetic(
        &mut self,
        scope: &mut Scope,
        flow: Flow,
        ty: Type,
        class: Class,
        depth: u32,
    ) -> Expr {
        use Binary::{Add, And, Div, Left, Max, Min, Mul, Or, Rem, Right, Sub, Xor};
        let left = self.varying(scope, flow, ty, class, depth - 1);
        let right = self.expr(scope, flow, ty, class, depth - 1);
        if ty == Type::F32 {
            return kept(Expr::binary(self.random.choice(&[Add, Sub, Mul]), left, right));
        }
        let all = [Add, Add, Add, Sub, Mul, And, Or, Xor, Left, Right, Div, Rem, Min, Max];
        Expr::binary(self.random.choice(&all), left, right)
    }

    fn unary(&mut self, scope: &mut Scope, flow: Flow, ty: Type, class: Class, depth: u32) -> Expr {
        let unary = match ty {
            Type::F32 => Unary::Negate,
            Type::U32 => {
                self.random.choice(&[Unary::Not, Unary::Negate, Unary::IsZero, Unary::Bits])
            }
            _ => self.random.choice(&[Unary::Not, Unary::Negate]),
        };
        let of = match unary {
            Unary::Bits => Type::F32,
            Unary::IsZero => self.random.choice(&Type::ALL),
            _ => ty,
        };
        let operand = self.expr(scope, flow, of, class, depth - 1);
        Expr::new(ty, Kind::Unary(unary, operand))
    }

    /// Returns an element of an array, or a leaf if no array is suitable.
    fn memory(
        &mut self,
        scope: &mut Scope,
        flow: Flow,
        ty: Type,
        class: Class,
        depth: u32,
    ) -> Expr {
        match self.random.below(8) {
            0..3 if class == Class::Item => {
                let arrays =
                    scope.find(|local| local.ty == ty && matches!(local.shape, Shape::Array(_)));
                if !arrays.is_empty() {
                    let array = self.random.choice(&arrays);
                    let index = self.expr(scope, flow, Type::U32, class, depth);
                    return Expr::new(ty, Kind::Element(array, index));
                }
            }
            3 if class == Class::Item => {
                let pointers = scope.find(|local| local.ty == ty && local.shape == Shape::Pointer);
                if !pointers.is_empty() {
                    return Expr::new(ty, Kind::Target(self.random.choice(&pointers)));
                }
            }
            4 if ty == Type::U32 && scope.has_self => {
                let index = self.expr(scope, flow, Type::U32, class, depth);
                return Expr::new(ty, Kind::Input(index));
            }
            5 if scope.is_kernel && class == Class::Item && ty != Type::F32 && ty != Type::I32 => {
                return Expr::new(ty, Kind::Output(self.random.within(0, 4)));
            }
            _ => {}
        }
        let read = self.shared(scope, flow, ty, class, depth);
        read.unwrap_or_else(|| self.leaf(scope, flow, ty, class))
    }

    /// Returns an element of a shared array that may be read.
    fn shared(
        &mut self,
        scope: &mut Scope,
        flow: Flow,
        ty: Type,
        class: Class,
        depth: u32,
    ) -> Option<Expr> {
        let is_suitable = |array: &usize| {
            let region = &scope.shared[*array];
            let is_own = class == Class::Item && matches!(region.mode, Some(Mode::Own(_)));
            region.ty == ty && region.is_defined && (region.is_free_for(&Mode::Read) || is_own)
        };
        let suitable: Vec<usize> = (0..scope.shared.len()).filter(is_suitable).collect();
        if suitable.is_empty() || !flow.shared {
            return None;
        }
        let array = self.random.choice(&suitable);
        let index = match &scope.shared[array].mode {
            Some(Mode::Own(owner)) => owner.index(),
            mode => {
                let may_own = mode.is_none() && scope.shared[array].has_items();
                if may_own && class == Class::Item && self.random.percent(20) {
                    let owner = self.owner(scope);
                    let index = owner.index();
                    scope.shared[array].mode = Some(Mode::Own(owner));
                    return Some(Expr::new(ty, Kind::Shared(array, index)));
                }
                scope.shared[array].mode = Some(Mode::Read);
                let index = self.expr(scope, flow, Type::U32, class, depth);
                scope.shared[array].bounded(index)
            }
        };
        Some(Expr::new(ty, Kind::Shared(array, index)))
    }

    /// Returns a bijection between items and elements.
    pub(super) fn owner(&mut self, scope: &Scope) -> Owner {
        let distance = match self.random.below(6) {
            0 | 1 => return Owner::Same,
            2 => return Owner::Reverse,
            3 if scope.is_kernel => Expr::new(Type::U32, Kind::Argument(Argument::A)),
            4 if scope.is_kernel => Expr::id(Id::Group(0)),
            _ => Expr::number(self.random.within(1, 40)),
        };
        Owner::Rotate(distance)
    }

    fn exchange(
        &mut self,
        scope: &mut Scope,
        flow: Flow,
        ty: Type,
        class: Class,
        depth: u32,
    ) -> Expr {
        scope.has_exchange = true;
        let choice = self.random.below(if class == Class::Item { 12 } else { 5 });
        let (result, subgroup, value, other) = match choice {
            0 => (Type::U64, Subgroup::Ballot, None, None),
            1 => (Type::U32, self.random.choice(&[Subgroup::Any, Subgroup::All]), None, None),
            2..5 => return self.scan(scope, flow, ty, 0, depth),
            5..8 => {
                let mode = self.random.below(3);
                return self.scan(scope, flow, ty, mode, depth);
            }
            _ => {
                let (subgroup, other) = self.shuffle(scope, flow, depth);
                let value = self.expr(scope, flow, ty, Class::Item, depth);
                (ty, subgroup, Some(value), Some(other))
            }
        };
        let value = value.unwrap_or_else(|| self.condition(scope, flow, Class::Item, depth));
        converted(Expr::new(result, Kind::Subgroup(subgroup, value, other)), ty)
    }

    fn shuffle(&mut self, scope: &mut Scope, flow: Flow, depth: u32) -> (Subgroup, Expr) {
        use Subgroup::{Broadcast, Shuffle, ShuffleDown, ShuffleUp, ShuffleXor};
        let subgroup =
            self.random.choice(&[Broadcast, Shuffle, ShuffleDown, ShuffleUp, ShuffleXor]);
        let other = match subgroup {
            Shuffle if self.random.percent(60) => {
                let lane = self.expr(scope, flow, Type::U32, Class::Item, depth);
                super::scope::remainder(lane, Expr::number(self.random.choice(&[32, 32, 40])))
            }
            Broadcast if self.random.percent(30) => {
                let lane = self.expr(scope, flow, Type::U32, Class::Subgroup, depth);
                super::scope::remainder(lane, Expr::number(32))
            }
            _ => Expr::number(self.random.within(0, 33)),
        };
        (subgroup, other)
    }

    /// Returns a combination of lanes. `mode` is `0` for all lanes, `1` for the lanes up to the
    /// item's, `2` for the lanes before it.
    fn scan(&mut self, scope: &mut Scope, flow: Flow, ty: Type, mode: usize, depth: u32) -> Expr {
        let mut value = self.expr(scope, flow, ty, Class::Item, depth);
        let mut combine = self.combine();
        if ty == Type::F32 {
            // Small whole numbers have the same sum in every order.
            let whole = converted(value, Type::I32);
            let mask = Expr::new(Type::I32, Kind::Constant(255));
            value = Expr::new(ty, Kind::Cast(Expr::binary(Binary::And, whole, mask)));
            combine = self.random.choice(&[Combine::Add, Combine::Min, Combine::Max]);
        }
        let subgroup = match mode {
            0 => Subgroup::Reduce(combine),
            1 => Subgroup::Inclusive(combine),
            _ => Subgroup::Exclusive(combine),
        };
        let result = Expr::new(ty, Kind::Subgroup(subgroup, value, None));
        if ty == Type::F32 { kept(result) } else { result }
    }

    pub(super) fn combine(&mut self) -> Combine {
        use Combine::{Add, And, Max, Min, Or, Xor};
        self.random.choice(&[Add, Add, And, Max, Min, Or, Xor])
    }

    fn pure_call(&mut self, scope: &mut Scope, flow: Flow, ty: Type, depth: u32) -> Expr {
        let is_suitable = |index: &usize| {
            self.summaries[*index].is_pure && self.functions[*index].result == Some(ty)
        };
        let suitable: Vec<usize> = (0..self.functions.len()).filter(is_suitable).collect();
        if suitable.is_empty() || self.cost > 8 {
            return self.leaf(scope, flow, ty, Class::Item);
        }
        let index = self.random.choice(&suitable);
        let parameters =
            self.functions[index].code.locals[..self.functions[index].parameters].to_vec();
        let arguments = parameters
            .iter()
            .map(|local| self.expr(scope, flow, local.ty, Class::Item, depth))
            .collect();
        Expr::new(ty, Kind::Call(index, arguments))
    }

    fn leaf(&mut self, scope: &mut Scope, flow: Flow, ty: Type, class: Class) -> Expr {
        let variables = scope
            .find(|local| local.shape == Shape::Scalar && local.ty == ty && local.class <= class);
        match self.random.below(10) {
            0..6 if !variables.is_empty() => {
                Expr::new(ty, Kind::Variable(self.random.choice(&variables)))
            }
            0..2 if flow.shared => {
                self.shared(scope, flow, ty, class, 0).unwrap_or_else(|| self.constant(ty))
            }
            2..9 if scope.has_self => {
                let mut value = self.given(scope, class);
                if self.random.percent(25) {
                    value = Expr::new(Type::U32, Kind::Input(converted(value, Type::U32)));
                }
                converted(value, ty)
            }
            _ => self.constant(ty),
        }
    }

    /// Returns an id, a size or an argument.
    fn given(&mut self, scope: &Scope, class: Class) -> Expr {
        let d = self.random.within(0, 3);
        let id = match (self.random.below(10), class) {
            (0 | 1, Class::Item) => Id::Item(self.random.choice(&[0, 0, d])),
            (2, Class::Item) => Id::Global(self.random.choice(&[0, 0, d])),
            (3 | 4, Class::Item) => Id::ItemIndex,
            (5, Class::Item) => Id::Lane,
            (0 | 1, Class::Subgroup) => Id::Subgroup,
            (0..5, _) if scope.is_kernel => {
                let (ty, argument) = self.random.choice(&[
                    (Type::U32, Argument::N),
                    (Type::U32, Argument::A),
                    (Type::I32, Argument::B),
                    (Type::U64, Argument::C),
                    (Type::F32, Argument::F),
                ]);
                return Expr::new(ty, Kind::Argument(argument));
            }
            (5 | 6, _) => Id::Group(d),
            (7, _) => self.random.choice(&[Id::GroupItems(d), Id::GroupCount(d), Id::GroupIndex]),
            (8, _) => self.random.choice(&[Id::SubgroupCount, Id::SubgroupWidth]),
            _ => Id::Items,
        };
        Expr::id(id)
    }

    fn constant(&mut self, ty: Type) -> Expr {
        let small = u64::from(self.random.within(0, 20));
        let bits = match ty {
            Type::F32 => u64::from((self.random.within(0, 400) as f32 / 8.0 - 16.0).to_bits()),
            _ if self.random.percent(70) => small,
            Type::I32 => {
                self.random.choice(&[u32::MAX, i32::MAX as u32, 0x8000_0000, 0xFFFF_FF00]).into()
            }
            _ => self.random.choice(&[u32::MAX, 0x8000_0000, 0x0101_0101, 1 << 16]).into(),
        };
        Expr::new(ty, Kind::Constant(bits))
    }
}

/// Returns a float limited in magnitude.
pub(super) fn kept(value: Expr) -> Expr {
    Expr::new(Type::F32, Kind::Unary(Unary::Keep, value))
}

/// Returns a value as another type. Floats stay small.
pub(super) fn converted(value: Expr, ty: Type) -> Expr {
    match (value.ty, ty) {
        (from, to) if from == to => value,
        (_, Type::F32) => kept(Expr::new(ty, Kind::Cast(value))),
        _ => Expr::new(ty, Kind::Cast(value)),
    }
}

fn is_constant(expr: &Expr) -> bool {
    match &*expr.kind {
        Kind::Constant(_) => true,
        Kind::Cast(operand) | Kind::Unary(_, operand) => is_constant(operand),
        Kind::Binary(_, left, right) | Kind::Modulo(left, right) => {
            is_constant(left) && is_constant(right)
        }
        _ => false,
    }
}
