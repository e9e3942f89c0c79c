//! Cases of warps, atomic operations and the language.

use super::case::*;

pub(crate) fn warps() -> Vec<Case> {
    let mut cases = Vec::new();
    for (blocks, items) in [(1, 32), (2, 128), (3, 64)] {
        let n = blocks * items;
        for limit in [0_u32, 50, 100] {
            let arguments = args![words(n, 100), zeros(4 * n), limit];
            cases.push(case("votes", blocks, items, arguments));
        }
        cases.push(case("shuffles", blocks, items, args![floats(n), zero_floats(8 * n)]));
        let numbers = || words(n, u32::MAX).with_edges();
        cases.push(case("warp_reductions", blocks, items, args![numbers(), zeros(7 * n)]));
        for count in [n - 5, n] {
            let arguments = args![words(count, 9), zeros(9), count];
            cases.push(case("count_by_match", blocks, items, arguments));
            let arguments = args![words(count, 1000), zeros(count).unordered(), zeros(1), count];
            cases.push(case("keep_odd", blocks, items, arguments));
        }
        let start = [0, 0, i32::MAX as u32, i32::MIN as u32, u32::MAX, 0, 0];
        let (signed, unsigned) = (words_of(&start), words_of(&[0, 0, 0, u32::MAX, 0, 1, 0, 0]));
        let floats = args![longs_of(&[0; 3]), zero_floats(1), zero_doubles(1)];
        let arguments = [args![words(n, 1 << 20), signed, unsigned], floats].concat();
        cases.push(case("atomic_kinds", blocks, items, arguments));
        let arguments = args![bytes_of(&[0; 8]), n];
        cases.push(case("atomic_shorts", blocks, items, arguments));
        cases.push(case("count_rest", blocks, items, args![zeros(n)]));
        cases.push(case("match_bits", blocks, items, args![zeros(4 * n)]));
        let taken = zeros(n).unordered();
        cases.push(case("take_numbers", blocks, items, args![zeros(1), taken]));
    }
    cases
}

pub(crate) fn assembly() -> Vec<Case> {
    let mut cases = Vec::new();
    for (blocks, items) in [(1, 64), (3, 32)] {
        let n = blocks * items;
        let numbers = || words(n, u32::MAX).with_edges();
        let arguments = args![numbers(), words(n, u32::MAX), zeros(32 * n)];
        cases.push(case("integers", blocks, items, arguments));
        let longs = |odd: u64| {
            let longs = (0..u64::from(n)).map(|i| match i {
                0..8 => [0, 1, u64::MAX, 1 << 63, u64::MAX >> 1, 1 << 32, 255, 1 << 31][i as usize],
                _ => (i * 2 + odd).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (i % 40),
            });
            longs_of(&longs.collect::<Vec<_>>())
        };
        let arguments = args![longs(0), longs(1), zeros(24 * n)];
        cases.push(case("long_integers", blocks, items, arguments));
        let arguments = args![floats_of(reversed(n)), floats(n), zeros(15 * n)];
        cases.push(case("fractions", blocks, items, arguments));
        let results = zero_floats(5 * n).within(1e-6);
        cases.push(case("approximations", blocks, items, args![floats(n), results]));
        cases.push(case("registers", blocks, items, args![zeros(12 * n)]));
        let arguments = args![words(n, u32::MAX), zeros(3 * n)];
        cases.push(case("turn_around", blocks, items, arguments).shared(u64::from(items) * 8));
        cases.push(case("move", blocks, items, args![words(4 * n, u32::MAX), zeros(6 * n)]));
        cases.push(case("exchanges", blocks, items, args![words(n, u32::MAX), zeros(11 * n)]));
        let arguments = args![words(n, u32::MAX), zeros(3), longs_of(&[0])];
        cases.push(case("totals", blocks, items, arguments));
    }
    cases
}

