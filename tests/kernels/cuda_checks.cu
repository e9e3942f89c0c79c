// Wrong and right kernels in CUDA, for the checks.
#include <cooperative_groups.h>
#include <cstdint>
#include <cub/cub.cuh>
#include <cuda/atomic>
#include <curand_kernel.h>

/* The launch of the next kernel. */
#define LAUNCH(...)

LAUNCH(1 x 64: f32*64)
__global__ void wrong_no_barrier(float *x) {
  __shared__ float tile[128];
  int i = threadIdx.x;
  tile[i + 64] = 0;
  tile[i] = x[i];     // BUG: races
  x[i] = tile[i ^ 1]; // BUG: races initialized
}

LAUNCH(1 x 8: f32*8 i32=3)
__global__ void wrong_past_the_end(float *x, int n) {
  x[threadIdx.x + n] = 1; // BUG: memory
}

LAUNCH(1 x 9: f32*9)
__global__ void wrong_past_a_shared_variable(float *x) {
  __shared__ float small[8];
  small[threadIdx.x] = x[threadIdx.x]; // BUG: memory
}

LAUNCH(1 x 8: u32*1)
__global__ void wrong_counter(uint32_t *count) {
  *count += 1; // BUG: races
}

LAUNCH(2 x 8: u32*1)
__global__ void wrong_counter_of_blocks(uint32_t *count) {
  if (threadIdx.x == 0) *count += 1; // BUG: races
}

LAUNCH(1 x 8: raw:f32*8 f32*8)
__global__ void wrong_read_of_new_memory(const float *x, float *y) {
  y[threadIdx.x] = x[threadIdx.x]; // BUG: initialized
}

LAUNCH(1 x 8: freed:f32*8)
__global__ void wrong_freed(float *x) {
  x[threadIdx.x] = 0; // BUG: memory
}

LAUNCH(1 x 64: f32*64)
__global__ void right_reduction(float *x) {
  __shared__ float sums[64];
  int i = threadIdx.x;
  sums[i] = x[i];
  __syncthreads();
  for (int half = 32; half > 0; half /= 2) {
    if (i < half) sums[i] += sums[i + half];
    __syncthreads();
  }
  x[i] = sums[0];
}

LAUNCH(2 x 64: u32*1 u32*1)
__global__ void right_atomics(uint32_t *sum, uint32_t *most) {
  __shared__ uint32_t own;
  if (threadIdx.x == 0) own = 0;
  __syncthreads();
  atomicAdd(&own, threadIdx.x);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(sum, own);
  atomicMax(most, threadIdx.x);
}

LAUNCH(1 x 64: f32*64)
__global__ void right_warps(float *x) {
  namespace cg = cooperative_groups;
  float v = x[threadIdx.x];
  for (int distance = 16; distance > 0; distance /= 2) v += __shfl_down_sync(0xffffffff, v, distance);
  if (threadIdx.x % 32 == 0) x[threadIdx.x] = v;
  cg::thread_block_tile<4> tile = cg::tiled_partition<4>(cg::this_thread_block());
  __syncthreads();
  x[threadIdx.x] = tile.shfl(x[threadIdx.x], 0);
}

LAUNCH(1 x 64: f32*64 i32=40)
__global__ void right_early_return(float *x, int n) {
  __shared__ float tile[64];
  if (threadIdx.x >= n) return;
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = tile[n - 1 - threadIdx.x];
}

