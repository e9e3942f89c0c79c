//! Cases of element-wise kernels, reductions and scans.

use super::case::*;

pub(crate) fn vectors() -> Vec<Case> {
    let mut cases = Vec::new();
    for (groups, items, n) in [(4, 256, 1000), (5, 64, 1), (3, 100, 300)] {
        cases.extend([
            case(
                "vector_add",
                groups,
                items,
                args![floats(n), floats(n), zero_floats(n), n.min(groups * items)],
            ),
            case("saxpy", groups, items, args![n, 2.5_f32, floats(n), floats(n)]),
            case(
                "saxpy_float4",
                groups,
                items,
                args![-0.5_f32, floats(n), floats(n), u64::from(n)],
            ),
            case(
                "int_to_float",
                groups,
                items,
                args![words(n, 1 << 24), zero_floats(n), n.min(groups * items), 0.125_f32],
            ),
        ]);
    }
    for (groups, items, n) in [(1, 256, 256), (7, 64, 5000), (3, 128, 100)] {
        let sum = floats_of([1.5]).within(1e-3);
        cases.push(case("dot_product", groups, items, args![floats(n), floats(n), sum, n]));
    }
    for flip in [false, true] {
        let n = 77_u16;
        let (input, output) = (doubles(77), zero_doubles(77));
        let [shift, scale] = [Given::from(-7_i8), Given::from(200_u8)];
        let rest = args![-300_i16, 0.25_f64, input, output, n, -5_000_000_000_i64];
        let arguments = [vec![flip.into(), shift, scale], rest].concat();
        cases.push(case("mixed_parameters", 3, 32, arguments));
    }
    cases
}

pub(crate) fn reductions() -> Vec<Case> {
    let mut cases = Vec::new();
    for n in [1_u32, 100, 1000, 1024] {
        for (kernel, items) in [("reduce_tree<64>", 64), ("reduce_tree<256>", 256)] {
            let groups = parts(n, 2 * items);
            let sums = zero_floats(groups);
            cases.push(case(kernel, groups, items, args![floats(n), sums, n]));
        }
        let (groups, sums) = (parts(n, 96), zeros(parts(n, 96)));
        let arguments = args![words(n, 1000), sums, n];
        cases.push(case("reduce_interleaved", groups, 96, arguments).shared(4 * 96));
    }
    for (groups, items, n) in [(1, 32, 10), (3, 256, 5000), (2, 1024, 2048), (4, 96, 1000)] {
        let (sums, long) = (groups, u64::from(n));
        let arguments = args![words(n, 999), zeros(sums), long];
        cases.push(case("reduce_warps<int>", groups, items, arguments).like("reduce_warps_int"));
        let arguments = args![doubles(n), zero_doubles(sums), long];
        let name = "reduce_warps<double>";
        cases.push(case(name, groups, items, arguments).like("reduce_warps_double"));
        let arguments = args![words(2 * n, 1 << 24), zeros(2 * sums), long];
        let name = "reduce_warps<unsigned long long>";
        cases.push(case(name, groups, items, arguments).like("reduce_warps_long"));
    }
    for (groups, n) in [(1, 100), (5, 3000), (200, 777)] {
        let parts = zero_floats(groups).scratch();
        let arguments = args![floats(n), n, parts, zero_floats(1).within(1e-3)];
        cases.push(case("reduce_last_block", groups, 128, arguments));
    }
    for (groups, items, n) in [(1, 32, 32), (4, 64, 200), (2, 512, 1000)] {
        let most = floats_of([0.5]);
        let least = longs_of(&[u64::MAX]);
        let input = floats_of((0..n).map(|i| ((i * 7919) % 1009) as f32 / 100.0));
        cases.push(case("extremes", groups, items, args![input, n, most, least]));
    }
    for (rows, items, width) in [(3, 32, 100), (2, 128, 1000), (5, 64, 1)] {
        let arguments = args![floats(rows * width), width, zero_floats(2 * rows)];
        cases.push(case("row_moments", rows, items, arguments));
    }
    cases
}

pub(crate) fn scans() -> Vec<Case> {
    let mut cases = Vec::new();
    for n in [1_u32, 32, 100, 256] {
        let arguments = args![zero_floats(n), floats(n), n];
        cases.push(case("scan_hillis_steele", 1, n, arguments).shared(u64::from(8 * n)));
        let heads = bytes(n, 2);
        let arguments = args![floats(n), heads, zero_floats(n), n];
        cases.push(case("scan_segments", 1, n, arguments));
    }
    for (items, n) in [(256, 512), (64, 1000), (16, 31), (256, 3000)] {
        let groups: u32 = parts(n, 2 * items);
        let arguments = args![words(n, 100), zeros(groups), n];
        let adds = args![At(0), At(1), n];
        cases.push(
            case("scan_blelloch", groups, items, arguments).then("add_sums", groups, items, adds),
        );
    }
    for (items, n) in [(32, 32), (1024, 2000), (96, 500)] {
        let groups = parts(n, items);
        let arguments = args![words(n, 1000), zeros(n), n];
        cases.push(case("scan_warps", groups, items, arguments));
    }
    for (items, n) in [(128, 5000), (64, 64), (32, 3001)] {
        let groups = parts(n, items);
        let (tickets, entries) = (zeros(1), zeros(2 * groups));
        let arguments = args![words(n, 1000), zeros(n), n, tickets, entries];
        cases.push(case("scan_decoupled", groups, items, arguments));
    }
    cases
}
