/*
 * longshore_cuda/libcu.h: atomics, barriers, pipelines and the standard library's types of libcu++,
 * in namespace `cuda`. `longshore cc` includes it for <cuda/atomic>, <cuda/barrier>,
 * <cuda/pipeline>, <cuda/std/atomic> and their relatives.
 */
#ifndef LONGSHORE_LIBCU_H
#define LONGSHORE_LIBCU_H
#pragma clang system_header

#include "../longshore_cuda.h"
#if __has_include(<type_traits>)
#include <array>
#include <cfloat>
#include <climits>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>
#endif

namespace cuda {

/* ---- The standard library -------------------------------------------------------------------- */

enum memory_order {
  memory_order_relaxed = LONGSHORE_RELAXED,
  memory_order_consume = LONGSHORE_ACQUIRE,
  memory_order_acquire = LONGSHORE_ACQUIRE,
  memory_order_release = LONGSHORE_RELEASE,
  memory_order_acq_rel = LONGSHORE_ACQ_REL,
  memory_order_seq_cst = LONGSHORE_SEQ_CST
};
enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };

/* ---- Atomics --------------------------------------------------------------------------------- */

/* An operation with the scope and the order of the call, which the compiler knows. */
#define LONGSHORE_SCOPED_(operation, order, ...)                                                                      \
  switch (Scope) {                                                                                                    \
  case thread_scope_system: LONGSHORE_ORDERED_(operation, order, LONGSHORE_SCOPE_SYSTEM, __VA_ARGS__)                 \
  case thread_scope_device: LONGSHORE_ORDERED_(operation, order, LONGSHORE_SCOPE_DEVICE, __VA_ARGS__)                 \
  default: LONGSHORE_ORDERED_(operation, order, LONGSHORE_SCOPE_GROUP, __VA_ARGS__)                                   \
  }
#define LONGSHORE_ORDERED_(operation, order, scope, ...)                                                              \
  return order == memory_order_relaxed ? longshore_atomic_##operation##_explicit(__VA_ARGS__, LONGSHORE_RELAXED, scope) \
                                       : longshore_atomic_##operation##_explicit(__VA_ARGS__, LONGSHORE_SEQ_CST, scope);

template <class T, thread_scope Scope = thread_scope_system> class atomic_ref {
public:
  LONGSHORE_METHOD_OF_BOTH_ explicit atomic_ref(T &value) : value_(&value) {}
  LONGSHORE_METHOD_ T load(memory_order order = memory_order_seq_cst) const { LONGSHORE_SCOPED_(load, order, value_) }
  LONGSHORE_METHOD_ void store(T v, memory_order order = memory_order_seq_cst) const { LONGSHORE_SCOPED_(store, order, value_, v) }
  LONGSHORE_METHOD_ T exchange(T v, memory_order order = memory_order_seq_cst) const { LONGSHORE_SCOPED_(exchange, order, value_, v) }
  LONGSHORE_METHOD_ bool compare_exchange_strong(T &expected, T v, memory_order order = memory_order_seq_cst,
                                                 memory_order = memory_order_seq_cst) const {
    LONGSHORE_SCOPED_(compare_exchange, order, value_, &expected, v)
  }
  LONGSHORE_METHOD_ bool compare_exchange_weak(T &expected, T v, memory_order order = memory_order_seq_cst,
                                               memory_order = memory_order_seq_cst) const {
    LONGSHORE_SCOPED_(compare_exchange, order, value_, &expected, v)
  }
  LONGSHORE_METHOD_ T fetch_add(T v, memory_order order = memory_order_seq_cst) const { LONGSHORE_SCOPED_(add, order, value_, v) }
  LONGSHORE_METHOD_ T fetch_sub(T v, memory_order order = memory_order_seq_cst) const { LONGSHORE_SCOPED_(sub, order, value_, v) }
  LONGSHORE_METHOD_ T fetch_min(T v, memory_order order = memory_order_seq_cst) const { LONGSHORE_SCOPED_(min, order, value_, v) }
  LONGSHORE_METHOD_ T fetch_max(T v, memory_order order = memory_order_seq_cst) const { LONGSHORE_SCOPED_(max, order, value_, v) }
  LONGSHORE_METHOD_ T fetch_and(T v, memory_order order = memory_order_seq_cst) const { LONGSHORE_SCOPED_(and, order, value_, v) }
  LONGSHORE_METHOD_ T fetch_or(T v, memory_order order = memory_order_seq_cst) const { LONGSHORE_SCOPED_(or, order, value_, v) }
  LONGSHORE_METHOD_ T fetch_xor(T v, memory_order order = memory_order_seq_cst) const { LONGSHORE_SCOPED_(xor, order, value_, v) }
  LONGSHORE_METHOD_ void wait(T old, memory_order order = memory_order_seq_cst) const {
    while (load(order) == old) __nanosleep(20);
  }
  LONGSHORE_METHOD_ void notify_one() const {}
  LONGSHORE_METHOD_ void notify_all() const {}
  LONGSHORE_METHOD_ operator T() const { return load(); }
  LONGSHORE_METHOD_ T operator=(T v) const {
    store(v);
    return v;
  }
  LONGSHORE_METHOD_ T operator++(int) const { return fetch_add((T)1); }
  LONGSHORE_METHOD_ T operator--(int) const { return fetch_sub((T)1); }
  LONGSHORE_METHOD_ T operator++() const { return fetch_add((T)1) + (T)1; }
  LONGSHORE_METHOD_ T operator--() const { return fetch_sub((T)1) - (T)1; }
  LONGSHORE_METHOD_ T operator+=(T v) const { return fetch_add(v) + v; }
  LONGSHORE_METHOD_ T operator-=(T v) const { return fetch_sub(v) - v; }
  LONGSHORE_METHOD_ T operator&=(T v) const { return fetch_and(v) & v; }
  LONGSHORE_METHOD_ T operator|=(T v) const { return fetch_or(v) | v; }
  LONGSHORE_METHOD_ T operator^=(T v) const { return fetch_xor(v) ^ v; }

private:
  T *value_;
};

