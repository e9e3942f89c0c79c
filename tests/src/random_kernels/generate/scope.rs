//! The state of generation inside a kernel or a function.

use super::super::ast::{Binary, Kind};
use super::super::ast::{Class, Combine, Expr, Extent, Id, Local, Shape, Shared, Type, Variable};

/// The variables and shared arrays of a kernel or a function.
pub(super) struct Scope {
    /// Class of the control flow at the beginning.
    pub(super) base: Class,
    pub(super) is_kernel: bool,
    pub(super) has_self: bool,
    pub(super) result: Option<(Type, Class)>,
    pub(super) locals: Vec<Local>,
    pub(super) visible: Vec<Variable>,
    /// Whether each local must keep its value.
    pub(super) frozen: Vec<bool>,
    pub(super) shared: Vec<Region>,
    /// Modes of the shared arrays at each `break` of the surrounding loops.
    pub(super) exits: Vec<Vec<Modes>>,
    /// Modes of the shared arrays at each early return.
    pub(super) returns: Vec<Modes>,
    /// Number of statements to be generated.
    pub(super) budget: u32,
    /// Whether there is a barrier, or a sub-group operation.
    pub(super) has_barrier: bool,
    pub(super) has_exchange: bool,
}

/// A shared array.
pub(super) struct Region {
    pub(super) ty: Type,
    pub(super) extent: Extent,
    /// Whether all elements have values.
    pub(super) is_defined: bool,
    /// `None` without an access since the last barrier.
    pub(super) mode: Option<Mode>,
}

pub(super) type Modes = Vec<Option<Mode>>;

/// The kind of all accesses to a shared array between two barriers.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Mode {
    Read,
    /// Each item has an element of its own.
    Own(Owner),
    Atomic(Combine),
    /// Some other kind, which permits no further access.
    Other,
}

/// A bijection between items and elements.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Owner {
    Same,
    Reverse,
    /// A rotation by a distance, which does not change between barriers.
    Rotate(Expr),
}

/// The place of a statement or an expression.
#[derive(Clone, Copy)]
pub(super) struct Flow {
    pub(super) class: Class,
    /// Whether barriers are permitted, when the class is `Group`.
    pub(super) barriers: bool,
    /// Whether sub-group operations are permitted, when the class is not `Item`.
    pub(super) exchanges: bool,
    /// Whether any item may return on its own.
    pub(super) is_tail: bool,
    /// Whether shared memory may be read.
    pub(super) shared: bool,
    pub(super) loops: u32,
    pub(super) depth: u32,
    /// Class of the innermost loop.
    pub(super) in_loop: Option<Class>,
    pub(super) can_break: bool,
    pub(super) can_continue: bool,
}

impl Flow {
    pub(super) fn for_kernel() -> Flow {
        Flow::new(Class::Group, true, true)
    }

    pub(super) fn new(class: Class, barriers: bool, exchanges: bool) -> Flow {
        Flow {
            class,
            barriers,
            exchanges,
            is_tail: false,
            shared: true,
            loops: 0,
            depth: 0,
            in_loop: None,
            can_break: false,
            can_continue: false,
        }
    }

    /// Returns the flow of the last part of a kernel or function, where items may return alone.
    pub(super) fn in_tail(self) -> Flow {
        Flow { is_tail: true, barriers: false, ..self }
    }

    /// Returns the flow of code under a condition of a class.
    pub(super) fn under(self, class: Class) -> Flow {
        Flow { class: self.class.max(class), depth: self.depth + 1, ..self }
    }

    /// Returns whether a barrier may stand here.
    pub(super) fn has_barriers(self) -> bool {
        self.barriers && self.class == Class::Group
    }

    /// Returns whether a sub-group operation may stand here.
    pub(super) fn has_exchanges(self) -> bool {
        self.exchanges && self.class != Class::Item
    }
}

impl Scope {
    pub(super) fn for_kernel(shared: Vec<Region>) -> Scope {
        let mut scope = Scope::new(Class::Group, shared);
        (scope.is_kernel, scope.has_self) = (true, true);
        scope
    }

