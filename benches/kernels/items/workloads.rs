//! The workloads.

use super::{Launch, Outcome, Workload};
use crate::opencl::Argument;
use crate::ours::Ours;
use longshore::{Buffer, Element};
use longshore_tests::kernels::{
    GROUP, PullBound, RADIUS, SORTED, block_sums, bodies, bytes, histogram, integers, matmul,
    nbody, prefix_sum, small_floats, sorted_blocks, wide_stencil,
};

const KI: usize = 1 << 10;
const MI: usize = 1 << 20;
/// Number of groups, for kernels whose groups do a part each.
const PARTS: u32 = 64;
/// Edge of a tile of the matrix multiply.
const TILE: u32 = 16;

type Make = fn(&Ours) -> Workload;

/// Names and constructors of the workloads, which are created when their turns come.
pub(super) const ALL: [(&str, Make); 7] = [
    ("items: tree reduction, 512 Ki", |ours| tree_sum(ours, 512 * KI)),
    ("items: prefix sum, 1 Mi", |ours| prefix_sums(ours, MI)),
    ("items: matrix multiply, 512 x 512", |ours| product(ours, 512)),
    ("items: stencil, 1 Mi", |ours| stencil(ours, MI)),
    ("items: histogram, 8 MiB", |ours| counts(ours, 8 * MI)),
    ("items: bitonic sort, 512 Ki", |ours| bitonic_sort(ours, 512 * KI)),
    ("items: n-body, 4096", |ours| pulls(ours, 4096)),
];

/// Memory with exactly the expected values after a run.
struct Exact<T: Element> {
    memory: Buffer<T>,
    /// Value of all elements before a run.
    before: T,
    expected: Vec<T>,
}

/// Accelerations of bodies.
struct Pulls {
    memory: Buffer<f32>,
    bounds: Vec<[PullBound; 3]>,
}

impl<T: Element> Exact<T> {
    fn new(ours: &Ours, before: T, expected: Vec<T>) -> Exact<T> {
        Exact { memory: ours.buffer(&vec![before; expected.len()]), before, expected }
    }
}

impl<T: Element + PartialEq> Outcome for Exact<T> {
    fn reset(&self, memory: &Ours) {
        memory.write(&self.memory, &vec![self.before; self.expected.len()]);
    }

    fn is_right(&self, memory: &Ours) -> bool {
        memory.read(&self.memory) == self.expected
    }
}

impl Outcome for Pulls {
    fn reset(&self, memory: &Ours) {
        memory.write(&self.memory, &vec![f32::NAN; self.memory.len()]);
    }

    fn is_right(&self, memory: &Ours) -> bool {
        let got = memory.read(&self.memory);
        let pairs =
            got.chunks(4).zip(&self.bounds).flat_map(|(got, bounds)| got.iter().zip(bounds));
        let is_near = |(got, bound): (&f32, &PullBound)| {
            (f64::from(*got) - bound.value).abs() <= bound.tolerance
        };
        pairs.into_iter().all(is_near)
    }
}

fn tree_sum(ours: &Ours, n: usize) -> Workload {
    let host = small_floats(20, n);
    let x = ours.buffer(&host);
    let sums = Exact::new(ours, f32::NAN, block_sums(&host, GROUP as usize));
    let arguments = [all(&x), all(&sums.memory), count(n)];
    Workload::new(vec![in_blocks("tree_sum", "tree_sum_items", n, GROUP, &arguments)], sums, x)
}

