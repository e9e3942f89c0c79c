//! Kernels whose items stride through numbers, of which `longshore cc` makes loops of the group.

use longshore::{Grid, Image};
use longshore_conformance::TrustedImages;
use longshore_tests::device_code::{Workshop, clangs, threads};
use longshore_tests::world::command;
use std::path::Path;
use std::process::Command;

/// Items of a group.
const ITEMS: u32 = 96;

/// `STRIDE` defines a kernel that mixes all numbers of an item's loop, and counts them.
const SOURCE: &str = r#"#include "longshore_device.h"
#define ITEMS 96
#define KEEP(value) last = first, first = sum ^ (uint64_t)(value), sum = sum * 31 + (uint64_t)(value), ++count
#define STRIDE(name, type, below) \
  LONGSHORE_KERNEL(name, (uint64_t *out, type begin, type end, type step), LONGSHORE_GROUP_SIZE(ITEMS, 1, 1)) { \
    LONGSHORE_SHARED(uint64_t, sums, [ITEMS]); \
    const uint32_t id = longshore_item_id(0); \
    uint64_t sum = 1, first = 2, last = 3, count = 0; \
    for (type i = (type)(begin + (type)id); i below end; i = (type)(i + step)) { \
      if (i & 4) sum += 5; \
      KEEP(i); \
      if (count > 1000) break_all(longshore_self); \
    } \
    sums[id] = sum ^ first ^ last ^ count << 32; \
    longshore_barrier(); \
    out[id] = sums[ITEMS - 1 - id]; \
  }
static void break_all(LONGSHORE_SELF) { longshore_assert(!"the loop ends"); }
STRIDE(u64_below, uint64_t, <)
STRIDE(u64_to, uint64_t, <=)
STRIDE(u32_below, uint32_t, <)
STRIDE(u32_to, uint32_t, <=)
STRIDE(i32_below, int32_t, <)
STRIDE(i64_to, int64_t, <=)
LONGSHORE_KERNEL(mixed, (uint64_t *out, uint64_t begin, uint64_t end, uint64_t step), LONGSHORE_GROUP_SIZE(32, 3, 1)) {
  LONGSHORE_SHARED(uint32_t, bins, [16]);
  const uint32_t id = longshore_item_id(0), y = longshore_item_id(1);
  if (y == 0 && id < 16) bins[id] = 0;
  longshore_barrier();
  uint64_t sum = 0;
  for (uint32_t round = 0; round < 3; ++round) {
    for (uint64_t i = begin + y * 7 + id; i < end; i += step) {
      longshore_atomic_add_explicit(&bins[i % 16], 1, LONGSHORE_RELAXED, LONGSHORE_SCOPE_GROUP);
      sum += i;
    }
    longshore_barrier();
    sum += longshore_subgroup_reduce_add((uint32_t)(sum & 1));
  }
  if (out[id] == 1)
    for (uint64_t i = id; i < end; i += 32) ++sum;
  longshore_barrier();
  out[y * 32 + id] = sum + ((uint64_t)bins[id % 16] << 32);
}
"#;

fn compile(folder: &Path, clang: &str, level: &str) -> Image {
    let (source, image) = (folder.join("strides.c"), folder.join("strides.o"));
    std::fs::write(&source, SOURCE).unwrap();
    let mut compile = Command::new(command());
    compile.arg("cc").arg("--raw").args(["--clang", clang, level, "-fwrapv"]).arg(&source);
    let output = compile.arg("-o").arg(&image).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Image::read(image).unwrap()
}

/// Returns the result of an item of a kernel of `STRIDE`, for numbers of `bits` bits.
fn item(id: u32, [begin, end, step]: [i64; 3], bits: u32, is_signed: bool, to_end: bool) -> u64 {
    let number = |value: i64| match (bits, is_signed) {
        (32, true) => i128::from(value as i32),
        (32, false) => i128::from(value as u32),
        (_, true) => i128::from(value),
        (_, false) => i128::from(value as u64),
    };
    let (mut sum, mut first, mut last, mut count) = (1u64, 2u64, 3u64, 0u64);
    let mut i = begin.wrapping_add(id.into());
    while number(i) < number(end) || to_end && number(i) == number(end) {
        let value = number(i) as u64;
        sum = sum.wrapping_add(if value & 4 != 0 { 5 } else { 0 });
        (last, first) = (first, sum ^ value);
        sum = sum.wrapping_mul(31).wrapping_add(value);
        count += 1;
        i = i.wrapping_add(step);
    }
    sum ^ first ^ last ^ count << 32
}