    pub(super) fn new(base: Class, shared: Vec<Region>) -> Scope {
        Scope {
            base,
            is_kernel: false,
            has_self: false,
            result: None,
            locals: Vec::new(),
            visible: Vec::new(),
            frozen: Vec::new(),
            shared,
            exits: Vec::new(),
            returns: Vec::new(),
            budget: 0,
            has_barrier: false,
            has_exchange: false,
        }
    }

    /// Adds a local that is not visible yet.
    pub(super) fn add(&mut self, ty: Type, shape: Shape, class: Class) -> Variable {
        self.locals.push(Local { ty, shape, class, is_volatile: false });
        self.frozen.push(false);
        Variable(self.locals.len() - 1)
    }

    /// Returns the visible locals that satisfy a condition.
    pub(super) fn find(&self, is_wanted: impl Fn(&Local) -> bool) -> Vec<Variable> {
        let visible = self.visible.iter().copied();
        visible.filter(|variable| is_wanted(&self.locals[variable.0])).collect()
    }

    /// Returns the visible scalars that may be assigned where the flow has this class.
    pub(super) fn assignable(&self, class: Class) -> Vec<Variable> {
        let mut all = self.find(|local| local.shape == Shape::Scalar && local.class >= class);
        all.retain(|variable| !self.frozen[variable.0]);
        all
    }

    /// Records a barrier.
    pub(super) fn end_phase(&mut self) {
        self.has_barrier = true;
        self.shared.iter_mut().for_each(|region| region.mode = None);
    }

    pub(super) fn modes(&self) -> Modes {
        self.shared.iter().map(|region| region.mode.clone()).collect()
    }

    pub(super) fn set_modes(&mut self, modes: Modes) {
        self.shared.iter_mut().zip(modes).for_each(|(region, mode)| region.mode = mode);
    }

    /// Takes into account that the code may also come here with other modes.
    pub(super) fn merge_modes(&mut self, modes: Modes) {
        for (region, mode) in self.shared.iter_mut().zip(modes) {
            region.mode = match (region.mode.take(), mode) {
                (Some(one), Some(other)) if one != other => Some(Mode::Other),
                (one, other) => one.or(other),
            };
        }
    }

    pub(super) fn has_modes(&self) -> bool {
        self.shared.iter().any(|region| region.mode.is_some())
    }
}

impl Region {
    pub(super) fn new(array: &Shared) -> Region {
        Region { ty: array.ty, extent: array.extent, is_defined: false, mode: None }
    }

    /// Returns whether each item has an element.
    pub(super) fn has_items(&self) -> bool {
        !matches!(self.extent, Extent::Fixed(_))
    }

    pub(super) fn is_free_for(&self, mode: &Mode) -> bool {
        self.mode.as_ref().is_none_or(|current| current == mode)
    }

    /// Returns the number of elements.
    pub(super) fn length(&self) -> Expr {
        match self.extent {
            Extent::Fixed(length) => Expr::number(length),
            Extent::Items(_) | Extent::Dynamic => Expr::id(Id::Items),
        }
    }

    /// Returns an index modulo the length.
    pub(super) fn bounded(&self, index: Expr) -> Expr {
        remainder(index, self.length())
    }
}

impl Owner {
    /// Returns the index of the item's element.
    pub(super) fn index(&self) -> Expr {
        let item = Expr::id(Id::ItemIndex);
        match self {
            Owner::Same => item,
            Owner::Reverse => {
                let last = Expr::binary(Binary::Sub, Expr::id(Id::Items), Expr::number(1));
                Expr::binary(Binary::Sub, last, item)
            }
            Owner::Rotate(distance) => {
                let distance = remainder(distance.clone(), Expr::id(Id::Items));
                remainder(Expr::binary(Binary::Add, item, distance), Expr::id(Id::Items))
            }
        }
    }
}

/// Returns the remainder of a division by a divisor above 0.
pub(super) fn remainder(value: Expr, divisor: Expr) -> Expr {
    Expr::new(Type::U32, Kind::Modulo(value, divisor))
}
