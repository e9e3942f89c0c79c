/*
 * gpuintrin.h: the functions of clang's header of this name (clang 20 and later) for CPUs, and for
 * GPUs with older compilers. Code for LLVM's liboffload and libc compiles unchanged.
 *
 * On a CPU a warp has 32 lanes. `longshore cc` finds this header before clang's, which it uses for
 * GPUs where there is one.
 */
#if (defined(__NVPTX__) || defined(__AMDGCN__)) && __has_include_next(<gpuintrin.h>)
#include_next <gpuintrin.h>
#elif !defined(__GPUINTRIN_H)
#define __GPUINTRIN_H
#pragma clang system_header

#include "here.h"

#ifndef __cplusplus
#include <stdbool.h>
#endif

/* ---- Keywords -------------------------------------------------------------------------------- */

#if defined(__NVPTX__) || defined(__AMDGCN__)
#define __gpu_private __attribute__((address_space(5)))
#define __gpu_constant __attribute__((address_space(4)))
#define __gpu_local __attribute__((address_space(3)))
#define __gpu_global __attribute__((address_space(1)))
#define __gpu_generic __attribute__((address_space(0)))
#if defined(__NVPTX__)
#define __gpu_kernel __attribute__((nvptx_kernel, visibility("protected")))
#else
#define __gpu_kernel __attribute__((amdgpu_kernel, visibility("protected")))
#endif
#else
/* `longshore cc` finds the group's variables by their address space. */
#define __gpu_local __attribute__((address_space(3)))
#define __gpu_private
#define __gpu_constant
#define __gpu_global
#define __gpu_generic
#define __gpu_kernel __attribute__((annotate("longshore-kernel"), visibility("default")))
#endif

#define LONGSHORE_GPU_ static LONGSHORE_INLINE_

/* ---- Ids ------------------------------------------------------------------------------------- */

#define LONGSHORE_GPU_ID_(name, read)                                                                                 \
  LONGSHORE_GPU_ uint32_t __gpu_##name##_x(void) { LONGSHORE_HERE_ return (uint32_t)read(0); }                        \
  LONGSHORE_GPU_ uint32_t __gpu_##name##_y(void) { LONGSHORE_HERE_ return (uint32_t)read(1); }                        \
  LONGSHORE_GPU_ uint32_t __gpu_##name##_z(void) { LONGSHORE_HERE_ return (uint32_t)read(2); }                        \
  LONGSHORE_GPU_ uint32_t __gpu_##name(int dimension) {                                                               \
    return dimension == 0 ? __gpu_##name##_x() : dimension == 1 ? __gpu_##name##_y() : __gpu_##name##_z();            \
  }
LONGSHORE_GPU_ID_(num_blocks, longshore_group_count)
LONGSHORE_GPU_ID_(block_id, longshore_group_id)
LONGSHORE_GPU_ID_(num_threads, longshore_group_items)
LONGSHORE_GPU_ID_(thread_id, longshore_item_id)
LONGSHORE_GPU_ uint32_t __gpu_num_lanes(void) {
#if defined(__AMDGCN__)
  return longshore_width_((struct longshore_self *)0);
#else
  return 32;
#endif
}
LONGSHORE_GPU_ uint32_t __gpu_lane_id(void) { LONGSHORE_HERE_ return longshore_subgroup_lane(); }

/* ---- Waits and votes ------------------------------------------------------------------------- */

