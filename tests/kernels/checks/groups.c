/* Races between groups. */
#include <longshore_device.h>

/* The launch of the next kernel. */
#define LAUNCH(...)

LAUNCH(2 x 8: f32*16)
LONGSHORE_KERNEL(wrong_groups_that_overlap, (float *x)) {
  x[longshore_group_id(0) * 7 + longshore_item_id(0)] = 1; // BUG: races
}

LAUNCH(4 x 8: f32*33)
LONGSHORE_KERNEL(wrong_neighbours_of_other_groups, (float *x)) {
  uint64_t i = longshore_global_id(0);
  float v = x[i + 1]; // BUG: races
  longshore_barrier();
  x[i] = v; // BUG: races
}

LAUNCH(4 x 8: f32*1 f32*32)
LONGSHORE_KERNEL(wrong_sum_of_groups_without_atomics, (float *sum, const float *x)) {
  float own = longshore_subgroup_reduce_add(x[longshore_global_id(0)]);
  if (longshore_item_id(0) == 0)
    *sum += own; // BUG: races
}

LAUNCH(4 x 8: u32*32 u32*4 u32*1 u32*1)
LONGSHORE_KERNEL(wrong_last_group_without_a_fence, (const uint32_t *x, uint32_t *sums, uint32_t *done, uint32_t *y)) {
  uint32_t sum = longshore_subgroup_reduce_add(x[longshore_global_id(0)]);
  if (longshore_item_id(0) != 0) return;
  sums[longshore_group_id(0)] = sum; // BUG: races
  if (longshore_atomic_add(done, 1u) + 1 == x[0] + 4)
    for (uint32_t k = 0; k < 4; ++k)
      *y += sums[k]; // BUG: races
}

LAUNCH(3 x 4: u32*1 u32*12)
LONGSHORE_KERNEL(wrong_plain_flag, (uint32_t *flag, uint32_t *x)) {
  if (longshore_global_id(0) == 0)
    *flag = 1; // BUG: races
  else
    x[longshore_global_id(0)] = *flag; // BUG: races
}

LONGSHORE_GLOBAL uint32_t wrong_total;

LAUNCH(3 x 4: u32*1)
LONGSHORE_KERNEL(wrong_variable_of_all_groups, (uint32_t *x)) {
  if (longshore_item_id(0) == 0)
    wrong_total += x[0]; // BUG: races
}

LAUNCH(2 x 4 cooperative: u32*8 u32*8)
LONGSHORE_KERNEL(wrong_barrier_of_the_group_for_the_grid, (uint32_t *x, uint32_t *y)) {
  uint64_t i = longshore_global_id(0);
  x[i] = (uint32_t)i; // BUG: races
  longshore_barrier();
  y[i] = x[7 - i]; // BUG: races
  longshore_grid_barrier();
}

LAUNCH(2 x 4: f32*8)
LONGSHORE_GROUP_KERNEL(wrong_group_kernels_that_overlap, (float *x)) {
  LONGSHORE_ITEMS {
    x[longshore_item_id(0)] = (float)longshore_group_id(0); // BUG: races
  }
}

LAUNCH(2 x 4: u32*1)
LONGSHORE_KERNEL(wrong_store_beside_atomics, (uint32_t *x)) {
  if (longshore_global_id(0) == 0)
    *x = 0; // BUG: races
  else
    longshore_atomic_add(x, 1u); // BUG: races
}

LAUNCH(2 x 1: zero:u32*1 u32*2)
LONGSHORE_KERNEL(wrong_write_after_a_release, (uint32_t *flag, uint32_t *x)) {
  if (longshore_group_id(0) == 0) {
    longshore_atomic_store_explicit(flag, 1u, LONGSHORE_RELEASE, LONGSHORE_SCOPE_DEVICE);
    x[0] = 3; // BUG: races
  } else if (longshore_atomic_load_explicit(flag, LONGSHORE_ACQUIRE, LONGSHORE_SCOPE_DEVICE)) {
    x[1] = x[0]; // BUG: races
  }
}

