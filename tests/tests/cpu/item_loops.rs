//! Kernels of items that wait for each other, of which `longshore cc` makes loops.

use longshore::{Device, Grid, Image, Queue};
use longshore_conformance::TrustedImages;
use longshore_tests::device_code::{Workshop, clangs, threads};
use longshore_tests::world::command;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = r#"#include "longshore_device.h"
LONGSHORE_KERNEL(reverse, (const uint32_t *x, uint32_t *y, uint32_t n, uint32_t bad)) {
  LONGSHORE_SHARED(uint32_t, tile, [1024]);
  const uint32_t i = longshore_item_index();
  const uint32_t items = longshore_group_items(0) * longshore_group_items(1) * longshore_group_items(2);
  if (i >= n) return;
  tile[i] = x[i];
  longshore_barrier();
  longshore_assert(i != bad);
  y[i] = tile[items - 1 - i];
}
LONGSHORE_KERNEL(divergent, (uint32_t *x)) {
  if (x[longshore_item_id(0)] == 3)
    longshore_barrier();
  else
    longshore_barrier();
}
static void wait(LONGSHORE_SELF, uint32_t rounds) {
  longshore_barrier();
  if (rounds) wait(longshore_self, rounds - 1);
}
LONGSHORE_KERNEL(recursive, (uint32_t n)) { wait(longshore_self, n); }
#define SHIFT(name, ...) \
  LONGSHORE_KERNEL(name, (const uint32_t *x, uint32_t *y), ##__VA_ARGS__) { \
    const uint32_t i = longshore_item_index(), id = longshore_item_id(0), row = longshore_item_id(1) + 100 * longshore_item_id(2); \
    const uint32_t next = longshore_subgroup_shuffle_down(x[i], 1u); \
    longshore_barrier(); \
    y[i] = longshore_subgroup_inclusive_add(next) + 1000000 * id + 10000 * row + longshore_subgroup_id(); \
  }
SHIFT(shift)
SHIFT(shift_any, LONGSHORE_GROUP_SIZE(7, 5, 3))
LONGSHORE_KERNEL(first, (uint32_t *x, uint32_t count)) {
  const uint32_t i = longshore_item_id(0);
  uint32_t sum = 0;
  if (i < count) sum = longshore_subgroup_id() + 1;
  longshore_barrier();
  if (longshore_subgroup_id() == 0) sum = longshore_subgroup_reduce_add(sum);
  x[i] = sum;
}
"#;

/// The line of the branch in `divergent`.
const DIVERGENT_LINE: &str = "waiting.c:13: ";

fn compile(folder: &Path, clang: &str, level: &str) -> PathBuf {
    let (source, image) = (folder.join("waiting.c"), folder.join("waiting.o"));
    std::fs::write(&source, SOURCE).unwrap();
    let mut compile = Command::new(command());
    compile.arg("cc").arg("--raw").args(["--clang", clang]);
    compile.args(level.split(' ')).arg(&source);
    let output = compile.arg("-o").arg(&image).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    image
}

fn host() -> (Device, Queue) {
    let device = Workshop::new().device(threads(2));
    let queue = device.queue().unwrap();
    (device, queue)
}

#[test]
fn code_for_debuggers_keeps_the_stacks_of_items() {
    let folder = tempfile::tempdir().unwrap();
    for (level, mode) in
        [("-g -O0", "fibers"), ("-O2 -g -O0", "fibers"), ("-g -O2", "regions"), ("-O0", "regions")]
    {
        let image = compile(folder.path(), "clang-19", level);
        let output = Command::new(command()).arg("inspect").arg(image).arg("--json").output();
        let report: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
        let kernels = report["images"][0]["kernels"].as_array().unwrap();
        let reverse = kernels.iter().find(|kernel| kernel["name"] == "reverse").unwrap();
        assert_eq!(reverse["description"]["on_cpu"], mode, "{level}");
    }
}

#[test]
fn inspect_reports_loops_and_the_line_against_them() {
    let folder = tempfile::tempdir().unwrap();
    for clang in clangs() {
        let image = compile(folder.path(), clang, "-O2");
        let output = Command::new(command()).arg("inspect").arg(image).arg("--json").output();
        let report: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
        let kernels = report["images"][0]["kernels"].as_array().unwrap();
        let of = |name: &str| {
            let kernel = kernels.iter().find(|kernel| kernel["name"] == name);
            let description = &kernel.unwrap()["description"];
            let reason = description["no_loops_because"].as_str().unwrap_or_default();
            (description["on_cpu"].as_str().unwrap().to_owned(), reason.to_owned())
        };
        for name in ["reverse", "first"] {
            assert_eq!(of(name), ("regions".into(), String::new()), "{clang}, {name}");
        }
        let (mode, reason) = of("divergent");
        assert!(mode == "fibers" && reason.contains(DIVERGENT_LINE), "{clang}: {mode}, {reason}");
        let (mode, reason) = of("recursive");
        assert!(mode == "fibers" && reason.contains("recursion"), "{clang}: {mode}, {reason}");
    }
}

