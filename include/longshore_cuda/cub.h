/*
 * longshore_cuda/cub.h: the collective operations of CUB in a block and a warp. `longshore cc`
 * includes it for <cub/cub.cuh>, <hipcub/hipcub.hpp> and their relatives. Functions of the host,
 * such as DeviceReduce, are not part of it.
 */
#ifndef LONGSHORE_CUB_H
#define LONGSHORE_CUB_H
#pragma clang system_header

#include "../longshore_cuda.h"
/* Sources with CUB rely on this header of the vendor's. */
#if __has_include(<algorithm>)
#include <algorithm>
#endif

namespace cub {

/* ---- Operations of two values ---------------------------------------------------------------- */

struct Sum : longshore_plus_ {};
struct Min : longshore_less_ {};
struct Max : longshore_greater_ {};
struct Equality {
  template <class T, class U> LONGSHORE_METHOD_OF_BOTH_ bool operator()(const T &a, const U &b) const { return a == b; }
};
struct Inequality {
  template <class T, class U> LONGSHORE_METHOD_OF_BOTH_ bool operator()(const T &a, const U &b) const { return !(a == b); }
};
template <class K, class V> struct KeyValuePair {
  typedef K Key;
  typedef V Value;
  K key;
  V value;
  KeyValuePair() = default;
  __host__ __device__ KeyValuePair(const K &key, const V &value) : key(key), value(value) {}
};
struct ArgMax {
  template <class K, class V>
  LONGSHORE_METHOD_OF_BOTH_ KeyValuePair<K, V> operator()(const KeyValuePair<K, V> &a, const KeyValuePair<K, V> &b) const {
    return b.value > a.value || (a.value == b.value && b.key < a.key) ? b : a;
  }
};
struct ArgMin {
  template <class K, class V>
  LONGSHORE_METHOD_OF_BOTH_ KeyValuePair<K, V> operator()(const KeyValuePair<K, V> &a, const KeyValuePair<K, V> &b) const {
    return b.value < a.value || (a.value == b.value && b.key < a.key) ? b : a;
  }
};

enum BlockReduceAlgorithm { BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY, BLOCK_REDUCE_RAKING, BLOCK_REDUCE_WARP_REDUCTIONS };
enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };
enum BlockLoadAlgorithm {
  BLOCK_LOAD_DIRECT,
  BLOCK_LOAD_STRIPED,
  BLOCK_LOAD_VECTORIZE,
  BLOCK_LOAD_TRANSPOSE,
  BLOCK_LOAD_WARP_TRANSPOSE,
  BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED
};
enum BlockStoreAlgorithm {
  BLOCK_STORE_DIRECT,
  BLOCK_STORE_STRIPED,
  BLOCK_STORE_VECTORIZE,
  BLOCK_STORE_TRANSPOSE,
  BLOCK_STORE_WARP_TRANSPOSE,
  BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED
};

LONGSHORE_CUDA_ unsigned int LaneId() { return __lane_id(); }
LONGSHORE_CUDA_ int RowMajorTid(int x, int y, int) { return (int)((threadIdx.z * y + threadIdx.y) * x + threadIdx.x); }

/* The thread's number in its block. */
LONGSHORE_CUDA_ unsigned int longshore_thread_() {
  LONGSHORE_HERE_
  return longshore_item_index();
}
/* Values of threads in shared memory, which no constructor fills. */
template <class T, int count> struct longshore_values_ {
  alignas(T) unsigned char bytes[sizeof(T) * (count > 0 ? count : 1)];
  LONGSHORE_METHOD_ T &operator[](int at) { return ((T *)bytes)[at]; }
};

/* ---- In a warp ------------------------------------------------------------------------------- */

