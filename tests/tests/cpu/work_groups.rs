//! Execution of work-group kernels on the CPU: loops, regions and fibers.

use longshore::{Environment, ErrorCode, Grid};
use longshore_conformance::TrustedImages;
use longshore_tests::device_code::{Workshop, clangs, everywhere, threads};

const SOURCE: &str = r#"
#include "longshore_device.h"

/* Every item counts itself, at the place that its ids say. */
LONGSHORE_KERNEL(ids, (uint32_t *counts, uint64_t width, uint64_t height)) {
  uint64_t at = (longshore_global_id(2) * height + longshore_global_id(1)) * width + longshore_global_id(0);
  __atomic_fetch_add(&counts[at], 1 + longshore_item_index() + 1000 * (uint32_t)longshore_group_index(),
                     __ATOMIC_RELAXED);
}

/* How many groups there were. */
LONGSHORE_KERNEL(count_groups, (uint64_t *count)) {
  (void)longshore_self;
  __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
}

/* Sums of all items before and with each, over a group, in log steps: barriers in a loop. */
LONGSHORE_KERNEL(scan, (const uint32_t *in, uint32_t *out)) {
  LONGSHORE_SHARED(uint32_t, sums, [256]);
  uint32_t i = longshore_item_id(0), n = longshore_group_items(0);
  sums[i] = in[longshore_global_id(0)];
  longshore_barrier();
  for (uint32_t step = 1; step < n; step *= 2) {
    uint32_t before = i >= step ? sums[i - step] : 0;
    longshore_barrier();
    sums[i] += before;
    longshore_barrier();
  }
  if (n > 1) longshore_barrier();
  out[longshore_global_id(0)] = sums[i];
}

/* The same in regions. */
LONGSHORE_GROUP_KERNEL(scan_regions, (const uint32_t *in, uint32_t *out)) {
  LONGSHORE_SHARED(uint32_t, sums, [256]);
  LONGSHORE_PRIVATE(uint32_t, before);
  uint32_t n = longshore_group_items(0);
  LONGSHORE_ITEMS { sums[longshore_item_id(0)] = in[longshore_global_id(0)]; }
  for (uint32_t step = 1; step < n; step *= 2) {
    LONGSHORE_ITEMS {
      uint32_t i = longshore_item_id(0);
      longshore_private(before) = i >= step ? sums[i - step] : 0;
    }
    LONGSHORE_ITEMS { sums[longshore_item_id(0)] += longshore_private(before); }
  }
  LONGSHORE_ITEMS {
    if (longshore_item_id(0) == 7) continue;
    out[longshore_global_id(0)] = sums[longshore_item_id(0)];
  }
}

/* A barrier in a function that kernels call. */
LONGSHORE_FUNCTION void meet(LONGSHORE_SELF) { longshore_barrier(); }
LONGSHORE_KERNEL(helped, (uint32_t *out)) {
  LONGSHORE_SHARED(uint32_t, box, [64]);
  uint32_t i = longshore_item_id(0), n = longshore_group_items(0);
  box[i] = i;
  meet(longshore_self);
  out[longshore_global_id(0)] = box[n - 1 - i];
}
"#;

const SUBGROUPS: &str = r#"
#include "longshore_device.h"
#define PER_ITEM 12

/* Some items leave early: operations go on among the others. */
LONGSHORE_KERNEL(lanes, (const uint32_t *in, uint64_t *out, uint32_t left)) {
  uint64_t i = longshore_global_id(0);
  uint32_t value = in[i];
  uint64_t *mine = out + i * PER_ITEM;
  if (longshore_item_index() >= left) return;
  mine[0] = longshore_subgroup_width();
  mine[1] = longshore_subgroup_lane();
  mine[2] = longshore_subgroup_id();
  mine[3] = longshore_subgroup_ballot(value % 3 == 0);
  mine[4] = longshore_subgroup_shuffle(value, 3);
  mine[5] = longshore_subgroup_shuffle_xor(value, 1);
  mine[6] = longshore_subgroup_reduce_add(value);
  mine[7] = longshore_subgroup_inclusive_add(value);
  mine[8] = longshore_subgroup_exclusive_max(value);
  mine[9] = (uint64_t)longshore_subgroup_reduce_min((double)value);
  mine[10] = longshore_subgroup_any(value == 7) + 2 * longshore_subgroup_all(value < 1000);
  mine[11] = longshore_subgroup_shuffle_down(value, 2);
}
"#;

