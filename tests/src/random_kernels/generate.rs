//! Generation of kernels from seeds.
//!
//! Kernels are free of data races by construction, up to rare cases that the interpreter rejects.
//! Between two barriers each shared array has one [`Mode`](scope::Mode) of access. Barriers stand
//! where the control flow is the same for the whole group, sub-group operations where it is the
//! same for the sub-group.

mod expressions;
mod functions;
mod idioms;
mod scope;
mod statements;
mod structured;

use super::ast::{
    Arguments, Class, Code, Expr, Extent, Function, Kernel, Kind, OUTPUTS, Place, Shape, Shared,
    Statement, Type,
};
use super::random::Random;
use functions::Summary;
use scope::{Flow, Region, Scope};

/// Returns the kernel of a seed. Its items wait for each other only if `waits`.
pub(super) fn generate(seed: u64, waits: bool) -> Kernel {
    let mut random = Random::new(seed);
    let items = group_size(&mut random);
    let (functions, summaries) = (Vec::new(), Vec::new());
    let mut generator = Generator { random, waits, items, functions, summaries, cost: 1 };
    generator.kernel(seed)
}

struct Generator {
    random: Random,
    /// Whether there are barriers, sub-group operations and shared memory.
    waits: bool,
    items: [u32; 3],
    functions: Vec<Function>,
    summaries: Vec<Summary>,
    /// Product of the greatest numbers of iterations of the surrounding loops.
    cost: u32,
}

impl Generator {
    fn kernel(&mut self, seed: u64) -> Kernel {
        let volume: u32 = self.items.iter().product();
        let has_fixed_size = self.random.percent(50);
        let shared = match self.waits {
            true => self.shared_arrays(if has_fixed_size { volume } else { 1024 }),
            false => Vec::new(),
        };
        for _ in 0..self.random.below(5) {
            self.function();
        }
        let mut scope = Scope::for_kernel(shared.iter().map(Region::new).collect());
        scope.budget = self.random.within(6, 40);
        let mut body = Vec::new();
        self.define_shared(&mut scope, &mut body);
        let flow = Flow::new(Class::Group, self.waits, self.waits);
        if !self.waits && self.random.percent(60) {
            self.return_early(&mut scope, flow.in_tail(), &mut body);
        }
        self.statements(&mut scope, flow, &mut body);
        if self.random.percent(40) {
            scope.budget = self.random.within(2, 12);
            self.statements(&mut scope, flow.in_tail(), &mut body);
        }
        self.outputs(&mut scope, flow.in_tail(), &mut body);
        let groups = self.groups(volume);
        let arguments = self.arguments();
        Kernel {
            seed,
            functions: std::mem::take(&mut self.functions),
            shared,
            code: Code { locals: scope.locals, body },
            has_fixed_size,
            items: self.items,
            groups,
            arguments,
        }
    }

    fn shared_arrays(&mut self, items: u32) -> Vec<Shared> {
        let mut arrays: Vec<Shared> = Vec::new();
        for _ in 0..self.random.below(4) {
            let ty = self.random.choice(&Type::ALL);
            let has_dynamic = arrays.iter().any(|array| array.extent == Extent::Dynamic);
            let extent = match self.random.below(10) {
                0..4 => Extent::Items(items),
                4..7 if !has_dynamic => Extent::Dynamic,
                4..7 => Extent::Items(items),
                _ => Extent::Fixed(self.random.within(1, 40)),
            };
            arrays.push(Shared { ty, extent });
        }
        arrays
    }

    /// Gives each shared array its first values, most at the beginning.
    fn define_shared(&mut self, scope: &mut Scope, body: &mut Vec<Statement>) {
        for array in 0..scope.shared.len() {
            if self.random.percent(85) {
                self.define(scope, array, body);
            }
        }
        if !scope.shared.is_empty() && self.random.percent(80) {
            scope.end_phase();
            body.push(Statement::Barrier);
        }
    }

    /// Writes a mixture of the variables to each element of the output.
    fn outputs(&mut self, scope: &mut Scope, flow: Flow, body: &mut Vec<Statement>) {
        let visible = scope.visible.clone();
        let flow = Flow { exchanges: false, ..flow };
        for slot in 0..OUTPUTS {
            for ty in [Type::U32, Type::U64] {
                let mut value = self.expr(scope, flow, ty, Class::Item, 1);
                for (at, variable) in visible.iter().enumerate() {
                    if at as u32 % OUTPUTS != slot || self.random.percent(20) {
                        continue;
                    }
                    let local = scope.locals[variable.0].clone();
                    let kind = match local.shape {
                        Shape::Scalar => Kind::Variable(*variable),
                        Shape::Pointer => Kind::Target(*variable),
                        Shape::Array(_) => {
                            let index = self.expr(scope, flow, Type::U32, Class::Item, 1);
                            Kind::Element(*variable, index)
                        }
                    };
                    let read = mixed(Expr::new(local.ty, kind), ty);
                    let three = Expr::new(ty, Kind::Constant(3));
                    value = Expr::binary(super::ast::Binary::Mul, value, three);
                    value = Expr::binary(super::ast::Binary::Add, value, read);
                }
                body.push(Statement::Assign(Place::Output(slot), value));
            }
        }
    }

    fn groups(&mut self, volume: u32) -> [u32; 3] {
        let choices: &[[u32; 3]] = match volume {
            0..64 => &[[1, 1, 1], [3, 1, 1], [2, 2, 1], [1, 1, 3], [2, 1, 2], [5, 1, 1]],
            64..300 => &[[1, 1, 1], [2, 1, 1], [1, 2, 1], [3, 1, 1]],
            _ => &[[1, 1, 1], [2, 1, 1]],
        };
        self.random.choice(choices)
    }

    fn arguments(&mut self) -> Arguments {
        let length = self.random.within(1, 80);
        let is_small = self.random.percent(50);
        let mut number = || {
            let word = self.random.word() as u32;
            if is_small { word % 100 } else { word }
        };
        let input = (0..length).map(|_| number()).collect();
        let (a, b) = (number(), number() as i32);
        let c = if is_small { u64::from(number()) } else { self.random.word() };
        Arguments { input, a, b, c, f: self.random.below(4096) as f32 / 16.0 - 64.0 }
    }
}

/// Returns the value as another integer type. Floats give their bits.
fn mixed(value: Expr, ty: Type) -> Expr {
    let value = match value.ty {
        Type::F32 => Expr::new(Type::U32, Kind::Unary(super::ast::Unary::Bits, value)),
        _ => value,
    };
    if value.ty == ty { value } else { Expr::new(ty, Kind::Cast(value)) }
}

/// Returns the size of groups: in one to three dimensions, with extremes, primes, multiples of the
/// sub-group's width, and others.
fn group_size(random: &mut Random) -> [u32; 3] {
    let volume = match random.below(12) {
        0 => 1,
        1..4 => random.within(2, 32),
        4 => 32,
        5 => random.choice(&[31, 37, 61, 97, 127, 251, 509, 1021]),
        6 | 7 => 32 * random.within(1, 9),
        8 => random.choice(&[64, 128, 256]),
        9 => random.choice(&[512, 1024]),
        _ => random.within(33, 400),
    };
    match random.below(4) {
        0 | 1 => [volume, 1, 1],
        2 => {
            let height = random.within(1, volume.min(16) + 1);
            let (width, height) = ((volume / height).max(1), height);
            if random.percent(30) { [1, width, height] } else { [width, height, 1] }
        }
        _ => {
            let [y, z] = [random.within(1, 5), random.within(1, 5)];
            [(volume / (y * z)).max(1), y, z]
        }
    }
}
