// The kernels of items of kernels.c and blocks.h in CUDA, with the same arguments and groups.
#include <cstdint>

#define GROUP 256
#define RADIUS 4
#define SORTED (2 * GROUP)
#define SOFTENING 1e-3f

static __device__ uint64_t part(uint64_t group, uint64_t groups, uint64_t n) {
  const uint64_t blocks = (n + GROUP - 1) / GROUP, each = (blocks + groups - 1) / groups;
  const uint64_t begin = group * each * GROUP;
  return begin < n ? begin : n;
}

extern "C" __global__ void saxpy_items(float factor, const float *__restrict x, float *__restrict y, uint64_t n) {
  const uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;
  if (i < n) y[i] = factor * x[i] + y[i];
}

extern "C" __global__ void triad_items(float factor, const float *__restrict b, const float *__restrict c,
                                       float *__restrict a, uint64_t n) {
  const uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;
  if (i < n) a[i] = b[i] + factor * c[i];
}

static __device__ float element(const float *x, uint64_t rows, uint64_t columns, uint64_t row, uint64_t column) {
  return row < rows && column < columns ? x[row * columns + column] : 0;
}

extern "C" __global__ void __launch_bounds__(256)
    matmul_items(const float *a, const float *b, float *c, uint32_t m, uint32_t n, uint32_t k) {
  __shared__ float left[16][16], right[16][16];
  const uint64_t row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  const uint32_t x = threadIdx.x, y = threadIdx.y;
  float sum = 0;
  for (uint64_t begin = 0; begin < k; begin += 16) {
    left[y][x] = element(a, m, k, row, begin + x);
    right[y][x] = element(b, k, n, begin + y, column);
    __syncthreads();
    for (uint32_t j = 0; j < 16; ++j) sum += left[y][j] * right[j][x];
    __syncthreads();
  }
  if (row < m && column < n) c[row * n + column] = sum;
}

extern "C" __global__ void tree_sum_items(const float *x, float *sums, uint64_t n) {
  __shared__ float tile[GROUP];
  const uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;
  const uint32_t id = threadIdx.x;
  tile[id] = i < n ? x[i] : 0;
  __syncthreads();
  for (uint32_t half = GROUP / 2; half > 0; half /= 2) {
    if (id < half) tile[id] += tile[id + half];
    __syncthreads();
  }
  if (id == 0) sums[blockIdx.x] = tile[0];
}

extern "C" __global__ void histogram_items(const uint8_t *x, uint32_t *bins, uint64_t n) {
  __shared__ uint32_t own[256];
  const uint64_t end = part(blockIdx.x + 1, gridDim.x, n);
  const uint32_t id = threadIdx.x;
  own[id] = 0;
  __syncthreads();
  for (uint64_t i = part(blockIdx.x, gridDim.x, n) + id; i < end; i += GROUP) atomicAdd(&own[x[i]], 1);
  __syncthreads();
  atomicAdd(&bins[id], own[id]);
}

extern "C" __global__ void prefix_sum_items(const uint32_t *x, uint32_t *y, const uint32_t *before, uint64_t n) {
  __shared__ uint32_t tile[2][GROUP];
  const uint64_t end = part(blockIdx.x + 1, gridDim.x, n);
  const uint32_t id = threadIdx.x;
  uint32_t sum = before && blockIdx.x > 0 ? before[blockIdx.x - 1] : 0;
  for (uint64_t begin = part(blockIdx.x, gridDim.x, n); begin < end; begin += GROUP) {
    uint32_t from = 0;
    tile[0][id] = begin + id < end ? x[begin + id] : 0;
    __syncthreads();
    for (uint32_t near = 1; near < GROUP; near *= 2) {
      tile[1 - from][id] = tile[from][id] + (id >= near ? tile[from][id - near] : 0);
      from = 1 - from;
      __syncthreads();
    }
    if (begin + id < end) y[begin + id] = sum + tile[from][id];
    sum += tile[from][GROUP - 1];
    __syncthreads();
  }
}