template <class T, int Width = 32, int = 0> class WarpReduce {
public:
  struct TempStorage {
    unsigned char none;
  };
  LONGSHORE_METHOD_ WarpReduce(TempStorage &) {}
  template <class F> LONGSHORE_METHOD_ T Reduce(T value, F combine, int valid = Width) {
    const int lane = (int)(__lane_id() % Width);
    for (int distance = 1; distance < Width; distance *= 2) {
      const T other = __shfl_down(value, (unsigned int)distance, Width);
      if (lane + distance < valid) value = combine(value, other);
    }
    return value;
  }
  LONGSHORE_METHOD_ T Sum(T value, int valid = Width) { return Reduce(value, cub::Sum(), valid); }
  /* Segments begin at lanes with a head. */
  template <class F, class Flag> LONGSHORE_METHOD_ T HeadSegmentedReduce(T value, Flag is_head, F combine) {
    const int lane = (int)(__lane_id() % Width);
    int last = Width;
    for (int at = Width - 1; at > 0; --at) {
      const int begins = __shfl((int)(is_head != 0), at, Width);
      if (begins && at > lane) last = at;
    }
    return Reduce(value, combine, last);
  }
  /* Segments end at lanes with a tail. */
  template <class F, class Flag> LONGSHORE_METHOD_ T TailSegmentedReduce(T value, Flag is_tail, F combine) {
    const int ended = __shfl_up((int)(is_tail != 0), 1, Width);
    return HeadSegmentedReduce(value, __lane_id() % Width != 0 && ended, combine);
  }
  template <class Flag> LONGSHORE_METHOD_ T HeadSegmentedSum(T value, Flag is_head) {
    return HeadSegmentedReduce(value, is_head, cub::Sum());
  }
  template <class Flag> LONGSHORE_METHOD_ T TailSegmentedSum(T value, Flag is_tail) {
    return TailSegmentedReduce(value, is_tail, cub::Sum());
  }
};

template <class T, int Width = 32, int = 0> class WarpScan {
public:
  struct TempStorage {
    unsigned char none;
  };
  LONGSHORE_METHOD_ WarpScan(TempStorage &) {}
  template <class F> LONGSHORE_METHOD_ void InclusiveScan(T value, T &result, F combine) {
    const int lane = (int)(__lane_id() % Width);
    for (int distance = 1; distance < Width; distance *= 2) {
      const T before = __shfl_up(value, (unsigned int)distance, Width);
      if (lane >= distance) value = combine(before, value);
    }
    result = value;
  }
  template <class F> LONGSHORE_METHOD_ void InclusiveScan(T value, T &result, F combine, T &total) {
    InclusiveScan(value, result, combine);
    total = __shfl(result, Width - 1, Width);
  }
  template <class F> LONGSHORE_METHOD_ void ExclusiveScan(T value, T &result, T initial, F combine, T &total) {
    T inclusive;
    InclusiveScan(value, inclusive, combine, total);
    const T before = __shfl_up(inclusive, 1, Width);
    result = __lane_id() % Width == 0 ? initial : combine(initial, before);
  }
  template <class F> LONGSHORE_METHOD_ void ExclusiveScan(T value, T &result, T initial, F combine) {
    T total;
    ExclusiveScan(value, result, initial, combine, total);
  }
  template <class F> LONGSHORE_METHOD_ void ExclusiveScan(T value, T &result, F combine) {
    T inclusive;
    InclusiveScan(value, inclusive, combine);
    result = __shfl_up(inclusive, 1, Width);
  }
  template <class F> LONGSHORE_METHOD_ void ExclusiveScan(T value, T &result, F combine, T &total) {
    ExclusiveScan(value, result, combine);
    total = __shfl(combine(result, value), Width - 1, Width);
  }
  template <class F> LONGSHORE_METHOD_ void Scan(T value, T &inclusive, T &exclusive, F combine) {
    InclusiveScan(value, inclusive, combine);
    exclusive = __shfl_up(inclusive, 1, Width);
  }
  template <class F> LONGSHORE_METHOD_ void Scan(T value, T &inclusive, T &exclusive, T initial, F combine) {
    ExclusiveScan(value, exclusive, initial, combine);
    inclusive = combine(exclusive, value);
  }
  LONGSHORE_METHOD_ void InclusiveSum(T value, T &result) { InclusiveScan(value, result, cub::Sum()); }
  LONGSHORE_METHOD_ void InclusiveSum(T value, T &result, T &total) { InclusiveScan(value, result, cub::Sum(), total); }
  LONGSHORE_METHOD_ void ExclusiveSum(T value, T &result) { ExclusiveScan(value, result, T(), cub::Sum()); }
  LONGSHORE_METHOD_ void ExclusiveSum(T value, T &result, T &total) { ExclusiveScan(value, result, T(), cub::Sum(), total); }
  LONGSHORE_METHOD_ T Broadcast(T value, unsigned int lane) { return __shfl(value, (int)lane, Width); }
};

/* ---- In a block ------------------------------------------------------------------------------ */

