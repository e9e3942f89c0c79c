/*
 * longshore_cuda.h: kernels in CUDA C++ and HIP for CPUs, NVIDIA GPUs and AMD GPUs.
 *
 * `longshore cc kernel.cu` includes this header before the source; it needs no vendor's SDK. The
 * manuals of CUDA and HIP describe the names. On a CPU a warp has 32 threads, and
 * __CUDA_ARCH__ is 900. docs/cuda-hip-kernels.md lists all supported names, by target.
 *
 * Names that end in `_` are not for kernels.
 */
#ifndef LONGSHORE_CUDA_H
#define LONGSHORE_CUDA_H

#if !defined(__CUDA__) && !defined(__HIP__)
#error "longshore_cuda.h is for sources in CUDA and HIP: compile them with `longshore cc`"
#endif
#pragma clang system_header

#if defined(__NVPTX__) || defined(__AMDGCN__)
#define LONGSHORE_ON_GPU_ 1
#else
#define LONGSHORE_ON_GPU_ 0
#endif

/* For NVIDIA GPUs, sources in HIP are compiled as CUDA. */
#if defined(__HIP__) || defined(__HIPCC__)
#define LONGSHORE_IS_HIP_ 1
#else
#define LONGSHORE_IS_HIP_ 0
#endif

/* The vendors' compilers accept `x.template f(y)`. */
#if defined(__has_warning)
#if __has_warning("-Wmissing-template-arg-list-after-template-kw")
#pragma clang diagnostic ignored "-Wmissing-template-arg-list-after-template-kw"
#endif
#endif

/* ---- Keywords -------------------------------------------------------------------------------- */

#undef __global__
#undef __shared__
/* `longshore cc` finds kernels and shared variables by these annotations. */
#define __global__ __attribute__((global, annotate("longshore-kernel")))
#if LONGSHORE_ON_GPU_
#define __shared__ __attribute__((shared))
#else
#define __shared__ __attribute__((shared, annotate("longshore-shared")))
#endif
#undef __device__
#undef __host__
#undef __constant__
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __constant__ __attribute__((constant))
#define __managed__ __attribute__((device))
#undef __launch_bounds__
#if LONGSHORE_ON_GPU_
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#else
#define __launch_bounds__(...)
#endif
#define __maxnreg__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#undef __forceinline__
#undef __noinline__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __builtin_align__(bytes) __attribute__((aligned(bytes)))
#if LONGSHORE_IS_HIP_
/* The features that HIP's programs ask for. */
#define __HIP_ARCH_HAS_GLOBAL_INT32_ATOMICS__ 1
#define __HIP_ARCH_HAS_GLOBAL_FLOAT_ATOMIC_EXCH__ 1
#define __HIP_ARCH_HAS_SHARED_INT32_ATOMICS__ 1
#define __HIP_ARCH_HAS_SHARED_FLOAT_ATOMIC_EXCH__ 1
#define __HIP_ARCH_HAS_FLOAT_ATOMIC_ADD__ 1
#define __HIP_ARCH_HAS_GLOBAL_INT64_ATOMICS__ 1
#define __HIP_ARCH_HAS_SHARED_INT64_ATOMICS__ 1
#define __HIP_ARCH_HAS_DOUBLES__ 1
#define __HIP_ARCH_HAS_WARP_VOTE__ 1
#define __HIP_ARCH_HAS_WARP_BALLOT__ 1
#define __HIP_ARCH_HAS_WARP_SHUFFLE__ 1
#define __HIP_ARCH_HAS_WARP_FUNNEL_SHIFT__ 1
#define __HIP_ARCH_HAS_THREAD_FENCE_SYSTEM__ 1
#define __HIP_ARCH_HAS_SYNC_THREAD_EXT__ 1
#define __HIP_ARCH_HAS_SURFACE_FUNCS__ 0
#define __HIP_ARCH_HAS_3DGRID__ 1
#define __HIP_ARCH_HAS_DYNAMIC_PARALLEL__ 0
#endif
#define CUDARTAPI
#define CUDART_CB

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#if __has_include(<time.h>)
#include <time.h>
#endif
#if !__has_include(<stdlib.h>)
typedef unsigned int uint;
typedef unsigned short ushort;
typedef unsigned long ulong;
#endif

#include "longshore_device.h"

#define LONGSHORE_CUDA_ static __device__ inline __attribute__((always_inline, unused))
/* Methods of the headers' classes. */
#define LONGSHORE_METHOD_ __device__ inline __attribute__((always_inline))
#define LONGSHORE_METHOD_OF_BOTH_ __host__ __device__ inline __attribute__((always_inline))
#define LONGSHORE_BOTH_ static __host__ __device__ inline __attribute__((always_inline, unused))

