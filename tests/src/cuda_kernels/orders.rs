//! Cases of sorts, sparse matrices, histograms, searches and graphs.

use super::case::*;

pub(crate) fn sorting() -> Vec<Case> {
    let mut cases = Vec::new();
    for (blocks, up) in [(1, 1_u32), (3, 1), (2, 0)] {
        // All keys of a block differ.
        let keys = words_of(&(0..128 * blocks).map(|i| i * 89 % 509).collect::<Vec<u32>>());
        let arguments = args![keys, words(128 * blocks, 1 << 24), up];
        cases.push(case("bitonic_block<128>", blocks, 64, arguments));
        cases.push(case("radix_block", blocks, 256, args![words(256 * blocks, 1 << 20), 20_u32]));
        cases.push(
            case("odd_even_sort", blocks, 64, args![words(50 * blocks, 99), 50_u32]).shared(200),
        );
        cases.push(case("warp_sort", blocks, 96, args![words(96 * blocks, 1 << 24)]));
    }
    for n in [64_u32, 256] {
        let mut steps: Option<Case> = None;
        for k in (1..=n.ilog2()).map(|bit| 1_u32 << bit) {
            for j in (0..k.ilog2()).rev().map(|bit| 1_u32 << bit) {
                steps = Some(match steps {
                    None => case("bitonic_step", n / 64, 64, args![floats(n), j, k]),
                    Some(steps) => steps.then("bitonic_step", n / 64, 64, args![At(0), j, k]),
                });
            }
        }
        cases.push(steps.expect("it has launches").expecting("sort_floats", args![At(0), n]));
    }
    for n in [100, 1000] {
        cases.push(radix_sort(n));
        let sorted = |count: u32, step: u32| floats_of((0..count).map(|i| (i / 3 * step) as f32));
        let arguments = args![sorted(n, 2), n, sorted(n / 2, 5), n / 2, zero_floats(n + n / 2)];
        cases.push(case("merge", parts(n, 128), 128, arguments));
        let arguments = args![bytes(2 * n, 256), bytes(2 * n, 1), n];
        cases.push(case("rank_sort", parts(n, 96), 96, arguments));
    }
    cases
}

/// Returns a sort of words below 4096: three rounds of 4 bits, from one buffer to another.
fn radix_sort(n: u32) -> Case {
    let blocks = parts(n, 128);
    let counts = zeros(16 * blocks).scratch();
    let first = args![words(n, 4096), counts, n, 0_u32];
    let mut steps = case("radix_count", blocks, 128, first);
    steps = steps.then("radix_offsets", 1, 1, args![At(1), 16 * blocks]);
    steps = steps.then("radix_scatter", blocks, 128, args![At(0), zeros(n), At(1), n, 0_u32]);
    for (shift, from, to) in [(4_u32, 2, 0), (8, 0, 2)] {
        steps = steps.then("radix_count", blocks, 128, args![At(from), At(1), n, shift]);
        steps = steps.then("radix_offsets", 1, 1, args![At(1), 16 * blocks]);
        let arguments = args![At(from), At(to), At(1), n, shift];
        steps = steps.then("radix_scatter", blocks, 128, arguments);
    }
    steps.buffers[0] = steps.buffers[0].clone().scratch();
    // The reference sorts a copy of the words.
    steps.expecting("sort_copy", args![At(0), At(2), n])
}

/// Returns the starts of rows, and their columns.
fn rows(count: u32) -> [Vec<u32>; 2] {
    let mut starts = vec![0];
    for row in 0..count {
        starts.push(starts[row as usize] + row * 7 % 41);
    }
    let columns = (0..starts[count as usize]).map(|i| i * 37 % count).collect();
    [starts, columns]
}