LAUNCH(1 x 64 shared 256: f32*64)
__global__ void right_dynamic(float *x) {
  extern __shared__ float dynamic[];
  dynamic[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = dynamic[63 - threadIdx.x];
}

LAUNCH(1 x 8: u32*8)
__global__ void wrong_past_the_heap(uint32_t *x) {
  uint32_t *own = (uint32_t *)malloc(3 * sizeof(uint32_t));
  for (int i = 0; i < 3; ++i) own[i] = x[threadIdx.x];
  x[threadIdx.x] = own[3]; // BUG: memory
  free(own);
}

LAUNCH(1 x 8: u32*8)
__global__ void wrong_new_memory_of_the_heap(uint32_t *x) {
  uint32_t *own = (uint32_t *)malloc(sizeof(uint32_t));
  x[threadIdx.x] = *own; // BUG: initialized
  free(own);
}

LAUNCH(1 x 8: u32*8)
__global__ void wrong_freed_on_the_heap(uint32_t *x) {
  uint32_t *own = (uint32_t *)malloc(sizeof(uint32_t));
  *own = threadIdx.x;
  free(own);
  x[threadIdx.x] = *own; // BUG: memory
}

LAUNCH(1 x 8: u32*8)
__global__ void wrong_free(uint32_t *x) {
  x[threadIdx.x] = 1;
  free(x + threadIdx.x); // BUG: memory
}

LAUNCH(1 x 8: u32*8)
__global__ void right_list_on_the_heap(uint32_t *x) {
  struct Node {
    uint32_t value;
    Node *next;
  };
  Node *first = nullptr;
  for (uint32_t i = 0; i < 5; ++i) first = new Node{i + threadIdx.x, first};
  uint32_t sum = 0;
  while (first) {
    Node *next = first->next;
    sum += first->value;
    delete first;
    first = next;
  }
  x[threadIdx.x] = sum;
}

LAUNCH(4 x 8: f32*8 f32*1)
__global__ void right_maximum_by_exchanges(const float *x, float *most) {
  const float value = x[threadIdx.x];
  int *address = (int *)most, old = *address, assumed;
  do {
    assumed = old;
    if (__int_as_float(assumed) >= value) break;
    old = atomicCAS(address, assumed, __float_as_int(value));
  } while (assumed != old);
}

LAUNCH(2 x 64: u32*128)
__global__ void right_collective_operations(uint32_t *x) {
  typedef cub::BlockReduce<uint32_t, 64> Reduce;
  typedef cub::BlockStore<uint32_t, 64, 2> Store;
  __shared__ typename Reduce::TempStorage storage;
  __shared__ typename Store::TempStorage of_store;
  __shared__ uint32_t tile[128];
  uint32_t two[2] = {threadIdx.x, Reduce(storage).Sum(threadIdx.x)};
  Store(of_store).Store(tile, two);
  __syncthreads();
  x[blockIdx.x * 64 + threadIdx.x] = tile[127 - threadIdx.x];
}

LAUNCH(1 x 64: u32*64)
__global__ void wrong_reuse_of_storage(uint32_t *x) {
  typedef cub::BlockReduce<uint32_t, 64> Reduce;
  __shared__ typename Reduce::TempStorage storage;
  const uint32_t sum = Reduce(storage).Sum(threadIdx.x); // BUG: races
  x[threadIdx.x] = sum + Reduce(storage).Sum(1); // BUG: races
}

LAUNCH(1 x 32: f32*32)
__global__ void right_results_in_memory(float *x) {
  __shared__ curandState states[32];
  __shared__ float sine[32], cosine[32];
  curand_init(7, threadIdx.x, 0, &states[threadIdx.x]);
  curandState own = states[threadIdx.x];
  sincosf(curand_uniform(&own), &sine[threadIdx.x], &cosine[threadIdx.x]);
  x[threadIdx.x] = sine[threadIdx.x] * cosine[threadIdx.x];
}

LAUNCH(1 x 8: u32*8 u32*8)
__global__ void wrong_past_a_local_array(const int *x, int *y) {
  int own[6];
  for (int i = 0; i < 6; ++i) own[i] = i;
  y[threadIdx.x] = own[x[threadIdx.x]]; // BUG: memory
}

LAUNCH(1 x 8: u32*8 u32*8)
__global__ void wrong_unwritten_local_array(const int *x, int *y) {
  int own[8];
  for (int i = 0; i < 7; ++i) own[i] = x[i];
  y[threadIdx.x] = own[x[threadIdx.x]]; // BUG: initialized
}

__device__ __noinline__ void fill(int *own, int count) {
  for (int i = 0; i < count; ++i) own[i] = i; // BUG: memory
}

LAUNCH(1 x 8: u32*8)
__global__ void wrong_past_an_array_in_a_function(int *y) {
  int own[4];
  fill(own, 5);
  y[threadIdx.x] = own[0];
}

__device__ int chosen(const int *x) {
  int one[4], other[4];
  for (int i = 0; i < 4; ++i) one[i] = other[i] = i;
  const int *own = threadIdx.x % 2 ? one : other;
  return own[x[threadIdx.x]]; // BUG: memory
}

LAUNCH(1 x 8: u32*8 u32*8)
__global__ void wrong_past_one_of_two_arrays(const int *x, int *y) {
  y[threadIdx.x] = chosen(x);
}

LAUNCH(1 x 8: u32*8)
__global__ void wrong_far_past_a_local_array(int *y) {
  int own[4] = {0, 1, 2, 3};
  for (int i = 0; i < 40000; ++i) own[i] = y[threadIdx.x]; // BUG: memory
  y[threadIdx.x] = own[1];
}

LAUNCH(1 x 8: u32*8 u32*8)
__global__ void right_local_array(const int *x, int *y) {
  int own[8];
  for (int i = 0; i < 8; ++i) own[i] = x[i];
  y[threadIdx.x] = own[x[threadIdx.x]];
}

__device__ __noinline__ float first_of(float2 pair) { return pair.x; }

LAUNCH(1 x 8: f32*8)
__global__ void right_copies_of_unwritten_members(float *y) {
  __shared__ float4 tile[8], copies[8];
  __shared__ float2 pairs[8];
  const int i = threadIdx.x;
  tile[i].x = i;
  tile[i].y = 2;
  copies[i] = tile[i];
  pairs[i].x = 1;
  __syncthreads();
  const float4 v = copies[7 - i];
  y[i] = v.x + v.y + first_of(pairs[i]);
}

LAUNCH(1 x 8: f32*8)
__global__ void wrong_unwritten_member_of_a_copy(float *y) {
  __shared__ float4 tile[8];
  tile[threadIdx.x].x = 1;
  const float4 v = tile[threadIdx.x];
  y[threadIdx.x] = v.z; // BUG: initialized
}

struct Vectors {
  float3 place;
  int number;
};

LAUNCH(1 x 8: f32*32)
__global__ void right_vectors_of_functions(Vectors *y) {
  __shared__ Vectors tile[8];
  tile[threadIdx.x].place = make_float3(1, 2, 3);
  tile[threadIdx.x].number = threadIdx.x;
  __syncthreads();
  y[threadIdx.x] = tile[7 - threadIdx.x];
}

LAUNCH(1 x 8: f32*40 f32*32)
__global__ void wrong_misaligned_vector(const float *x, float *y) {
  const int i = threadIdx.x;
  const float4 v = *(const float4 *)(x + 4 * i + 1); // BUG: memory
  *(float4 *)(y + 4 * i) = v;
}

LAUNCH(1 x 8: f32*40 f32*32)
__global__ void wrong_misaligned_target(const float4 *x, float *y) {
  const int i = threadIdx.x;
  *(float4 *)(y + 2 * i + 1) = x[i]; // BUG: memory races
}

struct Bits {
  unsigned low : 3, high : 20;
};

LAUNCH(1 x 8: u32*8)
__global__ void right_bit_fields_in_arrays(uint32_t *y) {
  __shared__ Bits tile[8];
  Bits *own = (Bits *)malloc(2 * sizeof(Bits));
  const int i = threadIdx.x;
  tile[i].low = 1;
  tile[i].high = i;
  own[i & 1].high = i;
  __syncthreads();
  y[i] = tile[7 - i].high + own[i & 1].high;
  free(own);
}

LAUNCH(2 x 1: zero:u32*1 u32*2)
__global__ void wrong_flag_before_the_value(uint32_t *flag, uint32_t *x) {
  if (blockIdx.x == 0) {
    __threadfence();
    atomicExch(flag, 1u);
    x[0] = 5; // BUG: races
  } else {
    while (atomicAdd(flag, 0u) == 0) {}
    __threadfence();
    x[1] = x[0]; // BUG: races
  }
}

LAUNCH(4 x 1: zero:u32*1 zero:u32*1)
__global__ void wrong_end_of_a_lock_before_the_write(uint32_t *lock, uint32_t *count) {
  while (atomicCAS(lock, 0u, 1u) != 0) {}
  __threadfence();
  const uint32_t value = *count; // BUG: races
  __threadfence();
  atomicExch(lock, 0u);
  *count = value + 1; // BUG: races
}

LAUNCH(1 x 64: u32*1)
__global__ void wrong_end_of_a_shared_lock_before_the_write(uint32_t *x) {
  __shared__ uint32_t lock, count;
  if (threadIdx.x == 0) lock = count = 0;
  __syncthreads();
  if (threadIdx.x % 32 == 0) {
    while (atomicCAS(&lock, 0u, 1u) != 0) __nanosleep(1);
    __threadfence();
    const uint32_t value = count; // BUG: races
    __threadfence();
    atomicExch(&lock, 0u);
    count = value + 1; // BUG: races
  }
  __syncthreads();
  if (threadIdx.x == 0) *x = count;
}

LAUNCH(2 x 64: zero:u32*1 zero:u32*1)
__global__ void right_locks(uint32_t *lock, uint32_t *count) {
  __shared__ uint32_t own_lock, own_count;
  if (threadIdx.x == 0) own_lock = own_count = 0;
  __syncthreads();
  if (threadIdx.x % 8 == 0) {
    while (atomicCAS(&own_lock, 0u, 1u) != 0) __nanosleep(1);
    __threadfence_block();
    own_count += 1;
    __threadfence_block();
    atomicExch(&own_lock, 0u);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    while (atomicCAS(lock, 0u, 1u) != 0) {}
    __threadfence();
    *count += own_count;
    __threadfence();
    atomicExch(lock, 0u);
    own_count = 0;
  }
}

LAUNCH(4 x 1: u32*4 zero:u32*4 zero:u32*4 zero:u32*4)
__global__ void right_look_back(const uint32_t *x, volatile uint32_t *flags, uint32_t *own, uint32_t *sums) {
  const int block = blockIdx.x;
  own[block] = x[block];
  __threadfence();
  flags[block] = 1;
  uint32_t sum = x[block];
  for (int at = block - 1; at >= 0; --at) {
    uint32_t flag;
    while ((flag = flags[at]) == 0) {}
    __threadfence();
    sum += flag == 2 ? sums[at] : own[at];
    if (flag == 2) break;
  }
  sums[block] = sum;
  __threadfence();
  flags[block] = 2;
}

LAUNCH(4 x 64: zero:u32*4 zero:u32*1 u32*4)
__global__ void right_last_block(uint32_t *sums, uint32_t *done, uint32_t *y) {
  __shared__ uint32_t is_last, sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  atomicAdd(&sum, threadIdx.x);
  __syncthreads();
  if (threadIdx.x == 0) {
    sums[blockIdx.x] = sum;
    __threadfence();
    is_last = atomicInc(done, gridDim.x) == gridDim.x - 1;
  }
  __syncthreads();
  if (is_last) {
    if (threadIdx.x < 4) y[threadIdx.x] = sums[threadIdx.x];
    if (threadIdx.x == 0) *done = 0;
  }
}

LAUNCH(3 x 32: zero:u32*96 zero:u32*1 zero:u32*96)
__global__ void right_last_warp(uint32_t *x, uint32_t *done, uint32_t *y) {
  const uint32_t i = blockIdx.x * 32 + threadIdx.x;
  x[i] = i;
  __syncwarp();
  uint32_t count = 0;
  if (threadIdx.x == 0) {
    __threadfence();
    count = atomicAdd(done, 1u);
    __threadfence();
  }
  count = __shfl_sync(~0u, count, 0);
  if (count == 2)
    for (uint32_t k = threadIdx.x; k < 96; k += 32) y[k] = x[95 - k];
}

LAUNCH(1 x 64: zero:u32*1 u32*64)
__global__ void right_release_to_another_warp(uint32_t *flag, uint32_t *x) {
  __shared__ uint32_t tile[32];
  cuda::atomic_ref<uint32_t, cuda::thread_scope_block> ready(*flag);
  const uint32_t lane = threadIdx.x % 32;
  if (threadIdx.x < 32) {
    tile[lane] = lane;
    __syncwarp();
    if (lane == 0) ready.store(1, cuda::memory_order_release);
  } else {
    if (lane == 0)
      while (!ready.load(cuda::memory_order_acquire)) __nanosleep(1);
    __syncwarp();
    x[lane] = tile[31 - lane];
  }
}

LAUNCH(2 x 1: zero:u32*1 u32*2)
__global__ void wrong_write_after_an_explicit_release(uint32_t *flag, uint32_t *x) {
  cuda::atomic_ref<uint32_t, cuda::thread_scope_device> ready(*flag);
  if (blockIdx.x == 0) {
    x[0] = 1;
    ready.store(1, cuda::memory_order_release);
    x[0] = 2; // BUG: races
  } else {
    while (!ready.load(cuda::memory_order_acquire)) {}
    x[1] = x[0]; // BUG: races
  }
}

LAUNCH(1 x 32: u32*32)
__global__ void wrong_free_without_a_barrier(uint32_t *x) {
  __shared__ uint32_t *all;
  if (threadIdx.x == 0) all = (uint32_t *)malloc(32 * sizeof(uint32_t));
  __syncthreads();
  all[threadIdx.x] = threadIdx.x;
  __syncthreads();
  x[threadIdx.x] = all[31 - threadIdx.x]; // BUG: races
  if (threadIdx.x == 31) free(all); // BUG: races
}

LAUNCH(1 x 32: u32*32)
__global__ void right_free_behind_a_barrier(uint32_t *x) {
  __shared__ uint32_t *all;
  if (threadIdx.x == 0) all = (uint32_t *)malloc(32 * sizeof(uint32_t));
  __syncthreads();
  all[threadIdx.x] = threadIdx.x;
  __syncthreads();
  x[threadIdx.x] = all[31 - threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 7) free(all);
}

LAUNCH(1 x 32: f32*32)
__global__ void wrong_halves_of_a_warp(float *x) {
  __shared__ float tile[32];
  const int i = threadIdx.x;
  tile[i] = i; // BUG: races
  if (i < 16) {
    __syncwarp(0xffff);
    x[i] = tile[31 - i]; // BUG: races
  } else {
    __syncwarp(0xffff0000u);
    x[i] = tile[47 - i];
  }
}

LAUNCH(1 x 64: u32*64)
__global__ void wrong_neighbouring_tile(uint32_t *x) {
  namespace cg = cooperative_groups;
  __shared__ uint32_t values[64];
  cg::thread_block_tile<8> tile = cg::tiled_partition<8>(cg::this_thread_block());
  const int i = threadIdx.x;
  values[i] = i; // BUG: races
  tile.sync();
  x[i] = values[i / 16 * 16 + 15 - i % 16]; // BUG: races
}

LAUNCH(1 x 64: u32*64)
__global__ void right_tiles(uint32_t *x) {
  namespace cg = cooperative_groups;
  __shared__ uint32_t values[64];
  cg::thread_block_tile<8> tile = cg::tiled_partition<8>(cg::this_thread_block());
  const int i = threadIdx.x;
  values[i] = i;
  tile.sync();
  const uint32_t other = values[i ^ 7];
  tile.sync();
  values[i] = other;
  __syncwarp();
  x[i] = values[i ^ 31];
}

LAUNCH(1 x 32: u32*32)
__global__ void right_order_by_two_exchanges(uint32_t *x) {
  __shared__ uint32_t values[32];
  const int i = threadIdx.x;
  values[i] = i;
  if (i < 16) __syncwarp(0xffff);
  if (i >= 15) __syncwarp(0xffff8000u);
  if (i == 20) x[i] = values[3];
}
