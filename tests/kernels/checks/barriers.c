/* Barriers and sub-group operations. */
#include <longshore_device.h>

/* The launch of the next kernel. */
#define LAUNCH(...)

LAUNCH(1 x 8: u32*8)
LONGSHORE_KERNEL(wrong_barrier_for_some, (uint32_t *x)) {
  uint32_t i = longshore_item_id(0);
  if (i < 4)
    longshore_barrier(); // BUG: barriers
  x[i] = i;
}

LAUNCH(2 x 8: u32*16)
LONGSHORE_KERNEL(wrong_return_before_a_barrier, (uint32_t *x)) {
  uint32_t i = longshore_item_id(0);
  if (i == 7) return;
  x[longshore_global_id(0)] = i;
  longshore_barrier(); // BUG: barriers
}

LAUNCH(1 x 8: u32*8)
LONGSHORE_KERNEL(wrong_different_barriers, (uint32_t *x)) {
  uint32_t i = longshore_item_id(0);
  if (i < 4) {
    x[i] = 1;
    longshore_barrier(); // BUG: barriers
  } else {
    x[i] = 2;
    longshore_barrier(); // BUG: barriers
  }
}

LAUNCH(1 x 8: u32*8)
LONGSHORE_KERNEL(wrong_rounds_of_a_loop, (uint32_t *x)) {
  uint32_t i = longshore_item_id(0);
  for (uint32_t k = 0; k <= i; ++k)
    longshore_barrier(); // BUG: barriers
  x[i] = i;
}

LAUNCH(1 x 64: u32*64)
LONGSHORE_KERNEL(wrong_barrier_beside_a_vote, (uint32_t *x)) {
  uint32_t i = longshore_item_id(0);
  if (i < 10)
    x[i] = (uint32_t)longshore_subgroup_ballot(i & 1); // BUG: barriers
  else
    longshore_barrier(); // BUG: barriers
}

LAUNCH(1 x 32: u32*32)
LONGSHORE_KERNEL(wrong_different_exchanges, (uint32_t *x)) {
  uint32_t i = longshore_item_id(0), v;
  if (i & 1)
    v = longshore_subgroup_shuffle_xor(i, 2); // BUG: barriers
  else
    v = longshore_subgroup_shuffle_xor(i, 4); // BUG: barriers
  x[i] = v;
}

LAUNCH(1 x 16: u32*16)
LONGSHORE_KERNEL(right_barrier_in_a_branch_of_all, (uint32_t *x)) {
  uint32_t i = longshore_item_id(0);
  if (longshore_group_items(0) > 8) longshore_barrier();
  x[i] = i;
}

LAUNCH(2 x 8: u32*16)
LONGSHORE_KERNEL(right_return_of_whole_groups, (uint32_t *x)) {
  if (longshore_group_id(0) == 1) return;
  longshore_barrier();
  x[longshore_item_id(0)] = 1;
}

LAUNCH(2 x 8: u32*16)
LONGSHORE_KERNEL(right_return_after_the_last_barrier, (uint32_t *x)) {
  uint32_t i = longshore_item_id(0);
  longshore_barrier();
  if (i == 7) return;
  x[longshore_global_id(0)] = i;
}

LAUNCH(1 x 8: u32*8 u32=3)
LONGSHORE_KERNEL(right_rounds_of_all, (uint32_t *x, uint32_t rounds)) {
  uint32_t i = longshore_item_id(0);
  for (uint32_t k = 0; k < rounds; ++k) {
    uint32_t v = x[(i + 1) % 8];
    longshore_barrier();
    x[i] = v;
    longshore_barrier();
  }
}

LAUNCH(1 x 40: u32*40)
LONGSHORE_KERNEL(right_vote_of_the_remaining_items, (uint32_t *x)) {
  uint32_t i = longshore_item_id(0);
  if (i % 3 == 0) return;
  x[i] = (uint32_t)longshore_subgroup_ballot(1);
}

LONGSHORE_FUNCTION void meet(LONGSHORE_SELF) {
  longshore_barrier();
}

LAUNCH(1 x 8: u32*8)
LONGSHORE_KERNEL(right_barriers_in_a_function, (uint32_t *x)) {
  uint32_t i = longshore_item_id(0);
  x[i] = 1;
  meet(longshore_self);
  x[7 - i] += 1;
  meet(longshore_self);
  x[i] += 1;
}

LAUNCH(1 x 8: u32*8)
LONGSHORE_KERNEL(right_vote_of_each_sub_group, (uint32_t *x)) {
  uint32_t i = longshore_item_id(0);
  if (longshore_subgroup_any(i == 3)) x[i] = longshore_subgroup_reduce_add(i);
  longshore_barrier();
}