#include "longshore_gpu/here.h"

/* ---- Types ----------------------------------------------------------------------------------- */

#include "longshore_cuda/types.h"

/* ---- Ids ------------------------------------------------------------------------------------- */

#define LONGSHORE_BUILTIN_(type, read)                                                                                \
  struct type {                                                                                                       \
    __declspec(property(get = get_x)) unsigned int x;                                                                 \
    __declspec(property(get = get_y)) unsigned int y;                                                                 \
    __declspec(property(get = get_z)) unsigned int z;                                                                 \
    LONGSHORE_CUDA_ unsigned int get_x() { LONGSHORE_HERE_ return (unsigned int)read(0); }                            \
    LONGSHORE_CUDA_ unsigned int get_y() { LONGSHORE_HERE_ return (unsigned int)read(1); }                            \
    LONGSHORE_CUDA_ unsigned int get_z() { LONGSHORE_HERE_ return (unsigned int)read(2); }                            \
    __device__ inline operator dim3() const { return dim3(get_x(), get_y(), get_z()); }                               \
    __device__ inline operator uint3() const { return make_uint3(get_x(), get_y(), get_z()); }                        \
    type() = default;                                                                                                 \
    type(const type &) = default;                                                                                     \
    type &operator=(const type &) = delete;                                                                           \
  };
LONGSHORE_BUILTIN_(longshore_thread_index_, longshore_item_id)
LONGSHORE_BUILTIN_(longshore_block_index_, longshore_group_id)
LONGSHORE_BUILTIN_(longshore_block_size_, longshore_group_items)
LONGSHORE_BUILTIN_(longshore_grid_size_, longshore_group_count)
static const __device__ longshore_thread_index_ threadIdx __attribute__((unused));
static const __device__ longshore_block_index_ blockIdx __attribute__((unused));
static const __device__ longshore_block_size_ blockDim __attribute__((unused));
static const __device__ longshore_grid_size_ gridDim __attribute__((unused));

struct longshore_warp_size_ {
  __device__ inline operator int() const {
#if defined(__AMDGCN__)
    return (int)longshore_width_((struct longshore_self *)0);
#else
    return 32;
#endif
  }
};
#if defined(__AMDGCN__)
static const __device__ longshore_warp_size_ warpSize __attribute__((unused));
#else
/* A constant, which kernels use as the size of arrays. */
static constexpr int warpSize __attribute__((unused)) = 32;
#endif

#define hipThreadIdx_x threadIdx.x
#define hipThreadIdx_y threadIdx.y
#define hipThreadIdx_z threadIdx.z
#define hipBlockIdx_x blockIdx.x
#define hipBlockIdx_y blockIdx.y
#define hipBlockIdx_z blockIdx.z
#define hipBlockDim_x blockDim.x
#define hipBlockDim_y blockDim.y
#define hipBlockDim_z blockDim.z
#define hipGridDim_x gridDim.x
#define hipGridDim_y gridDim.y
#define hipGridDim_z gridDim.z
#define HIP_DYNAMIC_SHARED(type, name) extern __shared__ type name[];
#define HIP_DYNAMIC_SHARED_ATTRIBUTE
#define HIP_KERNEL_NAME(...) __VA_ARGS__
#define HIP_SYMBOL(name) name

LONGSHORE_CUDA_ unsigned int __lane_id() { LONGSHORE_HERE_ return longshore_subgroup_lane(); }

/* ---- Waits ----------------------------------------------------------------------------------- */

#include "longshore_cuda/warp.h"

/* ---- Fences, atomics and memory -------------------------------------------------------------- */

#include "longshore_cuda/memory.h"

/* ---- Numbers --------------------------------------------------------------------------------- */

#include "longshore_cuda/math.h"
#include "longshore_cuda/bessel.h"
#include "longshore_cuda/numbers.h"
#include "longshore_cuda/rounding.h"
#include "longshore_cuda/simd.h"

/* ---- Messages, failures, time ---------------------------------------------------------------- */

