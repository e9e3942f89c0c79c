//! Cases of kernels in HIP, and of small numbers.

use super::case::*;

pub(crate) fn samples() -> Vec<Case> {
    let mut cases = Vec::new();
    for size in [[16, 16], [40, 21]] {
        let ([width, height], count) = (size, size[0] * size[1]);
        let arguments = args![zero_floats(count), floats(count), floats(count), width, height];
        cases.push(case("vectoradd_float", cover(size, [16, 4]), [16, 4], arguments));
        let padded = floats((width + 2) * (height + 2));
        let bytes: Vec<u8> = size.into_iter().flat_map(u32::to_ne_bytes).collect();
        let bytes: [u8; 8] = bytes.try_into().expect("two words have 8 bytes");
        let filtered = args![padded, zero_floats(count), bytes];
        let filtered = case("convolution", cover(size, [8, 8]), [8, 8], filtered);
        cases.push(filtered.with_global("filter_mask", floats(9)));
    }
    for width in [4, 16] {
        let matrix = args![zero_floats(width * width), floats(width * width), width];
        let transposed = case("matrixTranspose", 1, [width, width], matrix);
        cases.push(transposed.shared(u64::from(4 * width * width)).like("transpose"));
    }
    let arguments = args![zero_floats(16), floats(16), 4_u32];
    cases.push(case("transpose_by_shuffles", 1, 16, arguments).like("transpose"));
    for (items, n) in [(64, 1000), (256, 256), (128, 77)] {
        let blocks = parts(n, items);
        let arguments = args![words(n, 1000), zeros(blocks), u64::from(n)];
        cases.push(case("block_sums", blocks, items, arguments));
        let arguments = args![zeros(n), words(n, u32::MAX), u64::from(n)];
        cases.push(case("bit_extract_kernel", 2, items, arguments));
        for window in [1_u32, 7, 300] {
            let arguments = args![words(n, 1 << 20), zeros(n), window, n];
            let averages = case("moving_average", blocks, items, arguments);
            cases.push(averages.shared(u64::from(4 * (items + window - 1))));
        }
        let arguments = args![doubles(n), doubles(n), zero_doubles(1), n];
        cases.push(case("dot_of_doubles", 3, items, arguments));
        let signed = (0..2 * items).map(|i| (i as i32 * 37 % 101 - 3) as u32);
        let signed = words_of(&signed.collect::<Vec<u32>>());
        let masks = longs_of(&vec![0; 2 * items as usize]);
        cases.push(case("ballots", 2, items, args![signed, masks, zeros(2 * items)]));
        let (input, bins) = (bytes(2 * items * 50, 256), zeros(2 * 64));
        let counted = case("histogram256_block", 2, items, args![input, bins, 50_u32]);
        cases.push(counted.shared(u64::from(64 * items)));
        let vectors = args![floats(4 * items), floats(4 * items), zero_floats(4 * items), 3.0_f32];
        cases.push(case("vector_operators", 1, items, vectors));
        let integers = args![words(4 * items, 1 << 20), words(4 * items, 1 << 9), zeros(4 * items)];
        cases.push(case("integer_operators", 1, items, integers));
    }
    for [across, down, inner] in [[1, 1, 8], [3, 2, 40]] {
        let (left, right) = (floats(8 * down * inner), floats(8 * across * inner));
        let arguments = args![left, right, zero_floats(64 * across * down), inner];
        let name = "matrix_multiplication_kernel<8>";
        cases.push(case(name, [across, down], [8, 8], arguments));
    }
    let nodes = 24;
    let distances = words_of(&(0..nodes * nodes).map(|at| 1 + at * 37 % 101).collect::<Vec<_>>());
    let first = args![distances, zeros(nodes * nodes), nodes, 0_u32];
    let mut steps = case("floyd_warshall_kernel", [3, 3], [8, 8], first);
    for k in 1..nodes {
        steps = steps.then("floyd_warshall_kernel", [3, 3], [8, 8], args![At(0), At(1), nodes, k]);
    }
    cases.push(steps.expecting("floyd_warshall", args![At(0), At(1), nodes]));
    cases
}

/// Returns numbers of 16 bits between 1 and 2, each with a sign.
fn halves(count: u32) -> Data {
    let bits = (0..count).map(|i| (0x3c00 | (i * 37 % 1024) | (i % 3 % 2) << 15) as u16);
    bytes_of(&bits.flat_map(u16::to_ne_bytes).collect::<Vec<u8>>())
}

pub(crate) fn small_numbers() -> Vec<Case> {
    let mut cases = vec![case("of_warp_size", 1, 1, args![zero_doubles(1)])];
    for n in [50, 300] {
        let arguments = args![halves(2 * n), halves(2 * n), 1.5_f32, n];
        cases.push(case("saxpy_half2", parts(n, 64), 64, arguments));
        let arguments = args![halves(n), halves(n), zero_floats(1).within(1e-3), n];
        cases.push(case("dot_half", 1, 64, arguments));
        cases.push(case("relu_half", parts(n, 64), 64, args![halves(n), n]));
        let arguments = args![words(128, n), zeros(8)];
        cases.push(case("most_of_tiles", 2, 64, arguments));
    }
    cases
}

pub(crate) fn formats() -> Vec<Case> {
    let mut cases = Vec::new();
    cases.push(case("operators", 1, 32, args![zeros(64), zeros(1), zeros(1)]));
    cases.push(case("from_eighths", 4, 64, args![zero_floats(512).within(0.0)]));
    cases.push(case("from_sixteenths", 256, 256, args![zero_floats(3 << 16).within(0.0)]));
    for n in [50, 1000] {
        let (blocks, bits) = (parts(n, 64), || words(n, u32::MAX));
        cases.push(case(
            "to_eighths",
            blocks,
            64,
            args![bits(), bytes_of(&vec![0; 4 * n as usize]), n],
        ));
        cases.push(case("to_sixteenths", blocks, 64, args![bits(), zeros(4 * n), n]));
        cases.push(case("compare_pairs", blocks, 64, args![bits(), zeros(4 * n), n]));
        cases.push(case("parts_of_words", blocks, 64, args![bits(), zeros(40 * n), n]));
        let numbers = args![floats(n), zero_floats(3 * n), n];
        cases.push(case("complex_numbers", blocks, 64, numbers));
    }
    cases
}