#if defined(__NVPTX__)
LONGSHORE_GPU_ uint64_t __gpu_lane_mask(void) {
  uint32_t lanes;
  __asm__ volatile("activemask.b32 %0;" : "=r"(lanes));
  return lanes;
}
LONGSHORE_GPU_ uint64_t __gpu_ballot(uint64_t lanes, bool condition) {
  return (uint32_t)longshore_vote_((int)lanes, condition);
}
LONGSHORE_GPU_ void __gpu_sync_threads(void) { longshore_wait_for_group_(); }
LONGSHORE_GPU_ void __gpu_sync_lane(uint64_t lanes) { __nvvm_bar_warp_sync((uint32_t)lanes); }
LONGSHORE_GPU_ uint32_t __gpu_word_of_lane_(uint64_t lanes, uint32_t word, uint32_t lane) {
  return (uint32_t)longshore_shfl_((int)lanes, (int)word, (int)(lane & 31), 31);
}
#elif defined(__AMDGCN__)
LONGSHORE_GPU_ uint64_t __gpu_lane_mask(void) { return longshore_ballot_in_(1); }
LONGSHORE_GPU_ uint64_t __gpu_ballot(uint64_t lanes, bool condition) { return longshore_ballot_in_(condition) & lanes; }
LONGSHORE_GPU_ void __gpu_sync_threads(void) { longshore_wait_for_group_(); }
LONGSHORE_GPU_ void __gpu_sync_lane(uint64_t lanes) {
  (void)lanes;
  __builtin_amdgcn_wave_barrier();
}
LONGSHORE_GPU_ uint32_t __gpu_word_of_lane_(uint64_t lanes, uint32_t word, uint32_t lane) {
  (void)lanes;
  return (uint32_t)longshore_from_lane_(word, lane, 4);
}
#else
/* The lanes that come here while all other lanes wait elsewhere or are done. */
LONGSHORE_GPU_ uint64_t __gpu_lane_mask(void) { return longshore_ballot_of_(__longshore_self()->work, 1, 0); }
LONGSHORE_GPU_ uint64_t __gpu_ballot(uint64_t lanes, bool condition) {
  return longshore_ballot_of_(__longshore_self()->work, condition ? 1 : 0, (uint32_t)lanes) & lanes;
}
LONGSHORE_GPU_ void __gpu_sync_threads(void) { longshore_barrier_of_rest_(__longshore_self()->work); }
LONGSHORE_GPU_ void __gpu_sync_lane(uint64_t lanes) { (void)__gpu_ballot(lanes, true); }
LONGSHORE_GPU_ uint32_t __gpu_word_of_lane_(uint64_t lanes, uint32_t word, uint32_t lane) {
  return (uint32_t)longshore_shuffle_of_(__longshore_self()->work, word, lane, (uint32_t)lanes);
}
#endif

LONGSHORE_GPU_ uint64_t __gpu_first_lane_id(uint64_t lanes) { return (uint64_t)__builtin_ffsll((long long)lanes) - 1; }
LONGSHORE_GPU_ bool __gpu_is_first_in_lane(uint64_t lanes) { return __gpu_lane_id() == __gpu_first_lane_id(lanes); }

/* ---- Values of other lanes ------------------------------------------------------------------- */

LONGSHORE_GPU_ uint32_t __gpu_shuffle_idx_u32(uint64_t lanes, uint32_t from, uint32_t value, uint32_t width) {
  const uint32_t first = __gpu_lane_id() & ~(width - 1);
  return __gpu_word_of_lane_(lanes, value, first + (from & (width - 1)));
}
LONGSHORE_GPU_ uint64_t __gpu_shuffle_idx_u64(uint64_t lanes, uint32_t from, uint64_t value, uint32_t width) {
  const uint64_t high = __gpu_shuffle_idx_u32(lanes, from, (uint32_t)(value >> 32), width);
  return high << 32 | __gpu_shuffle_idx_u32(lanes, from, (uint32_t)value, width);
}
LONGSHORE_GPU_ uint32_t __gpu_read_first_lane_u32(uint64_t lanes, uint32_t value) {
  return __gpu_word_of_lane_(lanes, value, (uint32_t)__gpu_first_lane_id(lanes));
}
LONGSHORE_GPU_ uint64_t __gpu_read_first_lane_u64(uint64_t lanes, uint64_t value) {
  const uint64_t high = __gpu_read_first_lane_u32(lanes, (uint32_t)(value >> 32));
  return high << 32 | __gpu_read_first_lane_u32(lanes, (uint32_t)value);
}
#define LONGSHORE_GPU_FLOAT_(T, suffix, W, of)                                                                        \
  LONGSHORE_GPU_ T __gpu_shuffle_idx_##suffix(uint64_t lanes, uint32_t from, T value, uint32_t width) {               \
    W word;                                                                                                           \
    __builtin_memcpy(&word, &value, sizeof(word));                                                                    \
    word = __gpu_shuffle_idx_##of(lanes, from, word, width);                                                          \
    __builtin_memcpy(&value, &word, sizeof(word));                                                                    \
    return value;                                                                                                     \
  }                                                                                                                   \
  LONGSHORE_GPU_ T __gpu_read_first_lane_##suffix(uint64_t lanes, T value) {                                          \
    W word;                                                                                                           \
    __builtin_memcpy(&word, &value, sizeof(word));                                                                    \
    word = __gpu_read_first_lane_##of(lanes, word);                                                                   \
    __builtin_memcpy(&value, &word, sizeof(word));                                                                    \
    return value;                                                                                                     \
  }
LONGSHORE_GPU_FLOAT_(float, f32, uint32_t, u32)
LONGSHORE_GPU_FLOAT_(double, f64, uint64_t, u64)

