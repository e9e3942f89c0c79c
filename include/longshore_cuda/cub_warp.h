/*
 * longshore_cuda/cub_warp.h: CUB's operations that move and sort the elements of a warp, or of a
 * part of one. Part of longshore_cuda/cub.h.
 */
#ifndef LONGSHORE_CUB_WARP_H
#define LONGSHORE_CUB_WARP_H
#pragma clang system_header

namespace cub {

enum WarpExchangeAlgorithm { WARP_EXCHANGE_SMEM, WARP_EXCHANGE_SHUFFLE };

/* Blocked: each thread has consecutive elements. Striped: every Width-th one. */
template <class T, int Items, int Width = 32, int = 0, WarpExchangeAlgorithm = WARP_EXCHANGE_SMEM> class WarpExchange {
public:
  struct TempStorage {
    longshore_values_<T, Width * Items> values;
  };
  LONGSHORE_METHOD_ explicit WarpExchange(TempStorage &storage) : storage_(storage) {}
  template <class U> LONGSHORE_METHOD_ void BlockedToStriped(const T (&in)[Items], U (&out)[Items]) {
    move(in, out, blocked, striped);
  }
  template <class U> LONGSHORE_METHOD_ void StripedToBlocked(const T (&in)[Items], U (&out)[Items]) {
    move(in, out, striped, blocked);
  }
  template <class U, class R> LONGSHORE_METHOD_ void ScatterToStriped(const T (&in)[Items], U (&out)[Items], R (&ranks)[Items]) {
    move(in, out, [&](int, int i) { return (int)ranks[i]; }, striped);
  }
  template <class R> LONGSHORE_METHOD_ void ScatterToStriped(T (&values)[Items], R (&ranks)[Items]) {
    ScatterToStriped(values, values, ranks);
  }

private:
  LONGSHORE_CUDA_ int blocked(int lane, int i) { return lane * Items + i; }
  LONGSHORE_CUDA_ int striped(int lane, int i) { return i * Width + lane; }
  template <class U, class From, class To>
  LONGSHORE_METHOD_ void move(const T (&in)[Items], U (&out)[Items], From from, To to) {
    const int lane = longshore_threads_of_warp_<Width>::thread();
    for (int i = 0; i < Items; ++i) storage_.values[from(lane, i)] = in[i];
    longshore_threads_of_warp_<Width>::wait();
    for (int i = 0; i < Items; ++i) out[i] = storage_.values[to(lane, i)];
  }
  TempStorage &storage_;
};

/* The sorts of elements beyond `valid` count them as `last`, which is behind all others. */
template <class K, int Items, int Width = 32, class V = NullType, int = 0> class WarpMergeSort {
  typedef longshore_sort_<K, Width, Items, V, longshore_threads_of_warp_<Width>> Sorter;

public:
  typedef typename Sorter::TempStorage TempStorage;
  LONGSHORE_METHOD_ explicit WarpMergeSort(TempStorage &storage) : storage_(storage) {}
  template <class Less> LONGSHORE_METHOD_ void Sort(K (&keys)[Items], V (&values)[Items], Less less) {
    Sorter::sort(storage_, keys, values, less);
  }
  template <class Less> LONGSHORE_METHOD_ void Sort(K (&keys)[Items], V (&values)[Items], Less less, int valid, K last) {
    const int first = longshore_threads_of_warp_<Width>::thread() * Items;
    for (int i = 0; i < Items; ++i)
      if (first + i >= valid) keys[i] = last;
    Sort(keys, values, less);
  }
  template <class Less> LONGSHORE_METHOD_ void Sort(K (&keys)[Items], Less less) {
    V none[Items] = {};
    Sort(keys, none, less);
  }
  template <class Less> LONGSHORE_METHOD_ void Sort(K (&keys)[Items], Less less, int valid, K last) {
    V none[Items] = {};
    Sort(keys, none, less, valid, last);
  }
  template <class... A> LONGSHORE_METHOD_ void StableSort(K (&keys)[Items], A &&...arguments) {
    Sort(keys, static_cast<A &&>(arguments)...);
  }

private:
  TempStorage &storage_;
};

} // namespace cub

#endif
