/*
 * longshore_cuda/cooperative_groups.h: cooperative groups of CUDA and HIP: the thread block, tiles
 * of a warp, threads that are active together, and the grid. `longshore cc` includes it for
 * <cooperative_groups.h> and <hip/hip_cooperative_groups.h>.
 */
#ifndef LONGSHORE_COOPERATIVE_GROUPS_H
#define LONGSHORE_COOPERATIVE_GROUPS_H
#pragma clang system_header

#include "../longshore_cuda.h"

namespace cooperative_groups {

/* ---- The thread block ------------------------------------------------------------------------ */

class thread_block {
public:
  LONGSHORE_CUDA_ void sync() { __syncthreads(); }
  LONGSHORE_CUDA_ unsigned int thread_rank() {
    LONGSHORE_HERE_
    return longshore_item_index();
  }
  LONGSHORE_CUDA_ unsigned int size() { return blockDim.x * blockDim.y * blockDim.z; }
  LONGSHORE_CUDA_ unsigned int num_threads() { return size(); }
  LONGSHORE_CUDA_ dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
  LONGSHORE_CUDA_ dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
  LONGSHORE_CUDA_ dim3 group_dim() { return dim3(blockDim.x, blockDim.y, blockDim.z); }
  LONGSHORE_CUDA_ dim3 dim_threads() { return group_dim(); }
  /* A thread arrives where it waits. */
  struct arrival_token {};
  LONGSHORE_CUDA_ arrival_token barrier_arrive() { return arrival_token(); }
  LONGSHORE_CUDA_ void barrier_wait(arrival_token &&) { __syncthreads(); }
};
LONGSHORE_CUDA_ thread_block this_thread_block() { return thread_block(); }

/* ---- The grid -------------------------------------------------------------------------------- */

class grid_group {
public:
  LONGSHORE_CUDA_ void sync() {
    LONGSHORE_HERE_
#if LONGSHORE_ON_GPU_
    longshore_grid_barrier_(longshore_self);
#else
    longshore_grid_barrier_together_(longshore_self->work);
#endif
  }
  LONGSHORE_CUDA_ bool is_valid() { return true; }
  /* A thread arrives where it waits. */
  struct arrival_token {};
  LONGSHORE_CUDA_ arrival_token barrier_arrive() { return arrival_token(); }
  LONGSHORE_CUDA_ void barrier_wait(arrival_token &&) { sync(); }
  LONGSHORE_CUDA_ unsigned long long block_rank() {
    LONGSHORE_HERE_
    return longshore_group_index();
  }
  LONGSHORE_CUDA_ unsigned long long num_blocks() {
    return (unsigned long long)gridDim.x * gridDim.y * gridDim.z;
  }
  LONGSHORE_CUDA_ unsigned long long thread_rank() {
    return block_rank() * thread_block::size() + thread_block::thread_rank();
  }
  LONGSHORE_CUDA_ unsigned long long size() { return num_blocks() * thread_block::size(); }
  LONGSHORE_CUDA_ unsigned long long num_threads() { return size(); }
  LONGSHORE_CUDA_ dim3 group_dim() { return dim3(gridDim.x, gridDim.y, gridDim.z); }
  LONGSHORE_CUDA_ dim3 dim_blocks() { return group_dim(); }
  LONGSHORE_CUDA_ dim3 block_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
};
LONGSHORE_CUDA_ grid_group this_grid() { return grid_group(); }
/* The grids of all devices: one. */
class multi_grid_group : public grid_group {
public:
  LONGSHORE_CUDA_ unsigned int grid_rank() { return 0; }
  LONGSHORE_CUDA_ unsigned int num_grids() { return 1; }
};
LONGSHORE_CUDA_ multi_grid_group this_multi_grid() { return multi_grid_group(); }

/* ---- Tiles of a warp ------------------------------------------------------------------------- */

/* The lanes of a warp that hold a tile of `count` threads with a lane. */
LONGSHORE_CUDA_ longshore_ballot_result_ longshore_tile_lanes_(unsigned int lane, unsigned int count) {
  const longshore_ballot_result_ all =
      count >= LONGSHORE_LANE_BITS_ ? ~(longshore_ballot_result_)0 : ((longshore_ballot_result_)1 << count) - 1;
  return all << (lane & ~(count - 1));
}

/* Groups of chosen lanes of a warp. */
class longshore_lane_group_ {
public:
  LONGSHORE_METHOD_ longshore_lane_group_(longshore_ballot_result_ lanes, unsigned int meta_rank = 0,
                                          unsigned int meta_size = 1)
      : lanes_(lanes), meta_rank_(meta_rank), meta_size_(meta_size) {}
  LONGSHORE_METHOD_ void sync() const { __syncwarp(lanes_); }
  LONGSHORE_METHOD_ unsigned int size() const { return (unsigned int)__builtin_popcountll(lanes_); }
  LONGSHORE_METHOD_ unsigned int num_threads() const { return size(); }
  LONGSHORE_METHOD_ unsigned int thread_rank() const {
    return (unsigned int)__builtin_popcountll(lanes_ & (((longshore_ballot_result_)1 << __lane_id()) - 1));
  }
  LONGSHORE_METHOD_ unsigned int meta_group_rank() const { return meta_rank_; }
  LONGSHORE_METHOD_ unsigned int meta_group_size() const { return meta_size_; }
  LONGSHORE_METHOD_ int any(int condition) const { return __any_sync(lanes_, condition); }
  LONGSHORE_METHOD_ int all(int condition) const { return __all_sync(lanes_, condition); }
  LONGSHORE_METHOD_ longshore_ballot_result_ ballot(int condition) const {
    return packed(__ballot_sync(lanes_, condition));
  }
  template <class T> LONGSHORE_METHOD_ longshore_ballot_result_ match_any(T value) const {
    return packed(__match_any_sync(lanes_, value));
  }
  template <class T> LONGSHORE_METHOD_ longshore_ballot_result_ match_all(T value, int &all) const {
    return packed(__match_all_sync(lanes_, value, &all));
  }
  template <class T> LONGSHORE_METHOD_ T shfl(T value, unsigned int rank) const {
    return longshore_of_lane_((longshore_lanes_)lanes_, value, lane_of(rank));
  }
  template <class T> LONGSHORE_METHOD_ T shfl_up(T value, unsigned int distance) const {
    const unsigned int rank = thread_rank();
    return shfl(value, distance <= rank ? rank - distance : rank);
  }
  template <class T> LONGSHORE_METHOD_ T shfl_down(T value, unsigned int distance) const {
    const unsigned int rank = thread_rank();
    return shfl(value, rank + distance < size() ? rank + distance : rank);
  }
  template <class T> LONGSHORE_METHOD_ T shfl_xor(T value, unsigned int bits) const {
    const unsigned int rank = thread_rank() ^ bits;
    return shfl(value, rank < size() ? rank : thread_rank());
  }
  LONGSHORE_METHOD_ longshore_ballot_result_ longshore_lanes() const { return lanes_; }

private:
  /* The lane of the thread with a rank. */
  LONGSHORE_METHOD_ unsigned int lane_of(unsigned int rank) const {
    unsigned int lane = 0, seen = 0;
    for (unsigned int at = 0; at < LONGSHORE_LANE_BITS_; ++at) {
      const bool is_in = lanes_ >> at & 1;
      lane = is_in && seen == rank ? at : lane;
      seen += is_in;
    }
    return lane;
  }
  /* Bits of lanes as bits of ranks. */
  LONGSHORE_METHOD_ longshore_ballot_result_ packed(longshore_ballot_result_ bits) const {
    longshore_ballot_result_ result = 0;
    unsigned int rank = 0;
    for (unsigned int at = 0; at < LONGSHORE_LANE_BITS_; ++at) {
      if (!(lanes_ >> at & 1)) continue;
      result |= (bits >> at & 1) << rank++;
    }
    return result;
  }
  longshore_ballot_result_ lanes_;
  unsigned int meta_rank_, meta_size_;
};

/* A tile of a size that is known to the compiler: a power of 2 up to a warp. */
template <unsigned int Size, class Parent = void> class thread_block_tile {
public:
  LONGSHORE_CUDA_ void sync() { __syncwarp(longshore_lanes()); }
  LONGSHORE_CUDA_ unsigned int thread_rank() { return thread_block::thread_rank() % Size; }
  LONGSHORE_CUDA_ constexpr unsigned int size() { return Size; }
  LONGSHORE_CUDA_ constexpr unsigned int num_threads() { return Size; }
  LONGSHORE_CUDA_ unsigned int meta_group_rank() { return Parent::thread_rank() / Size; }
  LONGSHORE_CUDA_ unsigned int meta_group_size() { return (Parent::size() + Size - 1) / Size; }
  template <class T> LONGSHORE_METHOD_ T shfl(T value, int rank) const {
    return __shfl_sync(longshore_lanes(), value, rank, (int)Size);
  }
  template <class T> LONGSHORE_METHOD_ T shfl_up(T value, unsigned int distance) const {
    return __shfl_up_sync(longshore_lanes(), value, distance, (int)Size);
  }
  template <class T> LONGSHORE_METHOD_ T shfl_down(T value, unsigned int distance) const {
    return __shfl_down_sync(longshore_lanes(), value, distance, (int)Size);
  }
  template <class T> LONGSHORE_METHOD_ T shfl_xor(T value, unsigned int bits) const {
    return __shfl_xor_sync(longshore_lanes(), value, (int)bits, (int)Size);
  }
  LONGSHORE_METHOD_ int any(int condition) const { return __any_sync(longshore_lanes(), condition); }
  LONGSHORE_METHOD_ int all(int condition) const { return __all_sync(longshore_lanes(), condition); }
  LONGSHORE_METHOD_ longshore_ballot_result_ ballot(int condition) const {
    return own_bits(__ballot_sync(longshore_lanes(), condition));
  }
  template <class T> LONGSHORE_METHOD_ longshore_ballot_result_ match_any(T value) const {
    return own_bits(__match_any_sync(longshore_lanes(), value));
  }
  template <class T> LONGSHORE_METHOD_ longshore_ballot_result_ match_all(T value, int &all) const {
    return own_bits(__match_all_sync(longshore_lanes(), value, &all));
  }
  LONGSHORE_CUDA_ longshore_ballot_result_ longshore_lanes() { return longshore_tile_lanes_(__lane_id(), Size); }

private:
  LONGSHORE_CUDA_ longshore_ballot_result_ own_bits(longshore_ballot_result_ bits) {
    return (bits & longshore_lanes()) >> (__lane_id() & ~(Size - 1));
  }
};
/* A tile of a parent that only the kernel knows. */
template <unsigned int Size> class thread_block_tile<Size, void> : public thread_block_tile<Size, thread_block> {
public:
  LONGSHORE_METHOD_ thread_block_tile()
      : meta_rank_(thread_block_tile<Size, thread_block>::meta_group_rank()),
        meta_size_(thread_block_tile<Size, thread_block>::meta_group_size()) {}
  template <class Parent>
  LONGSHORE_METHOD_ thread_block_tile(const thread_block_tile<Size, Parent> &tile)
      : meta_rank_(tile.meta_group_rank()), meta_size_(tile.meta_group_size()) {}
  LONGSHORE_METHOD_ unsigned int meta_group_rank() const { return meta_rank_; }
  LONGSHORE_METHOD_ unsigned int meta_group_size() const { return meta_size_; }

private:
  unsigned int meta_rank_, meta_size_;
};
template <unsigned int Size, class Parent> LONGSHORE_CUDA_ thread_block_tile<Size, Parent> tiled_partition(const Parent &) {
  static_assert(Size != 0 && (Size & (Size - 1)) == 0 && Size <= LONGSHORE_LANE_BITS_,
                "a tile has a power of 2 of threads, at most a warp");
  return thread_block_tile<Size, Parent>();
}

LONGSHORE_CUDA_ thread_block_tile<1> this_thread() { return thread_block_tile<1>(); }

/* Threads that are active together. On a CPU these are all threads of the warp that have not
 * returned. */
class coalesced_group : public longshore_lane_group_ {
public:
  LONGSHORE_METHOD_ coalesced_group(longshore_ballot_result_ lanes, unsigned int meta_rank = 0, unsigned int meta_size = 1)
      : longshore_lane_group_(lanes, meta_rank, meta_size) {}
};
LONGSHORE_CUDA_ coalesced_group coalesced_threads() { return coalesced_group(__activemask()); }
/* A tile of a size that only the kernel knows. */
class thread_group : public longshore_lane_group_ {
public:
  LONGSHORE_METHOD_ thread_group(longshore_ballot_result_ lanes) : longshore_lane_group_(lanes) {}
  LONGSHORE_METHOD_ thread_group(const thread_block &) : longshore_lane_group_(0) {}
  LONGSHORE_METHOD_ thread_group(const longshore_lane_group_ &group) : longshore_lane_group_(group) {}
  template <unsigned int Size, class Parent>
  LONGSHORE_METHOD_ thread_group(const thread_block_tile<Size, Parent> &tile) : longshore_lane_group_(tile.longshore_lanes()) {}
  LONGSHORE_METHOD_ void sync() const {
    if (longshore_lanes() == 0) __syncthreads();
    else longshore_lane_group_::sync();
  }
  LONGSHORE_METHOD_ unsigned int size() const {
    return longshore_lanes() == 0 ? thread_block::size() : longshore_lane_group_::size();
  }
  LONGSHORE_METHOD_ unsigned int num_threads() const { return size(); }
  LONGSHORE_METHOD_ unsigned int thread_rank() const {
    return longshore_lanes() == 0 ? thread_block::thread_rank() : longshore_lane_group_::thread_rank();
  }
};
/* Each `size` threads of a group, in the order of their ranks. */
LONGSHORE_CUDA_ coalesced_group tiled_partition(const coalesced_group &group, unsigned int size) {
  const unsigned int tile = group.thread_rank() / size;
  longshore_ballot_result_ lanes = 0;
  unsigned int rank = 0;
  for (unsigned int lane = 0; lane < LONGSHORE_LANE_BITS_; ++lane) {
    if (!(group.longshore_lanes() >> lane & 1)) continue;
    if (rank++ / size == tile) lanes |= (longshore_ballot_result_)1 << lane;
  }
  return coalesced_group(lanes, tile, (group.size() + size - 1) / size);
}
LONGSHORE_CUDA_ thread_group tiled_partition(const thread_group &group, unsigned int size) {
  if (group.longshore_lanes() == 0) return thread_group(longshore_tile_lanes_(__lane_id(), size));
  return tiled_partition(coalesced_group(group.longshore_lanes()), size);
}
LONGSHORE_CUDA_ thread_group tiled_partition(const thread_block &, unsigned int size) {
  return thread_group(longshore_tile_lanes_(__lane_id(), size));
}
/* The threads of a tile, or of active threads, for which `label` is the same, or the condition. */
template <class Group, class Label>
LONGSHORE_CUDA_ coalesced_group labeled_partition(const Group &group, Label label) {
  return coalesced_group(__match_any_sync(group.longshore_lanes(), label));
}
template <class Group> LONGSHORE_CUDA_ coalesced_group binary_partition(const Group &group, bool label) {
  const longshore_ballot_result_ running = longshore_running_(group.longshore_lanes());
  const longshore_ballot_result_ holds = __ballot_sync(running, label);
  return coalesced_group(label ? holds : running & ~holds);
}

template <class Group> LONGSHORE_CUDA_ void sync(const Group &group) { group.sync(); }
template <class Group> LONGSHORE_CUDA_ unsigned long long group_size(const Group &group) { return group.size(); }
template <class Group> LONGSHORE_CUDA_ unsigned long long thread_rank(const Group &group) { return group.thread_rank(); }

/* ---- Reductions and scans -------------------------------------------------------------------- */

template <class T> struct plus : longshore_plus_ {};
template <class T> struct less : longshore_less_ {};
template <class T> struct greater : longshore_greater_ {};
template <class T> struct bit_and : longshore_bit_and_ {};
template <class T> struct bit_or : longshore_bit_or_ {};
template <class T> struct bit_xor : longshore_bit_xor_ {};

/* Updates of numbers, and of the atomic numbers of <cuda/atomic>. */
template <class T> LONGSHORE_CUDA_ void longshore_update_(T &to, T value, plus<T>) { atomicAdd(&to, value); }
template <class T> LONGSHORE_CUDA_ void longshore_update_(T &to, T value, less<T>) { atomicMin(&to, value); }
template <class T> LONGSHORE_CUDA_ void longshore_update_(T &to, T value, greater<T>) { atomicMax(&to, value); }
template <class T> LONGSHORE_CUDA_ void longshore_update_(T &to, T value, bit_and<T>) { atomicAnd(&to, value); }
template <class T> LONGSHORE_CUDA_ void longshore_update_(T &to, T value, bit_or<T>) { atomicOr(&to, value); }
template <class T> LONGSHORE_CUDA_ void longshore_update_(T &to, T value, bit_xor<T>) { atomicXor(&to, value); }

#define LONGSHORE_UPDATE_ATOMIC_(combine, method)                                                                     \
  template <class A, class T> LONGSHORE_CUDA_ void longshore_update_(A &to, T value, combine<T>) { to.method(value); }
LONGSHORE_UPDATE_ATOMIC_(plus, fetch_add)
LONGSHORE_UPDATE_ATOMIC_(less, fetch_min)
LONGSHORE_UPDATE_ATOMIC_(greater, fetch_max)
LONGSHORE_UPDATE_ATOMIC_(bit_and, fetch_and)
LONGSHORE_UPDATE_ATOMIC_(bit_or, fetch_or)
LONGSHORE_UPDATE_ATOMIC_(bit_xor, fetch_xor)
template <class A, class T, class F> LONGSHORE_CUDA_ void longshore_update_(A &to, T value, F combine) {
  auto old = to.load();
  while (!to.compare_exchange_weak(old, combine(old, value))) {
  }
}

template <unsigned int Size, class Parent, class T, class F>
LONGSHORE_CUDA_ T reduce(const thread_block_tile<Size, Parent> &tile, T value, F combine) {
  for (unsigned int bits = Size / 2; bits > 0; bits /= 2) value = combine(value, tile.shfl_xor(value, bits));
  return value;
}
template <class T, class F> LONGSHORE_CUDA_ T reduce(const longshore_lane_group_ &group, T value, F combine) {
  return longshore_reduce_among_(group.longshore_lanes(), value, combine);
}
template <unsigned int Size, class Parent, class T, class F = plus<T>>
LONGSHORE_CUDA_ T inclusive_scan(const thread_block_tile<Size, Parent> &tile, T value, F combine = F()) {
  for (unsigned int distance = 1; distance < Size; distance *= 2) {
    const T before = tile.shfl_up(value, distance);
    if (tile.thread_rank() >= distance) value = combine(before, value);
  }
  return value;
}
template <unsigned int Size, class Parent, class T, class F = plus<T>>
LONGSHORE_CUDA_ T exclusive_scan(const thread_block_tile<Size, Parent> &tile, T value, F combine = F()) {
  const T before = tile.shfl_up(inclusive_scan(tile, value, combine), 1);
  return tile.thread_rank() == 0 ? T() : before;
}
template <class T, class F = plus<T>>
LONGSHORE_CUDA_ T inclusive_scan(const longshore_lane_group_ &group, T value, F combine = F()) {
  T result = value;
  const unsigned int rank = group.thread_rank();
  for (unsigned int at = group.size(); at-- > 0;) {
    const T other = group.shfl(value, at);
    if (at < rank) result = combine(other, result);
  }
  return result;
}
template <class T, class F = plus<T>>
LONGSHORE_CUDA_ T exclusive_scan(const longshore_lane_group_ &group, T value, F combine = F()) {
  const T before = group.shfl_up(inclusive_scan(group, value, combine), 1);
  return group.thread_rank() == 0 ? T() : before;
}
/* Sums of the group in memory. */
template <class Group, class A, class T, class F>
LONGSHORE_CUDA_ void reduce_update_async(const Group &group, A &to, T value, F combine) {
  const T result = reduce(group, value, combine);
  if (group.thread_rank() == 0) longshore_update_(to, result, combine);
}
template <class Group, class T, class F>
LONGSHORE_CUDA_ void reduce_store_async(const Group &group, T *to, T value, F combine) {
  const T result = reduce(group, value, combine);
  if (group.thread_rank() == 0) *to = result;
}
template <class Group, class A, class T, class F>
LONGSHORE_CUDA_ void reduce_store_async(const Group &group, A &to, T value, F combine) {
  const T result = reduce(group, value, combine);
  if (group.thread_rank() == 0) to.store(result);
}
/* One thread of the group. */
template <class Group, class F, class... A> LONGSHORE_CUDA_ void invoke_one(const Group &group, F &&f, A &&...arguments) {
  if (group.thread_rank() == 0) f(static_cast<A &&>(arguments)...);
}
template <class Group, class F, class... A>
LONGSHORE_CUDA_ auto invoke_one_broadcast(const Group &group, F &&f, A &&...arguments) {
  decltype(f(static_cast<A &&>(arguments)...)) result{};
  if (group.thread_rank() == 0) result = f(static_cast<A &&>(arguments)...);
  return group.shfl(result, 0);
}

/* ---- Copies ---------------------------------------------------------------------------------- */

/* The threads of the group copy; `wait` is the barrier behind. */
template <class Group, class T> LONGSHORE_CUDA_ void memcpy_async(const Group &group, T *to, const T *from, size_t bytes) {
  for (size_t at = group.thread_rank(); at < bytes / sizeof(T); at += group.size()) to[at] = from[at];
}
template <class Group> LONGSHORE_CUDA_ void memcpy_async(const Group &group, void *to, const void *from, size_t bytes) {
  memcpy_async(group, (char *)to, (const char *)from, bytes);
}
/* Layouts: numbers of elements. */
template <class Group, class T>
LONGSHORE_CUDA_ void memcpy_async(const Group &group, T *to, size_t room, const T *from, size_t count) {
  memcpy_async(group, to, from, (room < count ? room : count) * sizeof(T));
}
template <class Group> LONGSHORE_CUDA_ void wait(const Group &group) { group.sync(); }
template <unsigned int Stages, class Group> LONGSHORE_CUDA_ void wait_prior(const Group &group) { group.sync(); }

} // namespace cooperative_groups

#endif