pub(crate) fn sparse() -> Vec<Case> {
    let mut cases = Vec::new();
    for count in [1, 50, 200] {
        let [starts, columns] = rows(count);
        // A buffer has at least one element.
        let entries = (columns.len() as u32).max(1);
        let columns = [columns, vec![0]].concat();
        let matrix = || args![count, words_of(&starts), words_of(&columns)];
        let single = || args![floats(entries), floats(count), floats(count)];
        let double = args![doubles(entries), doubles(count), doubles(count)];
        for (kernel, items, lanes) in
            [("csr_scalar", 64, 1), ("csr_vector", 128, 32), ("csr_lanes<float, 16>", 64, 16)]
        {
            let arguments = [matrix(), single()].concat();
            cases.push(case(kernel, parts(count * lanes, items), items, arguments).like("csr"));
        }
        let arguments = [matrix(), double].concat();
        let name = "csr_lanes<double, 4>";
        cases.push(case(name, parts(count * 4, 96), 96, arguments).like("csr_double"));

        let columns = words(count * 5, count);
        let arguments =
            args![count, 5_u32, columns, floats(count * 5), floats(count), floats(count)];
        cases.push(case("ell", parts(count, 32), 32, arguments));
        let entries =
            (0..3 * count).flat_map(|i| [i * 7 % count, i * 11 % count, 1.5_f32.to_bits()]);
        let entries = words_of(&entries.collect::<Vec<u32>>());
        let arguments = args![entries, 3 * count, floats(count), floats(count)];
        cases.push(case("coordinates", 3, 64, arguments));
        let vectors = args![doubles(1), doubles(count), doubles(count), doubles(count)];
        let arguments = [vectors, args![doubles(count), doubles(1), count]].concat();
        let step = case("conjugate_step", parts(count, 64), 64, arguments);
        cases.push(step.shared(8 * 64));
    }
    cases
}

pub(crate) fn counting() -> Vec<Case> {
    let mut cases = Vec::new();
    for n in [1, 1000, 20_000] {
        let arguments = args![zeros(64), bytes(n, 256), n];
        cases.push(case("histogram64", parts(n, 32 * 255), 32, arguments));
        let (blocks, counts) = (3, zeros(3 * 256).scratch());
        let parts_of_blocks =
            case("histogram256", blocks, 128, args![counts, words(n, 1 << 24), n]);
        let whole =
            parts_of_blocks.then("merge_histograms", 256, 64, args![zeros(256), At(0), blocks]);
        cases.push(whole.expecting("histogram256", args![At(2), At(1), n]));
    }
    for (items, n) in [(32, 20), (128, 1000), (256, 777)] {
        let numbers = words_of(&(0..n).map(|i: u32| i * 37 % 101).collect::<Vec<u32>>());
        let found = || [zeros(n), zeros(1)];
        let [out, count] = found();
        let arguments = args![numbers.clone(), out.unordered(), count, n];
        cases.push(case("compact_warps", parts(n, items), items, arguments));
        let [out, count] = found();
        cases.push(case("compact_even", 1, 256, args![numbers.clone(), out, count, n]));
        let [out, count] = found();
        cases.push(case("compact_multiples", 1, 256, args![numbers, out, count, n, 7_u32]));
    }
    let text: Vec<u8> = "a cab\nabcabca  bab\n".bytes().cycle().take(1000).collect();
    for (n, pattern) in [(1000, "abca"), (300, "b"), (130, "cabaa")] {
        let mut padded = pattern.as_bytes().to_vec();
        padded.resize(16, 0);
        let (blocks, length) = (parts(n, 128), pattern.len() as u32);
        let text = bytes_of(&text[..n as usize]);
        let arguments = args![text.clone(), n, length, zeros(4 * blocks), zeros(1)];
        let search = case("find_pattern", blocks, 128, arguments);
        cases.push(search.with_global("pattern", bytes_of(&padded)));
        cases.push(case("count_words", 1, 64, args![text, n, zeros(2)]));
    }
    cases
}

/// Returns a graph of nodes in a ring, with some shorter ways.
fn graph(nodes: u32) -> [Vec<u32>; 2] {
    let neighbours = |node: u32| vec![(node + 1) % nodes, (node * 7 + 3) % nodes, node / 2];
    let starts = (0..=nodes).map(|node| 3 * node).collect();
    [starts, (0..nodes).flat_map(neighbours).collect()]
}