#if LONGSHORE_ON_GPU_
template <class T> LONGSHORE_CUDA_ struct longshore_word_ longshore_printed_(T value) {
  return longshore_word_of_(value);
}
LONGSHORE_CUDA_ struct longshore_word_ longshore_printed_(float value) { return longshore_word_of_((double)value); }
template <class T> LONGSHORE_CUDA_ struct longshore_word_ longshore_printed_(T *value) {
  return longshore_word_of_((const volatile void *)value);
}
#if defined(__AMDGCN__)
LONGSHORE_CUDA_ struct longshore_word_ longshore_printed_(const char *value) { return longshore_word_of_(value); }
LONGSHORE_CUDA_ struct longshore_word_ longshore_printed_(char *value) { return longshore_word_of_(value); }
#endif
template <class... A> __device__ inline __attribute__((unused)) int printf(const char *format, A... values) {
  const struct longshore_word_ words[] = {longshore_word_of_(format), longshore_printed_(values)...};
  static_assert(sizeof...(values) <= 32, "printf in a kernel takes at most 32 values");
  longshore_print_(words, 1 + sizeof...(values));
  return (int)sizeof...(values);
}
#else
template <class... A> __device__ inline __attribute__((unused)) int printf(const char *format, A... values) {
  LONGSHORE_HERE_
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wformat-security"
#pragma clang diagnostic ignored "-Wformat-nonliteral"
  longshore_print_(longshore_self->work, format, values...);
#pragma clang diagnostic pop
  return (int)sizeof...(values);
}
#endif

/* The function that <assert.h> calls. */
extern "C" __device__ inline __attribute__((noreturn, unused)) void
__assert_fail(const char *what, const char *file, unsigned int line, const char *function) {
  LONGSHORE_HERE_
  (void)function;
  longshore_fail_(longshore_self, what, file, line);
  __builtin_unreachable();
}
/* The entry of a virtual function without a definition, in tables that clang makes. */
extern "C" __device__ __attribute__((weak)) void __cxa_pure_virtual() {
  LONGSHORE_HERE_
  longshore_trap();
}
LONGSHORE_CUDA_ void __trap() { LONGSHORE_HERE_ longshore_trap(); }
LONGSHORE_CUDA_ void __brkpt() {}
LONGSHORE_CUDA_ void abort() { LONGSHORE_HERE_ longshore_trap(); }

#if defined(__NVPTX__)
LONGSHORE_CUDA_ long long clock64() { return (long long)__nvvm_read_ptx_sreg_clock64(); }
LONGSHORE_CUDA_ long long wall_clock64() {
  long long now;
  __asm__ volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
  return now;
}
#elif defined(__AMDGCN__)
LONGSHORE_CUDA_ long long clock64() { return (long long)__builtin_readcyclecounter(); }
LONGSHORE_CUDA_ long long wall_clock64() { return (long long)__builtin_readcyclecounter(); }
#else
LONGSHORE_CUDA_ long long clock64() { return (long long)__builtin_readcyclecounter(); }
LONGSHORE_CUDA_ long long wall_clock64() { return (long long)__builtin_readcyclecounter(); }
#endif
#if !__has_include(<time.h>)
typedef long clock_t;
#endif
LONGSHORE_CUDA_ clock_t clock() { return (clock_t)clock64(); }
LONGSHORE_CUDA_ long long __clock64() { return clock64(); }
LONGSHORE_CUDA_ long long __clock() { return clock64(); }
LONGSHORE_CUDA_ unsigned long long __globaltimer() { return (unsigned long long)wall_clock64(); }
/* On a CPU, other threads of the block run meanwhile. */
LONGSHORE_CUDA_ void __nanosleep(unsigned int nanoseconds) {
#if defined(__NVPTX__)
  __asm__ volatile("nanosleep.u32 %0;" ::"r"(nanoseconds) : "memory");
#elif defined(__AMDGCN__)
  (void)nanoseconds;
  __builtin_amdgcn_s_sleep(1);
#else
  (void)nanoseconds;
  (void)longshore_present_();
#endif
}
#define __prof_trigger(counter) ((void)(counter))
#define __assume(condition) __builtin_assume(condition)

/* Headers that the vendors' include too. */
#if __has_include(<cstdlib>)
#include <math.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#if defined(__HIPCC__)
/* HIP's header has threads and clocks by this one. */
#include <thread>
#endif
#endif
#if __has_include(<assert.h>)
#include <assert.h>
#endif

/* Kernels of a stream follow each other. */
LONGSHORE_CUDA_ void cudaGridDependencySynchronize() {}
LONGSHORE_CUDA_ void cudaTriggerProgrammaticLaunchCompletion() {}

/* ---- Inline assembly ------------------------------------------------------------------------- */

#include "longshore_cuda/ptx.h"

/* ---- The host's half ------------------------------------------------------------------------- */

#include "longshore_cuda/host.h"

#endif