pub(crate) fn libraries() -> Vec<Case> {
    let mut cases = Vec::new();
    for (seed, sequence, offset) in [(1234_u64, 0_u64, 0_u64), (99, 5, 7), (1 << 40, 1 << 33, 300)]
    {
        for kernel in ["xorwow", "philox"] {
            let start = args![seed, sequence, offset];
            let arguments = [start, args![zeros(6 * 8), zero_floats(4 * 8)]].concat();
            cases.push(case(kernel, 1, 8, arguments));
        }
    }
    cases.push(case("fours", 1, 8, args![99_u64, zero_doubles(64), zero_floats(32)]));
    for blocks in [1, 3] {
        let n = blocks * 64;
        let arguments = args![words(n, 1000), zeros(4 * blocks), zeros(n)];
        cases.push(case("collect", blocks, 64, arguments));
        let arguments = args![words(n, 1000), zeros(4 * n), zeros(4 * n), n];
        cases.push(case("running_sums", 1, 64, arguments));
        let arguments = args![floats(2 * n), floats(2 * n), zero_floats(2 * n), zero_floats(n)];
        cases.push(case("quotients", blocks, 64, arguments));
        let arguments = args![floats(n), zero_floats(n), 7_u32];
        cases.push(case("use_tuples", blocks, 64, arguments));
        for phases in [1_u32, 5] {
            let arguments = args![words(n, 1000), zeros(n), phases];
            cases.push(case("rotate_by_phases", blocks, 64, arguments));
        }
        for count in [n, n - 7] {
            let arguments = args![words(count, 100), zeros(3), count];
            cases.push(case("count_by_reference", blocks, 64, arguments));
            let arguments = args![words(count, 5), zeros(5), zeros(5), count];
            cases.push(case("sum_by_class", blocks, 64, arguments));
            let arguments = args![words(count, 50), zeros(2), count];
            cases.push(case("sum_odd_and_even", blocks, 64, arguments));
        }
    }
    cases
}

pub(crate) fn heap() -> Vec<Case> {
    let mut cases = vec![case("use_up", 1, 1, args![zeros(6)])];
    for blocks in [1, 4] {
        let n = blocks * 64;
        cases.push(case("churn", blocks, 64, args![words(n, u32::MAX), zeros(n), 60_u32]));
    }
    cases
}

pub(crate) fn blocks() -> Vec<Case> {
    let mut cases = Vec::new();
    let elements = 3 * 64;
    for blocks in [1, 2] {
        let n = blocks * elements;
        let signed = words(n, u32::MAX).with_edges();
        for [begin, end] in [[0_u32, 32], [4, 9], [28, 32]] {
            let arguments = args![signed.clone(), zeros(n), zeros(n), begin, end];
            cases.push(case("sort_pairs", blocks, 64, arguments));
        }
        let arguments = args![floats_of(reversed(n)), zero_floats(n)];
        cases.push(case("sort_numbers", blocks, 64, arguments));
        cases.push(case("sort_by_digit", blocks, 64, args![words(n, 1000), zeros(n)]));
        let n = blocks * 64;
        let arguments = args![words(n, 1000), words(n, 5), zeros(n), zeros(n)];
        cases.push(case("sum_segments", blocks, 64, arguments));
    }
    for valid in [48_u32, 37] {
        let results = args![zeros(elements), zeros(elements), zeros(elements), valid];
        let arguments = [args![words(elements, 1000)], results].concat();
        cases.push(case("order_in_warps", 1, 64, arguments));
    }
    let arguments = args![floats_of(reversed(64)), zeros(2 * 64), zero_floats(64)];
    cases.push(case("twiddle_numbers", 1, 64, arguments));
    let arguments = args![words(64, u32::MAX).with_edges(), zeros(2 * 64), zeros(64)];
    cases.push(case("twiddle_integers", 1, 64, arguments));
    let results = || args![zeros(elements), zeros(elements)];
    let arguments = [args![words(elements, 1000)], results(), args![zeros(elements)]].concat();
    cases.push(case("exchange", 1, 64, arguments));
    let runs = (0..elements).map(|i| i / 7 * i % 8).collect::<Vec<_>>();
    let arguments = [args![words_of(&runs)], results(), args![zeros(8)]].concat();
    cases.push(case("find_runs", 1, 64, arguments));
    cases
}

