//! Cases of products of matrices, systems of equations, sparse matrices and transforms.

use super::case::*;

/// Returns a structure of a matrix in C, for a buffer that follows.
fn matrix(width: u32, height: u32, stride: u32) -> Vec<u8> {
    [width, height, stride, 0].into_iter().flat_map(u32::to_ne_bytes).collect()
}

pub(crate) fn matrices() -> Vec<Case> {
    let mut cases = Vec::new();
    for (m, n, k) in [(16, 16, 16), (37, 50, 41), (5, 3, 70)] {
        let groups = [parts(n, 8), parts(m, 4)];
        let arguments = vec![
            Given::Structure(matrix(k, m, k), floats(m * k)),
            Given::Structure(matrix(n, k, n), floats(k * n)),
            Given::Structure(matrix(n, m, n + 1), zero_floats(m * (n + 1))),
        ];
        cases.push(case("matmul_naive", groups, [8, 4], arguments));
        for tile in [8, 16] {
            let groups = [parts(n, tile), parts(m, tile)];
            let matrices = args![floats(m * k), floats(k * n), zero_floats(m * n), m, n, k];
            cases.push(case(&format!("matmul_tiled<{tile}>"), groups, [tile, tile], matrices));
        }
    }
    for n in [16, 48] {
        let arguments = args![doubles(n * n), doubles(n * n), zero_doubles(n * n), n];
        cases.push(case("matmul_double_buffered", [n / 16, n / 16], [16, 16], arguments));
    }
    for n in [32, 64] {
        let arguments = args![floats(n * n), floats(n * n), zero_floats(n * n), n];
        cases.push(case("matmul_registers", [n / 32, n / 32], [32, 8], arguments));
        let arguments = args![zeros(n * n), words(n * n, 9999), n];
        cases.push(case("transpose_diagonal", [n / 16, n / 16], [16, 16], arguments));
    }
    for (width, height) in [(32, 32), (100, 37), (1, 65)] {
        let (groups, count) = ([parts(width, 32), parts(height, 32)], width * height);
        let arguments = args![zero_floats(count), floats(count), width, height];
        cases.push(case("transpose_padded", groups, [32, 8], arguments));
    }
    for (rows, columns, items) in [(8, 100, 64), (3, 32, 256), (10, 7, 96)] {
        let matrix = floats(rows * columns);
        let arguments = args![matrix, floats(columns), zero_floats(rows), rows, columns];
        cases.push(case("matrix_vector", parts(rows * 32, items), items, arguments));
    }
    cases
}

/// Returns square matrices whose diagonals are larger than the sums of their rows.
fn dominant(count: u32, n: u32) -> Data {
    let number = |at: u32| ((at * 7919 + 13) % 101) as f32 / 101.0 - 0.5;
    floats_of((0..count * n * n).map(|at| {
        let is_diagonal = at % (n * n) / n == at % n;
        number(at) + if is_diagonal { n as f32 } else { 0.0 }
    }))
}

