/*
 * The kernels of tests and benchmarks, in C that is also C++. They are correct for any n.
 *
 * Each kernel has two forms: a function for a group, and, with the suffix _items, a function for an
 * item. Where the forms have different algorithms, a third kernel has the items' one in group form.
 */
#include "longshore_device.h"

/* Items in a group, for kernels with a fixed size. A compilation may have another one. */
#ifndef GROUP
#define GROUP 256
#endif

/* ---- Without barriers: one item for each element, in groups of any size ---------------------- */

LONGSHORE_KERNEL(empty, (void)) { (void)longshore_self; }

/* Returns the number of the n elements from a group's first one on. */
LONGSHORE_FUNCTION uint64_t left_of(uint64_t n, uint64_t begin) { return begin < n ? n - begin : 0; }

LONGSHORE_GROUP_KERNEL(saxpy, (float factor, const float *__restrict x, float *__restrict y, uint64_t n)) {
  const uint64_t begin = (uint64_t)longshore_group_id(0) * longshore_group_items(0);
  LONGSHORE_FIRST_ITEMS(left_of(n, begin)) {
    const uint64_t i = begin + longshore_item_id(0);
    y[i] = factor * x[i] + y[i];
  }
}

LONGSHORE_KERNEL(saxpy_items, (float factor, const float *__restrict x, float *__restrict y, uint64_t n)) {
  const uint64_t i = longshore_global_id(0);
  if (i < n) y[i] = factor * x[i] + y[i];
}

LONGSHORE_GROUP_KERNEL(triad, (float factor, const float *__restrict b, const float *__restrict c,
                               float *__restrict a, uint64_t n)) {
  const uint64_t begin = (uint64_t)longshore_group_id(0) * longshore_group_items(0);
  LONGSHORE_FIRST_ITEMS(left_of(n, begin)) {
    const uint64_t i = begin + longshore_item_id(0);
    a[i] = b[i] + factor * c[i];
  }
}

LONGSHORE_KERNEL(triad_items, (float factor, const float *__restrict b, const float *__restrict c,
                               float *__restrict a, uint64_t n)) {
  const uint64_t i = longshore_global_id(0);
  if (i < n) a[i] = b[i] + factor * c[i];
}

/* Returns the sum of an element and its neighbours; elements beyond the ends count as zero. */
LONGSHORE_FUNCTION float neighbours(const float *x, uint64_t i, uint64_t n) {
  const float before = i > 0 ? x[i - 1] : 0, after = i + 1 < n ? x[i + 1] : 0;
  return before + x[i] + after;
}

LONGSHORE_GROUP_KERNEL(stencil, (const float *__restrict x, float *__restrict y, uint64_t n)) {
  const uint64_t begin = (uint64_t)longshore_group_id(0) * longshore_group_items(0);
  LONGSHORE_FIRST_ITEMS(left_of(n, begin)) {
    const uint64_t i = begin + longshore_item_id(0);
    y[i] = neighbours(x, i, n);
  }
}

LONGSHORE_KERNEL(stencil_items, (const float *__restrict x, float *__restrict y, uint64_t n)) {
  const uint64_t i = longshore_global_id(0);
  if (i < n) y[i] = neighbours(x, i, n);
}

/* ---- Matrix multiply ------------------------------------------------------------------------- */

/*
 * Computes c = a b, of m x k and k x n elements, row by row. A group computes a tile of TILE x TILE
 * elements of c, and an item computes EACH elements of one column. Groups: n / TILE in x, m / TILE
 * in y, rounded up.
 */
#define TILE 64
#define EACH 8
/* Number of dot product terms in one unrolled loop. */
#define STEP 16

/* Returns an element of a matrix; 0 beyond its edges. */
LONGSHORE_FUNCTION float element(const float *matrix, uint32_t rows, uint32_t columns, uint64_t row, uint64_t column) {
  return row < rows && column < columns ? matrix[row * columns + column] : 0;
}

