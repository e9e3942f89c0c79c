//! The kernels one by one, with sizes near the sizes of groups and blocks.

use super::rig::Rig;
use longshore::Grid;
use longshore_tests::kernels::{
    bodies, bytes, elements, histogram, integers, matmul, nbody, parts, prefix_sum, reduce, saxpy,
    small_floats, stencil, triad,
};

type Check = (&'static str, fn(&Rig));

pub(crate) const CHECKS: [Check; 8] = [
    ("saxpy", check_saxpy),
    ("triad", check_triad),
    ("stencil", check_stencil),
    ("matmul", check_matmul),
    ("reduce", check_reduce),
    ("histogram", check_histogram),
    ("prefix_sum", check_prefix_sum),
    ("nbody", check_nbody),
];

const SIZES: [usize; 10] = [1, 2, 31, 32, 33, 255, 256, 257, 1000, 4097];
/// Numbers of items in a group, for kernels that take any number. Every Vulkan device supports 128
/// items.
const GROUP_ITEMS: [u32; 5] = [1, 7, 32, 100, 128];
/// Numbers of groups for kernels that split their work: some groups have no work.
const PARTS: [u32; 4] = [1, 2, 3, 20];
const MATRICES: [[u32; 3]; 7] =
    [[1, 1, 1], [2, 3, 5], [31, 33, 32], [64, 64, 64], [65, 63, 1], [1, 130, 65], [100, 70, 129]];
const TILE: u32 = 16;
const BODIES: [usize; 6] = [1, 2, 33, 255, 257, 600];
const FACTOR: f32 = 3.0;
/// Factor for the error bounds: Vulkan permits an error of some units in square root and division,
/// where the bounds assume none.
const NBODY_SLACK: f64 = 2.0;

fn check_saxpy(rig: &Rig) {
    for (n, items) in pairs(SIZES, GROUP_ITEMS) {
        let (x, y) = (small_floats(1, n), small_floats(2, n));
        let (x_there, y_there) = (rig.buffer(&x), rig.buffer(&y));
        let grid = elements(n as u64, items);
        // SAFETY: both buffers have n elements.
        unsafe { rig.kernels.launch("saxpy", grid, (&x_there, &y_there, FACTOR, n as u32)) };
        rig.expect(&format!("{n} in {items}"), &y_there, &saxpy(FACTOR, &x, &y));
    }
}

fn check_triad(rig: &Rig) {
    for (n, items) in pairs(SIZES, GROUP_ITEMS) {
        let (b, c) = (small_floats(3, n), small_floats(4, n));
        let (b_there, c_there, a) = (rig.buffer(&b), rig.buffer(&c), rig.output(n));
        let grid = elements(n as u64, items);
        // SAFETY: the buffers have n elements.
        unsafe { rig.kernels.launch("triad", grid, (&b_there, &c_there, &a, FACTOR, n as u32)) };
        rig.expect(&format!("{n} in {items}"), &a, &triad(FACTOR, &b, &c));
    }
}

fn check_stencil(rig: &Rig) {
    for (n, items) in pairs(SIZES, GROUP_ITEMS) {
        let x = small_floats(5, n);
        let (x_there, y) = (rig.buffer(&x), rig.output(n));
        // SAFETY: both buffers have n elements.
        unsafe {
            rig.kernels.launch("stencil", elements(n as u64, items), (&x_there, &y, n as u32))
        };
        rig.expect(&format!("{n} in {items}"), &y, &stencil(&x));
    }
}

fn check_matmul(rig: &Rig) {
    for sizes in MATRICES {
        let [rows, columns, inner] = sizes.map(|size| size as usize);
        let (a, b) = (small_floats(6, rows * inner), small_floats(7, inner * columns));
        let expected = matmul(&a, &b, [rows, columns, inner]);
        let (a, b, c) = (rig.buffer(&a), rig.buffer(&b), rig.output(rows * columns));
        let [m, n, k] = sizes;
        let grid = Grid::new([n.div_ceil(TILE), m.div_ceil(TILE), 1], [TILE, TILE, 1]);
        // SAFETY: the matrices have these sizes.
        unsafe { rig.kernels.launch("matmul", grid, (&a, &b, &c, m, n, k)) };
        rig.expect(&format!("{m} x {n} x {k}"), &c, &expected);
    }
}

fn check_reduce(rig: &Rig) {
    for (n, groups) in pairs(SIZES, PARTS) {
        let x = small_floats(8, n);
        let (x_there, sums, result) =
            (rig.buffer(&x), rig.output::<f32>(groups as usize), rig.output(1));
        // SAFETY: the buffers have n, `groups` and 1 elements.
        unsafe {
            rig.kernels.launch("reduce", parts(groups), (&x_there, &sums, n as u32));
            rig.kernels.launch("reduce", parts(1), (&sums, &result, groups));
        }
        rig.expect(&format!("{n} in {groups}"), &result, &[reduce(&x)]);
        rig.read(&sums);
    }
}

fn check_histogram(rig: &Rig) {
    for (n, groups) in pairs(SIZES, PARTS) {
        let x = bytes(9, n);
        let (x_there, bins) = (rig.buffer(&x), rig.buffer(&[1u32; 256]));
        // SAFETY: the buffer has n bytes and more behind them; there are 256 bins.
        unsafe { rig.kernels.launch("histogram", parts(groups), (&x_there, &bins, n as u32)) };
        let expected: Vec<_> = histogram(&x).iter().map(|count| count + 1).collect();
        rig.expect(&format!("{n} in {groups}"), &bins, &expected);
    }
}

fn check_prefix_sum(rig: &Rig) {
    for (n, groups) in pairs(SIZES, PARTS) {
        let x = integers(10, n);
        let (x_there, y, sums) =
            (rig.buffer(&x), rig.output(n), rig.output::<u32>(groups as usize));
        let (unknown, known) = (0u32, 1u32);
        // SAFETY: the buffers have n, n and `groups` elements.
        unsafe {
            let arguments = (&x_there, &sums, n as u32);
            rig.kernels.launch("prefix_sum_parts", parts(groups), arguments);
            let arguments = (&sums, &sums, &sums, groups, unknown);
            rig.kernels.launch("prefix_sum", parts(1), arguments);
            let arguments = (&x_there, &y, &sums, n as u32, known);
            rig.kernels.launch("prefix_sum", parts(groups), arguments);
        }
        rig.expect(&format!("{n} in {groups}"), &y, &prefix_sum(&x));
        rig.read(&sums);
    }
}

fn check_nbody(rig: &Rig) {
    for n in BODIES {
        let bodies = bodies(11, n);
        let (there, pulls) = (rig.buffer(&bodies), rig.output::<f32>(4 * n));
        let grid = elements(n as u64, 256);
        // SAFETY: both buffers have n times 4 elements.
        unsafe { rig.kernels.launch("nbody", grid, (&there, &pulls, n as u32)) };
        for (body, (got, bounds)) in rig.read(&pulls).chunks(4).zip(nbody(&bodies)).enumerate() {
            for (got, bound) in got.iter().zip(bounds) {
                let error = (f64::from(*got) - bound.value).abs();
                let tolerance = NBODY_SLACK * bound.tolerance;
                assert!(error <= tolerance, "{n}, body {body}: {got}, {bound:?}");
            }
            assert_eq!(got[3], 0.0);
        }
    }
}

fn pairs<A: Copy, B: Copy, const N: usize, const M: usize>(
    first: [A; N],
    second: [B; M],
) -> impl Iterator<Item = (A, B)> {
    first.into_iter().flat_map(move |a| second.map(|b| (a, b)))
}
