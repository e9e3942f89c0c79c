/*
 * Part of kernels.c: kernels whose groups of GROUP items do one block of the elements each, in
 * shared memory.
 */

/* Writes the sum of each block of GROUP elements. */
LONGSHORE_GROUP_KERNEL(tree_sum, (const float *__restrict x, float *__restrict sums, uint64_t n),
                       LONGSHORE_GROUP_SIZE(GROUP, 1, 1)) {
  LONGSHORE_SHARED(float, tile, [GROUP]);
  LONGSHORE_ITEMS {
    const uint64_t i = longshore_global_id(0);
    tile[longshore_item_id(0)] = i < n ? x[i] : 0;
  }
  _Pragma("unroll") for (uint32_t half = GROUP / 2; half > 0; half /= 2) {
    LONGSHORE_FIRST_ITEMS(half) { tile[longshore_item_id(0)] += tile[longshore_item_id(0) + half]; }
    longshore_barrier();
  }
  LONGSHORE_FIRST_ITEMS(1) { sums[longshore_group_id(0)] = tile[0]; }
}

LONGSHORE_KERNEL(tree_sum_items, (const float *x, float *sums, uint64_t n), LONGSHORE_GROUP_SIZE(GROUP, 1, 1)) {
  LONGSHORE_SHARED(float, tile, [GROUP]);
  const uint64_t i = longshore_global_id(0);
  const uint32_t id = longshore_item_id(0);
  tile[id] = i < n ? x[i] : 0;
  longshore_barrier();
  for (uint32_t half = GROUP / 2; half > 0; half /= 2) {
    if (id < half) tile[id] += tile[id + half];
    longshore_barrier();
  }
  if (id == 0) sums[longshore_group_id(0)] = tile[0];
}

/* Each element of y becomes the sum of the elements of x at most RADIUS away from it; elements
 * beyond the ends count as zero. */
#define RADIUS 4

LONGSHORE_GROUP_KERNEL(stencil_shared, (const float *__restrict x, float *__restrict y, uint64_t n),
                       LONGSHORE_GROUP_SIZE(GROUP, 1, 1)) {
  LONGSHORE_SHARED(float, tile, [RADIUS + GROUP + RADIUS]);
  LONGSHORE_ITEMS_NOWAIT {
    const uint64_t i = longshore_global_id(0);
    tile[RADIUS + longshore_item_id(0)] = i < n ? x[i] : 0;
  }
  LONGSHORE_FIRST_ITEMS(RADIUS) {
    const uint64_t i = longshore_global_id(0);
    tile[longshore_item_id(0)] = i >= RADIUS ? x[i - RADIUS] : 0;
    tile[RADIUS + GROUP + longshore_item_id(0)] = i + GROUP < n ? x[i + GROUP] : 0;
  }
  longshore_barrier();
  LONGSHORE_FIRST_ITEMS(left_of(n, (uint64_t)longshore_group_id(0) * GROUP)) {
    float sum = 0;
#pragma unroll
    for (uint32_t near = 0; near <= 2 * RADIUS; ++near) sum += tile[longshore_item_id(0) + near];
    y[longshore_global_id(0)] = sum;
  }
}

LONGSHORE_KERNEL(stencil_shared_items, (const float *x, float *y, uint64_t n), LONGSHORE_GROUP_SIZE(GROUP, 1, 1)) {
  LONGSHORE_SHARED(float, tile, [RADIUS + GROUP + RADIUS]);
  const uint64_t i = longshore_global_id(0);
  const uint32_t id = longshore_item_id(0);
  tile[RADIUS + id] = i < n ? x[i] : 0;
  if (id < RADIUS) {
    tile[id] = i >= RADIUS ? x[i - RADIUS] : 0;
    tile[RADIUS + GROUP + id] = i + GROUP < n ? x[i + GROUP] : 0;
  }
  longshore_barrier();
  if (i < n) {
    float sum = 0;
    for (uint32_t near = 0; near <= 2 * RADIUS; ++near) sum += tile[id + near];
    y[i] = sum;
  }
}

/* Writes each block of SORTED elements in order, by Batcher's bitonic network. An item orders one
 * pair in each step. Groups: n / SORTED, rounded up. */
#define SORTED (2 * GROUP)
/* Fills the last block, and stays behind its elements. */
#define LAST UINT32_MAX

/* Orders a pair of a step that merges runs into runs of `size`: ascending ones and descending ones
 * in turn. */
LONGSHORE_FUNCTION void order(uint32_t *keys, uint32_t pair, uint32_t size, uint32_t stride) {
  const uint32_t at = 2 * pair - (pair & (stride - 1));
  const uint32_t first = keys[at], second = keys[at + stride];
  const int descends = (pair & (size / 2)) != 0, swaps = (first > second) != descends;
  keys[at] = swaps ? second : first;
  keys[at + stride] = swaps ? first : second;
}

LONGSHORE_GROUP_KERNEL(bitonic_sort, (const uint32_t *__restrict x, uint32_t *__restrict y, uint64_t n),
                       LONGSHORE_GROUP_SIZE(GROUP, 1, 1)) {
  LONGSHORE_SHARED(uint32_t, keys, [SORTED]);
  const uint64_t begin = (uint64_t)longshore_group_id(0) * SORTED;
  LONGSHORE_ITEMS {
    const uint32_t id = longshore_item_id(0);
    keys[id] = begin + id < n ? x[begin + id] : LAST;
    keys[GROUP + id] = begin + GROUP + id < n ? x[begin + GROUP + id] : LAST;
  }
  for (uint32_t size = 2; size <= SORTED; size *= 2)
    for (uint32_t stride = size / 2; stride > 0; stride /= 2)
      LONGSHORE_ITEMS { order(keys, longshore_item_id(0), size, stride); }
  LONGSHORE_ITEMS_NOWAIT {
    const uint32_t id = longshore_item_id(0);
    if (begin + id < n) y[begin + id] = keys[id];
    if (begin + GROUP + id < n) y[begin + GROUP + id] = keys[GROUP + id];
  }
}

LONGSHORE_KERNEL(bitonic_sort_items, (const uint32_t *x, uint32_t *y, uint64_t n),
                 LONGSHORE_GROUP_SIZE(GROUP, 1, 1)) {
  LONGSHORE_SHARED(uint32_t, keys, [SORTED]);
  const uint64_t begin = (uint64_t)longshore_group_id(0) * SORTED;
  const uint32_t id = longshore_item_id(0);
  keys[id] = begin + id < n ? x[begin + id] : LAST;
  keys[GROUP + id] = begin + GROUP + id < n ? x[begin + GROUP + id] : LAST;
  longshore_barrier();
  for (uint32_t size = 2; size <= SORTED; size *= 2)
    for (uint32_t stride = size / 2; stride > 0; stride /= 2) {
      order(keys, id, size, stride);
      longshore_barrier();
    }
  if (begin + id < n) y[begin + id] = keys[id];
  if (begin + GROUP + id < n) y[begin + GROUP + id] = keys[GROUP + id];
}