/// Kernels with the bits of their numbers, whether these are signed, and whether the end is
/// included.
const KERNELS: [(&str, u32, bool, bool); 6] = [
    ("u64_below", 64, false, false),
    ("u64_to", 64, false, true),
    ("u32_below", 32, false, false),
    ("u32_to", 32, false, true),
    ("i32_below", 32, true, false),
    ("i64_to", 64, true, true),
];

/// Begin, end and step. Some let `i` wrap around, for some or all items.
const BOUNDS: [[i64; 3]; 12] = [
    [0, 0, 96],
    [0, 1, 96],
    [0, 95, 96],
    [5, 1000, 96],
    [0, 1000, 7],
    [1000, 500, 96],
    [-40, 50, 96],
    [-1000, 1000, 33],
    [0x3fff_ff00, 0x4000_0100, 64],
    [0x7fff_fe00, 0x7fff_ff00, 32],
    [0xf000_0000, 0xf800_0000, 0x1400_0000],
    [-64, 0x100, 0x100],
];

#[test]
fn items_stride_as_they_do_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let device = Workshop::new().device(threads(2));
    let queue = device.queue().unwrap();
    for (clang, level) in clangs().into_iter().flat_map(|it| [(it, "-O0"), (it, "-O3")]) {
        let program = device.load_trusted(compile(folder.path(), clang, level)).unwrap();
        for (name, bits, is_signed, to_end) in KERNELS {
            let kernel = program.kernel(name).unwrap();
            for bounds in BOUNDS {
                let of_item = |id| item(id, bounds, bits, is_signed, to_end);
                let expected: Vec<u64> = (0..ITEMS).rev().map(of_item).collect();
                let out = device.buffer_of(&queue, &[0u64; ITEMS as usize]).unwrap();
                let grid = Grid::linear(1, ITEMS);
                let [begin, end, step] = bounds;
                let [a, b, c] = bounds.map(|it| it as i32);
                // SAFETY: the kernel takes a buffer with a number for each item, and three numbers.
                let launched = unsafe {
                    match bits {
                        32 => queue.launch_and_wait(&kernel, grid, (&out, a, b, c)),
                        _ => queue.launch_and_wait(&kernel, grid, (&out, begin, end, step)),
                    }
                };
                launched.unwrap();
                let got = out.to_vec(&queue).unwrap();
                assert_eq!(got, expected, "{clang} {level} {name} {bounds:?}");
            }
        }
    }
}

#[test]
fn strides_mix_with_rows_rounds_atomics_and_subgroups() {
    let folder = tempfile::tempdir().unwrap();
    let device = Workshop::new().device(threads(2));
    let queue = device.queue().unwrap();
    for (clang, level) in clangs().into_iter().flat_map(|it| [(it, "-O0"), (it, "-O3")]) {
        let program = device.load_trusted(compile(folder.path(), clang, level)).unwrap();
        let kernel = program.kernel("mixed").unwrap();
        for (begin, end, step) in [(0u64, 0u64, 32u64), (0, 40, 32), (3, 500, 96), (0, 100, 1)] {
            let before: Vec<u64> = (0..96).map(|it| it % 2).collect();
            let out = device.buffer_of(&queue, &before).unwrap();
            let grid = Grid::new([1, 1, 1], [32, 3, 1]);
            // SAFETY: the kernel takes a buffer with a number for each item, and three numbers.
            unsafe { queue.launch_and_wait(&kernel, grid, (&out, begin, end, step)).unwrap() };
            let expected = mixed(&before, begin, end, step);
            let got = out.to_vec(&queue).unwrap();
            assert_eq!(got, expected, "{clang} {level} {begin} {end} {step}");
        }
    }
}

/// Returns the results of the items of `mixed`.
fn mixed(before: &[u64], begin: u64, end: u64, step: u64) -> Vec<u64> {
    let (mut bins, mut sums) = ([0u64; 16], vec![0u64; 96]);
    for _ in 0..3 {
        for (index, sum) in sums.iter_mut().enumerate() {
            let (id, y) = (index as u64 % 32, index as u64 / 32);
            let mut i = begin + y * 7 + id;
            while i < end {
                bins[(i % 16) as usize] += 1;
                *sum += i;
                i += step;
            }
        }
        for row in sums.chunks_mut(32) {
            let odd: u64 = row.iter().map(|sum| sum & 1).sum();
            row.iter_mut().for_each(|sum| *sum += odd);
        }
    }
    let item = |(index, sum): (usize, u64)| {
        let id = index as u64 % 32;
        let own = if before[id as usize] == 1 { end.saturating_sub(id).div_ceil(32) } else { 0 };
        sum + own + (bins[(id % 16) as usize] << 32)
    };
    sums.into_iter().enumerate().map(item).collect()
}
