//! The grammar of random kernels: typed trees, without any choice of C's syntax.

use std::fmt;

/// The type of a scalar.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Type {
    U32,
    I32,
    U64,
    F32,
}

/// The items that have the same value, or that take the same path: from all items of a group to
/// each item alone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Class {
    Group,
    Subgroup,
    Item,
}

/// An expression without side effects.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Expr {
    pub(super) ty: Type,
    pub(super) kind: Box<Kind>,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Kind {
    /// The bits of a value.
    Constant(u64),
    Id(Id),
    Argument(Argument),
    Variable(Variable),
    /// An element of a private array, at an index modulo its length.
    Element(Variable, Expr),
    /// The target of a pointer.
    Target(Variable),
    /// An element of a shared array, at an index that is in bounds.
    Shared(usize, Expr),
    /// An element of the input, at an index modulo its length.
    Input(Expr),
    /// An own element of the item in the output: in `wide` for `U64`, otherwise in `out`.
    Output(u32),
    Unary(Unary, Expr),
    Binary(Binary, Expr, Expr),
    /// The remainder of a division by a number above 0; of type `U32`.
    Modulo(Expr, Expr),
    Compare(Compare, Expr, Expr),
    /// `&&`, with a lazy right side.
    Both(Expr, Expr),
    /// `||`, with a lazy right side.
    Either(Expr, Expr),
    Choose(Expr, Expr, Expr),
    Cast(Expr),
    /// A sub-group operation. The second operand is the lane, mask or distance, if there is one.
    Subgroup(Subgroup, Expr, Option<Expr>),
    /// A call of a function without effects.
    Call(usize, Vec<Expr>),
}

/// The index of a local variable in its function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Variable(pub(super) usize);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Id {
    Item(u32),
    Group(u32),
    GroupItems(u32),
    GroupCount(u32),
    /// `U64`.
    Global(u32),
    ItemIndex,
    /// `U64`.
    GroupIndex,
    /// Number of items in the group.
    Items,
    Lane,
    Subgroup,
    SubgroupCount,
    SubgroupWidth,
}

/// A kernel argument that is a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Argument {
    /// Length of the input, which functions receive too.
    N,
    A,
    B,
    C,
    F,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unary {
    Not,
    Negate,
    /// 1 for 0, otherwise 0; of type `U32`.
    IsZero,
    /// A float of small magnitude; 1 in place of others.
    Keep,
    /// The bits of a float, of type `U32`.
    Bits,
}

/// Operations of two operands of one type. Arithmetic wraps; shifts take the distance modulo the
/// width; division makes the divisor odd, and a signed divisor positive and below 16.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Binary {
    Add,
    Sub,
    Mul,
    And,
    Or,
    Xor,
    Left,
    Right,
    Div,
    Rem,
    Min,
    Max,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Compare {
    Less,
    LessEqual,
    Equal,
    NotEqual,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Subgroup {
    /// `U64`, from a condition.
    Ballot,
    /// `U32`, from a condition.
    Any,
    /// `U32`, from a condition.
    All,
    Shuffle,
    Broadcast,
    ShuffleXor,
    ShuffleUp,
    ShuffleDown,
    Reduce(Combine),
    Inclusive(Combine),
    Exclusive(Combine),
}

/// An operation that is commutative and associative.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Combine {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
}

/// The target of an assignment.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Place {
    Variable(Variable),
    Element(Variable, Expr),
    Target(Variable),
    Shared(usize, Expr),
    Output(u32),
}

/// The address of a private variable.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Address {
    Of(Variable),
    Element(Variable, Expr),
    Copy(Variable),
    Choose(Expr, Box<Address>, Box<Address>),
}

/// An argument of a function.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Passed {
    Value(Expr),
    Address(Address),
    /// A private array of the caller.
    Array(Variable),
    Shared(usize),
}

pub(super) type Block = Vec<Statement>;

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Statement {
    Declare(Variable, Expr),
    /// All elements of a private array.
    DeclareArray(Variable, Vec<Expr>),
    DeclarePointer(Variable, Address),
    Assign(Place, Expr),
    Atomic {
        combine: Combine,
        shared: usize,
        index: Expr,
        value: Expr,
        /// Whether the scope is the group.
        is_scoped: bool,
    },
    Barrier,
    Call {
        result: Option<Variable>,
        function: usize,
        arguments: Vec<Passed>,
    },
    If(Expr, Block, Block),
    Loop(Box<Loop>),
    Switch(Expr, Vec<Case>),
    Break,
    Continue,
    Return(Option<Expr>),
}