/* The sum of the chosen lanes up to the own one, and the sum of all. */
#define LONGSHORE_GPU_SUMS_(T, suffix)                                                                                \
  LONGSHORE_GPU_ T __gpu_lane_scan_##suffix(uint64_t lanes, T value) {                                                \
    T sum = 0;                                                                                                        \
    for (uint32_t lane = 0; lane < __gpu_num_lanes(); ++lane) {                                                       \
      const T other = __gpu_shuffle_idx_##suffix(lanes, lane, value, __gpu_num_lanes());                              \
      if ((lanes >> lane & 1) && lane <= __gpu_lane_id()) sum += other;                                               \
    }                                                                                                                 \
    return sum;                                                                                                       \
  }                                                                                                                   \
  LONGSHORE_GPU_ T __gpu_lane_sum_##suffix(uint64_t lanes, T value) {                                                 \
    T sum = 0;                                                                                                        \
    for (uint32_t lane = 0; lane < __gpu_num_lanes(); ++lane) {                                                       \
      const T other = __gpu_shuffle_idx_##suffix(lanes, lane, value, __gpu_num_lanes());                              \
      if (lanes >> lane & 1) sum += other;                                                                            \
    }                                                                                                                 \
    return sum;                                                                                                       \
  }
LONGSHORE_GPU_SUMS_(uint32_t, u32)
LONGSHORE_GPU_SUMS_(uint64_t, u64)
LONGSHORE_GPU_SUMS_(float, f32)
LONGSHORE_GPU_SUMS_(double, f64)

/* The chosen lanes with the same value; all chosen lanes if all have it, or else none. */
#define LONGSHORE_GPU_MATCHES_(T, suffix)                                                                             \
  LONGSHORE_GPU_ uint64_t __gpu_match_any_##suffix(uint64_t lanes, T value) {                                         \
    uint64_t same = 0;                                                                                                \
    for (uint32_t lane = 0; lane < __gpu_num_lanes(); ++lane) {                                                       \
      const T other = __gpu_shuffle_idx_##suffix(lanes, lane, value, __gpu_num_lanes());                              \
      if ((lanes >> lane & 1) && other == value) same |= (uint64_t)1 << lane;                                         \
    }                                                                                                                 \
    return same;                                                                                                      \
  }                                                                                                                   \
  LONGSHORE_GPU_ uint64_t __gpu_match_all_##suffix(uint64_t lanes, T value) {                                         \
    const T first = __gpu_read_first_lane_##suffix(lanes, value);                                                     \
    return __gpu_ballot(lanes, value == first) == lanes ? lanes : 0;                                                  \
  }
LONGSHORE_GPU_MATCHES_(uint32_t, u32)
LONGSHORE_GPU_MATCHES_(uint64_t, u64)

/* ---- The rest -------------------------------------------------------------------------------- */

#if defined(__NVPTX__)
LONGSHORE_GPU_ bool __gpu_is_ptr_local(void *p) { return __nvvm_isspacep_shared(p); }
LONGSHORE_GPU_ bool __gpu_is_ptr_private(void *p) { return __nvvm_isspacep_local(p); }
LONGSHORE_GPU_ __attribute__((noreturn)) void __gpu_exit(void) {
  __asm__ volatile("exit;");
  __builtin_unreachable();
}
LONGSHORE_GPU_ void __gpu_thread_suspend(void) {}
#elif defined(__AMDGCN__)
LONGSHORE_GPU_ bool __gpu_is_ptr_local(void *p) {
  return __builtin_amdgcn_is_shared((void __attribute__((address_space(0))) *)p);
}
LONGSHORE_GPU_ bool __gpu_is_ptr_private(void *p) {
  return __builtin_amdgcn_is_private((void __attribute__((address_space(0))) *)p);
}
LONGSHORE_GPU_ __attribute__((noreturn)) void __gpu_exit(void) { __builtin_amdgcn_endpgm(); }
LONGSHORE_GPU_ void __gpu_thread_suspend(void) { __builtin_amdgcn_s_sleep(2); }
#else
LONGSHORE_GPU_ bool __gpu_is_ptr_local(void *p) {
  const struct longshore_work *const work = __longshore_self()->work;
  return (uintptr_t)p - (uintptr_t)work->fixed < work->fixed_bytes ||
         (uintptr_t)p - (uintptr_t)work->dynamic < work->dynamic_bytes;
}
/* A CPU has one kind of memory for an item's own variables and all others. */
LONGSHORE_GPU_ bool __gpu_is_ptr_private(void *p) {
  (void)p;
  return false;
}
/* `longshore cc` makes the item's end of its call. */
LONGSHORE_EXTERN_C_ LONGSHORE_ON_DEVICE_ __attribute__((noreturn)) void __longshore_exit(void);
LONGSHORE_GPU_ __attribute__((noreturn)) void __gpu_exit(void) { __longshore_exit(); }
LONGSHORE_GPU_ void __gpu_thread_suspend(void) {}
#endif

#endif
