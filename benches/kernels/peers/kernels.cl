/* The kernels of kernels/kernels.c in OpenCL C, with barriers in the same places. */

#define GROUP 256

kernel void saxpy(float factor, global const float *restrict x, global float *restrict y, ulong n) {
  const ulong i = get_global_id(0);
  if (i < n) y[i] = factor * x[i] + y[i];
}

kernel void triad(float factor, global const float *restrict b, global const float *restrict c,
                  global float *restrict a, ulong n) {
  const ulong i = get_global_id(0);
  if (i < n) a[i] = b[i] + factor * c[i];
}

kernel void stencil(global const float *restrict x, global float *restrict y, ulong n) {
  const ulong i = get_global_id(0);
  if (i < n) {
    const float left = i > 0 ? x[i - 1] : 0, right = i + 1 < n ? x[i + 1] : 0;
    y[i] = left + x[i] + right;
  }
}

#define TILE 64
#define EACH 8

float element(global const float *matrix, uint rows, uint columns, ulong row, ulong column) {
  return row < rows && column < columns ? matrix[row * columns + column] : 0;
}

kernel __attribute__((reqd_work_group_size(TILE, TILE / EACH, 1))) void
matmul(global const float *restrict a, global const float *restrict b, global float *restrict c, uint m, uint n,
       uint k) {
  local float left[TILE][TILE], right[TILE][TILE];
  const ulong row = (ulong)get_group_id(1) * TILE, column = (ulong)get_group_id(0) * TILE;
  const uint x = get_local_id(0), y = get_local_id(1);
  float sum[EACH];
  for (uint i = 0; i < EACH; ++i) sum[i] = 0;
  for (ulong begin = 0; begin < k; begin += TILE) {
    for (uint i = y; i < TILE; i += TILE / EACH) {
      left[i][x] = element(a, m, k, row + i, begin + x);
      right[i][x] = element(b, k, n, begin + i, column + x);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint j = 0; j < TILE; ++j)
#pragma unroll
      for (uint i = 0; i < EACH; ++i) sum[i] += left[y * EACH + i][j] * right[j][x];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  for (uint i = 0; i < EACH; ++i)
    if (column + x < n && row + y * EACH + i < m) c[(row + y * EACH + i) * n + column + x] = sum[i];
}

/* Returns the beginning of a group's elements. */
ulong part(ulong group, ulong groups, ulong n) {
  const ulong blocks = (n + GROUP - 1) / GROUP, each = (blocks + groups - 1) / groups;
  return min(group * each * GROUP, n);
}

#define SUMS(name, type)                                                                                          \
  kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void name(global const type *restrict x,              \
                                                                      global type *restrict sums, ulong n) {      \
    local type tile[GROUP];                                                                                       \
    const ulong group = get_group_id(0), groups = get_num_groups(0), end = part(group + 1, groups, n);            \
    const uint id = get_local_id(0);                                                                              \
    type sum = 0;                                                                                                 \
    for (ulong i = part(group, groups, n) + id; i < end; i += GROUP) sum += x[i];                                 \
    tile[id] = sum;                                                                                               \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                                 \
    for (uint stride = GROUP / 2; stride > 0; stride /= 2) {                                                      \
      if (id < stride) tile[id] += tile[id + stride];                                                             \
      barrier(CLK_LOCAL_MEM_FENCE);                                                                               \
    }                                                                                                             \
    if (id == 0) sums[group] = tile[0];                                                                           \
  }
SUMS(reduce, float)
SUMS(prefix_sum_parts, uint)

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void histogram(global const uchar *restrict x,
                                                                         global uint *bins, ulong n) {
  local uint own[256];
  const ulong group = get_group_id(0), groups = get_num_groups(0), end = part(group + 1, groups, n);
  const uint id = get_local_id(0);
  own[id] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (ulong i = part(group, groups, n) + id; i < end; i += GROUP) atomic_inc(&own[x[i]]);
  barrier(CLK_LOCAL_MEM_FENCE);
  atomic_add(&bins[id], own[id]);
}

#define RUN 8
#define BLOCK (GROUP * RUN)

/* Without preceding sums if `has_before` is 0. */
kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
prefix_sum(global const uint *x, global uint *y, global const uint *before, uint has_before, ulong n) {
  local uint tile[BLOCK], totals[2][GROUP];
  const ulong group = get_group_id(0), groups = get_num_groups(0), end = part(group + 1, groups, n);
  const uint id = get_local_id(0);
  uint sum = has_before && group > 0 ? before[group - 1] : 0;
  for (ulong begin = part(group, groups, n); begin < end; begin += BLOCK) {
    for (uint i = id; i < BLOCK; i += GROUP) tile[i] = begin + i < end ? x[begin + i] : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    local uint *run = tile + id * RUN;
    for (uint i = 1; i < RUN; ++i) run[i] += run[i - 1];
    totals[0][id] = run[RUN - 1];
    barrier(CLK_LOCAL_MEM_FENCE);
    uint from = 0;
    for (uint near = 1; near < GROUP; near *= 2) {
      totals[1 - from][id] = totals[from][id] + (id >= near ? totals[from][id - near] : 0);
      from = 1 - from;
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    const uint add = sum + (id > 0 ? totals[0][id - 1] : 0);
    for (uint i = 0; i < RUN; ++i) run[i] += add;
    sum += totals[0][GROUP - 1];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = id; i < BLOCK; i += GROUP)
      if (begin + i < end) y[begin + i] = tile[i];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
}

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void nbody(global const float4 *restrict bodies,
                                                                     global float4 *restrict pulls, ulong n) {
  local float4 tile[GROUP];
  const ulong i = get_global_id(0);
  const uint id = get_local_id(0);
  const float4 own = bodies[i < n ? i : 0];
  float sum_x = 0, sum_y = 0, sum_z = 0;
  for (ulong begin = 0; begin < n; begin += GROUP) {
    const uint count = min(n - begin, (ulong)GROUP);
    if (id < count) tile[id] = bodies[begin + id];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint j = 0; j < count; ++j) {
      const float x = tile[j].x - own.x, y = tile[j].y - own.y, z = tile[j].z - own.z;
      const float square = x * x + y * y + z * z + 1e-3f, inverse = 1 / sqrt(square);
      const float pull = tile[j].w * inverse * inverse * inverse;
      sum_x += pull * x;
      sum_y += pull * y;
      sum_z += pull * z;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (i < n) pulls[i] = (float4)(sum_x, sum_y, sum_z, 0);
}