#define LONGSHORE_BY_REF_(result, name, parameters, ...)                                                              \
  LONGSHORE_METHOD_ result name parameters { return atomic_ref<T, Scope>(value_).name(__VA_ARGS__); }
template <class T, thread_scope Scope = thread_scope_system> class atomic {
public:
  atomic() = default;
  LONGSHORE_METHOD_OF_BOTH_ constexpr atomic(T value) : value_(value) {}
  atomic(const atomic &) = delete;
  atomic &operator=(const atomic &) = delete;
  LONGSHORE_METHOD_ T load(memory_order order = memory_order_seq_cst) const {
    return atomic_ref<T, Scope>(const_cast<T &>(value_)).load(order);
  }
  LONGSHORE_METHOD_ void wait(T old, memory_order order = memory_order_seq_cst) const {
    atomic_ref<T, Scope>(const_cast<T &>(value_)).wait(old, order);
  }
  LONGSHORE_METHOD_ void notify_one() const {}
  LONGSHORE_METHOD_ void notify_all() const {}
  LONGSHORE_BY_REF_(void, store, (T v, memory_order order = memory_order_seq_cst), v, order)
  LONGSHORE_BY_REF_(T, exchange, (T v, memory_order order = memory_order_seq_cst), v, order)
  LONGSHORE_BY_REF_(T, fetch_add, (T v, memory_order order = memory_order_seq_cst), v, order)
  LONGSHORE_BY_REF_(T, fetch_sub, (T v, memory_order order = memory_order_seq_cst), v, order)
  LONGSHORE_BY_REF_(T, fetch_min, (T v, memory_order order = memory_order_seq_cst), v, order)
  LONGSHORE_BY_REF_(T, fetch_max, (T v, memory_order order = memory_order_seq_cst), v, order)
  LONGSHORE_BY_REF_(T, fetch_and, (T v, memory_order order = memory_order_seq_cst), v, order)
  LONGSHORE_BY_REF_(T, fetch_or, (T v, memory_order order = memory_order_seq_cst), v, order)
  LONGSHORE_BY_REF_(T, fetch_xor, (T v, memory_order order = memory_order_seq_cst), v, order)
  LONGSHORE_BY_REF_(bool, compare_exchange_strong,
                    (T & expected, T v, memory_order order = memory_order_seq_cst, memory_order = memory_order_seq_cst),
                    expected, v, order)
  LONGSHORE_BY_REF_(bool, compare_exchange_weak,
                    (T & expected, T v, memory_order order = memory_order_seq_cst, memory_order = memory_order_seq_cst),
                    expected, v, order)
  LONGSHORE_METHOD_ operator T() const { return load(); }
  LONGSHORE_METHOD_ T operator=(T v) {
    store(v);
    return v;
  }
  LONGSHORE_METHOD_ T operator++(int) { return fetch_add((T)1); }
  LONGSHORE_METHOD_ T operator--(int) { return fetch_sub((T)1); }
  LONGSHORE_METHOD_ T operator++() { return fetch_add((T)1) + (T)1; }
  LONGSHORE_METHOD_ T operator--() { return fetch_sub((T)1) - (T)1; }
  LONGSHORE_METHOD_ T operator+=(T v) { return fetch_add(v) + v; }
  LONGSHORE_METHOD_ T operator-=(T v) { return fetch_sub(v) - v; }
  LONGSHORE_METHOD_ T operator&=(T v) { return fetch_and(v) & v; }
  LONGSHORE_METHOD_ T operator|=(T v) { return fetch_or(v) | v; }
  LONGSHORE_METHOD_ T operator^=(T v) { return fetch_xor(v) ^ v; }

private:
  T value_;
};
typedef atomic<int> atomic_int;
typedef atomic<unsigned int> atomic_uint;
LONGSHORE_CUDA_ void atomic_thread_fence(memory_order order, thread_scope scope = thread_scope_system) {
  if (order == memory_order_relaxed) return;
  if (scope == thread_scope_block) __threadfence_block();
  else if (scope == thread_scope_device) __threadfence();
  else __threadfence_system();
}