pub(crate) fn solvers() -> Vec<Case> {
    let mut cases = Vec::new();
    for blocks in [1, 5] {
        let (lu, x) = (zero_floats(blocks * 256), zero_floats(blocks * 16));
        let first = args![dominant(blocks, 16), lu];
        let next = args![At(1), floats(blocks * 16), x];
        let whole = args![At(0), At(1), At(2), At(3)];
        let decomposed = case("lu_in_block", blocks, [16, 16], first);
        let solved = decomposed.then("solve_triangles", blocks, 16, next);
        cases.push(solved.expecting("lu_solve", whole));
        let distances = (0..blocks * 1024).map(|at| (1 + at * 7 % 300 + at % 11 * 50) as u16);
        let distances = bytes_of(&distances.flat_map(u16::to_ne_bytes).collect::<Vec<u8>>());
        cases.push(case("floyd_warshall_block", blocks, [32, 4], args![distances]));
    }
    cases.push(gauss(20));
    for n in [10_u32, 33] {
        let distances = words_of(&(0..n * n).map(|at| 1 + at * 37 % 101).collect::<Vec<_>>());
        let (groups, paths) = ([parts(n, 16), parts(n, 8)], zeros(n * n));
        let first = args![distances, paths, n, 0_u32];
        let mut steps = case("floyd_warshall_step", groups, [16, 8], first);
        for k in 1..n {
            let next = args![At(0), At(1), n, k];
            steps = steps.then("floyd_warshall_step", groups, [16, 8], next);
        }
        cases.push(steps.expecting("floyd_warshall", args![At(0), At(1), n]));
    }
    for (items, n) in [(32, 20), (64, 130)] {
        let diagonal = |at: u32| if at / n == at % n { f64::from(n) } else { 0.0 };
        let matrix = doubles_of((0..n * n).map(|at| f64::from(at * 31 % 17) / 17.0 + diagonal(at)));
        let first = args![matrix, doubles(n), doubles(n), zero_doubles(n), zero_doubles(1), n];
        let next = args![At(0), At(1), At(3), At(2), At(4), n];
        let whole = args![At(0), At(1), At(2), At(3), At(4), n];
        let twice = case("jacobi", parts(n, items), items, first);
        let twice = twice.then("jacobi", parts(n, items), items, next);
        cases.push(twice.expecting("jacobi", whole));
    }
    for (size, count) in [(32, 100), (5, 64)] {
        let middle = floats_of((0..size * count).map(|at| 4.0 + (at % 7) as f32));
        let [lower, upper, x] = [(); 3].map(|()| floats(size * count));
        let arguments = args![lower, middle, upper, x, size, count];
        cases.push(case("tridiagonal", 4, 32, arguments));
    }
    cases
}

/// Returns the elimination of a system, two launches for each step.
fn gauss(n: u32) -> Case {
    let factors = zero_floats(n * n);
    let mut steps = case("gauss_factors", 1, 32, args![dominant(1, n), factors, n, 0_u32]);
    steps = steps.then("gauss_rows", [3, 3], [8, 8], args![At(0), floats(n), At(1), n, 0_u32]);
    for step in 1..n - 1 {
        steps = steps.then("gauss_factors", 1, 32, args![At(0), At(1), n, step]);
        steps = steps.then("gauss_rows", [3, 3], [8, 8], args![At(0), At(2), At(1), n, step]);
    }
    steps.expecting("gauss", args![At(0), At(2), At(1), n])
}

pub(crate) fn transforms() -> Vec<Case> {
    let mut cases = Vec::new();
    for (blocks, items) in [(1, 32), (3, 64), (2, 100)] {
        for (kernel, reference, count) in [
            ("fft<6, false>", "fft64", 64),
            ("fft<8, false>", "fft256", 256),
            ("fft<8, true>", "inverse256", 256),
        ] {
            let (input, output) = (floats(2 * blocks * count), zero_floats(2 * blocks * count));
            let arguments = args![input, output.within(1e-3)];
            cases.push(case(kernel, blocks, items, arguments).like(reference));
        }
    }
    for n in [16, 100] {
        let arguments = args![floats(n), zero_doubles(2 * n), n];
        cases.push(case("dft", parts(n, 32), 32, arguments).shared(u64::from(16 * n)));
    }
    for [across, down] in [[1, 1], [5, 3]] {
        let count = 64 * across * down;
        let arguments = args![floats(count), zero_floats(count), 8 * across];
        let transformed = case("dct8x8", [across, down], [8, 8], arguments);
        cases.push(transformed.with_global("cosines", floats(64)));
    }
    for (bits, bits_of_block) in [(6_u32, 6_u32), (10, 7)] {
        let blocks = 1 << (bits - bits_of_block);
        let mut steps = None;
        for bit in (bits_of_block..bits).rev() {
            let (groups, stride) = (1 << (bits - 6), 1_u32 << bit);
            steps = Some(match steps {
                None => case("walsh_step", groups, 32, args![floats(1 << bits), stride]),
                Some(steps) => Case::then(steps, "walsh_step", groups, 32, args![At(0), stride]),
            });
        }
        let last = match steps {
            None => case("walsh_block", blocks, 32, args![floats(1 << bits), bits_of_block]),
            Some(steps) => steps.then("walsh_block", blocks, 32, args![At(0), bits_of_block]),
        };
        let last = last.shared(4 << bits_of_block);
        cases.push(last.expecting("walsh", args![At(0), bits]));
    }
    cases
}