fn prefix_sums(ours: &Ours, n: usize) -> Workload {
    let host = integers(21, n);
    let (x, sums) = (ours.buffer(&host), ours.buffer(&[0u32; PARTS as usize]));
    let y = Exact::new(ours, 0, prefix_sum(&host));
    let launch = |[group, items]: [&'static str; 2], groups: u32, arguments: &[Argument]| Launch {
        group,
        items,
        grid: ([groups, 1, 1], [GROUP, 1, 1]),
        arguments: arguments.to_vec(),
    };
    let (parts, whole) =
        (["prefix_sum_parts", "prefix_sum_parts_items"], ["prefix_sum_1", "prefix_sum_items"]);
    let of_sums = [all(&sums), all(&sums), Argument::Nothing, count(PARTS as usize)];
    let launches = vec![
        launch(parts, PARTS, &[all(&x), all(&sums), count(n)]),
        launch(whole, 1, &of_sums),
        launch(whole, PARTS, &[all(&x), all(&y.memory), all(&sums), count(n)]),
    ];
    Workload::new(launches, y, (x, sums))
}

fn product(ours: &Ours, n: u32) -> Workload {
    let size = n as usize;
    let hosts = [small_floats(22, size * size), small_floats(23, size * size)];
    let [a, b] = hosts.each_ref().map(|host| ours.buffer(host));
    let c = Exact::new(ours, f32::NAN, matmul(&hosts[0], &hosts[1], [size; 3]));
    let sizes = [Argument::Int(n); 3];
    let launch = Launch {
        group: "matmul_16",
        items: "matmul_items",
        grid: ([n.div_ceil(TILE), n.div_ceil(TILE), 1], [TILE, TILE, 1]),
        arguments: [&[all(&a), all(&b), all(&c.memory)][..], &sizes].concat(),
    };
    Workload::new(vec![launch], c, (a, b))
}

fn stencil(ours: &Ours, n: usize) -> Workload {
    let host = small_floats(24, n);
    let x = ours.buffer(&host);
    let y = Exact::new(ours, f32::NAN, wide_stencil(&host, RADIUS));
    let arguments = [all(&x), all(&y.memory), count(n)];
    let launch = in_blocks("stencil_shared", "stencil_shared_items", n, GROUP, &arguments);
    Workload::new(vec![launch], y, x)
}

fn counts(ours: &Ours, n: usize) -> Workload {
    let host = bytes(25, n);
    let x = ours.buffer(&host);
    let bins = Exact::new(ours, 0, histogram(&host));
    let launch = Launch {
        group: "histogram",
        items: "histogram_items",
        grid: ([PARTS, 1, 1], [GROUP, 1, 1]),
        arguments: vec![all(&x), all(&bins.memory), count(n)],
    };
    Workload::new(vec![launch], bins, x)
}

fn bitonic_sort(ours: &Ours, n: usize) -> Workload {
    let host = integers(26, n);
    let x = ours.buffer(&host);
    let y = Exact::new(ours, 0, sorted_blocks(&host, SORTED as usize));
    let arguments = [all(&x), all(&y.memory), count(n)];
    let launch = in_blocks("bitonic_sort", "bitonic_sort_items", n, SORTED, &arguments);
    Workload::new(vec![launch], y, x)
}

fn pulls(ours: &Ours, n: usize) -> Workload {
    let host = bodies(27, n);
    let there = ours.buffer(&host);
    let pulls = Pulls { memory: ours.buffer(&host), bounds: nbody(&host) };
    let arguments = [all(&there), all(&pulls.memory), count(n)];
    let launch = in_blocks("nbody", "nbody_items", n, GROUP, &arguments);
    Workload::new(vec![launch], pulls, there)
}

/// Returns the launch of groups of [`GROUP`] items, each for a block of `block` of the elements.
fn in_blocks(
    group: &'static str,
    items: &'static str,
    n: usize,
    block: u32,
    arguments: &[Argument],
) -> Launch {
    let groups = n.div_ceil(block as usize) as u32;
    Launch { group, items, grid: ([groups, 1, 1], [GROUP, 1, 1]), arguments: arguments.to_vec() }
}

fn all<T: Element>(buffer: &Buffer<T>) -> Argument {
    Argument::from_buffer(buffer)
}

fn count(n: usize) -> Argument {
    Argument::Long(n as u64)
}