namespace std {
using namespace ::std;
using ::cuda::memory_order;
using ::cuda::memory_order_acq_rel;
using ::cuda::memory_order_acquire;
using ::cuda::memory_order_relaxed;
using ::cuda::memory_order_release;
using ::cuda::memory_order_seq_cst;
template <class T> using atomic = ::cuda::atomic<T, thread_scope_system>;
template <class T> using atomic_ref = ::cuda::atomic_ref<T, thread_scope_system>;
} // namespace std

/* ---- Barriers -------------------------------------------------------------------------------- */

/* Threads that arrive, and wait for the others of their phase. On a CPU, a waiting thread lets the
 * other threads of its block run. */
template <thread_scope Scope = thread_scope_system, class Completion = void> class barrier {
public:
  typedef unsigned int arrival_token;
  barrier() = default;
  LONGSHORE_METHOD_ explicit barrier(ptrdiff_t expected) { longshore_start(expected); }
  barrier(const barrier &) = delete;
  LONGSHORE_METHOD_ void longshore_start(ptrdiff_t expected) {
    ref(expected_).store((unsigned int)expected, memory_order_relaxed);
    ref(missing_).store((unsigned int)expected, memory_order_relaxed);
    ref(phase_).store(0u, memory_order_relaxed);
  }
  LONGSHORE_METHOD_ arrival_token arrive(ptrdiff_t count = 1) {
    atomic_thread_fence(memory_order_release, Scope);
    const arrival_token phase = ref(phase_).load(memory_order_relaxed);
    if (ref(missing_).fetch_sub((unsigned int)count, memory_order_relaxed) == (unsigned int)count) {
      ref(missing_).store(ref(expected_).load(memory_order_relaxed), memory_order_relaxed);
      atomic_thread_fence(memory_order_release, Scope);
      ref(phase_).store(phase + 1, memory_order_relaxed);
    }
    return phase;
  }
  LONGSHORE_METHOD_ void wait(const arrival_token &token) const {
    while (ref(phase_).load(memory_order_relaxed) == token) __nanosleep(20);
    atomic_thread_fence(memory_order_acquire, Scope);
  }
  LONGSHORE_METHOD_ void wait_parity(bool parity) const {
    while (((ref(phase_).load(memory_order_relaxed) & 1) != 0) == parity) __nanosleep(20);
    atomic_thread_fence(memory_order_acquire, Scope);
  }
  LONGSHORE_METHOD_ bool try_wait(const arrival_token &token) const {
    const bool is_over = ref(phase_).load(memory_order_relaxed) != token;
    if (!is_over) __nanosleep(20);
    else atomic_thread_fence(memory_order_acquire, Scope);
    return is_over;
  }
  LONGSHORE_METHOD_ void arrive_and_wait() { wait(arrive()); }
  LONGSHORE_METHOD_ arrival_token longshore_leave() {
    ref(expected_).fetch_sub(1u, memory_order_relaxed);
    return arrive();
  }
  LONGSHORE_METHOD_ void arrive_and_drop() { (void)longshore_leave(); }

private:
  LONGSHORE_CUDA_ atomic_ref<unsigned int, Scope> ref(const unsigned int &value) {
    return atomic_ref<unsigned int, Scope>(const_cast<unsigned int &>(value));
  }
  unsigned int expected_, missing_, phase_;
};
template <thread_scope Scope> LONGSHORE_METHOD_ void init(barrier<Scope> *bar, ptrdiff_t expected) {
  bar->longshore_start(expected);
}