const SHARED: &str = r#"
#include "longshore_device.h"
LONGSHORE_GLOBAL uint32_t hits = 5;
LONGSHORE_CONSTANT uint32_t factor = 3;

LONGSHORE_KERNEL(reverse, (uint32_t *x)) {
  uint32_t *box = (uint32_t *)longshore_dynamic_shared();
  uint32_t i = longshore_item_id(0), n = longshore_group_items(0);
  box[i] = x[longshore_global_id(0)] * factor;
  longshore_barrier();
  x[longshore_global_id(0)] = box[n - 1 - i];
  longshore_atomic_add(&hits, 1);
}
LONGSHORE_GROUP_KERNEL(reverse_regions, (uint32_t *x)) {
  uint32_t *box = (uint32_t *)longshore_dynamic_shared();
  uint32_t n = longshore_group_items(0);
  LONGSHORE_ITEMS { box[longshore_item_id(0)] = x[longshore_global_id(0)] * factor; }
  LONGSHORE_ITEMS {
    x[longshore_global_id(0)] = box[n - 1 - longshore_item_id(0)];
    longshore_atomic_add(&hits, 1);
  }
}
LONGSHORE_KERNEL(past_the_end, (uint32_t *x)) {
  ((volatile uint32_t *)longshore_dynamic_shared())[longshore_group_items(0)] = x[0];
}
"#;

#[test]
fn every_item_of_a_grid_runs_once_and_knows_its_place() {
    everywhere(SOURCE, |device, program| {
        let kernel = program.kernel("ids").unwrap();
        let queue = device.queue().unwrap();
        for (groups, items) in [
            ([1, 1, 1], [1, 1, 1]),
            ([3, 1, 1], [7, 1, 1]),
            ([5, 3, 2], [4, 3, 2]),
            ([999, 2, 1], [33, 1, 1]),
        ] {
            let [width, height, depth] = [0, 1, 2].map(|d| u64::from(groups[d] * items[d]));
            let counts =
                device.buffer_of(&queue, &vec![0u32; (width * height * depth) as usize]).unwrap();
            let grid = Grid::new(groups, items);
            // SAFETY: there are as many counters as items.
            unsafe { queue.launch_and_wait(&kernel, grid, (&counts, width, height)).unwrap() };
            let counts = counts.to_vec(&queue).unwrap();
            for (at, count) in (0u64..).zip(counts) {
                let place = [at % width, at / width % height, at / width / height];
                let number = |sizes: [u32; 3], at: [u64; 3]| {
                    (at[2] * u64::from(sizes[1]) + at[1]) * u64::from(sizes[0]) + at[0]
                };
                let group = number(groups, [0, 1, 2].map(|d| place[d] / u64::from(items[d])));
                let item = number(items, [0, 1, 2].map(|d| place[d] % u64::from(items[d])));
                assert_eq!(
                    u64::from(count),
                    1 + item + 1000 * group,
                    "{groups:?} {items:?} at {place:?}"
                );
            }
        }
    });
}

