/* The kernels of kernels/kernels.c in items form, in OpenCL C, with the same steps, barriers, types
 * and qualifiers, and groups of the same size. */

#define GROUP 256

/* ---- Matrix multiply ------------------------------------------------------------------------- */

float element(global const float *matrix, uint rows, uint columns, ulong row, ulong column) {
  return row < rows && column < columns ? matrix[row * columns + column] : 0;
}

kernel __attribute__((reqd_work_group_size(16, 16, 1))) void matmul_items(global const float *a, global const float *b,
                                                                          global float *c, uint m, uint n, uint k) {
  local float left[16][16], right[16][16];
  const ulong row = get_global_id(1), column = get_global_id(0);
  const uint x = get_local_id(0), y = get_local_id(1);
  float sum = 0;
  for (ulong begin = 0; begin < k; begin += 16) {
    left[y][x] = element(a, m, k, row, begin + x);
    right[y][x] = element(b, k, n, begin + y, column);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint j = 0; j < 16; ++j) sum += left[y][j] * right[j][x];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (row < m && column < n) c[row * n + column] = sum;
}

/* ---- Any number of groups of GROUP items, each with a part of the elements ------------------- */

/* Returns the beginning of a group's elements. */
ulong part(ulong group, ulong groups, ulong n) {
  const ulong blocks = (n + GROUP - 1) / GROUP, each = (blocks + groups - 1) / groups;
  const ulong begin = group * each * GROUP;
  return begin < n ? begin : n;
}

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void prefix_sum_parts_items(global const uint *x,
                                                                                      global uint *sums, ulong n) {
  local uint tile[GROUP];
  const ulong group = get_group_id(0), groups = get_num_groups(0);
  const ulong end = part(group + 1, groups, n);
  const uint id = get_local_id(0);
  uint sum = 0;
  for (ulong i = part(group, groups, n) + id; i < end; i += GROUP) sum += x[i];
  tile[id] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint middle = GROUP / 2; middle > 0; middle /= 2) {
    if (id < middle) tile[id] += tile[id + middle];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (id == 0) sums[group] = tile[0];
}

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void histogram_items(global const uchar *x, global uint *bins,
                                                                               ulong n) {
  local uint own[256];
  const ulong group = get_group_id(0), groups = get_num_groups(0);
  const ulong end = part(group + 1, groups, n);
  const uint id = get_local_id(0);
  own[id] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (ulong i = part(group, groups, n) + id; i < end; i += GROUP) atomic_add(&own[x[i]], 1u);
  barrier(CLK_LOCAL_MEM_FENCE);
  atomic_add(&bins[id], own[id]);
}

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
prefix_sum_items(global const uint *x, global uint *y, global const uint *before, ulong n) {
  local uint tile[2][GROUP];
  const ulong group = get_group_id(0), groups = get_num_groups(0);
  const ulong end = part(group + 1, groups, n);
  const uint id = get_local_id(0);
  uint sum = before && group > 0 ? before[group - 1] : 0;
  for (ulong begin = part(group, groups, n); begin < end; begin += GROUP) {
    uint from = 0;
    tile[0][id] = begin + id < end ? x[begin + id] : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint near = 1; near < GROUP; near *= 2) {
      tile[1 - from][id] = tile[from][id] + (id >= near ? tile[from][id - near] : 0);
      from = 1 - from;
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (begin + id < end) y[begin + id] = sum + tile[from][id];
    sum += tile[from][GROUP - 1];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
}

/* ---- Groups of GROUP items, each with one block of the elements ------------------------------ */

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void tree_sum_items(global const float *x, global float *sums,
                                                                              ulong n) {
  local float tile[GROUP];
  const ulong i = get_global_id(0);
  const uint id = get_local_id(0);
  tile[id] = i < n ? x[i] : 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint middle = GROUP / 2; middle > 0; middle /= 2) {
    if (id < middle) tile[id] += tile[id + middle];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (id == 0) sums[get_group_id(0)] = tile[0];
}

#define RADIUS 4

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void stencil_shared_items(global const float *x,
                                                                                    global float *y, ulong n) {
  local float tile[RADIUS + GROUP + RADIUS];
  const ulong i = get_global_id(0);
  const uint id = get_local_id(0);
  tile[RADIUS + id] = i < n ? x[i] : 0;
  if (id < RADIUS) {
    tile[id] = i >= RADIUS ? x[i - RADIUS] : 0;
    tile[RADIUS + GROUP + id] = i + GROUP < n ? x[i + GROUP] : 0;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  if (i < n) {
    float sum = 0;
    for (uint near = 0; near <= 2 * RADIUS; ++near) sum += tile[id + near];
    y[i] = sum;
  }
}

#define SORTED (2 * GROUP)
#define LAST UINT_MAX

/* Orders a pair of a step. */
void order(local uint *keys, uint pair, uint size, uint stride) {
  const uint at = 2 * pair - (pair & (stride - 1));
  const uint first = keys[at], second = keys[at + stride];
  const int descends = (pair & (size / 2)) != 0, swaps = (first > second) != descends;
  keys[at] = swaps ? second : first;
  keys[at + stride] = swaps ? first : second;
}

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void bitonic_sort_items(global const uint *x,
                                                                                  global uint *y, ulong n) {
  local uint keys[SORTED];
  const ulong begin = (ulong)get_group_id(0) * SORTED;
  const uint id = get_local_id(0);
  keys[id] = begin + id < n ? x[begin + id] : LAST;
  keys[GROUP + id] = begin + GROUP + id < n ? x[begin + GROUP + id] : LAST;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint size = 2; size <= SORTED; size *= 2)
    for (uint stride = size / 2; stride > 0; stride /= 2) {
      order(keys, id, size, stride);
      barrier(CLK_LOCAL_MEM_FENCE);
    }
  if (begin + id < n) y[begin + id] = keys[id];
  if (begin + GROUP + id < n) y[begin + GROUP + id] = keys[GROUP + id];
}

/* ---- N-body ---------------------------------------------------------------------------------- */

#define SOFTENING 1e-3f

struct body {
  float x, y, z, mass;
};

struct pull {
  float x, y, z, unused;
};

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void nbody_items(global const struct body *bodies,
                                                                           global struct pull *pulls, ulong n) {
  local struct body tile[GROUP];
  const ulong i = get_global_id(0);
  const uint id = get_local_id(0);
  const struct body own = bodies[i < n ? i : 0];
  struct pull sum = {0, 0, 0, 0};
  for (ulong begin = 0; begin < n; begin += GROUP) {
    const uint count = n - begin < GROUP ? (uint)(n - begin) : GROUP;
    if (id < count) tile[id] = bodies[begin + id];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint j = 0; j < count; ++j) {
      const float x = tile[j].x - own.x, y = tile[j].y - own.y, z = tile[j].z - own.z;
      const float square = x * x + y * y + z * z + SOFTENING, inverse = 1 / sqrt(square);
      const float pull = tile[j].mass * inverse * inverse * inverse;
      sum.x += pull * x;
      sum.y += pull * y;
      sum.z += pull * z;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (i < n) pulls[i] = sum;
}
