/*
 * longshore_cuda/memory.h: fences, atomic operations, loads and stores. Part of longshore_cuda.h.
 */
#ifndef LONGSHORE_CUDA_MEMORY_H
#define LONGSHORE_CUDA_MEMORY_H
#pragma clang system_header

LONGSHORE_CUDA_ void longshore_cuda_fence_block_() { longshore_fence_(LONGSHORE_SEQ_CST, LONGSHORE_SCOPE_GROUP); }
LONGSHORE_CUDA_ void longshore_cuda_fence_device_() { longshore_fence_(LONGSHORE_SEQ_CST, LONGSHORE_SCOPE_DEVICE); }
LONGSHORE_CUDA_ void longshore_cuda_fence_system_() { longshore_fence_(LONGSHORE_SEQ_CST, LONGSHORE_SCOPE_SYSTEM); }
#define __threadfence_block() longshore_cuda_fence_block_()
#define __threadfence() longshore_cuda_fence_device_()
#define __threadfence_system() longshore_cuda_fence_system_()

/* ---- Atomic operations ----------------------------------------------------------------------- */

/* For the types that CUDA's functions lack, there are templates. A program may have functions for
 * these types: the parameters of the templates convert any value to T, which makes every function
 * of a program the better one. */
template <class T, class... Of> struct longshore_one_of_ {};
template <class T, class First, class... Of> struct longshore_one_of_<T, First, Of...> : longshore_one_of_<T, Of...> {};
template <class T, class... Of> struct longshore_one_of_<T, T, Of...> { typedef T type; };
template <class T> struct longshore_to_ {
  struct value {
    T of;
    template <class V> LONGSHORE_METHOD_ value(V v) : of((T)v) {}
  };
};
#define LONGSHORE_TO_(T) typename longshore_to_<T>::value
/* The scope of atomics without one is the device. */
#define LONGSHORE_SCOPED_(each, ...)                                                                                  \
  each(, LONGSHORE_SCOPE_DEVICE, __VA_ARGS__)                                                                         \
  each(_block, LONGSHORE_SCOPE_GROUP, __VA_ARGS__)                                                                    \
  each(_system, LONGSHORE_SCOPE_SYSTEM, __VA_ARGS__)
#define LONGSHORE_RMW_SCOPED_(suffix, scope, T, cuda, ours)                                                           \
  LONGSHORE_CUDA_ T atomic##cuda##suffix(T *p, T v) {                                                                 \
    return longshore_atomic_##ours##_explicit(p, v, LONGSHORE_RELAXED, scope);                                        \
  }
#define LONGSHORE_RMW_MORE_SCOPED_(suffix, scope, cuda, ours, ...)                                                    \
  template <class T>                                                                                                  \
  LONGSHORE_CUDA_ typename longshore_one_of_<T, __VA_ARGS__>::type atomic##cuda##suffix(T *p, LONGSHORE_TO_(T) v) {   \
    return longshore_atomic_##ours##_explicit(p, v.of, LONGSHORE_RELAXED, scope);                                     \
  }
#define LONGSHORE_RMW_(T, cuda, ours) LONGSHORE_SCOPED_(LONGSHORE_RMW_SCOPED_, T, cuda, ours)
#define LONGSHORE_RMW_MORE_(...) LONGSHORE_SCOPED_(LONGSHORE_RMW_MORE_SCOPED_, __VA_ARGS__)
#define LONGSHORE_RMW_INTEGER_(T)                                                                                     \
  LONGSHORE_RMW_(T, Add, add)                                                                                         \
  LONGSHORE_RMW_(T, Min, min)                                                                                         \
  LONGSHORE_RMW_(T, Max, max)                                                                                         \
  LONGSHORE_RMW_(T, And, and)                                                                                         \
  LONGSHORE_RMW_(T, Or, or)                                                                                           \
  LONGSHORE_RMW_(T, Xor, xor)                                                                                         \
  LONGSHORE_RMW_(T, Exch, exchange)
LONGSHORE_RMW_INTEGER_(int)
LONGSHORE_RMW_INTEGER_(unsigned int)
LONGSHORE_RMW_INTEGER_(unsigned long long)
LONGSHORE_RMW_(int, Sub, sub)
LONGSHORE_RMW_(unsigned int, Sub, sub)
LONGSHORE_RMW_(long long, Min, min)
LONGSHORE_RMW_(long long, Max, max)
LONGSHORE_RMW_(float, Add, add)
LONGSHORE_RMW_(float, Exch, exchange)
LONGSHORE_RMW_(double, Add, add)
LONGSHORE_RMW_MORE_(Add, add, long, unsigned long, long long)
LONGSHORE_RMW_MORE_(Sub, sub, long, unsigned long, long long, unsigned long long, float, double)
LONGSHORE_RMW_MORE_(Min, min, long, unsigned long, float, double)
LONGSHORE_RMW_MORE_(Max, max, long, unsigned long, float, double)
LONGSHORE_RMW_MORE_(And, and, long, unsigned long, long long)
LONGSHORE_RMW_MORE_(Or, or, long, unsigned long, long long)
LONGSHORE_RMW_MORE_(Xor, xor, long, unsigned long, long long)
LONGSHORE_RMW_MORE_(Exch, exchange, long, unsigned long, long long, double)

