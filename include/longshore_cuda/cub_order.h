/*
 * longshore_cuda/cub_order.h: CUB's operations that move, sort and compare the elements of a block.
 * Part of longshore_cuda/cub.h.
 */
#ifndef LONGSHORE_CUB_ORDER_H
#define LONGSHORE_CUB_ORDER_H
#pragma clang system_header

namespace cub {

struct NullType {};

/* ---- Exchanges ------------------------------------------------------------------------------- */

/* Blocked: each thread has consecutive elements. Striped: every X-th one, or every 32nd one of its
 * warp. */
template <class T, int X, int Items, bool = false, int Y = 1, int Z = 1, int = 0> class BlockExchange {
public:
  struct TempStorage {
    longshore_values_<T, X * Y * Z * Items> values;
  };
  LONGSHORE_METHOD_ BlockExchange(TempStorage &storage) : storage_(storage) {}
  template <class U> LONGSHORE_METHOD_ void BlockedToStriped(const T (&in)[Items], U (&out)[Items]) {
    move(in, out, blocked, striped);
  }
  template <class U> LONGSHORE_METHOD_ void StripedToBlocked(const T (&in)[Items], U (&out)[Items]) {
    move(in, out, striped, blocked);
  }
  template <class U> LONGSHORE_METHOD_ void BlockedToWarpStriped(const T (&in)[Items], U (&out)[Items]) {
    move(in, out, blocked, warp_striped);
  }
  template <class U> LONGSHORE_METHOD_ void WarpStripedToBlocked(const T (&in)[Items], U (&out)[Items]) {
    move(in, out, warp_striped, blocked);
  }
  template <class U, class R> LONGSHORE_METHOD_ void ScatterToBlocked(const T (&in)[Items], U (&out)[Items], R (&ranks)[Items]) {
    move(in, out, [&](int, int i) { return (int)ranks[i]; }, blocked);
  }
  template <class U, class R> LONGSHORE_METHOD_ void ScatterToStriped(const T (&in)[Items], U (&out)[Items], R (&ranks)[Items]) {
    move(in, out, [&](int, int i) { return (int)ranks[i]; }, striped);
  }
  LONGSHORE_METHOD_ void BlockedToStriped(T (&values)[Items]) { BlockedToStriped(values, values); }
  LONGSHORE_METHOD_ void StripedToBlocked(T (&values)[Items]) { StripedToBlocked(values, values); }
  LONGSHORE_METHOD_ void BlockedToWarpStriped(T (&values)[Items]) { BlockedToWarpStriped(values, values); }
  LONGSHORE_METHOD_ void WarpStripedToBlocked(T (&values)[Items]) { WarpStripedToBlocked(values, values); }
  template <class R> LONGSHORE_METHOD_ void ScatterToBlocked(T (&values)[Items], R (&ranks)[Items]) {
    ScatterToBlocked(values, values, ranks);
  }
  template <class R> LONGSHORE_METHOD_ void ScatterToStriped(T (&values)[Items], R (&ranks)[Items]) {
    ScatterToStriped(values, values, ranks);
  }

private:
  LONGSHORE_CUDA_ int blocked(int thread, int i) { return thread * Items + i; }
  LONGSHORE_CUDA_ int striped(int thread, int i) { return i * X * Y * Z + thread; }
  LONGSHORE_CUDA_ int warp_striped(int thread, int i) { return thread / 32 * 32 * Items + i * 32 + thread % 32; }
  template <class U, class From, class To>
  LONGSHORE_METHOD_ void move(const T (&in)[Items], U (&out)[Items], From from, To to) {
    const int thread = (int)longshore_thread_();
    for (int i = 0; i < Items; ++i) storage_.values[from(thread, i)] = in[i];
    __syncthreads();
    for (int i = 0; i < Items; ++i) out[i] = storage_.values[to(thread, i)];
  }
  TempStorage &storage_;
};

/* ---- Sorts ----------------------------------------------------------------------------------- */

/* A number whose order as an integer is the one of the keys. */
template <class K> LONGSHORE_CUDA_ unsigned long long longshore_ordered_(const K &key) {
  typedef typename longshore_word_of_size_<sizeof(K)>::type Word;
  const Word top = (Word)((Word)1 << (8 * sizeof(Word) - 1));
  const Word bits = longshore_same_bits_<Word>(key);
  if (__is_integral(K)) return (K)-1 < (K)1 && sizeof(K) == sizeof(Word) && !__is_same(K, bool) ? (Word)(bits ^ top) : bits;
  if (bits == top) return top;
  return bits & top ? (Word)~bits : (Word)(bits | top);
}

/* The threads of an operation: their numbers, and a wait for each other. */
struct longshore_threads_of_block_ {
  LONGSHORE_CUDA_ int thread() { return (int)longshore_thread_(); }
  LONGSHORE_CUDA_ void wait() { __syncthreads(); }
};
template <int Width> struct longshore_threads_of_warp_ {
  LONGSHORE_CUDA_ int thread() { return (int)(__lane_id() % Width); }
  LONGSHORE_CUDA_ void wait() {
    const unsigned int all = (unsigned int)((1ull << Width) - 1);
    __syncwarp(all << (__lane_id() / Width * Width));
  }
};

/* Merges of sorted runs, in which each element finds its place by the number of elements before it
 * in the other run. Equal elements keep their order. */
template <class K, int Threads, int Items, class V, class Among = longshore_threads_of_block_> struct longshore_sort_ {
  struct TempStorage {
    longshore_values_<K, Threads * Items> keys;
    longshore_values_<V, Threads * Items> values;
  };
  template <class Less>
  LONGSHORE_CUDA_ void sort(TempStorage &storage, K (&keys)[Items], V (&values)[Items], Less less) {
    const int first = Among::thread() * Items, count = Threads * Items;
    int places[Items];
    for (int i = 0; i < Items; ++i) places[i] = first + i;
    for (int run = 1;; run *= 2) {
      for (int i = 0; i < Items; ++i) {
        storage.keys[places[i]] = keys[i];
        storage.values[places[i]] = values[i];
      }
      Among::wait();
      for (int i = 0; i < Items; ++i) {
        keys[i] = storage.keys[first + i];
        values[i] = storage.values[first + i];
      }
      if (run >= count) break;
      for (int i = 0; i < Items; ++i) places[i] = place(storage, first + i, keys[i], run, count, less);
      Among::wait();
    }
  }

private:
  template <class Less>
  LONGSHORE_CUDA_ int place(TempStorage &storage, int at, const K &key, int run, int count, Less less) {
    const bool is_left = at / run % 2 == 0;
    const int begin = at / (2 * run) * (2 * run), other = is_left ? begin + run : begin;
    int low = other < count ? other : count, high = other + run < count ? other + run : count;
    const int base = low;
    while (low < high) {
      const int middle = (low + high) / 2;
      const K &seen = storage.keys[middle];
      const bool is_before = is_left ? less(seen, key) : !less(key, seen);
      if (is_before) low = middle + 1;
      else high = middle;
    }
    return begin + (is_left ? at - begin : at - begin - run) + (low - base);
  }
};

template <class K, int X, int Items, class V = NullType, int = 4, bool = true, BlockScanAlgorithm = BLOCK_SCAN_WARP_SCANS, int = 0,
          int Y = 1, int Z = 1, int = 0>
class BlockRadixSort {
  typedef longshore_sort_<K, X * Y * Z, Items, V> Sorter;

public:
  typedef typename Sorter::TempStorage TempStorage;
  LONGSHORE_METHOD_ BlockRadixSort(TempStorage &storage) : storage_(storage) {}
  LONGSHORE_METHOD_ void Sort(K (&keys)[Items], V (&values)[Items], int begin = 0, int end = 8 * sizeof(K)) {
    Sorter::sort(storage_, keys, values, [=](const K &a, const K &b) { return part(a, begin, end) < part(b, begin, end); });
  }
  LONGSHORE_METHOD_ void SortDescending(K (&keys)[Items], V (&values)[Items], int begin = 0, int end = 8 * sizeof(K)) {
    Sorter::sort(storage_, keys, values, [=](const K &a, const K &b) { return part(a, begin, end) > part(b, begin, end); });
  }
  LONGSHORE_METHOD_ void SortBlockedToStriped(K (&keys)[Items], V (&values)[Items], int begin = 0, int end = 8 * sizeof(K)) {
    Sort(keys, values, begin, end);
    stripe(keys, values);
  }
  LONGSHORE_METHOD_ void SortDescendingBlockedToStriped(K (&keys)[Items], V (&values)[Items], int begin = 0,
                                                        int end = 8 * sizeof(K)) {
    SortDescending(keys, values, begin, end);
    stripe(keys, values);
  }
  LONGSHORE_METHOD_ void Sort(K (&keys)[Items], int begin = 0, int end = 8 * sizeof(K)) {
    V none[Items] = {};
    Sort(keys, none, begin, end);
  }
  LONGSHORE_METHOD_ void SortDescending(K (&keys)[Items], int begin = 0, int end = 8 * sizeof(K)) {
    V none[Items] = {};
    SortDescending(keys, none, begin, end);
  }
  LONGSHORE_METHOD_ void SortBlockedToStriped(K (&keys)[Items], int begin = 0, int end = 8 * sizeof(K)) {
    V none[Items] = {};
    SortBlockedToStriped(keys, none, begin, end);
  }
  LONGSHORE_METHOD_ void SortDescendingBlockedToStriped(K (&keys)[Items], int begin = 0, int end = 8 * sizeof(K)) {
    V none[Items] = {};
    SortDescendingBlockedToStriped(keys, none, begin, end);
  }

private:
  LONGSHORE_CUDA_ unsigned long long part(const K &key, int begin, int end) {
    const unsigned long long bits = longshore_ordered_(key);
    return (end < 64 ? bits & ((1ull << end) - 1) : bits) >> begin;
  }
  /* The storage has the sorted elements. */
  LONGSHORE_METHOD_ void stripe(K (&keys)[Items], V (&values)[Items]) {
    for (int i = 0; i < Items; ++i) {
      const int at = i * X * Y * Z + (int)longshore_thread_();
      keys[i] = storage_.keys[at];
      values[i] = storage_.values[at];
    }
  }
  TempStorage &storage_;
};

template <class K, int X, int Items, class V = NullType, int Y = 1, int Z = 1> class BlockMergeSort {
  typedef longshore_sort_<K, X * Y * Z, Items, V> Sorter;

public:
  typedef typename Sorter::TempStorage TempStorage;
  LONGSHORE_METHOD_ BlockMergeSort(TempStorage &storage) : storage_(storage) {}
  template <class Less> LONGSHORE_METHOD_ void Sort(K (&keys)[Items], V (&values)[Items], Less less) {
    Sorter::sort(storage_, keys, values, less);
  }
  template <class Less> LONGSHORE_METHOD_ void Sort(K (&keys)[Items], Less less) {
    V none[Items] = {};
    Sorter::sort(storage_, keys, none, less);
  }
  template <class Less> LONGSHORE_METHOD_ void StableSort(K (&keys)[Items], V (&values)[Items], Less less) {
    Sort(keys, values, less);
  }
  template <class Less> LONGSHORE_METHOD_ void StableSort(K (&keys)[Items], Less less) { Sort(keys, less); }

private:
  TempStorage &storage_;
};

/* ---- Neighbours and histograms --------------------------------------------------------------- */

template <class T, int X, int Y = 1, int Z = 1, int = 0> class BlockDiscontinuity {
public:
  struct TempStorage {
    longshore_values_<T, X * Y * Z> values;
  };
  LONGSHORE_METHOD_ BlockDiscontinuity(TempStorage &storage) : storage_(storage) {}
  template <int Items, class F, class Op> LONGSHORE_METHOD_ void FlagHeads(F (&heads)[Items], T (&values)[Items], Op differ) {
    flag_heads(heads, values, differ, (const T *)0);
  }
  template <int Items, class F, class Op>
  LONGSHORE_METHOD_ void FlagHeads(F (&heads)[Items], T (&values)[Items], Op differ, T before) {
    flag_heads(heads, values, differ, &before);
  }
  template <int Items, class F, class Op> LONGSHORE_METHOD_ void FlagTails(F (&tails)[Items], T (&values)[Items], Op differ) {
    flag_tails(tails, values, differ, (const T *)0);
  }
  template <int Items, class F, class Op>
  LONGSHORE_METHOD_ void FlagTails(F (&tails)[Items], T (&values)[Items], Op differ, T after) {
    flag_tails(tails, values, differ, &after);
  }
  template <int Items, class F, class Op>
  LONGSHORE_METHOD_ void FlagHeadsAndTails(F (&heads)[Items], F (&tails)[Items], T (&values)[Items], Op differ) {
    FlagHeads(heads, values, differ);
    __syncthreads();
    FlagTails(tails, values, differ);
  }

private:
  template <int Items, class F, class Op>
  LONGSHORE_METHOD_ void flag_heads(F (&heads)[Items], T (&values)[Items], Op differ, const T *before) {
    const int thread = (int)longshore_thread_();
    storage_.values[thread] = values[Items - 1];
    __syncthreads();
    const bool is_first = thread == 0;
    if (is_first) heads[0] = before ? (F)differ(*before, values[0]) : (F)1;
    else heads[0] = (F)differ(storage_.values[thread - 1], values[0]);
    for (int i = 1; i < Items; ++i) heads[i] = (F)differ(values[i - 1], values[i]);
  }
  template <int Items, class F, class Op>
  LONGSHORE_METHOD_ void flag_tails(F (&tails)[Items], T (&values)[Items], Op differ, const T *after) {
    const int thread = (int)longshore_thread_();
    storage_.values[thread] = values[0];
    __syncthreads();
    for (int i = 0; i + 1 < Items; ++i) tails[i] = (F)differ(values[i], values[i + 1]);
    const bool is_last = thread == X * Y * Z - 1;
    if (is_last) tails[Items - 1] = after ? (F)differ(values[Items - 1], *after) : (F)1;
    else tails[Items - 1] = (F)differ(values[Items - 1], storage_.values[thread + 1]);
  }
  TempStorage &storage_;
};

enum BlockHistogramAlgorithm { BLOCK_HISTO_SORT, BLOCK_HISTO_ATOMIC };
template <class T, int X, int Items, int Bins, BlockHistogramAlgorithm = BLOCK_HISTO_SORT, int Y = 1, int Z = 1, int = 0>
class BlockHistogram {
public:
  struct TempStorage {
    unsigned char none;
  };
  LONGSHORE_METHOD_ BlockHistogram(TempStorage &) {}
  template <class C> LONGSHORE_METHOD_ void InitHistogram(C (&counts)[Bins]) {
    for (int bin = (int)longshore_thread_(); bin < Bins; bin += X * Y * Z) counts[bin] = 0;
  }
  template <class C> LONGSHORE_METHOD_ void Composite(T (&values)[Items], C (&counts)[Bins]) {
    for (int i = 0; i < Items; ++i) atomicAdd(&counts[values[i]], (C)1);
  }
  template <class C> LONGSHORE_METHOD_ void Histogram(T (&values)[Items], C (&counts)[Bins]) {
    InitHistogram(counts);
    __syncthreads();
    Composite(values, counts);
  }
};

/* ---- Loads, stores, iterators ---------------------------------------------------------------- */

enum CacheLoadModifier { LOAD_DEFAULT, LOAD_CA, LOAD_CG, LOAD_CS, LOAD_CV, LOAD_LDG, LOAD_VOLATILE };
enum CacheStoreModifier { STORE_DEFAULT, STORE_WB, STORE_CG, STORE_CS, STORE_WT, STORE_VOLATILE };
template <CacheLoadModifier, class P> LONGSHORE_CUDA_ auto ThreadLoad(P from) { return *from; }
template <CacheStoreModifier, class P, class T> LONGSHORE_CUDA_ void ThreadStore(P to, T value) { *to = value; }

template <class T, class P, int Items> LONGSHORE_CUDA_ void LoadDirectBlocked(int thread, P from, T (&values)[Items]) {
  for (int i = 0; i < Items; ++i) values[i] = from[thread * Items + i];
}
template <class T, class P, int Items> LONGSHORE_CUDA_ void LoadDirectBlocked(int thread, P from, T (&values)[Items], int valid) {
  for (int i = 0; i < Items; ++i)
    if (thread * Items + i < valid) values[i] = from[thread * Items + i];
}
template <int X, class T, class P, int Items> LONGSHORE_CUDA_ void LoadDirectStriped(int thread, P from, T (&values)[Items]) {
  for (int i = 0; i < Items; ++i) values[i] = from[i * X + thread];
}
template <int X, class T, class P, int Items>
LONGSHORE_CUDA_ void LoadDirectStriped(int thread, P from, T (&values)[Items], int valid) {
  for (int i = 0; i < Items; ++i)
    if (i * X + thread < valid) values[i] = from[i * X + thread];
}
template <class T, class P, int Items> LONGSHORE_CUDA_ void StoreDirectBlocked(int thread, P to, T (&values)[Items]) {
  for (int i = 0; i < Items; ++i) to[thread * Items + i] = values[i];
}
template <class T, class P, int Items> LONGSHORE_CUDA_ void StoreDirectBlocked(int thread, P to, T (&values)[Items], int valid) {
  for (int i = 0; i < Items; ++i)
    if (thread * Items + i < valid) to[thread * Items + i] = values[i];
}
template <int X, class T, class P, int Items> LONGSHORE_CUDA_ void StoreDirectStriped(int thread, P to, T (&values)[Items]) {
  for (int i = 0; i < Items; ++i) to[i * X + thread] = values[i];
}
template <int X, class T, class P, int Items>
LONGSHORE_CUDA_ void StoreDirectStriped(int thread, P to, T (&values)[Items], int valid) {
  for (int i = 0; i < Items; ++i)
    if (i * X + thread < valid) to[i * X + thread] = values[i];
}

template <int Width, class T> LONGSHORE_CUDA_ T ShuffleIndex(T value, int lane, unsigned int lanes) {
  return __shfl_sync(lanes, value, lane, Width);
}
template <int Width, class T> LONGSHORE_CUDA_ T ShuffleUp(T value, int distance, int first, unsigned int lanes) {
  const int lane = (int)(__lane_id() % Width);
  const T other = __shfl_up_sync(lanes, value, (unsigned int)distance, Width);
  return lane - distance >= first ? other : value;
}
template <int Width, class T> LONGSHORE_CUDA_ T ShuffleDown(T value, int distance, int last, unsigned int lanes) {
  const int lane = (int)(__lane_id() % Width);
  const T other = __shfl_down_sync(lanes, value, (unsigned int)distance, Width);
  return lane + distance <= last ? other : value;
}

/* Sequences that need no memory, or change its elements. */
#define LONGSHORE_ITERATOR_(name, T, read)                                                                            \
  typedef T value_type, reference;                                                                                    \
  typedef long long difference_type;                                                                                  \
  LONGSHORE_METHOD_OF_BOTH_ T operator[](long long n) const { return *(*this + n); }                                  \
  LONGSHORE_METHOD_OF_BOTH_ T operator*() const { return read; }                                                      \
  LONGSHORE_METHOD_OF_BOTH_ name &operator++() { return *this = *this + 1; }
template <class T, class Offset = long long> struct CountingInputIterator {
  LONGSHORE_METHOD_OF_BOTH_ CountingInputIterator(T first) : at(first) {}
  LONGSHORE_METHOD_OF_BOTH_ CountingInputIterator operator+(long long n) const { return CountingInputIterator((T)(at + n)); }
  LONGSHORE_ITERATOR_(CountingInputIterator, T, at)
  T at;
};
template <class T, class Offset = long long> struct ConstantInputIterator {
  LONGSHORE_METHOD_OF_BOTH_ ConstantInputIterator(T value, long long = 0) : value(value) {}
  LONGSHORE_METHOD_OF_BOTH_ ConstantInputIterator operator+(long long) const { return *this; }
  LONGSHORE_ITERATOR_(ConstantInputIterator, T, value)
  T value;
};
template <class T, class F, class P, class Offset = long long> struct TransformInputIterator {
  LONGSHORE_METHOD_OF_BOTH_ TransformInputIterator(P from, F change) : from(from), change(change) {}
  LONGSHORE_METHOD_OF_BOTH_ TransformInputIterator operator+(long long n) const {
    return TransformInputIterator(from + n, change);
  }
  LONGSHORE_ITERATOR_(TransformInputIterator, T, (T)change(*from))
  P from;
  F change;
};
template <CacheLoadModifier Modifier, class T, class Offset = long long> struct CacheModifiedInputIterator {
  LONGSHORE_METHOD_OF_BOTH_ CacheModifiedInputIterator(const T *from) : from(from) {}
  LONGSHORE_METHOD_OF_BOTH_ CacheModifiedInputIterator operator+(long long n) const {
    return CacheModifiedInputIterator(from + n);
  }
  LONGSHORE_ITERATOR_(CacheModifiedInputIterator, T, *from)
  const T *from;
};

} // namespace cub

#endif