/* ---- Copies and pipelines -------------------------------------------------------------------- */

/* A number of bytes of which the alignment is known. */
template <size_t Alignment> struct aligned_size_t {
  static constexpr size_t align = Alignment;
  size_t value;
  LONGSHORE_METHOD_OF_BOTH_ explicit aligned_size_t(size_t size) : value(size) {}
  __host__ __device__ operator size_t() const { return value; }
};

/* The copies are done at once, so that a pipeline has nothing to wait for but other threads. Its
 * threads all produce and consume, or each has a role. With roles, a stage counts the threads that
 * have filled it, and the ones that have read it. */
enum class pipeline_role { producer, consumer };
template <thread_scope Scope, unsigned char Stages> class pipeline_shared_state {
public:
  unsigned int longshore_counts_[2 + 2 * Stages];
};
template <thread_scope Scope> class pipeline {
public:
  LONGSHORE_METHOD_ explicit pipeline(bool is_of_group = false) : is_of_group_(is_of_group) {}
  LONGSHORE_METHOD_ pipeline(unsigned int *counts, unsigned int stages)
      : is_of_group_(false), counts_(counts), stages_(stages) {}
  LONGSHORE_METHOD_ void producer_acquire() {
    if (is_of_group_) __syncthreads();
    if (counts_ != nullptr) wait(stages_ + stage_, 1, round_);
  }
  LONGSHORE_METHOD_ void producer_commit() { leave(0); }
  LONGSHORE_METHOD_ void consumer_wait() {
    if (is_of_group_) __syncthreads();
    if (counts_ != nullptr) wait(stage_, 0, round_ + 1);
  }
  LONGSHORE_METHOD_ void consumer_release() { leave(stages_); }
  LONGSHORE_METHOD_ bool quit() { return true; }

private:
  LONGSHORE_METHOD_ atomic_ref<unsigned int, Scope> count(unsigned int stage) const {
    return atomic_ref<unsigned int, Scope>(counts_[2 + stage]);
  }
  /* Waits until all threads of a role have left a stage for some times. */
  LONGSHORE_METHOD_ void wait(unsigned int stage, unsigned int role, unsigned int times) const {
    while (count(stage).load(memory_order_relaxed) < counts_[role] * times) __nanosleep(20);
    atomic_thread_fence(memory_order_acquire, Scope);
  }
  LONGSHORE_METHOD_ void leave(unsigned int first) {
    if (counts_ == nullptr) return;
    atomic_thread_fence(memory_order_release, Scope);
    count(first + stage_).fetch_add(1u, memory_order_relaxed);
    stage_ = stage_ + 1 == stages_ ? 0 : stage_ + 1;
    round_ += stage_ == 0;
  }
  bool is_of_group_;
  /* The threads of both roles, then for each stage the ones that filled it, and that read it. */
  unsigned int *counts_ = nullptr;
  unsigned int stages_ = 0, stage_ = 0, round_ = 0;
};
LONGSHORE_CUDA_ pipeline<thread_scope_thread> make_pipeline() { return pipeline<thread_scope_thread>(); }
template <class Group, thread_scope Scope, unsigned char Stages>
LONGSHORE_CUDA_ pipeline<Scope> make_pipeline(const Group &, pipeline_shared_state<Scope, Stages> *) {
  return pipeline<Scope>(true);
}
template <class Group, thread_scope Scope, unsigned char Stages>
LONGSHORE_CUDA_ pipeline<Scope> make_pipeline(const Group &group, pipeline_shared_state<Scope, Stages> *state,
                                              pipeline_role role) {
  unsigned int *counts = state->longshore_counts_;
  if (group.thread_rank() == 0)
    for (unsigned int i = 0; i < 2 + 2 * Stages; ++i) counts[i] = 0;
  group.sync();
  atomic_ref<unsigned int, Scope>(counts[role == pipeline_role::producer ? 0 : 1]).fetch_add(1u);
  group.sync();
  return pipeline<Scope>(counts, Stages);
}
template <class Group, thread_scope Scope, unsigned char Stages>
LONGSHORE_CUDA_ pipeline<Scope> make_pipeline(const Group &group, pipeline_shared_state<Scope, Stages> *state,
                                              size_t producers) {
  const bool produces = group.thread_rank() < producers;
  return make_pipeline(group, state, produces ? pipeline_role::producer : pipeline_role::consumer);
}
template <unsigned char Prior> LONGSHORE_CUDA_ void pipeline_consumer_wait_prior(pipeline<thread_scope_thread> &) {}
template <class T> LONGSHORE_CUDA_ void longshore_copy_(T *to, const T *from, size_t bytes) {
  __builtin_memcpy((void *)to, (const void *)from, bytes);
}
template <class T, class Size, class Sync> LONGSHORE_CUDA_ void memcpy_async(T *to, const T *from, Size bytes, Sync &) {
  longshore_copy_(to, from, (size_t)bytes);
}
template <class Size, class Sync> LONGSHORE_CUDA_ void memcpy_async(void *to, const void *from, Size bytes, Sync &) {
  __builtin_memcpy(to, from, (size_t)bytes);
}
template <class Group, class T, class Size, class Sync>
LONGSHORE_CUDA_ void memcpy_async(const Group &group, T *to, const T *from, Size bytes, Sync &) {
  for (size_t at = group.thread_rank(); at < (size_t)bytes / sizeof(T); at += group.size()) to[at] = from[at];
}

} // namespace cuda

