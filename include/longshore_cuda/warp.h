/*
 * longshore_cuda/warp.h: barriers, and operations of warps. Part of longshore_cuda.h.
 */
#ifndef LONGSHORE_CUDA_WARP_H
#define LONGSHORE_CUDA_WARP_H
#pragma clang system_header

#if LONGSHORE_ON_GPU_
LONGSHORE_CUDA_ void longshore_cuda_barrier_() { longshore_wait_for_group_(); }
#else
LONGSHORE_CUDA_ void longshore_cuda_barrier_() { longshore_barrier_of_rest_(__longshore_self()->work); }
#endif

#if !defined(__NVPTX__)
/* On NVIDIA GPUs this is a function of the compiler. */
#define __syncthreads() longshore_cuda_barrier_()
#endif

#if defined(__NVPTX__)
#define LONGSHORE_COUNTED_BARRIER_(name, body)                                                                        \
  LONGSHORE_CUDA_ int name(int condition) {                                                                           \
    int result;                                                                                                       \
    __asm__ volatile(body : "=r"(result) : "r"(condition) : "memory");                                                \
    return result;                                                                                                    \
  }
LONGSHORE_COUNTED_BARRIER_(__syncthreads_count, "{ .reg .pred p; setp.ne.u32 p, %1, 0; barrier.red.popc.u32 %0, 0, p; }")
LONGSHORE_COUNTED_BARRIER_(__syncthreads_and, "{ .reg .pred p, q; setp.ne.u32 p, %1, 0; barrier.red.and.pred q, 0, p; selp.u32 %0, 1, 0, q; }")
LONGSHORE_COUNTED_BARRIER_(__syncthreads_or, "{ .reg .pred p, q; setp.ne.u32 p, %1, 0; barrier.red.or.pred q, 0, p; selp.u32 %0, 1, 0, q; }")
#else
/* The number of threads whose condition holds. */
LONGSHORE_CUDA_ int longshore_count_together_(bool condition) {
  LONGSHORE_HERE_
  __shared__ unsigned int longshore_holds;
  /* Any thread may have returned: each one clears. */
  longshore_atomic_store_explicit(&longshore_holds, 0u, LONGSHORE_RELAXED, LONGSHORE_SCOPE_GROUP);
  longshore_cuda_barrier_();
  if (condition) longshore_atomic_add_explicit(&longshore_holds, 1u, LONGSHORE_RELAXED, LONGSHORE_SCOPE_GROUP);
  longshore_cuda_barrier_();
  const int count = (int)longshore_holds;
  longshore_cuda_barrier_();
  return count;
}
LONGSHORE_CUDA_ int __syncthreads_count(int condition) { return longshore_count_together_(condition != 0); }
LONGSHORE_CUDA_ int __syncthreads_and(int condition) { return longshore_count_together_(condition == 0) == 0; }
LONGSHORE_CUDA_ int __syncthreads_or(int condition) { return longshore_count_together_(condition != 0) != 0; }
#endif

/* ---- Votes ----------------------------------------------------------------------------------- */

#if defined(__AMDGCN__)
typedef unsigned long long longshore_lanes_;
#define LONGSHORE_LANE_BITS_ 64
#else
typedef unsigned int longshore_lanes_;
#define LONGSHORE_LANE_BITS_ 32
#endif
/* HIP has masks of 64 bits on all devices. */
#if LONGSHORE_IS_HIP_
typedef unsigned long long longshore_ballot_result_;
#else
typedef longshore_lanes_ longshore_ballot_result_;
#endif

#if defined(__NVPTX__)
LONGSHORE_CUDA_ longshore_lanes_ longshore_ballot_among_(longshore_lanes_ lanes, bool condition) {
  return (longshore_lanes_)longshore_vote_((int)lanes, condition);
}
LONGSHORE_CUDA_ longshore_lanes_ longshore_present_() {
  longshore_lanes_ lanes;
  __asm__ volatile("activemask.b32 %0;" : "=r"(lanes));
  return lanes;
}
LONGSHORE_CUDA_ void longshore_sync_lanes_(longshore_lanes_ lanes) {
  __asm__ volatile("bar.warp.sync %0;" ::"r"(lanes) : "memory");
}
#elif defined(__AMDGCN__)
LONGSHORE_CUDA_ longshore_lanes_ longshore_ballot_among_(longshore_lanes_ lanes, bool condition) {
  return longshore_ballot_in_(condition) & lanes;
}
LONGSHORE_CUDA_ longshore_lanes_ longshore_present_() { return longshore_ballot_in_(1); }
LONGSHORE_CUDA_ void longshore_sync_lanes_(longshore_lanes_) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}
#else
LONGSHORE_CUDA_ longshore_lanes_ longshore_ballot_among_(longshore_lanes_ lanes, bool condition) {
  return (longshore_lanes_)longshore_ballot_of_(__longshore_self()->work, condition ? 1u : 0u, lanes) & lanes;
}
/* The threads of the warp that come here while all other threads wait elsewhere or are done. The
 * mask 0 stands for them. */
