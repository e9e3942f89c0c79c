/*
 * Kernels of items that wait for each other, for groups of any size in one to three dimensions.
 * Each writes one result for each item; x and y have a number for each item of the grid.
 */
#include "longshore_device.h"

#define MOST_ITEMS 1024
#define GROUP_ITEMS() (longshore_group_items(0) * longshore_group_items(1) * longshore_group_items(2))
/* The item's number in the grid, in the order of groups. */
#define NUMBER() (longshore_group_index() * GROUP_ITEMS() + longshore_item_index())

/* The sums of the group's numbers up to the item's, with a loop whose number of rounds is the same
 * for all items. */
LONGSHORE_KERNEL(scan, (const uint32_t *x, uint32_t *y, uint32_t n)) {
  LONGSHORE_SHARED(uint32_t, tile, [2][MOST_ITEMS]);
  const uint32_t id = longshore_item_index(), items = GROUP_ITEMS();
  const uint64_t at = NUMBER();
  uint32_t from = 0;
  tile[0][id] = at < n ? x[at] : 0;
  longshore_barrier();
  for (uint32_t near = 1; near < items; near *= 2) {
    tile[1 - from][id] = tile[from][id] + (id >= near ? tile[from][id - near] : 0);
    from = 1 - from;
    longshore_barrier();
  }
  if (at < n) y[at] = tile[from][id];
}

/* Turns of the group's numbers, each item's own in a private array. Items behind n return before
 * the last barriers. */
LONGSHORE_KERNEL(turns, (const uint32_t *x, uint32_t *y, uint32_t n)) {
  LONGSHORE_SHARED(uint32_t, tile, [MOST_ITEMS]);
  const uint32_t id = longshore_item_index(), items = GROUP_ITEMS();
  const uint64_t at = NUMBER();
  uint32_t seen[8], sum = 0;
  for (uint32_t turn = 0; turn < 8; ++turn) {
    tile[id] = at < n ? x[at] + turn : turn;
    longshore_barrier();
    seen[(turn * 5 + id) % 8] = tile[(id + turn * 7) % items];
    longshore_barrier();
  }
  if (at >= n) return;
  for (uint32_t turn = 0; turn < 8; ++turn) sum = sum * 31 + seen[turn];
  y[at] = sum;
}

/* Neighbours in each dimension, by conditions that differ from item to item and from row to row. */
LONGSHORE_KERNEL(neighbours_of_items, (const uint32_t *x, uint32_t *y, uint32_t n)) {
  LONGSHORE_SHARED(uint32_t, tile, [MOST_ITEMS]);
  const uint32_t a = longshore_item_id(0), b = longshore_item_id(1), c = longshore_item_id(2);
  const uint32_t wide = longshore_group_items(0), high = longshore_group_items(1);
  const uint32_t id = longshore_item_index();
  const uint64_t at = NUMBER();
  tile[id] = at < n ? x[at] : 1;
  longshore_barrier();
  uint32_t sum = tile[id];
  if (a > 0) sum += 3 * tile[id - 1];
  if (a + 1 < wide) sum += 5 * tile[id + 1];
  if (b > 0 && a % 2 == 0) sum += 7 * tile[id - wide];
  if (c > 0) sum ^= tile[id - wide * high];
  longshore_barrier();
  if (longshore_group_id(0) % 2 == 0) {
    tile[id] = sum;
    longshore_barrier();
    sum += tile[GROUP_ITEMS() - 1 - id];
  }
  if (at < n) y[at] = sum;
}

/* Sub-group operations around a barrier. */
LONGSHORE_KERNEL(subgroups, (const uint32_t *x, uint32_t *y, uint32_t n)) {
  LONGSHORE_SHARED(uint32_t, tile, [MOST_ITEMS]);
  const uint32_t id = longshore_item_index();
  const uint64_t at = NUMBER();
  const uint32_t value = at < n ? x[at] : 9;
  const uint32_t total = longshore_subgroup_reduce_add(value);
  const uint32_t before = longshore_subgroup_exclusive_max(value);
  tile[id] = longshore_subgroup_shuffle_xor(value, 5u) + total;
  longshore_barrier();
  const uint32_t other = tile[GROUP_ITEMS() - 1 - id];
  const uint64_t odd = longshore_subgroup_ballot(other % 2 != 0);
  const float least = longshore_subgroup_inclusive_min((float)other);
  if (at < n)
    y[at] = before + 3 * other + (uint32_t)odd + (uint32_t)least + longshore_subgroup_lane() +
            100 * longshore_subgroup_id();
}

/* A table of occurrences, with atomics of the group and memory whose size the launch gives. */
LONGSHORE_KERNEL(occurrences, (const uint32_t *x, uint32_t *y, uint32_t n)) {
  uint32_t *const count = (uint32_t *)longshore_dynamic_shared();
  const uint32_t id = longshore_item_index(), items = GROUP_ITEMS();
  const uint64_t at = NUMBER();
  for (uint32_t bin = id; bin < 64; bin += items) count[bin] = 0;
  longshore_barrier();
  for (uint32_t i = id; i < n; i += items)
    longshore_atomic_add_explicit(&count[x[i] % 64], 1, LONGSHORE_RELAXED, LONGSHORE_SCOPE_GROUP);
  longshore_barrier();
  if (at < n) y[at] = count[(x[at] + id) % 64];
}