template <class T, int X, BlockReduceAlgorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int Y = 1, int Z = 1, int = 0> class BlockReduce {
public:
  struct TempStorage {
    longshore_values_<T, X * Y * Z> values;
  };
  LONGSHORE_METHOD_ BlockReduce(TempStorage &storage) : storage_(storage) {}
  template <class F> LONGSHORE_METHOD_ T Reduce(T value, F combine, int valid = X * Y * Z) {
    const int thread = (int)longshore_thread_();
    storage_.values[thread] = value;
    for (int distance = 1; distance < X * Y * Z; distance *= 2) {
      __syncthreads();
      if (thread % (2 * distance) == 0 && thread + distance < valid) {
        value = combine(value, storage_.values[thread + distance]);
        storage_.values[thread] = value;
      }
    }
    return value;
  }
  template <int Items, class F> LONGSHORE_METHOD_ T Reduce(T (&values)[Items], F combine) {
    T value = values[0];
    for (int i = 1; i < Items; ++i) value = combine(value, values[i]);
    return Reduce(value, combine);
  }
  LONGSHORE_METHOD_ T Sum(T value) { return Reduce(value, cub::Sum()); }
  LONGSHORE_METHOD_ T Sum(T value, int valid) { return Reduce(value, cub::Sum(), valid); }
  template <int Items> LONGSHORE_METHOD_ T Sum(T (&values)[Items]) { return Reduce(values, cub::Sum()); }

private:
  TempStorage &storage_;
};

/* Functions that give the value before a block, of the block's total. */
template <class P, class T> using longshore_prefix_ = decltype((*(P *)nullptr)(*(T *)nullptr));