LONGSHORE_CUDA_ longshore_lanes_ longshore_present_() {
  return (longshore_lanes_)longshore_ballot_of_(__longshore_self()->work, 1u, 0u);
}
LONGSHORE_CUDA_ void longshore_sync_lanes_(longshore_lanes_ lanes) { (void)longshore_ballot_among_(lanes, true); }
#endif

LONGSHORE_CUDA_ longshore_ballot_result_ __ballot_sync(longshore_ballot_result_ lanes, int condition) {
  return longshore_ballot_among_((longshore_lanes_)lanes, condition != 0);
}
LONGSHORE_CUDA_ int __any_sync(longshore_ballot_result_ lanes, int condition) {
  return longshore_ballot_among_((longshore_lanes_)lanes, condition != 0) != 0;
}
LONGSHORE_CUDA_ int __all_sync(longshore_ballot_result_ lanes, int condition) {
  return longshore_ballot_among_((longshore_lanes_)lanes, condition == 0) == 0;
}
LONGSHORE_CUDA_ int __uni_sync(longshore_ballot_result_ lanes, int condition) {
  const longshore_lanes_ holds = longshore_ballot_among_((longshore_lanes_)lanes, condition != 0);
  return holds == 0 || holds == (longshore_lanes_)lanes;
}
LONGSHORE_CUDA_ longshore_ballot_result_ __activemask() { return longshore_present_(); }
LONGSHORE_CUDA_ void __syncwarp(longshore_ballot_result_ lanes = ~(longshore_ballot_result_)0) {
  longshore_sync_lanes_((longshore_lanes_)lanes);
}
/* The forms without lanes, of HIP and of CUDA before version 9: the threads that come here. */
LONGSHORE_CUDA_ longshore_ballot_result_ __ballot(int condition) {
#if defined(__NVPTX__)
  return longshore_ballot_among_(longshore_present_(), condition != 0);
#elif defined(__AMDGCN__)
  return longshore_ballot_in_(condition != 0);
#else
  return (longshore_lanes_)longshore_ballot_of_(__longshore_self()->work, condition != 0 ? 1u : 0u, 0u);
#endif
}
LONGSHORE_CUDA_ int __any(int condition) { return __ballot(condition) != 0; }
LONGSHORE_CUDA_ int __all(int condition) { return __ballot(condition == 0) == 0; }
#if defined(__NVPTX__)
#define LONGSHORE_PRESENT_LANES_ longshore_present_()
#else
#define LONGSHORE_PRESENT_LANES_ 0
#endif

/* ---- Shuffles -------------------------------------------------------------------------------- */

#if defined(__NVPTX__)
LONGSHORE_CUDA_ uint64_t longshore_word_of_lane_(longshore_lanes_ lanes, uint64_t word, unsigned int lane, size_t bytes) {
  const uint32_t low = (uint32_t)longshore_shfl_((int)lanes, (int)(uint32_t)word, (int)(lane & 31), 31);
  if (bytes <= 4) return low;
  return (uint64_t)(uint32_t)longshore_shfl_((int)lanes, (int)(uint32_t)(word >> 32), (int)(lane & 31), 31) << 32 | low;
}
#elif defined(__AMDGCN__)
LONGSHORE_CUDA_ uint64_t longshore_word_of_lane_(longshore_lanes_, uint64_t word, unsigned int lane, size_t bytes) {
  return longshore_from_lane_(word, lane, bytes);
}
#else
LONGSHORE_CUDA_ uint64_t longshore_word_of_lane_(longshore_lanes_ lanes, uint64_t word, unsigned int lane, size_t) {
  return longshore_shuffle_of_(__longshore_self()->work, word, lane, lanes);
}
#endif
#if defined(__AMDGCN__)
#define LONGSHORE_WARP_WIDTH_ ((unsigned int)longshore_width_((struct longshore_self *)0))
#else
#define LONGSHORE_WARP_WIDTH_ 32u
#endif