LAUNCH(2 x 1: zero:u32*1 u32*2)
LONGSHORE_KERNEL(wrong_write_between_a_fence_and_its_store, (uint32_t *flag, uint32_t *x)) {
  if (longshore_group_id(0) == 0) {
    longshore_fence(LONGSHORE_RELEASE, LONGSHORE_SCOPE_DEVICE);
    x[0] = 3; // BUG: races
    longshore_atomic_store(flag, 1u);
  } else if (longshore_atomic_load(flag)) {
    longshore_fence(LONGSHORE_ACQUIRE, LONGSHORE_SCOPE_DEVICE);
    x[1] = x[0]; // BUG: races
  }
}

LAUNCH(3 x 4: zero:u32*1 zero:u32*4)
LONGSHORE_GROUP_KERNEL(wrong_write_of_a_group_after_a_release, (uint32_t *lock, uint32_t *x)) {
  LONGSHORE_ITEMS {
    if (longshore_item_id(0) == 2) {
      while (longshore_atomic_exchange_explicit(lock, 1u, LONGSHORE_ACQUIRE, LONGSHORE_SCOPE_DEVICE)) {}
      uint32_t sum = x[0] + 1; // BUG: races
      longshore_atomic_store_explicit(lock, 0u, LONGSHORE_RELEASE, LONGSHORE_SCOPE_DEVICE);
      x[0] = sum; // BUG: races
    }
  }
}

LAUNCH(6 x 64: zero:u32*8 u32*384 u32*64)
LONGSHORE_KERNEL(wrong_writes_of_all_items_after_a_fence, (uint32_t *flags, uint32_t *x, uint32_t *y)) {
  uint32_t group = longshore_group_id(0);
  longshore_fence(LONGSHORE_RELEASE, LONGSHORE_SCOPE_DEVICE);
  longshore_atomic_add(flags + group, 1u);
  x[longshore_global_id(0)] = 1; // BUG: races
  if (group == 5 && longshore_atomic_load_explicit(flags + 4, LONGSHORE_ACQUIRE, LONGSHORE_SCOPE_DEVICE))
    y[longshore_item_id(0)] = x[4 * 64 + longshore_item_id(0)]; // BUG: races
}

LAUNCH(4 x 8: f32*32 f32*4)
LONGSHORE_KERNEL(right_groups_of_their_own, (const float *x, float *y)) {
  float sum = longshore_subgroup_reduce_add(x[longshore_global_id(0)]);
  if (longshore_item_id(0) == 0) y[longshore_group_id(0)] = sum;
}

LAUNCH(4 x 8: f32*34 f32*32)
LONGSHORE_KERNEL(right_neighbours_of_other_groups, (const float *x, float *y)) {
  uint64_t i = longshore_global_id(0);
  y[i] = x[i] + x[i + 1] + x[i + 2];
}

LAUNCH(4 x 8: u32*1 u32*32)
LONGSHORE_KERNEL(right_sum_of_groups, (uint32_t *sum, const uint32_t *x)) {
  uint32_t own = longshore_subgroup_reduce_add(x[longshore_global_id(0)]);
  if (longshore_item_id(0) == 0) longshore_atomic_add(sum, own);
}

LAUNCH(4 x 8: u32*32 u32*4 zero:u32*1 u32*1)
LONGSHORE_KERNEL(right_last_group_with_orders, (const uint32_t *x, uint32_t *sums, uint32_t *done, uint32_t *y)) {
  uint32_t sum = longshore_subgroup_reduce_add(x[longshore_global_id(0)]);
  if (longshore_item_id(0) != 0) return;
  sums[longshore_group_id(0)] = sum;
  if (longshore_atomic_add_explicit(done, 1u, LONGSHORE_ACQ_REL, LONGSHORE_SCOPE_DEVICE) == 3)
    for (uint32_t k = 0; k < 4; ++k) *y += sums[k];
}

LAUNCH(4 x 8: u32*32 u32*32 zero:u32*1)
LONGSHORE_KERNEL(right_last_group_with_fences, (const uint32_t *x, uint32_t *parts, uint32_t *done)) {
  LONGSHORE_SHARED(uint32_t, is_last, [1]);
  parts[longshore_global_id(0)] = 2 * x[longshore_global_id(0)];
  longshore_fence(LONGSHORE_SEQ_CST, LONGSHORE_SCOPE_DEVICE);
  longshore_barrier();
  if (longshore_item_id(0) == 0) is_last[0] = longshore_atomic_add(done, 1u) == 3;
  longshore_barrier();
  if (!is_last[0]) return;
  longshore_fence(LONGSHORE_SEQ_CST, LONGSHORE_SCOPE_DEVICE);
  for (uint32_t k = longshore_item_id(0); k < 32; k += 8) parts[k] += 1;
}

