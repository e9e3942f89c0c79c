//! Functions that kernels call.

use super::super::ast::{Block, Class, Code, Extent, Function, Shape, Statement, Type};
use super::Generator;
use super::scope::{Flow, Mode, Modes, Region, Scope};

/// The conditions and effects of a call.
pub(super) struct Summary {
    /// Whether there is no effect at all, in any flow.
    pub(super) is_pure: bool,
    /// Greatest class of the flow at a call.
    pub(super) base: Class,
    pub(super) has_barrier: bool,
    pub(super) has_exchange: bool,
    pub(super) result_class: Class,
    /// Modes of the shared parameters after a call.
    pub(super) exit: Modes,
    /// A measure of the time of a call.
    pub(super) cost: u32,
}

impl Generator {
    /// Generates a function, which may call earlier ones.
    pub(super) fn function(&mut self) {
        match self.random.below(6) {
            0 => self.function_of(Class::Item, true),
            1 => self.function_of(Class::Item, false),
            2 => self.function_of(Class::Subgroup, false),
            _ => self.function_of(Class::Group, false),
        }
    }

    fn function_of(&mut self, base: Class, is_pure: bool) {
        let regions = if is_pure { Vec::new() } else { self.shared_parameters() };
        let shared: Vec<Type> = regions.iter().map(|region| region.ty).collect();
        let mut scope = Scope::new(base, regions);
        scope.has_self = !is_pure;
        self.parameters(&mut scope, is_pure);
        let parameters = scope.locals.len();
        if is_pure || self.random.percent(70) {
            let class = self.random.choice(&[base, Class::Item]);
            scope.result = Some((self.random.choice(&Type::ALL), class));
        }
        scope.budget = self.random.within(1, if is_pure { 4 } else { 10 });
        let mut flow = Flow::new(base, self.waits, self.waits);
        let mut body = Block::new();
        self.statements(&mut scope, flow, &mut body);
        let is_mixed = scope.result.is_none_or(|(_, class)| class == Class::Item);
        if is_mixed && self.random.percent(30) {
            flow = Flow { exchanges: false, ..flow.in_tail() };
            scope.budget = self.random.within(1, 6);
            self.statements(&mut scope, flow, &mut body);
        }
        if let Some((ty, class)) = scope.result {
            let value = self.expr(&mut scope, flow, ty, class, 2);
            body.push(Statement::Return(Some(value)));
        }
        for modes in std::mem::take(&mut scope.returns) {
            scope.merge_modes(modes);
        }
        let exit = scope.modes().into_iter().map(|mode| match mode {
            Some(Mode::Own(_)) => Some(Mode::Other),
            mode => mode,
        });
        self.summaries.push(Summary {
            is_pure,
            base,
            has_barrier: scope.has_barrier,
            has_exchange: scope.has_exchange,
            result_class: scope.result.map_or(Class::Item, |(_, class)| class),
            exit: exit.collect(),
            cost: 4,
        });
        self.functions.push(Function {
            parameters,
            shared,
            result: scope.result.map(|(ty, _)| ty),
            has_self: !is_pure,
            is_inline: self.random.percent(60),
            code: Code { locals: scope.locals, body },
        });
    }

    fn shared_parameters(&mut self) -> Vec<Region> {
        let count = self.random.choice(&[0, 0, 1, 1, 2]);
        let region = |ty| Region { ty, extent: Extent::Dynamic, is_defined: true, mode: None };
        (0..count)
            .map(|_| region(self.random.choice(&[Type::U32, Type::U32, Type::U64, Type::F32])))
            .collect()
    }

    fn parameters(&mut self, scope: &mut Scope, is_pure: bool) {
        for _ in 0..self.random.within(if is_pure { 1 } else { 0 }, 4) {
            let ty = self.random.choice(&Type::ALL);
            let shape = match self.random.below(6) {
                0 if !is_pure => Shape::Array(self.random.within(1, 6)),
                1 | 2 if !is_pure => Shape::Pointer,
                _ => Shape::Scalar,
            };
            let class = match shape {
                Shape::Scalar => self.random.choice(&[Class::Group, Class::Subgroup, Class::Item]),
                _ => Class::Item,
            };
            let class = if is_pure { Class::Item } else { class };
            let variable = scope.add(ty, shape, class);
            scope.frozen[variable.0] = class != Class::Item;
            scope.visible.push(variable);
        }
    }
}