extern "C" __global__ void prefix_sum_parts_items(const uint32_t *x, uint32_t *sums, uint64_t n) {
  __shared__ uint32_t tile[GROUP];
  const uint64_t end = part(blockIdx.x + 1, gridDim.x, n);
  const uint32_t id = threadIdx.x;
  uint32_t sum = 0;
  for (uint64_t i = part(blockIdx.x, gridDim.x, n) + id; i < end; i += GROUP) sum += x[i];
  tile[id] = sum;
  __syncthreads();
  for (uint32_t half = GROUP / 2; half > 0; half /= 2) {
    if (id < half) tile[id] += tile[id + half];
    __syncthreads();
  }
  if (id == 0) sums[blockIdx.x] = tile[0];
}

extern "C" __global__ void stencil_shared_items(const float *x, float *y, uint64_t n) {
  __shared__ float tile[RADIUS + GROUP + RADIUS];
  const uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;
  const uint32_t id = threadIdx.x;
  tile[RADIUS + id] = i < n ? x[i] : 0;
  if (id < RADIUS) {
    tile[id] = i >= RADIUS ? x[i - RADIUS] : 0;
    tile[RADIUS + GROUP + id] = i + GROUP < n ? x[i + GROUP] : 0;
  }
  __syncthreads();
  if (i < n) {
    float sum = 0;
    for (uint32_t near = 0; near <= 2 * RADIUS; ++near) sum += tile[id + near];
    y[i] = sum;
  }
}

static __device__ void order(uint32_t *keys, uint32_t pair, uint32_t size, uint32_t stride) {
  const uint32_t at = 2 * pair - (pair & (stride - 1));
  const uint32_t first = keys[at], second = keys[at + stride];
  const bool descends = (pair & (size / 2)) != 0, swaps = (first > second) != descends;
  keys[at] = swaps ? second : first;
  keys[at + stride] = swaps ? first : second;
}

extern "C" __global__ void bitonic_sort_items(const uint32_t *x, uint32_t *y, uint64_t n) {
  __shared__ uint32_t keys[SORTED];
  const uint64_t begin = (uint64_t)blockIdx.x * SORTED;
  const uint32_t id = threadIdx.x;
  keys[id] = begin + id < n ? x[begin + id] : UINT32_MAX;
  keys[GROUP + id] = begin + GROUP + id < n ? x[begin + GROUP + id] : UINT32_MAX;
  __syncthreads();
  for (uint32_t size = 2; size <= SORTED; size *= 2)
    for (uint32_t stride = size / 2; stride > 0; stride /= 2) {
      order(keys, id, size, stride);
      __syncthreads();
    }
  if (begin + id < n) y[begin + id] = keys[id];
  if (begin + GROUP + id < n) y[begin + GROUP + id] = keys[GROUP + id];
}

extern "C" __global__ void nbody_items(const float4 *bodies, float4 *pulls, uint64_t n) {
  __shared__ float4 tile[GROUP];
  const uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;
  const float4 own = bodies[i < n ? i : 0];
  float4 sum = make_float4(0, 0, 0, 0);
  for (uint64_t begin = 0; begin < n; begin += GROUP) {
    const uint32_t count = n - begin < GROUP ? (uint32_t)(n - begin) : GROUP;
    if (threadIdx.x < count) tile[threadIdx.x] = bodies[begin + threadIdx.x];
    __syncthreads();
    for (uint32_t j = 0; j < count; ++j) {
      const float x = tile[j].x - own.x, y = tile[j].y - own.y, z = tile[j].z - own.z;
      const float square = x * x + y * y + z * z + SOFTENING, inverse = 1 / sqrtf(square);
      const float pull = tile[j].w * inverse * inverse * inverse;
      sum.x += pull * x;
      sum.y += pull * y;
      sum.z += pull * z;
    }
    __syncthreads();
  }
  if (i < n) pulls[i] = sum;
}
