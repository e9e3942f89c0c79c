//! Launches on the CPU whose groups wait for each other.

use longshore::{ErrorCode, Grid};
use longshore_conformance::TrustedImages;
use longshore_tests::device_code::{Workshop, clangs, everywhere, threads};

const GRID: &str = r#"
#include "longshore_device.h"

/* In each round, every item reads what another group wrote in the round before. */
LONGSHORE_KERNEL(rotate, (uint32_t *values, uint32_t rounds)) {
  uint64_t n = longshore_global_items(0), i = longshore_global_id(0);
  for (uint32_t round = 0; round < rounds; ++round) {
    uint32_t next = values[(i + longshore_group_items(0)) % n];
    longshore_grid_barrier();
    values[i] = next + 1;
    longshore_grid_barrier();
  }
}
LONGSHORE_GROUP_KERNEL(rotate_regions, (uint32_t *values, uint32_t rounds)) {
  LONGSHORE_PRIVATE(uint32_t, next);
  for (uint32_t round = 0; round < rounds; ++round) {
    LONGSHORE_ITEMS {
      uint64_t n = longshore_global_items(0), i = longshore_global_id(0);
      longshore_private(next) = values[(i + longshore_group_items(0)) % n];
    }
    longshore_grid_barrier();
    LONGSHORE_ITEMS { values[longshore_global_id(0)] = longshore_private(next) + 1; }
    longshore_grid_barrier();
  }
}
/* Only some groups come to the barrier. */
LONGSHORE_KERNEL(uneven, (uint32_t *values)) {
  values[longshore_global_id(0)] = 1;
  if (longshore_group_id(0) % 4 == 1) longshore_grid_barrier();
}
"#;

#[test]
fn groups_of_a_cooperative_launch_wait_for_each_other() {
    everywhere(GRID, |device, program| {
        let queue = device.queue().unwrap();
        for name in ["rotate", "rotate_regions"] {
            let kernel = program.kernel(name).unwrap();
            let (groups, items, rounds) = (7u32, 5u32, 9u32);
            let n = groups * items;
            let values = device.buffer_of(&queue, &(0..n).collect::<Vec<u32>>()).unwrap();
            let grid = Grid::linear(groups, items).with_cooperative(true);
            // SAFETY: one element for each item.
            unsafe { queue.launch_and_wait(&kernel, grid, (&values, rounds)).unwrap() };
            let expected: Vec<u32> = (0..n).map(|i| (i + rounds * items) % n + rounds).collect();
            assert_eq!(values.to_vec(&queue).unwrap(), expected, "{name}");
        }
    });
}

#[test]
fn a_launch_that_cannot_be_cooperative_is_refused() {
    let workshop = Workshop::new();
    let Some(clang) = clangs().pop() else { return };
    let device = workshop.device(threads(2));
    let program = device.load_trusted(workshop.image(clang, "grid", GRID, &["-O2"])).unwrap();
    let (queue, kernel) = (device.queue().unwrap(), program.kernel("rotate").unwrap());
    let values = device.buffer_of(&queue, &[0u32; 64]).unwrap();
    for (grid, words) in [
        (Grid::linear(2, 32), "must be launched cooperatively"),
        (Grid::linear(5000, 1).with_cooperative(true), "expected at most 1024"),
        (Grid::linear(17, 1024).with_cooperative(true), "expected at most 16"),
    ] {
        // SAFETY: the launch is refused.
        let error = unsafe { queue.launch_and_wait(&kernel, grid, (&values, 1u32)) }.unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
        assert!(error.message().contains(words), "{error}");
    }
}

#[test]
fn a_grid_barrier_that_only_some_groups_reach_is_an_error() {
    let workshop = Workshop::new();
    let Some(clang) = clangs().pop() else { return };
    for count in [1, 2] {
        let device = workshop.device(threads(count));
        let program = device.load_trusted(workshop.image(clang, "grid", GRID, &["-O2"])).unwrap();
        let (queue, kernel) = (device.queue().unwrap(), program.kernel("uneven").unwrap());
        let values = device.buffer_of(&queue, &[0u32; 64]).unwrap();
        let grid = Grid::linear(8, 8).with_cooperative(true);
        // SAFETY: one element for each item.
        let error = unsafe { queue.launch_and_wait(&kernel, grid, (&values,)) }.unwrap_err();
        assert_eq!(error.code(), ErrorCode::BackendFailure);
        assert!(error.message().contains("barrier of the whole grid"), "{error}");
        let waits = ["group (1, 0, 0)", "group (5, 0, 0)"];
        assert!(waits.iter().any(|group| error.message().contains(group)), "{error}");
    }
}