#[test]
fn items_meet_at_barriers_in_loops_conditionals_and_functions() {
    everywhere(SOURCE, |device, program| {
        let queue = device.queue().unwrap();
        for items in [1u32, 2, 31, 64, 256] {
            let count = (items * 3) as usize;
            let input: Vec<u32> = (0..count as u32).map(|i| i * 7 % 13 + 1).collect();
            let expected: Vec<u32> = input
                .chunks(items as usize)
                .flat_map(|group| {
                    group.iter().scan(0, |sum, value| {
                        *sum += value;
                        Some(*sum)
                    })
                })
                .collect();
            let input = device.buffer_of(&queue, &input).unwrap();
            for (name, skipped) in [("scan", None), ("scan_regions", Some(7))] {
                let output = device.buffer_of(&queue, &vec![0u32; count]).unwrap();
                let kernel = program.kernel(name).unwrap();
                // SAFETY: both buffers have an element for each item.
                unsafe {
                    queue
                        .launch_and_wait(&kernel, Grid::linear(3, items), (&input, &output))
                        .unwrap()
                };
                let got = output.to_vec(&queue).unwrap();
                for (at, (got, expected)) in got.iter().zip(&expected).enumerate() {
                    let left_out = skipped == Some(at % items as usize);
                    assert_eq!(
                        *got,
                        if left_out { 0 } else { *expected },
                        "{name} {items} at {at}"
                    );
                }
            }
        }
        let output = device.buffer_of(&queue, &[0u32; 64]).unwrap();
        let helped = program.kernel("helped").unwrap();
        // SAFETY: one element for each item.
        unsafe { queue.launch_and_wait(&helped, Grid::linear(2, 32), (&output,)).unwrap() };
        let output = output.to_vec(&queue).unwrap();
        assert_eq!(output, (0..2).flat_map(|_| (0..32).rev()).collect::<Vec<u32>>());
    });
}

const BESIDE_GROUPS: &str = r#"
#include "longshore_device.h"

LONGSHORE_FUNCTION __attribute__((noinline)) void clear(LONGSHORE_GROUP_SELF, uint32_t *x) {
  LONGSHORE_ITEMS { x[longshore_global_id(0)] = 0; }
  longshore_barrier();
}
LONGSHORE_GROUP_KERNEL(ones, (uint32_t *x)) {
  clear(longshore_self, x);
  LONGSHORE_ITEMS { x[longshore_global_id(0)] += 1; }
}
LONGSHORE_KERNEL(plain, (uint32_t *x)) { x[longshore_global_id(0)] += 1; }
"#;

#[test]
fn group_operations_give_no_item_of_another_kernel_a_stack() {
    everywhere(BESIDE_GROUPS, |device, program| {
        let queue = device.queue().unwrap();
        let (plain, ones) = (program.kernel("plain").unwrap(), program.kernel("ones").unwrap());
        // Kernels whose items have stacks allow fewer concurrent groups.
        assert_eq!(device.max_cooperative_groups(&plain, [64, 1, 1], 0).unwrap(), 1024);
        let x = device.buffer_of(&queue, &[7u32; 64]).unwrap();
        // SAFETY: both kernels write to 64 elements.
        unsafe {
            queue.launch_and_wait(&ones, Grid::linear(2, 32), (&x,)).unwrap();
            queue.launch_and_wait(&plain, Grid::linear(2, 32), (&x,)).unwrap();
        }
        assert_eq!(x.to_vec(&queue).unwrap(), [2; 64]);
    });
}

/// Returns the result of `lanes` for an item.
fn lanes(values: &[u32], item: usize) -> [u64; 12] {
    let first = item / 32 * 32;
    let present = &values[first..values.len().min(first + 32)];
    let (lane, own) = (item - first, values[item]);
    let at = |lane: usize| u64::from(present.get(lane).copied().unwrap_or(own));
    let sum = |values: &[u32]| values.iter().map(|value| u64::from(*value)).sum();
    let bits = present.iter().enumerate().map(|(lane, value)| u64::from(value % 3 == 0) << lane);
    let seven = present.contains(&7);
    [
        32,
        lane as u64,
        (item / 32) as u64,
        bits.sum(),
        at(3),
        at(lane ^ 1),
        sum(present),
        sum(&present[..=lane]),
        present[..lane].iter().max().copied().unwrap_or(0).into(),
        present.iter().min().copied().unwrap_or(0).into(),
        u64::from(seven) + 2,
        if lane + 2 < 32 { at(lane + 2) } else { own.into() },
    ]
}