LONGSHORE_GROUP_KERNEL(matmul, (const float *__restrict a, const float *__restrict b, float *__restrict c, uint32_t m,
                                uint32_t n, uint32_t k),
                       LONGSHORE_GROUP_SIZE(TILE, TILE / EACH, 1)) {
  LONGSHORE_SHARED(float, left, [TILE][TILE]);
  LONGSHORE_SHARED(float, right, [TILE][TILE]);
  LONGSHORE_PRIVATE_ARRAY(float, sums, EACH);
  const uint64_t row = (uint64_t)longshore_group_id(1) * TILE, column = (uint64_t)longshore_group_id(0) * TILE;
  LONGSHORE_ITEMS_NOWAIT {
    for (uint32_t i = 0; i < EACH; ++i) longshore_private_of(sums, i) = 0;
  }
  for (uint64_t begin = 0; begin < k; begin += TILE) {
    const int whole = row + TILE <= m && column + TILE <= n && begin + TILE <= k;
    for (uint32_t i = 0; i < TILE; i += TILE / EACH)
      LONGSHORE_ITEMS_NOWAIT {
        const uint32_t x = longshore_item_id(0), y = i + longshore_item_id(1);
        left[y][x] = whole ? a[(row + y) * k + begin + x] : element(a, m, k, row + y, begin + x);
        right[y][x] = whole ? b[(begin + y) * n + column + x] : element(b, k, n, begin + y, column + x);
      }
    longshore_barrier();
    for (uint32_t from = 0; from < TILE; from += STEP)
      LONGSHORE_ITEMS_NOWAIT {
        const uint32_t x = longshore_item_id(0), y = longshore_item_id(1) * EACH;
        float sum[EACH];
#pragma unroll
        for (uint32_t i = 0; i < EACH; ++i) sum[i] = longshore_private_of(sums, i);
#pragma unroll
        for (uint32_t j = from; j < from + STEP; ++j)
#pragma unroll
          for (uint32_t i = 0; i < EACH; ++i) sum[i] += left[y + i][j] * right[j][x];
#pragma unroll
        for (uint32_t i = 0; i < EACH; ++i) longshore_private_of(sums, i) = sum[i];
      }
    longshore_barrier();
  }
  LONGSHORE_ITEMS_NOWAIT {
    const uint64_t x = column + longshore_item_id(0), y = row + (uint64_t)longshore_item_id(1) * EACH;
#pragma unroll
    for (uint32_t i = 0; i < EACH; ++i)
      if (x < n && y + i < m) c[(y + i) * n + x] = longshore_private_of(sums, i);
  }
}

/* An item computes one element. Groups as above, but with tiles of 16 x 16 elements. In both forms,
 * the algorithm is the same. */
LONGSHORE_GROUP_KERNEL(matmul_16, (const float *__restrict a, const float *__restrict b, float *__restrict c,
                                   uint32_t m, uint32_t n, uint32_t k),
                       LONGSHORE_GROUP_SIZE(16, 16, 1)) {
  LONGSHORE_SHARED(float, left, [16][16]);
  LONGSHORE_SHARED(float, right, [16][16]);
  LONGSHORE_PRIVATE(float, sum);
  LONGSHORE_ITEMS_NOWAIT { longshore_private(sum) = 0; }
  for (uint64_t begin = 0; begin < k; begin += 16) {
    LONGSHORE_ITEMS {
      const uint32_t x = longshore_item_id(0), y = longshore_item_id(1);
      left[y][x] = element(a, m, k, longshore_global_id(1), begin + x);
      right[y][x] = element(b, k, n, begin + y, longshore_global_id(0));
    }
    LONGSHORE_ITEMS {
      const uint32_t x = longshore_item_id(0), y = longshore_item_id(1);
      float own = longshore_private(sum);
#pragma unroll
      for (uint32_t j = 0; j < 16; ++j) own += left[y][j] * right[j][x];
      longshore_private(sum) = own;
    }
  }
  LONGSHORE_ITEMS_NOWAIT {
    const uint64_t row = longshore_global_id(1), column = longshore_global_id(0);
    if (row < m && column < n) c[row * n + column] = longshore_private(sum);
  }
}