#define LONGSHORE_CAS_SCOPED_(suffix, scope, T)                                                                       \
  LONGSHORE_CUDA_ T atomicCAS##suffix(T *p, T expected, T v) {                                                        \
    (void)longshore_atomic_compare_exchange_explicit(p, &expected, v, LONGSHORE_RELAXED, scope);                      \
    return expected;                                                                                                  \
  }
#define LONGSHORE_CAS_MORE_SCOPED_(suffix, scope, ...)                                                                \
  template <class T>                                                                                                  \
  LONGSHORE_CUDA_ typename longshore_one_of_<T, __VA_ARGS__>::type atomicCAS##suffix(                                 \
      T *p, LONGSHORE_TO_(T) expected, LONGSHORE_TO_(T) v) {                                                          \
    (void)longshore_atomic_compare_exchange_explicit(p, &expected.of, v.of, LONGSHORE_RELAXED, scope);                \
    return expected.of;                                                                                               \
  }
LONGSHORE_SCOPED_(LONGSHORE_CAS_SCOPED_, int)
LONGSHORE_SCOPED_(LONGSHORE_CAS_SCOPED_, unsigned int)
LONGSHORE_SCOPED_(LONGSHORE_CAS_SCOPED_, unsigned long long)
LONGSHORE_SCOPED_(LONGSHORE_CAS_MORE_SCOPED_, long, unsigned long, long long, float, double)
#if !LONGSHORE_ON_GPU_
LONGSHORE_CUDA_ unsigned short atomicCAS(unsigned short *p, unsigned short expected, unsigned short v) {
  (void)__atomic_compare_exchange_n(p, &expected, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}
#else
/* Two bytes, as a part of the four around them. */
LONGSHORE_CUDA_ unsigned short atomicCAS(unsigned short *p, unsigned short expected, unsigned short v) {
  unsigned int *const word = (unsigned int *)((uintptr_t)p & ~(uintptr_t)3);
  const unsigned int shift = ((unsigned int)(uintptr_t)p & 2) * 8, mask = 0xffffu << shift;
  unsigned int old = longshore_atomic_load(word);
  for (;;) {
    if ((unsigned short)(old >> shift) != expected) return (unsigned short)(old >> shift);
    const unsigned int seen = atomicCAS(word, old, (old & ~mask) | (unsigned int)v << shift);
    if (seen == old) return expected;
    old = seen;
  }
}
#endif

#define LONGSHORE_ATOMIC_LOOP_(name, T, next)                                                                         \
  LONGSHORE_CUDA_ T name(T *p, T v) {                                                                                 \
    T old = longshore_atomic_load(p);                                                                                 \
    for (;;) {                                                                                                        \
      const T seen = atomicCAS(p, old, (T)(next));                                                                    \
      if (seen == old) return old;                                                                                    \
      old = seen;                                                                                                     \
    }                                                                                                                 \
  }                                                                                                                   \
  LONGSHORE_CUDA_ T name##_block(T *p, T v) { return name(p, v); }                                                    \
  LONGSHORE_CUDA_ T name##_system(T *p, T v) { return name(p, v); }
LONGSHORE_ATOMIC_LOOP_(atomicInc, unsigned int, old >= v ? 0 : old + 1)
LONGSHORE_ATOMIC_LOOP_(atomicDec, unsigned int, old == 0 || old > v ? v : old - 1)
#if LONGSHORE_IS_HIP_
#define unsafeAtomicAdd atomicAdd
#define safeAtomicAdd atomicAdd
#define atomicAddNoRet(p, v) ((void)atomicAdd(p, v))
#endif

/* Each member by itself. */
template <class T> LONGSHORE_CUDA_ typename longshore_one_of_<T, float2>::type atomicAdd(T *p, LONGSHORE_TO_(T) v) {
  return make_float2(atomicAdd(&p->x, v.of.x), atomicAdd(&p->y, v.of.y));
}
template <class T> LONGSHORE_CUDA_ typename longshore_one_of_<T, float4>::type atomicAdd(T *p, LONGSHORE_TO_(T) v) {
  const float4 &by = v.of;
  return make_float4(atomicAdd(&p->x, by.x), atomicAdd(&p->y, by.y), atomicAdd(&p->z, by.z), atomicAdd(&p->w, by.w));
}

/* ---- Loads and stores ------------------------------------------------------------------------ */

/* Hints about caches, which are plain accesses here. */
#define LONGSHORE_LOAD_(name)                                                                                         \
  template <class T> LONGSHORE_CUDA_ T name(const T *p) { return *p; }
#define LONGSHORE_STORE_(name)                                                                                        \
  template <class T> LONGSHORE_CUDA_ void name(T *p, T v) { *p = v; }
LONGSHORE_LOAD_(__ldg)
LONGSHORE_LOAD_(__ldca)
LONGSHORE_LOAD_(__ldcg)
LONGSHORE_LOAD_(__ldcs)
LONGSHORE_LOAD_(__ldlu)
LONGSHORE_LOAD_(__ldcv)
LONGSHORE_STORE_(__stwb)
LONGSHORE_STORE_(__stcg)
LONGSHORE_STORE_(__stcs)
LONGSHORE_STORE_(__stwt)

LONGSHORE_LOAD_(__ldu)
/* Addresses of the block's memory have 32 bits. On a CPU, the upper bits stand for a memory: the
 * dynamic one, the fixed one, or the stack, on which the compiler puts variables. */
#if LONGSHORE_ON_GPU_
LONGSHORE_CUDA_ size_t __cvta_generic_to_shared(const void *p) {
  return (size_t)(const __attribute__((address_space(3))) void *)p;
}
LONGSHORE_CUDA_ void *__cvta_shared_to_generic(size_t address) {
  return (void *)(__attribute__((address_space(3))) void *)(unsigned int)address;
}
#else
LONGSHORE_CUDA_ size_t __cvta_generic_to_shared(const void *p) {
  const struct longshore_work *const work = __longshore_self()->work;
  const size_t in_dynamic = (size_t)p - (size_t)work->dynamic, in_fixed = (size_t)p - (size_t)work->fixed;
  if (in_dynamic <= work->dynamic_bytes) return 0xc0000000u | in_dynamic;
  if (in_fixed <= work->fixed_bytes) return 0x80000000u | in_fixed;
  return (size_t)p & 0x7fffffff;
}
LONGSHORE_CUDA_ void *__cvta_shared_to_generic(size_t address) {
  const struct longshore_work *const work = __longshore_self()->work;
  if (address >> 30 == 3) return (char *)work->dynamic + (address & 0x3fffffff);
  if (address >> 30 == 2) return (char *)work->fixed + (address & 0x3fffffff);
  const size_t here = (size_t)__builtin_frame_address(0), distance = (address - here) & 0x7fffffff;
  return (char *)here + (distance < 0x40000000 ? (ptrdiff_t)distance : (ptrdiff_t)distance - 0x80000000ll);
}
#endif
LONGSHORE_CUDA_ size_t __cvta_generic_to_global(const void *p) { return (size_t)p; }
LONGSHORE_CUDA_ size_t __cvta_generic_to_constant(const void *p) { return (size_t)p; }
LONGSHORE_CUDA_ size_t __cvta_generic_to_local(const void *p) { return (size_t)p; }
LONGSHORE_CUDA_ void *__cvta_global_to_generic(size_t address) { return (void *)address; }
LONGSHORE_CUDA_ void *__cvta_constant_to_generic(size_t address) { return (void *)address; }
LONGSHORE_CUDA_ void *__cvta_local_to_generic(size_t address) { return (void *)address; }

/* Memory of the device's heap. */
#if defined(__AMDGCN__)
#include "longshore_cuda/heap.h"
#define longshore_heap_take_ longshore_image_heap_take_
#define longshore_heap_give_ longshore_image_heap_give_
#else
extern "C" __device__ void *longshore_heap_take_(size_t bytes) __asm__("malloc");
extern "C" __device__ void longshore_heap_give_(void *p) __asm__("free");
#endif
LONGSHORE_CUDA_ void *malloc(size_t bytes) { return longshore_heap_take_(bytes); }
LONGSHORE_CUDA_ void free(void *p) { longshore_heap_give_(p); }
/* With a C++ library, clang defines the operators in this header. */
#if __has_include(<new>)
#include <new>
#endif
#if !defined(__CLANG_CUDA_WRAPPERS_NEW)
__device__ inline void *operator new(size_t bytes) { return longshore_heap_take_(bytes); }
__device__ inline void *operator new[](size_t bytes) { return longshore_heap_take_(bytes); }
__device__ inline void operator delete(void *p) noexcept { longshore_heap_give_(p); }
__device__ inline void operator delete[](void *p) noexcept { longshore_heap_give_(p); }
__device__ inline void operator delete(void *p, size_t) noexcept { longshore_heap_give_(p); }
__device__ inline void operator delete[](void *p, size_t) noexcept { longshore_heap_give_(p); }
#endif
LONGSHORE_CUDA_ void *memcpy(void *to, const void *from, size_t bytes) { return __builtin_memcpy(to, from, bytes); }
LONGSHORE_CUDA_ void *memset(void *to, int byte, size_t bytes) { return __builtin_memset(to, byte, bytes); }
LONGSHORE_CUDA_ int memcmp(const void *a, const void *b, size_t bytes) {
  const unsigned char *const x = (const unsigned char *)a, *const y = (const unsigned char *)b;
  for (size_t i = 0; i < bytes; ++i)
    if (x[i] != y[i]) return x[i] - y[i];
  return 0;
}
LONGSHORE_CUDA_ void *memmove(void *to, const void *from, size_t bytes) { return __builtin_memmove(to, from, bytes); }

#endif