LAUNCH(4 x 4: u32*16 zero:u32*4)
LONGSHORE_GROUP_KERNEL(right_sums_from_group_to_group, (uint32_t *x, uint32_t *ready)) {
  const uint32_t group = longshore_group_id(0);
  LONGSHORE_ITEMS {
    if (longshore_item_id(0) == 0) {
      if (group > 0) {
        while (!longshore_atomic_load_explicit(ready + group - 1, LONGSHORE_ACQUIRE, LONGSHORE_SCOPE_DEVICE)) {}
        x[4 * group] += x[4 * group - 4];
      }
      longshore_atomic_store_explicit(ready + group, 1u, LONGSHORE_RELEASE, LONGSHORE_SCOPE_DEVICE);
    }
  }
}

LAUNCH(3 x 4: zero:u32*1 zero:u32*4 zero:u32*12)
LONGSHORE_KERNEL(right_writes_before_and_after_a_release, (uint32_t *flag, uint32_t *x, uint32_t *y)) {
  if (longshore_item_id(0) != 0) return;
  if (longshore_atomic_load_explicit(flag, LONGSHORE_ACQUIRE, LONGSHORE_SCOPE_DEVICE)) x[0] += x[1];
  x[1] = 1;
  longshore_atomic_store_explicit(flag, 1u, LONGSHORE_RELEASE, LONGSHORE_SCOPE_DEVICE);
  y[longshore_global_id(0)] = 1;
}

LAUNCH(2 x 1: zero:u32*1 u32*2)
LONGSHORE_KERNEL(right_relaxed_operations_with_fences, (uint32_t *flag, uint32_t *x)) {
  if (longshore_group_id(0) == 0) {
    x[0] = 3;
    longshore_fence(LONGSHORE_RELEASE, LONGSHORE_SCOPE_DEVICE);
    longshore_atomic_store(flag, 1u);
  } else if (longshore_atomic_load(flag)) {
    longshore_fence(LONGSHORE_ACQUIRE, LONGSHORE_SCOPE_DEVICE);
    x[1] = x[0];
    *flag = 0;
  }
}

LAUNCH(2 x 4 cooperative: u32*8 u32*8)
LONGSHORE_KERNEL(right_barrier_of_the_grid, (uint32_t *x, uint32_t *y)) {
  uint64_t i = longshore_global_id(0);
  x[i] = (uint32_t)i;
  longshore_grid_barrier();
  y[i] = x[7 - i];
  longshore_grid_barrier();
  x[i] = y[i ^ 4];
}

LAUNCH(2 x 4 cooperative: u32*8 u32*8)
LONGSHORE_GROUP_KERNEL(right_barrier_of_the_grid_of_groups, (uint32_t *x, uint32_t *y)) {
  LONGSHORE_SHARED(uint32_t, kept, [4]);
  LONGSHORE_ITEMS {
    kept[longshore_item_id(0)] = 1;
    x[longshore_global_id(0)] = 5;
  }
  longshore_grid_barrier();
  LONGSHORE_ITEMS { y[longshore_global_id(0)] = x[7 - longshore_global_id(0)] + kept[3 - longshore_item_id(0)]; }
}

LONGSHORE_GLOBAL uint32_t right_total;

LAUNCH(3 x 4: u32*1)
LONGSHORE_KERNEL(right_variable_of_all_groups, (uint32_t *x)) {
  if (longshore_item_id(0) == 0) longshore_atomic_add(&right_total, x[0]);
}

LAUNCH(3 x 8: u32*24)
LONGSHORE_KERNEL(right_shared_memory_is_each_groups_own, (uint32_t *x)) {
  LONGSHORE_SHARED(uint32_t, tile, [8]);
  tile[longshore_item_id(0)] = x[longshore_global_id(0)];
  longshore_barrier();
  x[longshore_global_id(0)] = tile[7 - longshore_item_id(0)];
}

LAUNCH(2,2 x 2,2: u32*16)
LONGSHORE_KERNEL(right_groups_in_two_dimensions, (uint32_t *x)) {
  uint64_t column = longshore_global_id(0), row = longshore_global_id(1);
  x[4 * row + column] += 1;
}