LONGSHORE_KERNEL(matmul_items, (const float *a, const float *b, float *c, uint32_t m, uint32_t n, uint32_t k),
                 LONGSHORE_GROUP_SIZE(16, 16, 1)) {
  LONGSHORE_SHARED(float, left, [16][16]);
  LONGSHORE_SHARED(float, right, [16][16]);
  const uint64_t row = longshore_global_id(1), column = longshore_global_id(0);
  const uint32_t x = longshore_item_id(0), y = longshore_item_id(1);
  float sum = 0;
  for (uint64_t begin = 0; begin < k; begin += 16) {
    left[y][x] = element(a, m, k, row, begin + x);
    right[y][x] = element(b, k, n, begin + y, column);
    longshore_barrier();
    for (uint32_t j = 0; j < 16; ++j) sum += left[y][j] * right[j][x];
    longshore_barrier();
  }
  if (row < m && column < n) c[row * n + column] = sum;
}

/* ---- Any number of groups of GROUP items, each with a part of the elements ------------------- */

/* Returns the beginning of a group's elements: a multiple of GROUP, or n. The elements end where
 * the next group's begin. */
LONGSHORE_FUNCTION uint64_t part(uint64_t group, uint64_t groups, uint64_t n) {
  const uint64_t blocks = (n + GROUP - 1) / GROUP, each = (blocks + groups - 1) / groups;
  const uint64_t begin = group * each * GROUP;
  return begin < n ? begin : n;
}

/* Defines a kernel `name` that writes the sum of each group's elements. */
#define SUMS(name, type)                                                                                          \
  LONGSHORE_GROUP_KERNEL(name, (const type *__restrict x, type *__restrict sums, uint64_t n),                      \
                         LONGSHORE_GROUP_SIZE(GROUP, 1, 1)) {                                                      \
    LONGSHORE_SHARED(type, tile, [GROUP]);                                                                        \
    LONGSHORE_PRIVATE(type, sum);                                                                                 \
    const uint64_t group = longshore_group_id(0), groups = longshore_group_count(0);                              \
    const uint64_t end = part(group + 1, groups, n);                                                              \
    LONGSHORE_ITEMS_NOWAIT { longshore_private(sum) = 0; }                                                        \
    for (uint64_t begin = part(group, groups, n); begin < end; begin += GROUP)                                    \
      LONGSHORE_FIRST_ITEMS(end - begin) { longshore_private(sum) += x[begin + longshore_item_id(0)]; }           \
    LONGSHORE_ITEMS { tile[longshore_item_id(0)] = longshore_private(sum); }                                      \
    _Pragma("unroll") for (uint32_t half = GROUP / 2; half > 0; half /= 2) {                                      \
      LONGSHORE_FIRST_ITEMS(half) { tile[longshore_item_id(0)] += tile[longshore_item_id(0) + half]; }            \
      longshore_barrier();                                                                                        \
    }                                                                                                             \
    LONGSHORE_FIRST_ITEMS(1) { sums[group] = tile[0]; }                                                           \
  }
SUMS(reduce, float)
SUMS(prefix_sum_parts, uint32_t)

#define SUMS_OF_ITEMS(name, type)                                                                                  \
  LONGSHORE_KERNEL(name, (const type *x, type *sums, uint64_t n), LONGSHORE_GROUP_SIZE(GROUP, 1, 1)) {             \
    LONGSHORE_SHARED(type, tile, [GROUP]);                                                                         \
    const uint64_t group = longshore_group_id(0), groups = longshore_group_count(0);                               \
    const uint64_t end = part(group + 1, groups, n);                                                               \
    const uint32_t id = longshore_item_id(0);                                                                      \
    type sum = 0;                                                                                                  \
    for (uint64_t i = part(group, groups, n) + id; i < end; i += GROUP) sum += x[i];                               \
    tile[id] = sum;                                                                                                \
    longshore_barrier();                                                                                           \
    for (uint32_t half = GROUP / 2; half > 0; half /= 2) {                                                         \
      if (id < half) tile[id] += tile[id + half];                                                                  \
      longshore_barrier();                                                                                         \
    }                                                                                                              \
    if (id == 0) sums[group] = tile[0];                                                                            \
  }