template <class T, int X, BlockScanAlgorithm = BLOCK_SCAN_RAKING, int Y = 1, int Z = 1, int = 0> class BlockScan {
public:
  struct TempStorage {
    longshore_values_<T, X * Y * Z> values;
    longshore_values_<T, 1> before;
  };
  LONGSHORE_METHOD_ BlockScan(TempStorage &storage) : storage_(storage) {}
  template <class F> LONGSHORE_METHOD_ void InclusiveScan(T value, T &result, F combine) {
    const int thread = (int)longshore_thread_();
    storage_.values[thread] = value;
    __syncthreads();
    for (int distance = 1; distance < X * Y * Z; distance *= 2) {
      if (thread >= distance) value = combine(storage_.values[thread - distance], value);
      __syncthreads();
      storage_.values[thread] = value;
      __syncthreads();
    }
    result = value;
  }
  template <class F> LONGSHORE_METHOD_ void InclusiveScan(T value, T &result, F combine, T &total) {
    InclusiveScan(value, result, combine);
    total = storage_.values[X * Y * Z - 1];
  }
  /* Without an initial value, the first thread's result is undefined in CUB, and the value here. */
  template <class F> LONGSHORE_METHOD_ void ExclusiveScan(T value, T &result, F combine) {
    T inclusive;
    InclusiveScan(value, inclusive, combine);
    const int thread = (int)longshore_thread_();
    result = thread == 0 ? value : storage_.values[thread - 1];
  }
  template <class F> LONGSHORE_METHOD_ void ExclusiveScan(T value, T &result, T initial, F combine) {
    ExclusiveScan(value, result, combine);
    result = longshore_thread_() == 0 ? initial : combine(initial, result);
  }
  template <class F> LONGSHORE_METHOD_ void ExclusiveScan(T value, T &result, T initial, F combine, T &total) {
    ExclusiveScan(value, result, initial, combine);
    total = storage_.values[X * Y * Z - 1];
  }
  template <class F> LONGSHORE_METHOD_ void ExclusiveScan(T value, T &result, F combine, T &total) {
    ExclusiveScan(value, result, combine);
    total = storage_.values[X * Y * Z - 1];
  }
  template <class F, class P, class = longshore_prefix_<P, T>>
  LONGSHORE_METHOD_ void ExclusiveScan(T value, T &result, F combine, P &prefix) {
    T total;
    ExclusiveScan(value, result, combine, total);
    const T before = before_block(prefix, total);
    result = longshore_thread_() == 0 ? before : combine(before, result);
  }
  template <class F, class P, class = longshore_prefix_<P, T>>
  LONGSHORE_METHOD_ void InclusiveScan(T value, T &result, F combine, P &prefix) {
    T total;
    InclusiveScan(value, result, combine, total);
    result = combine(before_block(prefix, total), result);
  }
  template <int Items, class F> LONGSHORE_METHOD_ void InclusiveScan(T (&values)[Items], T (&results)[Items], F combine, T &total) {
    T before;
    ExclusiveScan(reduced(values, combine), before, combine);
    total = storage_.values[X * Y * Z - 1];
    const bool is_first = longshore_thread_() == 0;
    for (int i = 0; i < Items; ++i) {
      const T value = values[i];
      before = is_first && i == 0 ? value : combine(before, value);
      results[i] = before;
    }
  }
  template <int Items, class F> LONGSHORE_METHOD_ void InclusiveScan(T (&values)[Items], T (&results)[Items], F combine) {
    T total;
    InclusiveScan(values, results, combine, total);
  }
  template <int Items, class F>
  LONGSHORE_METHOD_ void ExclusiveScan(T (&values)[Items], T (&results)[Items], T initial, F combine, T &total) {
    T before;
    ExclusiveScan(reduced(values, combine), before, initial, combine, total);
    scan_own(values, results, before, combine);
  }
  /* Without an initial value, the first result is the first value. */
  template <int Items, class F>
  LONGSHORE_METHOD_ void ExclusiveScan(T (&values)[Items], T (&results)[Items], F combine, T &total) {
    T before;
    ExclusiveScan(reduced(values, combine), before, combine, total);
    const bool is_first = longshore_thread_() == 0;
    for (int i = 0; i < Items; ++i) {
      const T value = values[i];
      results[i] = is_first && i == 0 ? value : before;
      before = is_first && i == 0 ? value : combine(before, value);
    }
  }
  template <int Items, class F> LONGSHORE_METHOD_ void ExclusiveScan(T (&values)[Items], T (&results)[Items], F combine) {
    T total;
    ExclusiveScan(values, results, combine, total);
  }
  template <int Items, class F, class P, class = longshore_prefix_<P, T>>
  LONGSHORE_METHOD_ void ExclusiveScan(T (&values)[Items], T (&results)[Items], F combine, P &prefix) {
    T before;
    ExclusiveScan(reduced(values, combine), before, combine, prefix);
    scan_own(values, results, before, combine);
  }
  template <int Items, class F, class P, class = longshore_prefix_<P, T>>
  LONGSHORE_METHOD_ void InclusiveScan(T (&values)[Items], T (&results)[Items], F combine, P &prefix) {
    T before;
    ExclusiveScan(reduced(values, combine), before, combine, prefix);
    for (int i = 0; i < Items; ++i) results[i] = before = combine(before, values[i]);
  }
  template <int Items, class F>
  LONGSHORE_METHOD_ void ExclusiveScan(T (&values)[Items], T (&results)[Items], T initial, F combine) {
    T total;
    ExclusiveScan(values, results, initial, combine, total);
  }
  LONGSHORE_METHOD_ void InclusiveSum(T value, T &result) { InclusiveScan(value, result, cub::Sum()); }
  LONGSHORE_METHOD_ void InclusiveSum(T value, T &result, T &total) { InclusiveScan(value, result, cub::Sum(), total); }
  LONGSHORE_METHOD_ void ExclusiveSum(T value, T &result) { ExclusiveScan(value, result, T(), cub::Sum()); }
  LONGSHORE_METHOD_ void ExclusiveSum(T value, T &result, T &total) { ExclusiveScan(value, result, T(), cub::Sum(), total); }
  template <int Items> LONGSHORE_METHOD_ void InclusiveSum(T (&values)[Items], T (&results)[Items]) {
    InclusiveScan(values, results, cub::Sum());
  }
  template <int Items> LONGSHORE_METHOD_ void InclusiveSum(T (&values)[Items], T (&results)[Items], T &total) {
    InclusiveScan(values, results, cub::Sum(), total);
  }
  template <int Items> LONGSHORE_METHOD_ void ExclusiveSum(T (&values)[Items], T (&results)[Items]) {
    ExclusiveScan(values, results, T(), cub::Sum());
  }
  template <int Items> LONGSHORE_METHOD_ void ExclusiveSum(T (&values)[Items], T (&results)[Items], T &total) {
    ExclusiveScan(values, results, T(), cub::Sum(), total);
  }
  template <class P, class = longshore_prefix_<P, T>> LONGSHORE_METHOD_ void InclusiveSum(T value, T &result, P &prefix) {
    InclusiveScan(value, result, cub::Sum(), prefix);
  }
  template <class P, class = longshore_prefix_<P, T>> LONGSHORE_METHOD_ void ExclusiveSum(T value, T &result, P &prefix) {
    ExclusiveScan(value, result, cub::Sum(), prefix);
  }
  template <int Items, class P, class = longshore_prefix_<P, T>>
  LONGSHORE_METHOD_ void InclusiveSum(T (&values)[Items], T (&results)[Items], P &prefix) {
    InclusiveScan(values, results, cub::Sum(), prefix);
  }
  template <int Items, class P, class = longshore_prefix_<P, T>>
  LONGSHORE_METHOD_ void ExclusiveSum(T (&values)[Items], T (&results)[Items], P &prefix) {
    ExclusiveScan(values, results, cub::Sum(), prefix);
  }

private:
  template <int Items, class F> LONGSHORE_CUDA_ T reduced(const T (&values)[Items], F combine) {
    T sum = values[0];
    for (int i = 1; i < Items; ++i) sum = combine(sum, values[i]);
    return sum;
  }
  template <int Items, class F> LONGSHORE_CUDA_ void scan_own(const T (&values)[Items], T (&results)[Items], T before, F combine) {
    for (int i = 0; i < Items; ++i) {
      const T value = values[i];
      results[i] = before;
      before = combine(before, value);
    }
  }
  /* The first warp calls the function; its first thread's result counts. */
  template <class P> LONGSHORE_METHOD_ T before_block(P &prefix, T total) {
    const unsigned int thread = longshore_thread_();
    if (thread < LONGSHORE_WARP_WIDTH_) {
      const T before = prefix(total);
      if (thread == 0) storage_.before[0] = before;
    }
    __syncthreads();
    return storage_.before[0];
  }
  TempStorage &storage_;
};