pub(crate) fn intrinsics() -> Vec<Case> {
    let mut cases = Vec::new();
    let n = 128;
    for suffix in ["rd", "ru", "rz"] {
        let arguments = args![floats(n), floats_of(reversed(n)), zeros(9 * n)];
        cases.push(case(&format!("floats_{suffix}"), 2, n / 2, arguments));
        let other = doubles_of(reversed(n).map(f64::from));
        let arguments = args![doubles(n), other, zeros(2 * 7 * n)];
        cases.push(case(&format!("doubles_{suffix}"), 2, n / 2, arguments));
        // Results between the least numbers and twice the least normal one.
        for [a, b] in [[1e-160, 1e-162], [1.0, 1e-310], [1e-200, 1e112], [1e-310, 1.0]] {
            let numbers = |size: f64| doubles_of(reversed(n).map(move |x| f64::from(x) * size));
            let arguments = args![numbers(a), numbers(b), zeros(2 * 7 * n)];
            cases.push(case(&format!("doubles_{suffix}"), 2, n / 2, arguments));
        }
    }
    let arguments = args![words(n, u32::MAX).with_edges(), words(n + 3, u32::MAX), zeros(16 * n)];
    cases.push(case("parts_of_words", 2, n / 2, arguments));
    let probabilities = (0..n).map(|i| match i {
        0..20 => 10_f64.powi(-(i as i32) * 3 - 1),
        _ => f64::from(i) / f64::from(n),
    });
    let arguments = args![doubles_of(probabilities), zero_doubles(4 * n)];
    cases.push(case("inverses", 2, n / 2, arguments));
    let numbers = reversed(n).map(|x| f64::from(x).clamp(-600.0, 600.0));
    let arguments = args![doubles_of(numbers), zero_doubles(8 * n)];
    cases.push(case("bessel_functions", 2, n / 2, arguments));
    let other = floats_of(reversed(n).map(|x| x * 0.3 + 0.7));
    let arguments = args![floats_of(reversed(n)), other, zero_floats(2 * n), zeros(2 * n)];
    cases.push(case("remainders", 2, n / 2, arguments));
    let numbers = reversed(n).map(|x| x * 2.1 + if x > 0.5 { 1e-6 } else { -1e-7 });
    cases.push(case("to_halves", 2, n / 2, args![floats_of(numbers), zeros(2 * n)]));
    cases.push(case("known_values", 1, 1, args![1.0_f64, zeros(2 * 34)]));
    cases
}

/// Returns numbers of many sizes and both signs.
fn reversed(count: u32) -> impl Iterator<Item = f32> {
    (0..count).map(|i| {
        let size = 1.37_f32.powi(i as i32 % 40 - 20) * (1.0 + i as f32 / 7.0);
        if i % 3 == 0 { -size } else { size }
    })
}