SUMS_OF_ITEMS(reduce_items, float)
SUMS_OF_ITEMS(prefix_sum_parts_items, uint32_t)

/* Adds the number of occurrences of each byte to the bins. */
LONGSHORE_GROUP_KERNEL(histogram, (const uint8_t *__restrict x, uint32_t *bins, uint64_t n),
                       LONGSHORE_GROUP_SIZE(GROUP, 1, 1)) {
  LONGSHORE_SHARED(uint32_t, own, [256]);
  const uint64_t group = longshore_group_id(0), groups = longshore_group_count(0);
  const uint64_t end = part(group + 1, groups, n);
  LONGSHORE_ITEMS { own[longshore_item_id(0)] = 0; }
  for (uint64_t begin = part(group, groups, n); begin < end; begin += GROUP)
    LONGSHORE_FIRST_ITEMS(end - begin) {
      longshore_atomic_add_explicit(&own[x[begin + longshore_item_id(0)]], 1, LONGSHORE_RELAXED, LONGSHORE_SCOPE_GROUP);
    }
  longshore_barrier();
  LONGSHORE_ITEMS_NOWAIT {
    longshore_atomic_add(&bins[longshore_item_id(0)], own[longshore_item_id(0)]);
  }
}

LONGSHORE_KERNEL(histogram_items, (const uint8_t *x, uint32_t *bins, uint64_t n), LONGSHORE_GROUP_SIZE(GROUP, 1, 1)) {
  LONGSHORE_SHARED(uint32_t, own, [256]);
  const uint64_t group = longshore_group_id(0), groups = longshore_group_count(0);
  const uint64_t end = part(group + 1, groups, n);
  const uint32_t id = longshore_item_id(0);
  own[id] = 0;
  longshore_barrier();
  for (uint64_t i = part(group, groups, n) + id; i < end; i += GROUP)
    longshore_atomic_add_explicit(&own[x[i]], 1, LONGSHORE_RELAXED, LONGSHORE_SCOPE_GROUP);
  longshore_barrier();
  longshore_atomic_add(&bins[id], own[id]);
}

/* ---- Prefix sum ------------------------------------------------------------------------------ */

/*
 * Each element of y becomes the sum of the elements of x up to the same index; y may be x. This
 * takes three launches:
 *
 * 1. prefix_sum_parts computes the sums of the groups' parts.
 * 2. prefix_sum, with one group and without `before`, computes the prefix sums of these sums.
 * 3. prefix_sum computes all elements, with the result of the second launch as `before`.
 */
#define RUN 16
#define BLOCK (GROUP * RUN)

LONGSHORE_GROUP_KERNEL(prefix_sum, (const uint32_t *x, uint32_t *y, const uint32_t *before, uint64_t n),
                       LONGSHORE_GROUP_SIZE(GROUP, 1, 1)) {
  LONGSHORE_SHARED(uint32_t, tile, [BLOCK]);
  LONGSHORE_SHARED(uint32_t, totals, [2][GROUP]);
  const uint64_t group = longshore_group_id(0), groups = longshore_group_count(0);
  const uint64_t end = part(group + 1, groups, n);
  uint32_t sum = before && group > 0 ? before[group - 1] : 0;
  /* The elements behind the end may have any value, but must be initialised. */
  for (uint32_t i = 0; i < BLOCK; i += GROUP) LONGSHORE_ITEMS_NOWAIT { tile[i + longshore_item_id(0)] = 0; }
  for (uint64_t begin = part(group, groups, n); begin < end; begin += BLOCK) {
    for (uint32_t i = 0; i < BLOCK; i += GROUP)
      LONGSHORE_FIRST_ITEMS(left_of(end, begin + i)) {
        const uint32_t j = i + longshore_item_id(0);
        tile[j] = x[begin + j];
      }
    longshore_barrier();
    LONGSHORE_ITEMS {
      uint32_t *run = tile + longshore_item_id(0) * RUN, total = 0;
#pragma clang loop unroll(disable)
      for (uint32_t i = 0; i < RUN; ++i) run[i] = total += run[i];
      totals[0][longshore_item_id(0)] = total;
    }
    /* Eight rounds, so the sums are in totals[0] again. */
    _Pragma("unroll") for (uint32_t near = 1; near < GROUP; near *= 2) {
      LONGSHORE_ITEMS {
        const uint32_t i = longshore_item_id(0), from = __builtin_ctz(near) % 2;
        totals[1 - from][i] = totals[from][i] + (i >= near ? totals[from][i - near] : 0);
      }
    }
    LONGSHORE_ITEMS {
      const uint32_t id = longshore_item_id(0);
      const uint32_t add = sum + (id > 0 ? totals[0][id - 1] : 0);
      uint32_t *run = tile + id * RUN;
#pragma clang loop unroll(disable)
      for (uint32_t i = 0; i < RUN; ++i) run[i] += add;
    }
    sum += totals[0][GROUP - 1];
    for (uint32_t i = 0; i < BLOCK; i += GROUP)
      LONGSHORE_FIRST_ITEMS(left_of(end, begin + i)) {
        const uint32_t j = i + longshore_item_id(0);
        y[begin + j] = tile[j];
      }
    longshore_barrier();
  }
}