#[test]
fn loops_compute_what_items_do_for_all_shapes_of_groups() {
    let folder = tempfile::tempdir().unwrap();
    let (device, queue) = host();
    for (clang, level) in clangs().into_iter().flat_map(|it| [(it, "-O0"), (it, "-O3")]) {
        let image = Image::read(compile(folder.path(), clang, level)).unwrap();
        let program = device.load_trusted(image).unwrap();
        let (reverse, first) =
            (program.kernel("reverse").unwrap(), program.kernel("first").unwrap());
        for items in
            [[1, 1, 1], [2, 1, 1], [31, 1, 1], [33, 3, 2], [16, 16, 1], [1, 1, 64], [1024, 1, 1]]
        {
            let count = items.iter().product::<u32>();
            let numbers: Vec<u32> = (0..count).map(|number| number * 7).collect();
            let x = device.buffer_of(&queue, &numbers).unwrap();
            let y = device.buffer_of(&queue, &vec![0u32; count as usize]).unwrap();
            let grid = Grid::new([1, 1, 1], items);
            // SAFETY: the kernel takes two buffers of `count` numbers, and two numbers.
            unsafe { queue.launch_and_wait(&reverse, grid, (&x, &y, count, u32::MAX)).unwrap() };
            let reversed: Vec<u32> = numbers.iter().rev().copied().collect();
            assert_eq!(y.to_vec(&queue).unwrap(), reversed, "{clang} {level} {items:?}");
        }
        for count in [0, 1, 40, 70] {
            let x = device.buffer_of(&queue, &[9u32; 70]).unwrap();
            // SAFETY: the kernel takes a buffer with a number for each item, and a number.
            unsafe {
                queue.launch_and_wait(&first, Grid::linear(1, 70), (&x, count)).unwrap();
            }
            let expected = |item: u32| match item / 32 {
                0 => count.min(32),
                subgroup if item < count => subgroup + 1,
                _ => 0,
            };
            let expected: Vec<u32> = (0..70).map(expected).collect();
            assert_eq!(x.to_vec(&queue).unwrap(), expected, "{clang} {level} {count}");
        }
    }
}

/// Returns the results of `shift` for a group.
fn shifted(items: [u32; 3], x: &[u32]) -> Vec<u32> {
    let mut y = Vec::new();
    for (subgroup, values) in x.chunks(32).enumerate() {
        let mut sum = 0u32;
        for lane in 0..values.len() {
            sum += values.get(lane + 1).unwrap_or(&values[lane]);
            let index = y.len() as u32;
            let (id, row) = (index % items[0], index / items[0]);
            let row = row % items[1] + 100 * (row / items[1]);
            y.push(sum + 1_000_000 * id + 10_000 * row + subgroup as u32);
        }
    }
    y
}

#[test]
fn subgroups_are_of_neighbouring_items_for_all_shapes_of_groups() {
    let folder = tempfile::tempdir().unwrap();
    let (device, queue) = host();
    for (clang, level) in clangs().into_iter().flat_map(|it| [(it, "-O0"), (it, "-O3")]) {
        let image = compile(folder.path(), clang, level);
        let output = Command::new(command()).arg("inspect").arg(&image).arg("--json").output();
        let report: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
        let kernels = report["images"][0]["kernels"].as_array().unwrap();
        let is_loop = |name: &str| {
            let kernel = kernels.iter().find(|kernel| kernel["name"] == name).unwrap();
            kernel["description"]["on_cpu"] == "regions"
        };
        assert!(is_loop("shift") && is_loop("shift_any"), "{clang} {level}");
        let program = device.load_trusted(Image::read(image).unwrap()).unwrap();
        let any = [[1, 1, 1], [33, 1, 1], [31, 2, 1], [32, 3, 2], [7, 5, 3], [1, 1, 64], [3, 1, 9]];
        let cases = any.map(|items| ("shift", items)).into_iter();
        for (name, items) in cases.chain([("shift_any", [7, 5, 3])]) {
            let count = items.iter().product::<u32>();
            let numbers: Vec<u32> = (0..count).map(|number| number % 13).collect();
            let x = device.buffer_of(&queue, &numbers).unwrap();
            let y = device.buffer_of(&queue, &vec![0u32; count as usize]).unwrap();
            let kernel = program.kernel(name).unwrap();
            // SAFETY: the kernel takes two buffers with a number for each item.
            unsafe {
                queue.launch_and_wait(&kernel, Grid::new([1, 1, 1], items), (&x, &y)).unwrap();
            }
            let expected = shifted(items, &numbers);
            assert_eq!(y.to_vec(&queue).unwrap(), expected, "{clang} {level} {name} {items:?}");
        }
    }
}

#[test]
fn failures_in_loops_name_the_item() {
    let folder = tempfile::tempdir().unwrap();
    let (device, queue) = host();
    for clang in clangs() {
        let image = Image::read(compile(folder.path(), clang, "-O3")).unwrap();
        let kernel = device.load_trusted(image).unwrap().kernel("reverse").unwrap();
        let x = device.buffer_of(&queue, &[1u32; 256]).unwrap();
        let launch = |n: u32, bad: u32| {
            // SAFETY: the kernel takes two buffers with a number for each item, and two numbers.
            unsafe { queue.launch_and_wait(&kernel, Grid::linear(1, 256), (&x, &x, n, bad)) }
        };
        launch(256, u32::MAX).unwrap();
        let error = launch(256, 77).unwrap_err().to_string();
        assert!(error.contains("item (77, 0, 0): i != bad"), "{clang}: {error}");
        let error = launch(200, u32::MAX).unwrap_err().to_string();
        let is_stuck = error.contains("wait for each other at different places");
        assert!(is_stuck && error.contains("(200, 0, 0) has returned"), "{clang}: {error}");
        // If all items return, none waits.
        launch(0, u32::MAX).unwrap();
    }
}