/* ---- The functions of <cuda_pipeline.h> ------------------------------------------------------ */

LONGSHORE_CUDA_ void __pipeline_memcpy_async(void *to, const void *from, size_t bytes, size_t zeros = 0) {
  for (size_t at = 0; at < bytes; ++at) ((char *)to)[at] = at < bytes - zeros ? ((const char *)from)[at] : (char)0;
}
LONGSHORE_CUDA_ void __pipeline_commit() {}
LONGSHORE_CUDA_ void __pipeline_wait_prior(size_t) {}

/* ---- The functions of <cuda_awbarrier_primitives.h> ------------------------------------------ */

typedef cuda::barrier<cuda::thread_scope_block> __mbarrier_t;
typedef __mbarrier_t::arrival_token __mbarrier_token_t;
LONGSHORE_CUDA_ unsigned int __mbarrier_maximum_count() { return (1u << 20) - 1; }
LONGSHORE_CUDA_ void __mbarrier_init(__mbarrier_t *barrier, unsigned int expected) { barrier->longshore_start(expected); }
LONGSHORE_CUDA_ void __mbarrier_inval(__mbarrier_t *) {}
LONGSHORE_CUDA_ __mbarrier_token_t __mbarrier_arrive(__mbarrier_t *barrier) { return barrier->arrive(); }
LONGSHORE_CUDA_ __mbarrier_token_t __mbarrier_arrive_and_drop(__mbarrier_t *barrier) {
  return barrier->longshore_leave();
}
LONGSHORE_CUDA_ bool __mbarrier_test_wait(__mbarrier_t *barrier, __mbarrier_token_t token) {
  return barrier->try_wait(token);
}
LONGSHORE_CUDA_ bool __mbarrier_try_wait(__mbarrier_t *barrier, __mbarrier_token_t token, unsigned int = 0) {
  return barrier->try_wait(token);
}

#endif