/* An item adds one element of each block of GROUP elements. In both forms, the algorithm is the
 * same. */
LONGSHORE_GROUP_KERNEL(prefix_sum_1, (const uint32_t *x, uint32_t *y, const uint32_t *before, uint64_t n),
                       LONGSHORE_GROUP_SIZE(GROUP, 1, 1)) {
  LONGSHORE_SHARED(uint32_t, tile, [2][GROUP]);
  const uint64_t group = longshore_group_id(0), groups = longshore_group_count(0);
  const uint64_t end = part(group + 1, groups, n);
  uint32_t sum = before && group > 0 ? before[group - 1] : 0;
  for (uint64_t begin = part(group, groups, n); begin < end; begin += GROUP) {
    LONGSHORE_ITEMS {
      const uint32_t id = longshore_item_id(0);
      tile[0][id] = begin + id < end ? x[begin + id] : 0;
    }
    /* Eight rounds, so the sums are in tile[0] again. */
    _Pragma("unroll") for (uint32_t near = 1; near < GROUP; near *= 2) {
      LONGSHORE_ITEMS {
        const uint32_t id = longshore_item_id(0), from = __builtin_ctz(near) % 2;
        tile[1 - from][id] = tile[from][id] + (id >= near ? tile[from][id - near] : 0);
      }
    }
    LONGSHORE_FIRST_ITEMS(end - begin) { y[begin + longshore_item_id(0)] = sum + tile[0][longshore_item_id(0)]; }
    sum += tile[0][GROUP - 1];
    longshore_barrier();
  }
}

LONGSHORE_KERNEL(prefix_sum_items, (const uint32_t *x, uint32_t *y, const uint32_t *before, uint64_t n),
                 LONGSHORE_GROUP_SIZE(GROUP, 1, 1)) {
  LONGSHORE_SHARED(uint32_t, tile, [2][GROUP]);
  const uint64_t group = longshore_group_id(0), groups = longshore_group_count(0);
  const uint64_t end = part(group + 1, groups, n);
  const uint32_t id = longshore_item_id(0);
  uint32_t sum = before && group > 0 ? before[group - 1] : 0;
  for (uint64_t begin = part(group, groups, n); begin < end; begin += GROUP) {
    uint32_t from = 0;
    tile[0][id] = begin + id < end ? x[begin + id] : 0;
    longshore_barrier();
    for (uint32_t near = 1; near < GROUP; near *= 2) {
      tile[1 - from][id] = tile[from][id] + (id >= near ? tile[from][id - near] : 0);
      from = 1 - from;
      longshore_barrier();
    }
    if (begin + id < end) y[begin + id] = sum + tile[from][id];
    sum += tile[from][GROUP - 1];
    longshore_barrier();
  }
}