#[test]
fn sub_groups_exchange_values_among_the_items_that_are_there() {
    everywhere(SUBGROUPS, |device, program| {
        let queue = device.queue().unwrap();
        let kernel = program.kernel("lanes").unwrap();
        for (items, left) in [(1u32, 1u32), (32, 32), (33, 33), (100, 100), (64, 45)] {
            let values: Vec<u32> = (0..items).map(|i| i * 5 % 17).collect();
            let input = device.buffer_of(&queue, &values).unwrap();
            let output = device.buffer_of(&queue, &vec![0u64; items as usize * 12]).unwrap();
            let grid = Grid::linear(1, items);
            // SAFETY: one element of the input and twelve of the output for each item.
            unsafe { queue.launch_and_wait(&kernel, grid, (&input, &output, left)).unwrap() };
            let output = output.to_vec(&queue).unwrap();
            for (item, got) in output.chunks(12).enumerate().take(left as usize) {
                assert_eq!(
                    got,
                    lanes(&values[..left as usize], item),
                    "item {item} of {left} of {items}"
                );
            }
        }
    });
}

#[test]
fn shared_memory_is_as_large_as_the_launch_says_and_globals_are_the_hosts_too() {
    everywhere(SHARED, |device, program| {
        let queue = device.queue().unwrap();
        for name in ["reverse", "reverse_regions"] {
            let kernel = program.kernel(name).unwrap();
            let values = device.buffer_of(&queue, &(0..128u32).collect::<Vec<_>>()).unwrap();
            let grid = Grid::linear(2, 64).with_shared_bytes(256);
            // SAFETY: one element for each item, shared and global.
            unsafe { queue.launch_and_wait(&kernel, grid, (&values,)).unwrap() };
            let expected: Vec<u32> =
                (0..2).flat_map(|g| (0..64).rev().map(move |i| (g * 64 + i) * 3)).collect();
            assert_eq!(values.to_vec(&queue).unwrap(), expected, "{name}");
        }
        let hits = program.global("hits").unwrap();
        assert_eq!(hits.read::<u32>(&queue).unwrap(), 5 + 2 * 128);
        let values = device.buffer_of(&queue, &[0u32]).unwrap();
        let past = program.kernel("past_the_end").unwrap();
        let grid = Grid::linear(1, 64).with_shared_bytes(256);
        // SAFETY: the kernel writes into the fence behind its shared memory.
        let error = unsafe { queue.launch_and_wait(&past, grid, (&values,)) }.unwrap_err();
        assert!(error.message().contains("segmentation fault"), "{error}");
    });
}

#[test]
fn a_grid_of_two_to_the_31_groups_runs_each_once() {
    let workshop = Workshop::new();
    let Some(clang) = clangs().pop() else { return };
    let device = workshop.device(Environment::empty());
    let source = "#include \"longshore_device.h\"\n\
        LONGSHORE_KERNEL(sparse, (uint64_t *count)) {\
          if (longshore_group_id(0) % 65536 == 0) __atomic_fetch_add(count, 1, __ATOMIC_RELAXED); }";
    let program = device.load_trusted(workshop.image(clang, "sparse", source, &["-O2"])).unwrap();
    let (queue, kernel) = (device.queue().unwrap(), program.kernel("sparse").unwrap());
    let count = device.buffer_of(&queue, &[0u64]).unwrap();
    // SAFETY: the kernel adds to one counter.
    unsafe { queue.launch_and_wait(&kernel, Grid::linear(1 << 31, 1), (&count,)).unwrap() };
    assert_eq!(count.to_vec(&queue).unwrap(), [1 << 15]);
}

#[test]
fn helpers_have_names_and_are_as_many_as_was_asked_for() {
    let workshop = Workshop::new();
    let Some(clang) = clangs().pop() else { return };
    let device = workshop.device(threads(4).with("LONGSHORE_HOST_PIN", "1"));
    let program = device.load_trusted(workshop.image(clang, "source", SOURCE, &["-O2"])).unwrap();
    let (queue, kernel) = (device.queue().unwrap(), program.kernel("count_groups").unwrap());
    let count = device.buffer_of(&queue, &[0u64]).unwrap();
    // SAFETY: the kernel adds to one counter.
    unsafe { queue.launch_and_wait(&kernel, Grid::linear(1 << 20, 1), (&count,)).unwrap() };
    assert_eq!(count.to_vec(&queue).unwrap(), [1 << 20]);
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")));
    let mut names: Vec<_> = names.map(|name| name.unwrap().trim().to_owned()).collect();
    names.retain(|name| name.starts_with("longshore-w"));
    names.sort();
    assert_eq!(names, ["longshore-w1", "longshore-w2", "longshore-w3"]);
}