pub(crate) fn graphs() -> Vec<Case> {
    let mut cases = Vec::new();
    for nodes in [20, 200] {
        let [starts, neighbours] = graph(nodes).map(|words| words_of(&words));
        let unseen = || words_of(&vec![u32::MAX; nodes as usize]);
        let arguments = args![starts.clone(), neighbours.clone(), unseen(), 5_u32];
        cases.push(case("bfs_block", 1, 64, arguments));
        cases.push(levels(nodes));

        let edges = (0..3 * nodes).flat_map(|i| [i % nodes, i * 7 % nodes, 1 + i * 13 % 50]);
        let distances: Vec<u32> = (0..nodes).map(|i| if i == 1 { 0 } else { u32::MAX }).collect();
        let edges = words_of(&edges.collect::<Vec<u32>>());
        let first = args![edges, 3 * nodes, words_of(&distances), zeros(1).scratch()];
        let mut steps = case("relax_edges", parts(3 * nodes, 64), 64, first);
        for _ in 0..nodes {
            let next = args![At(0), 3 * nodes, At(1), At(2)];
            steps = steps.then("relax_edges", parts(3 * nodes, 64), 64, next);
        }
        cases.push(steps.expecting("shortest", args![At(0), 3 * nodes, At(1)]).with_races());

        // Edges join nodes of the same remainder.
        let edges = (0..2 * nodes).flat_map(|i| [i * 3 % nodes, (i * 3 + 5 * (i % 4)) % nodes]);
        let edges = words_of(&edges.collect::<Vec<u32>>());
        let parents = words_of(&(0..nodes).collect::<Vec<u32>>());
        let first = args![edges, 2 * nodes, parents];
        let joined = case("hook", parts(2 * nodes, 32), 32, first);
        let joined = joined.then("flatten", parts(nodes, 32), 32, args![At(1), nodes]);
        cases.push(
            joined.expecting("components", args![At(0), 2 * nodes, At(1), nodes]).with_races(),
        );

        let degrees = words_of(&vec![3; nodes as usize]);
        let ranks = floats_of(vec![1.0 / nodes as f32; nodes as usize]);
        let arguments = args![starts, neighbours, degrees, ranks, zero_floats(nodes), nodes];
        let arguments = [arguments, args![0.85_f32]].concat();
        cases.push(case("page_rank", parts(nodes, 64), 64, arguments));
        cases.extend(tables(nodes));
    }
    for (n, k) in [(100, 4), (1000, 7)] {
        let sums = zero_floats(3 * k).within(1e-3);
        let arguments = args![floats(3 * n), floats(3 * k), zeros(n), sums, zeros(k), n, k];
        let assigned = case("assign_clusters", 2, 64, arguments);
        cases.push(assigned.shared(u64::from(16 * k)));
    }
    cases
}

/// Returns two levels of a search, by a launch for each.
fn levels(nodes: u32) -> Case {
    let [starts, neighbours] = graph(nodes).map(|words| words_of(&words));
    let mut levels = vec![u32::MAX; nodes as usize];
    levels[0] = 0;
    let queue = || zeros(nodes).scratch();
    let first = args![starts, neighbours, words_of(&levels), queue(), 1_u32, queue()];
    let first = [first, args![zeros(1).scratch(), 0_u32]].concat();
    // The first node has three edges: to 1, to 3, and to itself.
    let next = args![At(0), At(1), At(2), At(4), 2_u32, queue(), zeros(1).scratch(), 1_u32];
    let search = case("bfs_level", 1, 32, first).then("bfs_level", 1, 32, next);
    search.expecting("bfs_levels", args![At(0), At(1), At(2), nodes])
}

/// Returns insertions of keys to a table, and searches for some of them.
fn tables(count: u32) -> [Case; 1] {
    let keys = words_of(&(0..count).map(|i| i * 37 % 151).collect::<Vec<u32>>());
    let wanted = words_of(&(0..count).collect::<Vec<u32>>());
    let table = words_of(&[u32::MAX; 2 * 512]).scratch();
    let first = args![table, 511_u32, keys, count];
    let inserted = case("insert", parts(count, 64), 64, first);
    let next = args![At(0), 511_u32, wanted, zeros(count), count];
    let found = inserted.then("look_up", parts(count, 64), 64, next);
    [found.expecting("look_up", args![At(1), count, At(2), At(3), count])]
}

pub(crate) fn hashing() -> Vec<Case> {
    let mut cases = Vec::new();
    let table: Vec<u32> = (0..256)
        .map(|byte| {
            (0..8).fold(byte, |crc, _| (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 })
        })
        .collect();
    for (count, length) in [(1_u32, 9_u32), (100, 33)] {
        let arguments = args![bytes(count * length, 256), length, zeros(count), count];
        let hashed = case("crc32_messages", parts(count, 64), 64, arguments);
        cases.push(hashed.with_global("crc_table", words_of(&table)));
        let arguments = args![bytes(64 * count, 256), zeros(8 * count), count];
        cases.push(case("sha256_blocks", parts(count, 64), 64, arguments));
        let key: Vec<u8> = (1..17).collect();
        let key: [u8; 16] = key.try_into().expect("the key has 16 bytes");
        let arguments = args![words(2 * count, u32::MAX), key, count];
        cases.push(case("xtea", parts(count, 96), 96, arguments));
        let numbers = words(2 * count, u32::MAX).with_edges();
        cases.push(case(
            "integers",
            parts(count, 64),
            64,
            args![numbers, zeros(24 * count), count],
        ));
    }
    for zeros_before in [5_u32, 9] {
        let arguments = args![0x0123_4567_89ab_cdef_u64, zeros_before, longs_of(&[u64::MAX])];
        cases.push(case("mine", 32, 128, arguments));
    }
    cases
}