/* ---- Groups of GROUP items, each with one block of the elements ------------------------------ */

#include "blocks.h"

/* ---- N-body ---------------------------------------------------------------------------------- */

/* Keeps the pull of near bodies, and of a body on itself, finite. */
#define SOFTENING 1e-3f

struct body {
  float x, y, z, mass;
};

/* The acceleration of a body by all bodies, in units in which the gravitational constant is 1. */
struct pull {
  float x, y, z, unused;
};

/* One item for each body. */
LONGSHORE_GROUP_KERNEL(nbody, (const struct body *__restrict bodies, struct pull *__restrict pulls, uint64_t n),
                       LONGSHORE_GROUP_SIZE(GROUP, 1, 1)) {
  LONGSHORE_SHARED(struct body, tile, [GROUP]);
  LONGSHORE_PRIVATE_ARRAY(float, place, 3);
  LONGSHORE_PRIVATE_ARRAY(float, sum, 3);
  LONGSHORE_ITEMS_NOWAIT {
    const uint64_t i = longshore_global_id(0), known = i < n ? i : 0;
    longshore_private_of(place, 0) = bodies[known].x;
    longshore_private_of(place, 1) = bodies[known].y;
    longshore_private_of(place, 2) = bodies[known].z;
    for (uint32_t d = 0; d < 3; ++d) longshore_private_of(sum, d) = 0;
  }
  for (uint64_t begin = 0; begin < n; begin += GROUP) {
    const uint32_t count = n - begin < GROUP ? (uint32_t)(n - begin) : GROUP;
    LONGSHORE_ITEMS {
      if (longshore_item_id(0) < count) tile[longshore_item_id(0)] = bodies[begin + longshore_item_id(0)];
    }
    for (uint32_t j = 0; j < count; ++j)
      LONGSHORE_ITEMS_NOWAIT {
        const float x = tile[j].x - longshore_private_of(place, 0), y = tile[j].y - longshore_private_of(place, 1),
                    z = tile[j].z - longshore_private_of(place, 2);
        const float square = x * x + y * y + z * z + SOFTENING, inverse = 1 / __builtin_sqrtf(square);
        const float pull = tile[j].mass * inverse * inverse * inverse;
        longshore_private_of(sum, 0) += pull * x;
        longshore_private_of(sum, 1) += pull * y;
        longshore_private_of(sum, 2) += pull * z;
      }
    longshore_barrier();
  }
  LONGSHORE_ITEMS_NOWAIT {
    const uint64_t i = longshore_global_id(0);
    if (i < n) {
      pulls[i].x = longshore_private_of(sum, 0);
      pulls[i].y = longshore_private_of(sum, 1);
      pulls[i].z = longshore_private_of(sum, 2);
      pulls[i].unused = 0;
    }
  }
}

LONGSHORE_KERNEL(nbody_items, (const struct body *bodies, struct pull *pulls, uint64_t n),
                 LONGSHORE_GROUP_SIZE(GROUP, 1, 1)) {
  LONGSHORE_SHARED(struct body, tile, [GROUP]);
  const uint64_t i = longshore_global_id(0);
  const struct body own = bodies[i < n ? i : 0];
  struct pull sum = {0, 0, 0, 0};
  for (uint64_t begin = 0; begin < n; begin += GROUP) {
    const uint32_t count = n - begin < GROUP ? (uint32_t)(n - begin) : GROUP;
    if (longshore_item_id(0) < count) tile[longshore_item_id(0)] = bodies[begin + longshore_item_id(0)];
    longshore_barrier();
    for (uint32_t j = 0; j < count; ++j) {
      const float x = tile[j].x - own.x, y = tile[j].y - own.y, z = tile[j].z - own.z;
      const float square = x * x + y * y + z * z + SOFTENING, inverse = 1 / __builtin_sqrtf(square);
      const float pull = tile[j].mass * inverse * inverse * inverse;
      sum.x += pull * x;
      sum.y += pull * y;
      sum.z += pull * z;
    }
    longshore_barrier();
  }
  if (i < n) pulls[i] = sum;
}