/// A loop, whose body does not assign the counter.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Loop {
    pub(super) form: LoopForm,
    pub(super) counter: Variable,
    /// Limit of the counter, evaluated once.
    pub(super) limit: Expr,
    pub(super) body: Block,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum LoopForm {
    /// A counter from 0 to below the limit, by 1.
    Count,
    /// A counter from the item's index to below the limit, by the number of items.
    Stride,
    /// A counter from 1 to below the limit, doubled.
    Double,
    /// A counter from the limit to 1, halved.
    Halve,
    /// `while (condition && counter++ < limit)`.
    While(Expr),
    /// `do ... while (condition && ++counter < limit)`.
    Do(Expr),
}

/// A case of a switch, whose number is its index.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Case {
    pub(super) body: Block,
    /// Whether the next case follows.
    pub(super) falls: bool,
}

/// A local variable or a parameter.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Local {
    pub(super) ty: Type,
    pub(super) shape: Shape,
    pub(super) class: Class,
    pub(super) is_volatile: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    Scalar,
    Array(u32),
    Pointer,
}

/// The code of a kernel or a function. The first locals of a function are its parameters.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Code {
    pub(super) locals: Vec<Local>,
    pub(super) body: Block,
}

/// A function that kernels call.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Function {
    /// Number of parameters among the locals.
    pub(super) parameters: usize,
    /// Types of the parameters that are shared arrays with an element for each item.
    pub(super) shared: Vec<Type>,
    pub(super) result: Option<Type>,
    /// Whether it takes `longshore_self` and the input.
    pub(super) has_self: bool,
    pub(super) is_inline: bool,
    pub(super) code: Code,
}

/// A shared array.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Shared {
    pub(super) ty: Type,
    pub(super) extent: Extent,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Extent {
    /// An element for each item, in an array of this length.
    Items(u32),
    /// An element for each item, in dynamic shared memory.
    Dynamic,
    Fixed(u32),
}

/// Number of each item's elements in `out` and in `wide`.
pub(super) const OUTPUTS: u32 = 4;

/// A kernel and its launch.
#[derive(Clone, PartialEq, Debug)]
pub struct Kernel {
    pub(super) seed: u64,
    pub(super) functions: Vec<Function>,
    pub(super) shared: Vec<Shared>,
    pub(super) code: Code,
    /// Whether the kernel states its group size.
    pub(super) has_fixed_size: bool,
    pub(super) items: [u32; 3],
    pub(super) groups: [u32; 3],
    pub(super) arguments: Arguments,
}

/// The arguments of a launch, besides the output.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Arguments {
    pub(super) input: Vec<u32>,
    pub(super) a: u32,
    pub(super) b: i32,
    pub(super) c: u64,
    pub(super) f: f32,
}

impl Kernel {
    /// Returns the number of items in a group.
    pub(super) fn volume(&self) -> u32 {
        self.items.iter().product()
    }

    /// Returns the number of items in the launch.
    pub(super) fn total(&self) -> usize {
        self.groups.iter().product::<u32>() as usize * self.volume() as usize
    }

    /// Returns the number of bytes of dynamic shared memory.
    pub(super) fn dynamic_bytes(&self) -> u64 {
        let dynamic = self.shared.iter().filter(|array| array.extent == Extent::Dynamic);
        dynamic.map(|array| u64::from(self.volume()) * array.ty.bytes()).sum()
    }
}

impl Type {
    pub(super) const ALL: [Type; 4] = [Type::U32, Type::I32, Type::U64, Type::F32];

    pub(super) fn bytes(self) -> u64 {
        if self == Type::U64 { 8 } else { 4 }
    }
}

impl Expr {
    pub(super) fn new(ty: Type, kind: Kind) -> Expr {
        Expr { ty, kind: Box::new(kind) }
    }

    pub(super) fn number(value: u32) -> Expr {
        Expr::new(Type::U32, Kind::Constant(value.into()))
    }

    pub(super) fn id(id: Id) -> Expr {
        let ty = match id {
            Id::Global(_) | Id::GroupIndex => Type::U64,
            _ => Type::U32,
        };
        Expr::new(ty, Kind::Id(id))
    }

    pub(super) fn binary(binary: Binary, left: Expr, right: Expr) -> Expr {
        Expr::new(left.ty, Kind::Binary(binary, left, right))
    }

    pub(super) fn compare(compare: Compare, left: Expr, right: Expr) -> Expr {
        Expr::new(Type::U32, Kind::Compare(compare, left, right))
    }
}

/// Writes the seed and the sizes.
impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}, {:?} groups of {:?} items", self.seed, self.groups, self.items)
    }
}