/* Each thread has consecutive elements, or in the striped forms every X-th one. */
template <class T, int X, int Items, BlockLoadAlgorithm Algorithm = BLOCK_LOAD_DIRECT, int Y = 1, int Z = 1, int = 0> class BlockLoad {
public:
  struct TempStorage {
    unsigned char none;
  };
  LONGSHORE_METHOD_ BlockLoad() {}
  LONGSHORE_METHOD_ BlockLoad(TempStorage &) {}
  template <class P> LONGSHORE_METHOD_ void Load(P from, T (&values)[Items]) {
    for (int i = 0; i < Items; ++i) values[i] = from[place(i)];
  }
  template <class P> LONGSHORE_METHOD_ void Load(P from, T (&values)[Items], int valid) {
    for (int i = 0; i < Items; ++i)
      if (place(i) < valid) values[i] = from[place(i)];
  }
  template <class P, class D> LONGSHORE_METHOD_ void Load(P from, T (&values)[Items], int valid, D other) {
    for (int i = 0; i < Items; ++i) values[i] = place(i) < valid ? from[place(i)] : T(other);
  }

private:
  LONGSHORE_CUDA_ int place(int i) {
    const int thread = (int)longshore_thread_();
    return Algorithm == BLOCK_LOAD_STRIPED ? i * X * Y * Z + thread : thread * Items + i;
  }
};
template <class T, int X, int Items, BlockStoreAlgorithm Algorithm = BLOCK_STORE_DIRECT, int Y = 1, int Z = 1, int = 0> class BlockStore {
public:
  struct TempStorage {
    unsigned char none;
  };
  LONGSHORE_METHOD_ BlockStore() {}
  LONGSHORE_METHOD_ BlockStore(TempStorage &) {}
  template <class P> LONGSHORE_METHOD_ void Store(P to, T (&values)[Items]) {
    for (int i = 0; i < Items; ++i) to[place(i)] = values[i];
  }
  template <class P> LONGSHORE_METHOD_ void Store(P to, T (&values)[Items], int valid) {
    for (int i = 0; i < Items; ++i)
      if (place(i) < valid) to[place(i)] = values[i];
  }

private:
  LONGSHORE_CUDA_ int place(int i) {
    const int thread = (int)longshore_thread_();
    return Algorithm == BLOCK_STORE_STRIPED ? i * X * Y * Z + thread : thread * Items + i;
  }
};

} // namespace cub

#include "cub_traits.h"

#include "cub_order.h"

#include "cub_warp.h"

namespace hipcub = cub;

#endif