/* Values of more than 8 bytes are exchanged in parts. */
template <class T> LONGSHORE_CUDA_ T longshore_of_lane_(longshore_lanes_ lanes, T value, unsigned int lane) {
  T result = value;
  for (size_t at = 0; at < sizeof(T); at += 8) {
    const size_t bytes = sizeof(T) - at < 8 ? sizeof(T) - at : 8;
    uint64_t word = 0;
    __builtin_memcpy(&word, (const char *)&value + at, bytes);
    word = longshore_word_of_lane_(lanes, word, lane, bytes);
    __builtin_memcpy((char *)&result + at, &word, bytes);
  }
  return result;
}
template <class T>
LONGSHORE_CUDA_ T __shfl_sync(longshore_ballot_result_ lanes, T value, int from, int width = (int)LONGSHORE_WARP_WIDTH_) {
  const unsigned int lane = __lane_id(), w = (unsigned int)width;
  return longshore_of_lane_((longshore_lanes_)lanes, value, (lane & ~(w - 1)) | ((unsigned int)from & (w - 1)));
}
template <class T>
LONGSHORE_CUDA_ T __shfl_up_sync(longshore_ballot_result_ lanes, T value, unsigned int distance,
                                 int width = (int)LONGSHORE_WARP_WIDTH_) {
  const unsigned int lane = __lane_id(), at = lane & ((unsigned int)width - 1);
  return longshore_of_lane_((longshore_lanes_)lanes, value, distance <= at ? lane - distance : lane);
}
template <class T>
LONGSHORE_CUDA_ T __shfl_down_sync(longshore_ballot_result_ lanes, T value, unsigned int distance,
                                   int width = (int)LONGSHORE_WARP_WIDTH_) {
  const unsigned int lane = __lane_id(), at = lane & ((unsigned int)width - 1);
  return longshore_of_lane_((longshore_lanes_)lanes, value, at + distance < (unsigned int)width ? lane + distance : lane);
}
template <class T>
LONGSHORE_CUDA_ T __shfl_xor_sync(longshore_ballot_result_ lanes, T value, int bits,
                                  int width = (int)LONGSHORE_WARP_WIDTH_) {
  const unsigned int lane = __lane_id(), w = (unsigned int)width, from = lane ^ (unsigned int)bits;
  return longshore_of_lane_((longshore_lanes_)lanes, value, from / w > lane / w ? lane : from);
}
template <class T> LONGSHORE_CUDA_ T __shfl(T value, int from, int width = (int)LONGSHORE_WARP_WIDTH_) {
  return __shfl_sync(LONGSHORE_PRESENT_LANES_, value, from, width);
}
template <class T> LONGSHORE_CUDA_ T __shfl_up(T value, unsigned int distance, int width = (int)LONGSHORE_WARP_WIDTH_) {
  return __shfl_up_sync(LONGSHORE_PRESENT_LANES_, value, distance, width);
}
template <class T> LONGSHORE_CUDA_ T __shfl_down(T value, unsigned int distance, int width = (int)LONGSHORE_WARP_WIDTH_) {
  return __shfl_down_sync(LONGSHORE_PRESENT_LANES_, value, distance, width);
}
template <class T> LONGSHORE_CUDA_ T __shfl_xor(T value, int bits, int width = (int)LONGSHORE_WARP_WIDTH_) {
  return __shfl_xor_sync(LONGSHORE_PRESENT_LANES_, value, bits, width);
}

/* ---- Matches and reductions ------------------------------------------------------------------ */

/* The lanes among `lanes` whose threads have not returned. */
LONGSHORE_CUDA_ longshore_ballot_result_ longshore_running_(longshore_ballot_result_ lanes) {
  return __ballot_sync(lanes, 1);
}
/* Numbers with a point are the same if their bits are. */
template <class T> LONGSHORE_CUDA_ bool longshore_is_same_(T a, T b) { return a == b; }
#define LONGSHORE_SAME_BITS_(F, I)                                                                                    \
  LONGSHORE_CUDA_ bool longshore_is_same_(F a, F b) {                                                                 \
    I bits[2];                                                                                                        \
    __builtin_memcpy(&bits[0], &a, sizeof(a)), __builtin_memcpy(&bits[1], &b, sizeof(b));                             \
    return bits[0] == bits[1];                                                                                        \
  }
