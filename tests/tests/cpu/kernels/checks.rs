//! The kernels one by one, with sizes near the sizes of groups, blocks and vectors.

use super::rig::Rig;
use longshore_conformance::amount::TestScale;
use longshore_tests::kernels::{
    Form, GROUP, RADIUS, SORTED, block_sums, bodies, bytes, elements, histogram, integers, matmul,
    nbody, parts, prefix_sum, reduce, saxpy, small_floats, sorted_blocks, stencil, triad,
    wide_stencil,
};

type Check = (&'static str, fn(&Rig));
type Numbers<T> = TestScale<&'static [T]>;

pub(crate) const CHECKS: [Check; 13] = [
    ("saxpy", check_saxpy),
    ("triad", check_triad),
    ("stencil", check_stencil),
    ("matmul", check_matmul),
    ("matmul in tiles of 16 x 16", check_matmul_16),
    ("reduce", check_reduce),
    ("histogram", check_histogram),
    ("prefix_sum", check_prefix_sum),
    ("prefix_sum of one element each", check_prefix_sum_1),
    ("tree_sum", check_tree_sum),
    ("stencil_shared", check_stencil_shared),
    ("bitonic_sort", check_bitonic_sort),
    ("nbody", check_nbody),
];

const SIZES: Numbers<usize> = TestScale {
    usual: &[
        1, 2, 7, 15, 16, 17, 31, 32, 33, 255, 256, 257, 511, 1000, 2047, 2048, 2049, 4095, 4096,
        4097,
    ],
    small: &[1, 33, 257],
};
/// Numbers of items in a group, for kernels that take any number.
const GROUP_ITEMS: Numbers<u32> = TestScale { usual: &[1, 7, 32, 100, 256], small: &[32, 100] };
/// Numbers of groups for kernels that split their work: some groups have no work.
const PARTS: Numbers<u32> = TestScale { usual: &[1, 2, 3, 20], small: &[1, 3] };
const MATRICES: Numbers<[u32; 3]> = TestScale {
    usual: &[
        [1, 1, 1],
        [2, 3, 5],
        [31, 33, 32],
        [64, 64, 64],
        [65, 63, 1],
        [1, 130, 65],
        [130, 1, 64],
        [100, 70, 129],
        [128, 192, 64],
    ],
    small: &[[2, 3, 5], [65, 33, 17]],
};
const BODIES: Numbers<usize> =
    TestScale { usual: &[1, 2, 31, 33, 255, 256, 257, 600], small: &[1, 33, 257] };
const FACTOR: f32 = 3.0;

fn check_saxpy(rig: &Rig) {
    for &n in SIZES.get() {
        let (x, y) = (small_floats(1, n), small_floats(2, n));
        for (form, items) in forms_and(GROUP_ITEMS) {
            let (x_there, y_there) = (rig.buffer(&x), rig.buffer(&y));
            let arguments = (FACTOR, &x_there, &y_there, n as u64);
            // SAFETY: both buffers have n elements.
            unsafe { rig.kernels.launch("saxpy", form, elements(n as u64, items), arguments) }
                .unwrap();
            rig.expect(&format!("{form:?} {n} in {items}"), &y_there, &saxpy(FACTOR, &x, &y));
        }
    }
}

fn check_triad(rig: &Rig) {
    for &n in SIZES.get() {
        let (b, c) = (small_floats(3, n), small_floats(4, n));
        let (b_there, c_there) = (rig.buffer(&b), rig.buffer(&c));
        for (form, items) in forms_and(GROUP_ITEMS) {
            let a = rig.output(n);
            let arguments = (FACTOR, &b_there, &c_there, &a, n as u64);
            // SAFETY: the buffers have n elements.
            unsafe { rig.kernels.launch("triad", form, elements(n as u64, items), arguments) }
                .unwrap();
            rig.expect(&format!("{form:?} {n} in {items}"), &a, &triad(FACTOR, &b, &c));
        }
    }
}

fn check_stencil(rig: &Rig) {
    for &n in SIZES.get() {
        let x = small_floats(5, n);
        let x_there = rig.buffer(&x);
        for (form, items) in forms_and(GROUP_ITEMS) {
            let y = rig.output(n);
            let arguments = (&x_there, &y, n as u64);
            // SAFETY: both buffers have n elements.
            unsafe { rig.kernels.launch("stencil", form, elements(n as u64, items), arguments) }
                .unwrap();
            rig.expect(&format!("{form:?} {n} in {items}"), &y, &stencil(&x));
        }
    }
}

fn check_matmul(rig: &Rig) {
    for &sizes in MATRICES.get() {
        let [m, n, k] = sizes.map(|size| size as usize);
        let (a, b) = (small_floats(6, m * k), small_floats(7, k * n));
        let expected = matmul(&a, &b, [m, n, k]);
        let (a, b) = (rig.buffer(&a), rig.buffer(&b));
        for form in Form::ALL {
            let c = rig.output(m * n);
            let [m, n, k] = sizes;
            // SAFETY: the matrices have these sizes.
            unsafe {
                rig.kernels.launch("matmul", form, form.matmul_grid(m, n), (&a, &b, &c, m, n, k))
            }
            .unwrap();
            rig.expect(&format!("{form:?} {m} x {n} x {k}"), &c, &expected);
        }
    }
}

fn check_matmul_16(rig: &Rig) {
    for &sizes in MATRICES.get() {
        let [m, n, k] = sizes.map(|size| size as usize);
        let (a, b) = (small_floats(6, m * k), small_floats(7, k * n));
        let expected = matmul(&a, &b, [m, n, k]);
        let (a, b, c) = (rig.buffer(&a), rig.buffer(&b), rig.output(m * n));
        let [m, n, k] = sizes;
        let grid = Form::Items.matmul_grid(m, n);
        // SAFETY: the matrices have these sizes.
        unsafe { rig.kernels.launch("matmul_16", Form::Group, grid, (&a, &b, &c, m, n, k)) }
            .unwrap();
        rig.expect(&format!("{m} x {n} x {k}"), &c, &expected);
    }
}

fn check_reduce(rig: &Rig) {
    for &n in SIZES.get() {
        let x = small_floats(8, n);
        let x_there = rig.buffer(&x);
        for (form, groups) in forms_and(PARTS) {
            let (sums, result) = (rig.output(groups as usize), rig.output(1));
            let buffers = [&x_there, &sums, &result];
            // SAFETY: the buffers have n, `groups` and 1 elements.
            unsafe { rig.kernels.reduce(form, buffers, n as u64, groups) }.unwrap();
            rig.expect(&format!("{form:?} {n} in {groups}"), &result, &[reduce(&x)]);
            rig.read(&sums);
        }
    }
}

fn check_histogram(rig: &Rig) {
    for &n in SIZES.get() {
        let x = bytes(9, n);
        let x_there = rig.buffer(&x);
        for (form, groups) in forms_and(PARTS) {
            let bins = rig.buffer(&[1u32; 256]);
            let arguments = (&x_there, &bins, n as u64);
            // SAFETY: there are n bytes and 256 bins.
            unsafe { rig.kernels.launch("histogram", form, parts(groups), arguments) }.unwrap();
            let expected: Vec<_> = histogram(&x).iter().map(|count| count + 1).collect();
            rig.expect(&format!("{form:?} {n} in {groups}"), &bins, &expected);
        }
    }
}

fn check_prefix_sum(rig: &Rig) {
    for &n in SIZES.get() {
        let x = integers(10, n);
        let x_there = rig.buffer(&x);
        for (form, groups) in forms_and(PARTS) {
            let (y, sums) = (rig.output(n), rig.output(groups as usize));
            let buffers = [&x_there, &y, &sums];
            // SAFETY: the buffers have n, n and `groups` elements.
            unsafe { rig.kernels.prefix_sum(form, buffers, n as u64, groups) }.unwrap();
            rig.expect(&format!("{form:?} {n} in {groups}"), &y, &prefix_sum(&x));
            rig.read(&sums);
        }
    }
}

fn check_prefix_sum_1(rig: &Rig) {
    for &n in SIZES.get() {
        let x = integers(10, n);
        let x_there = rig.buffer(&x);
        for &groups in PARTS.get() {
            let (y, sums) = (rig.output(n), rig.output(groups as usize));
            let buffers = [&x_there, &y, &sums];
            // SAFETY: the buffers have n, n and `groups` elements.
            unsafe { rig.kernels.prefix_sum_1(buffers, n as u64, groups) }.unwrap();
            rig.expect(&format!("{n} in {groups}"), &y, &prefix_sum(&x));
        }
    }
}

fn check_tree_sum(rig: &Rig) {
    for &n in SIZES.get() {
        let x = small_floats(12, n);
        let x_there = rig.buffer(&x);
        for form in Form::ALL {
            let sums = rig.output(n.div_ceil(GROUP as usize));
            let grid = elements(n as u64, GROUP);
            // SAFETY: the buffers have n elements, and one for each group.
            unsafe { rig.kernels.launch("tree_sum", form, grid, (&x_there, &sums, n as u64)) }
                .unwrap();
            rig.expect(&format!("{form:?} {n}"), &sums, &block_sums(&x, GROUP as usize));
        }
    }
}

fn check_stencil_shared(rig: &Rig) {
    for &n in SIZES.get() {
        let x = small_floats(13, n);
        let x_there = rig.buffer(&x);
        for form in Form::ALL {
            let y = rig.output(n);
            let grid = elements(n as u64, GROUP);
            // SAFETY: both buffers have n elements.
            unsafe { rig.kernels.launch("stencil_shared", form, grid, (&x_there, &y, n as u64)) }
                .unwrap();
            rig.expect(&format!("{form:?} {n}"), &y, &wide_stencil(&x, RADIUS));
        }
    }
}

fn check_bitonic_sort(rig: &Rig) {
    for &n in SIZES.get() {
        let x = integers(14, n);
        let x_there = rig.buffer(&x);
        for form in Form::ALL {
            let y = rig.output(n);
            let grid = parts(n.div_ceil(SORTED as usize) as u32);
            // SAFETY: both buffers have n elements.
            unsafe { rig.kernels.launch("bitonic_sort", form, grid, (&x_there, &y, n as u64)) }
                .unwrap();
            rig.expect(&format!("{form:?} {n}"), &y, &sorted_blocks(&x, SORTED as usize));
        }
    }
}

fn check_nbody(rig: &Rig) {
    for &n in BODIES.get() {
        let bodies = bodies(11, n);
        let expected = nbody(&bodies);
        let there = rig.buffer(&bodies);
        for form in Form::ALL {
            let pulls = rig.output::<f32>(4 * n);
            let arguments = (&there, &pulls, n as u64);
            // SAFETY: both buffers have n times 4 elements.
            unsafe { rig.kernels.launch("nbody", form, elements(n as u64, 256), arguments) }
                .unwrap();
            for (body, (got, bounds)) in rig.read(&pulls).chunks(4).zip(&expected).enumerate() {
                for (got, bound) in got.iter().zip(bounds) {
                    let error = (f64::from(*got) - bound.value).abs();
                    assert!(
                        error <= bound.tolerance,
                        "{form:?} {n}, body {body}: {got}, {bound:?}"
                    );
                }
                assert_eq!(got[3], 0.0);
            }
        }
    }
}

fn forms_and(numbers: Numbers<u32>) -> impl Iterator<Item = (Form, u32)> {
    let with = move |form| numbers.get().iter().map(move |number| (form, *number));
    Form::ALL.into_iter().flat_map(with)
}
