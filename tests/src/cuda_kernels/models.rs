//! Cases of particles, stencils, prices and random numbers.

use super::case::*;

pub(crate) fn physics() -> Vec<Case> {
    let mut cases = Vec::new();
    for (items, n) in [(32, 100), (64, 64), (128, 50)] {
        let arguments =
            args![floats(4 * n), floats(4 * n), zero_floats(4 * n), n, 0.01_f32, 0.1_f32];
        let step = case("nbody", parts(n, items), items, arguments);
        cases.push(step.shared(u64::from(16 * items)));
    }
    for size in [[16, 16], [40, 21]] {
        let ([nx, ny], blocks) = (size, cover(size, [16, 4]));
        let first = args![floats(nx * ny), zero_floats(nx * ny), nx, ny, 0.2_f32];
        let even = || args![At(0), At(1), nx, ny, 0.2_f32];
        let odd = || args![At(1), At(0), nx, ny, 0.2_f32];
        let mut steps = case("heat", blocks, [16, 4], first);
        for arguments in [odd(), even(), odd()] {
            steps = steps.then("heat", blocks, [16, 4], arguments);
        }
        cases.push(steps.expecting("heat", even()));
    }
    for n in [1, 64, 300] {
        cases.push(case("stencil_1d", parts(n, 64), 64, args![words(n, 1000), zeros(n), n]));
    }
    for [x, y, z] in [[8, 4, 4], [19, 7, 5]] {
        let size: [u8; 12] = bytes_of_words([x, y, z]);
        let weights: [u8; 8] = bytes_of_words([0.5_f32, 0.1].map(f32::to_bits));
        let arguments = args![floats(x * y * z), zero_floats(x * y * z), size, weights];
        let groups = [parts(x, 8), parts(y, 4), parts(z, 4)];
        cases.push(case("stencil_3d<8, 4, 4>", groups, [8, 4, 4], arguments));
    }
    for [nx, ny, nz] in [[16, 8, 5], [21, 13, 9]] {
        let count = nx * ny * nz;
        let arguments = args![floats(count), floats(count), nx, ny, nz, 0.1_f32];
        cases.push(case("wave_planes", cover([nx, ny], [16, 4]), [16, 4], arguments));
    }
    for n in [10_u32, 333] {
        let particles = (0..n).flat_map(|i| {
            let number = |k: u32| ((i * 13 + k * 7) % 64) as f32 / 8.0;
            let words = [number(0), number(1), number(2), number(3)].map(f32::to_bits);
            let last = u32::from_ne_bytes([i as u8, u8::from(i % 3 == 0), 0, 0]);
            words.into_iter().chain([last]).collect::<Vec<u32>>()
        });
        let particles = words_of(&particles.collect::<Vec<u32>>());
        // All products and sums are exact.
        let field = floats_of((0..12).map(|i| i as f32 - 5.0));
        cases.push(case("push", 2, 64, args![particles, n, field, 0.25_f32]));
    }
    cases
}

fn bytes_of_words<const WORDS: usize, const BYTES: usize>(words: [u32; WORDS]) -> [u8; BYTES] {
    let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
    bytes.try_into().expect("a word has 4 bytes")
}

pub(crate) fn chances() -> Vec<Case> {
    let mut cases = Vec::new();
    for count in [2_u32, 200, 777 * 2] {
        let number = |from: f32, to: f32| {
            floats_of((0..count).map(move |i| from + (to - from) * (i * 37 % 101) as f32 / 101.0))
        };
        let results = || zero_floats(count).within(2e-3);
        let given = args![results(), results(), number(5.0, 30.0), number(1.0, 100.0)];
        let rest = args![number(0.25, 10.0), 0.02_f32, 0.3_f32, count];
        let arguments = [given, rest].concat();
        cases.push(case("black_scholes", parts(count / 2, 128), 128, arguments));
        let uniform = floats_of((0..2 * count).map(|i| (1 + i * 37 % 101) as f32 / 103.0));
        let arguments = args![uniform, zero_floats(2 * count), count];
        cases.push(case("normals", parts(count, 64), 64, arguments));
    }
    for (blocks, steps) in [(3, 64_u32), (2, 120)] {
        let arguments = args![floats_of([20.0; 3]), floats_of([18.0, 21.0, 20.0]), zero_floats(3)];
        let arguments = [arguments, args![steps, 1.02_f32, 0.52_f32]].concat();
        cases.push(case("binomial", blocks, 128, arguments));
    }
    for (blocks, items, rounds) in [(1, 32, 100_u32), (3, 128, 50)] {
        let arguments = args![longs_of(&[5]), rounds, 42_u32];
        cases.push(case("monte_carlo_pi", blocks, items, arguments));
    }
    for (count, dimensions) in [(100, 4), (1000, 3)] {
        let arguments = args![zero_floats(count * dimensions), count, dimensions];
        cases.push(case("quasirandom", 3, [32, dimensions], arguments));
        let arguments = args![words(32 * dimensions, u32::MAX), zeros(count * dimensions), count];
        cases.push(case("sobol", [2, dimensions], 64, arguments));
    }
    cases
}