LONGSHORE_SAME_BITS_(float, unsigned int)
LONGSHORE_SAME_BITS_(double, unsigned long long)
/* The lanes among `lanes` with the same value. */
template <class T> LONGSHORE_CUDA_ longshore_ballot_result_ __match_any_sync(longshore_ballot_result_ lanes, T value) {
  longshore_ballot_result_ same = 0;
  lanes = longshore_running_(lanes);
  for (unsigned int lane = 0; lane < LONGSHORE_WARP_WIDTH_; ++lane) {
    const T other = longshore_of_lane_((longshore_lanes_)lanes, value, lane);
    if ((lanes >> lane & 1) && longshore_is_same_(other, value)) same |= (longshore_ballot_result_)1 << lane;
  }
  return same;
}
template <class T>
LONGSHORE_CUDA_ longshore_ballot_result_ __match_all_sync(longshore_ballot_result_ lanes, T value, int *all) {
  lanes = longshore_running_(lanes);
  const longshore_ballot_result_ same = __match_any_sync(lanes, value);
  *all = __all_sync(lanes, same == lanes);
  return *all ? lanes : 0;
}

/* The values of the chosen lanes, combined in the order of the lanes. */
template <class T, class F> LONGSHORE_CUDA_ T longshore_reduce_among_(longshore_ballot_result_ lanes, T value, F combine) {
  T result = value;
  lanes = longshore_running_(lanes);
  bool is_first = true;
  for (unsigned int lane = 0; lane < LONGSHORE_WARP_WIDTH_; ++lane) {
    const T other = longshore_of_lane_((longshore_lanes_)lanes, value, lane);
    if (!(lanes >> lane & 1)) continue;
    result = is_first ? other : combine(result, other);
    is_first = false;
  }
  return result;
}
struct longshore_plus_ {
  template <class T> __host__ __device__ inline T operator()(T a, T b) const { return (T)(a + b); }
};
struct longshore_less_ {
  template <class T> __host__ __device__ inline T operator()(T a, T b) const { return b < a ? b : a; }
};
struct longshore_greater_ {
  template <class T> __host__ __device__ inline T operator()(T a, T b) const { return a < b ? b : a; }
};
struct longshore_bit_and_ {
  template <class T> __host__ __device__ inline T operator()(T a, T b) const { return (T)(a & b); }
};
struct longshore_bit_or_ {
  template <class T> __host__ __device__ inline T operator()(T a, T b) const { return (T)(a | b); }
};
struct longshore_bit_xor_ {
  template <class T> __host__ __device__ inline T operator()(T a, T b) const { return (T)(a ^ b); }
};
#define LONGSHORE_REDUCE_(name, combine)                                                                              \
  LONGSHORE_CUDA_ unsigned int __reduce_##name##_sync(longshore_ballot_result_ lanes, unsigned int value) {           \
    return longshore_reduce_among_(lanes, value, combine());                                                          \
  }
#define LONGSHORE_REDUCE_SIGNED_(name, combine)                                                                       \
  LONGSHORE_CUDA_ int __reduce_##name##_sync(longshore_ballot_result_ lanes, int value) {                             \
    return longshore_reduce_among_(lanes, value, combine());                                                          \
  }
LONGSHORE_REDUCE_(add, longshore_plus_)
LONGSHORE_REDUCE_(min, longshore_less_)
LONGSHORE_REDUCE_(max, longshore_greater_)
LONGSHORE_REDUCE_SIGNED_(add, longshore_plus_)
LONGSHORE_REDUCE_SIGNED_(min, longshore_less_)
LONGSHORE_REDUCE_SIGNED_(max, longshore_greater_)
LONGSHORE_REDUCE_(and, longshore_bit_and_)
LONGSHORE_REDUCE_(or, longshore_bit_or_)
LONGSHORE_REDUCE_(xor, longshore_bit_xor_)

/* ---- HIP's names ----------------------------------------------------------------------------- */