pub(crate) fn language() -> Vec<Case> {
    let mut cases = Vec::new();
    for (blocks, items, n) in [(2, 32, 50), (3, 64, 192)] {
        let vectors = || args![floats(n), zero_floats(n), n];
        let squares = [vectors(), args![[0_u8]]].concat();
        let name = "transform<float, Square>";
        cases.push(case(name, blocks, items, squares).like("squares"));
        let affine: Vec<u8> = [2.0_f32, 0.5].into_iter().flat_map(f32::to_ne_bytes).collect();
        let affine: [u8; 8] = affine.try_into().expect("two numbers have 8 bytes");
        let affine = [vectors(), args![affine]].concat();
        let name = "transform<float, Affine>";
        cases.push(case(name, blocks, items, affine).like("affine"));
        let scaled = [vectors(), args![1.5_f32]].concat();
        cases.push(case("by_lambda", blocks, items, scaled));

        let globals = args![words(n, 1000), zero_doubles(n), n];
        let with_globals = case("use_globals", blocks, items, globals)
            .with_global("totals", words_of(&[1, 2, 3, 4]))
            .with_global("launches", words_of(&[7]))
            .with_global("weights", doubles_of([0.5, 0.25, 0.125, 3.0]));
        cases.push(with_globals);
        let arguments = args![words(n, 1000), zeros(n), n];
        cases.push(case("early_return", blocks, items, arguments));
        let numbers = words_of(&(0..n).collect::<Vec<u32>>());
        cases.push(case("collatz", blocks, items, args![numbers, zeros(n), n]));
        let all = blocks * items;
        let arguments = args![floats(all), floats(all), zero_floats(all), 1_u32];
        cases.push(case("by_pointer", blocks, items, arguments).only_on_cpu());
        cases.push(case("by_virtual", blocks, items, args![zero_floats(all)]));
    }
    for items in [32, 50] {
        cases.push(case("recursive", 1, items, args![zeros(2 * items)]));
        cases.push(case("take_apart", 1, items, args![floats(items), zeros(3 * items)]));
        cases.push(case("list_on_heap", 1, items, args![zeros(items), 9_u32]));
        cases.push(case("clocks", 1, items, args![zeros(items)]));
        cases.push(case("variadic", 1, items, args![zeros(items)]));
        for mode in [1_u8, 2, 3] {
            let arguments = args![mode, bytes(2 * items, 256), zeros(items), -3_i32];
            cases.push(case("outer::by_mode", 1, items, arguments));
        }
        let numbers = args![doubles(items), words(items, 999), bytes(items, 100)];
        let arguments = [numbers, args![zero_doubles(items), items]].concat();
        cases.push(case("carve_shared", 1, items, arguments).shared(u64::from(13 * items)));
        cases.push(case("large_value", 1, items, large_value()));
    }
    let numbers = args![zero_floats(7), zero_doubles(6), longs_of(&[0; 4])];
    cases.push(case("own_atomics", 1, 1, numbers));
    cases
}

/// Returns the arguments of `large_value`: structures without members, and one of 216 bytes.
fn large_value() -> Vec<Given> {
    let mut large: Vec<u8> = (0..24).flat_map(|i| (f64::from(i) * 1.5).to_ne_bytes()).collect();
    large.extend(21_u32.to_ne_bytes());
    large.extend(*b"a name of 20 letters");
    let large: [u8; 216] = large.try_into().expect("the structure has 216 bytes");
    args![[0_u8], large, [0_u8], zero_doubles(24), bytes(20, 1)]
}

pub(crate) fn groups() -> Vec<Case> {
    let mut cases = Vec::new();
    for (blocks, items, n) in [(1, 32, 100), (3, 128, 1000)] {
        let sum = || args![zeros(1), words(n, 1000), n];
        let by_block = case("sum_by_block", blocks, items, sum()).like("sum");
        cases.push(by_block.shared(u64::from(4 * items)));
        for kernel in ["sum_by_tile<32>", "sum_by_tile<8>"] {
            cases.push(case(kernel, blocks, items, sum()).like("sum"));
        }
        let all = blocks * items;
        let numbers = words_of(
            &(0..all).map(|i| (i * 37 % 101).wrapping_sub(i % 2 * 9)).collect::<Vec<u32>>(),
        );
        let arguments = args![numbers, zeros(all).unordered(), zeros(1), all - 3];
        cases.push(case("keep_positive", blocks, items, arguments));
        let arguments = args![words(all, 100), zeros(5 * all)];
        cases.push(case("reduce_and_scan", blocks, items, arguments));
        cases.push(case("nested_tiles", blocks, items, args![zeros(4 * all), zeros(4)]));
        let arguments = args![floats(n), zero_floats(n), n, 5_u32];
        cases.push(case("smooth", blocks, items, arguments).cooperative());
    }
    cases
}