#[test]
fn output_of_kernels_is_there_when_the_launch_is_done() {
    let workshop = Workshop::new();
    let source = r#"
        #include "longshore_device.h"
        LONGSHORE_KERNEL(tell, (uint32_t *x)) {
          if (longshore_item_id(0) == 2)
            longshore_printf("item %d of %s: %.2f, %u, %c, %lld, %p%%\n", (int)longshore_item_id(0), "a group", 1.5f,
                             7u, 'x', -5ll, (void *)0);
          x[longshore_global_id(0)] = 1;
        }"#;
    for clang in clangs() {
        for flags in [&["-O0"][..], &["-O3", "-Wno-format-pedantic"]] {
            let image = workshop.object(clang, "tell", source, flags);
            let mut run = std::process::Command::new(longshore_tests::world::command());
            run.arg("run").arg(image).args([
                "-k",
                "tell",
                "-g",
                "1",
                "-i",
                "4",
                "-a",
                "out:u32[4]",
            ]);
            let output =
                run.arg("--plugin").arg(longshore_tests::world::host_plugin()).output().unwrap();
            let said = String::from_utf8(output.stdout).unwrap();
            let expected = "item 2 of a group: 1.50, 7, x, -5, (nil)%\n";
            assert!(said.starts_with(expected), "{clang} {flags:?}: {said}");
        }
    }
}

#[test]
fn settings_that_cannot_be_understood_are_named() {
    let world = longshore_tests::world::World::new();
    longshore_tests::world::copy_into(&world, &longshore_tests::world::host_plugin());
    for (name, value) in
        [("THREADS", "0"), ("THREADS", "many"), ("THREADS", "9999"), ("PIN", "yes")]
    {
        let environment = Environment::empty().with(format!("LONGSHORE_HOST_{name}"), value);
        let builder = || world.host().with_environment(environment.clone());
        let refused = builder().build().err().unwrap();
        assert_eq!(refused.code(), ErrorCode::InvalidValue);
        let host = builder().with_refused_settings_as_outcomes().build().unwrap();
        let absent = host.default_device().err().unwrap();
        let variable = format!("LONGSHORE_HOST_{name} is '{value}'");
        for error in [refused, absent] {
            assert!(error.message().contains(&variable), "{error}");
        }
    }
}

#[test]
fn launches_that_cannot_be_are_refused_before_anything_runs() {
    let workshop = Workshop::new();
    let Some(clang) = clangs().pop() else { return };
    let device = workshop.device(Environment::empty());
    let program = device.load_trusted(workshop.image(clang, "source", SOURCE, &["-O2"])).unwrap();
    let queue = device.queue().unwrap();
    let count = device.buffer_of(&queue, &[0u64]).unwrap();
    let kernel = program.kernel("count_groups").unwrap();
    for (grid, code) in [
        (Grid::linear(0, 1), ErrorCode::InvalidArgument),
        (Grid::new([1, 1, 0], [1; 3]), ErrorCode::InvalidArgument),
        (Grid::linear(1, 0), ErrorCode::InvalidArgument),
        (Grid::new([u32::MAX; 3], [1; 3]), ErrorCode::InvalidSize),
        (Grid::linear(1, 1).with_shared_bytes(1 << 30), ErrorCode::InvalidArgument),
    ] {
        // SAFETY: the launch is refused.
        let error = unsafe { queue.launch_and_wait(&kernel, grid, (&count,)) }.unwrap_err();
        assert_eq!(error.code(), code, "{error}");
    }
    let scan = program.kernel("scan").unwrap();
    // SAFETY: as above.
    let error = unsafe { queue.launch_and_wait(&scan, Grid::linear(1, 5000), (&count, &count)) };
    assert!(error.unwrap_err().message().contains("at most 1024 items"));
    assert_eq!(count.to_vec(&queue).unwrap(), [0]);
}