#if LONGSHORE_IS_HIP_
LONGSHORE_CUDA_ unsigned long long __lanemask_eq() { return 1ull << __lane_id(); }
LONGSHORE_CUDA_ unsigned long long __lanemask_lt() { return (1ull << __lane_id()) - 1; }
LONGSHORE_CUDA_ unsigned long long __lanemask_le() { return __lanemask_lt() | __lanemask_eq(); }
LONGSHORE_CUDA_ unsigned long long __lanemask_gt() { return ~__lanemask_le() & (~0ull >> (64 - LONGSHORE_LANE_BITS_)); }
LONGSHORE_CUDA_ unsigned long long __lanemask_ge() { return __lanemask_gt() | __lanemask_eq(); }
/* Values of the lanes whose numbers are `bytes / 4`. */
LONGSHORE_CUDA_ int __hip_ds_bpermute(int bytes, int value) { return __shfl(value, (int)((unsigned int)bytes / 4)); }
LONGSHORE_CUDA_ float __hip_ds_bpermutef(int bytes, float value) { return __shfl(value, (int)((unsigned int)bytes / 4)); }
#if !defined(__AMDGCN__)
/* The builtin functions for AMD GPUs that kernels use most. */
LONGSHORE_CUDA_ int longshore_first_lane_(int value) {
  const unsigned long long present = __activemask();
  return __shfl(value, __builtin_ctzll(present));
}
LONGSHORE_CUDA_ unsigned int longshore_lanes_before_(unsigned int lanes, unsigned int sum) {
  return sum + (unsigned int)__builtin_popcount(lanes & ((1u << __lane_id()) - 1));
}
LONGSHORE_CUDA_ float longshore_median_(float x, float y, float z) {
  return longshore_max(longshore_min(x, y), longshore_min(longshore_max(x, y), z));
}
#define __builtin_amdgcn_readfirstlane(value) longshore_first_lane_(value)
#define __builtin_amdgcn_readlane(value, lane) __shfl((int)(value), lane)
#define __builtin_amdgcn_ds_bpermute(bytes, value) __shfl((int)(value), (int)((unsigned int)(bytes) / 4))
#define __builtin_amdgcn_mbcnt_lo(lanes, sum) longshore_lanes_before_(lanes, sum)
#define __builtin_amdgcn_mbcnt_hi(lanes, sum) (sum)
#define __builtin_amdgcn_s_barrier() __syncthreads()
#define __builtin_amdgcn_wave_barrier() __syncwarp()
#define __builtin_amdgcn_sched_barrier(mask) ((void)0)
#define __builtin_amdgcn_s_sleep(time) __nanosleep(time)
#define __builtin_amdgcn_rcpf(x) (1.0f / (x))
#define __builtin_amdgcn_rsqf(x) longshore_rsqrt((float)(x))
#define __builtin_amdgcn_sqrtf(x) longshore_sqrt((float)(x))
#define __builtin_amdgcn_exp2f(x) longshore_exp2((float)(x))
#define __builtin_amdgcn_logf(x) longshore_log2((float)(x))
#define __builtin_amdgcn_fmed3f(x, y, z) longshore_median_(x, y, z)
#define __builtin_amdgcn_ubfe(x, from, count) __bitextract_u32(x, from, count)
#define __builtin_amdgcn_alignbit(high, low, count) __funnelshift_r(low, high, count)
#define __builtin_amdgcn_alignbyte(high, low, count) __funnelshift_r(low, high, 8 * ((count) & 3))
#define __builtin_amdgcn_fence(order, scope) __atomic_thread_fence(order)
#define __builtin_amdgcn_s_waitcnt(counters) ((void)0)
#define __builtin_amdgcn_s_setprio(priority) ((void)0)
#define __builtin_amdgcn_s_memtime() ((unsigned long long)clock64())
#define __builtin_amdgcn_s_memrealtime() ((unsigned long long)wall_clock64())
#define __builtin_amdgcn_ballot_w32(condition) ((unsigned int)__ballot(condition))
#define __builtin_amdgcn_ballot_w64(condition) __ballot(condition)
#define __builtin_amdgcn_workitem_id_x() threadIdx.x
#define __builtin_amdgcn_workitem_id_y() threadIdx.y
#define __builtin_amdgcn_workitem_id_z() threadIdx.z
#define __builtin_amdgcn_workgroup_id_x() blockIdx.x
#define __builtin_amdgcn_workgroup_id_y() blockIdx.y
#define __builtin_amdgcn_workgroup_id_z() blockIdx.z
#define __builtin_amdgcn_workgroup_size_x() blockDim.x
#define __builtin_amdgcn_workgroup_size_y() blockDim.y
#define __builtin_amdgcn_workgroup_size_z() blockDim.z
#define __builtin_amdgcn_wavefrontsize() 32
#define __AMDGCN_WAVEFRONT_SIZE 32
#define __AMDGCN_WAVEFRONT_SIZE__ 32
#endif
#endif

#endif
