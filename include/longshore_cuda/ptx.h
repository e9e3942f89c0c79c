/*
 * longshore_cuda/ptx.h: the instructions of inline PTX, for devices other than NVIDIA's. Part of
 * longshore_cuda.h. `longshore cc` translates the assembly statements of a source to uses of these
 * functions. A register is the bits of its value.
 */
#ifndef LONGSHORE_CUDA_PTX_H
#define LONGSHORE_CUDA_PTX_H
#pragma clang system_header

#if defined(__NVPTX__)
#define LONGSHORE_PTX_(native, translated) native
#else
#define LONGSHORE_PTX_(native, translated) translated

#if !LONGSHORE_ON_GPU_
extern "C" __device__ __attribute__((noreturn)) void __longshore_exit(void);
#endif

namespace longshore_ptx {
typedef unsigned long long W;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;
typedef float f32;
typedef double f64;

/* ---- Registers ------------------------------------------------------------------------------- */

template <class T> LONGSHORE_CUDA_ T as(W bits) {
  T value;
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}
template <class T> LONGSHORE_CUDA_ W from(T value) {
  W bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  return bits;
}
LONGSHORE_CUDA_ W from(bool value) { return value ? 1 : 0; }
/* The operand of a statement. A constant may stand for a number of 64 bits. */
template <class T> LONGSHORE_CUDA_ W in(T value) {
  static_assert(sizeof(T) <= sizeof(W), "an operand has at most 64 bits");
  return from<T>(value);
}
LONGSHORE_CUDA_ W in(int value) { return (W)(long long)value; }
LONGSHORE_CUDA_ W in(short value) { return (W)(long long)value; }
template <class T> LONGSHORE_CUDA_ void out(T &to, W bits) {
  static_assert(sizeof(T) <= sizeof(W), "an operand has at most 64 bits");
  to = as<T>(bits);
}
template <class T> LONGSHORE_CUDA_ void out(volatile T &to, W bits) { to = as<T>(bits); }

/* ---- Arithmetic ------------------------------------------------------------------------------ */

LONGSHORE_CUDA_ u16 mul_high(u16 a, u16 b) { return (u16)((u32)a * b >> 16); }
LONGSHORE_CUDA_ s16 mul_high(s16 a, s16 b) { return (s16)((s32)a * b >> 16); }
LONGSHORE_CUDA_ u32 mul_high(u32 a, u32 b) { return (u32)((u64)a * b >> 32); }
LONGSHORE_CUDA_ s32 mul_high(s32 a, s32 b) { return (s32)((s64)a * b >> 32); }
LONGSHORE_CUDA_ u64 mul_high(u64 a, u64 b) { return __umul64hi(a, b); }
LONGSHORE_CUDA_ s64 mul_high(s64 a, s64 b) { return __mul64hi(a, b); }

/* A division by zero does not end the kernel. */
template <class T> LONGSHORE_CUDA_ T divide(T a, T b) {
  if (b == 0) return (T)-1;
  return (T)-1 < 0 && b == (T)-1 ? (T)(0 - (W)a) : (T)(a / b);
}
template <class T> LONGSHORE_CUDA_ T remainder(T a, T b) {
  if (b == 0) return a;
  return (T)-1 < 0 && b == (T)-1 ? (T)0 : (T)(a % b);
}
template <class T> LONGSHORE_CUDA_ T absolute(T a) { return a < 0 ? (T)(0 - (W)a) : a; }
LONGSHORE_CUDA_ f32 absolute(f32 a) { return __builtin_fabsf(a); }
LONGSHORE_CUDA_ f64 absolute(f64 a) { return __builtin_fabs(a); }
template <class T> LONGSHORE_CUDA_ T smaller(T a, T b) { return b < a ? b : a; }
LONGSHORE_CUDA_ f32 smaller(f32 a, f32 b) { return __builtin_fminf(a, b); }
LONGSHORE_CUDA_ f64 smaller(f64 a, f64 b) { return __builtin_fmin(a, b); }
template <class T> LONGSHORE_CUDA_ T greater(T a, T b) { return a < b ? b : a; }
LONGSHORE_CUDA_ f32 greater(f32 a, f32 b) { return __builtin_fmaxf(a, b); }
LONGSHORE_CUDA_ f64 greater(f64 a, f64 b) { return __builtin_fmax(a, b); }
LONGSHORE_CUDA_ f32 fused(f32 a, f32 b, f32 c) { return longshore_fma(a, b, c); }
LONGSHORE_CUDA_ f64 fused(f64 a, f64 b, f64 c) { return longshore_fma(a, b, c); }
LONGSHORE_CUDA_ f32 root(f32 a) { return longshore_sqrt(a); }
LONGSHORE_CUDA_ f64 root(f64 a) { return longshore_sqrt(a); }
LONGSHORE_CUDA_ f32 sign_of(f32 sign, f32 a) { return __builtin_copysignf(a, sign); }
LONGSHORE_CUDA_ f64 sign_of(f64 sign, f64 a) { return __builtin_copysign(a, sign); }
LONGSHORE_CUDA_ f32 saturated(f32 a) { return a > 0.0f ? (a < 1.0f ? a : 1.0f) : 0.0f; }
LONGSHORE_CUDA_ f64 saturated(f64 a) { return a > 0.0 ? (a < 1.0 ? a : 1.0) : 0.0; }

/* ---- Bits ------------------------------------------------------------------------------------ */

template <class T> LONGSHORE_CUDA_ T shift_left(T a, u32 by) { return by >= 8 * sizeof(T) ? (T)0 : (T)((W)a << by); }
/* A signed number keeps its sign. */
template <class T> LONGSHORE_CUDA_ T shift_right(T a, u32 by) {
  const u32 most = 8 * sizeof(T) - 1;
  return by > most ? (a < 0 ? (T)-1 : (T)0) : (T)(a >> by);
}
/* `count` bits from a place on, with the sign of the last of them if the type has one. */
template <class T> LONGSHORE_CUDA_ T field(T a, u32 from, u32 count) {
  const u32 bits = 8 * sizeof(T);
  from &= 255, count &= 255;
  const u64 all = longshore_ptx::from<T>(a);
  const u32 last = from + count > bits ? bits - 1 : from + count - 1;
  const bool is_negative = (T)-1 < 0 && count != 0 && (all >> last & 1) != 0;
  const u32 held = from >= bits ? 0 : bits - from < count ? bits - from : count;
  const u64 ones = held >= 64 ? ~0ull : (1ull << held) - 1;
  const u64 value = (from < bits ? all >> from : 0) & ones;
  return (T)(is_negative ? value | ~ones : value);
}
template <class T> LONGSHORE_CUDA_ T with_field(T part, T whole, u32 from, u32 count) {
  const u32 bits = 8 * sizeof(T);
  from &= 255, count &= 255;
  if (from >= bits || count == 0) return whole;
  const u32 held = bits - from < count ? bits - from : count;
  const T ones = (T)((held >= 64 ? ~0ull : (1ull << held) - 1) << from);
  return (T)((whole & ~ones) | ((T)((u64)part << from) & ones));
}
LONGSHORE_CUDA_ u32 count_ones(u32 a) { return (u32)__builtin_popcount(a); }
LONGSHORE_CUDA_ u32 count_ones(u64 a) { return (u32)__builtin_popcountll(a); }
LONGSHORE_CUDA_ u32 leading_zeros(u32 a) { return (u32)__clz((int)a); }
LONGSHORE_CUDA_ u32 leading_zeros(u64 a) { return (u32)__clzll((long long)a); }
LONGSHORE_CUDA_ u32 reversed(u32 a) { return __builtin_bitreverse32(a); }
LONGSHORE_CUDA_ u64 reversed(u64 a) { return __builtin_bitreverse64(a); }
/* The highest bit that differs from the sign; all ones without one. */
template <class T> LONGSHORE_CUDA_ u32 highest(T a) {
  const u64 bits = from<T>(a < 0 ? (T)~a : a);
  return bits == 0 ? ~0u : 63u - (u32)__builtin_clzll(bits);
}
template <class T> LONGSHORE_CUDA_ u32 highest_shift(T a) {
  const u32 at = highest(a);
  return at == ~0u ? at : (u32)(8 * sizeof(T)) - 1 - at;
}
LONGSHORE_CUDA_ u32 logic(u32 a, u32 b, u32 c, u32 table) {
  u32 result = 0;
  if (table & 0x01) result |= ~a & ~b & ~c;
  if (table & 0x02) result |= ~a & ~b & c;
  if (table & 0x04) result |= ~a & b & ~c;
  if (table & 0x08) result |= ~a & b & c;
  if (table & 0x10) result |= a & ~b & ~c;
  if (table & 0x20) result |= a & ~b & c;
  if (table & 0x40) result |= a & b & ~c;
  if (table & 0x80) result |= a & b & c;
  return result;
}
/* Bytes of two words. Bit 3 of a selector stands for the sign of its byte. */
LONGSHORE_CUDA_ u32 permuted(u32 a, u32 b, u32 selectors) {
  const u64 bytes = (u64)b << 32 | a;
  u32 result = 0;
  for (u32 at = 0; at < 4; ++at) {
    const u32 selector = selectors >> 4 * at & 15, byte = (u32)(bytes >> 8 * (selector & 7)) & 255;
    result |= (selector & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * at;
  }
  return result;
}

/* ---- Conversions ----------------------------------------------------------------------------- */

/* Rounding to an integer, as the suffixes of PTX name it. */
LONGSHORE_CUDA_ f32 rni(f32 a) { return __builtin_rintf(a); }
LONGSHORE_CUDA_ f64 rni(f64 a) { return __builtin_rint(a); }
LONGSHORE_CUDA_ f32 rzi(f32 a) { return __builtin_truncf(a); }
LONGSHORE_CUDA_ f64 rzi(f64 a) { return __builtin_trunc(a); }
LONGSHORE_CUDA_ f32 rmi(f32 a) { return __builtin_floorf(a); }
LONGSHORE_CUDA_ f64 rmi(f64 a) { return __builtin_floor(a); }
LONGSHORE_CUDA_ f32 rpi(f32 a) { return __builtin_ceilf(a); }
LONGSHORE_CUDA_ f64 rpi(f64 a) { return __builtin_ceil(a); }
/* A rounded number as the nearest of an integer type. */
template <class T, class F> LONGSHORE_CUDA_ T integer(F a) {
  const T least = (T)-1 < 0 ? (T)(1ull << (8 * sizeof(T) - 1)) : (T)0, most = (T)(least - (T)1);
  const F end = (F)(1ull << (8 * sizeof(T) - 1)) * ((T)-1 < 0 ? (F)1 : (F)2);
  if (a != a) return longshore_of_nan_<T, F>();
  return a < (F)least ? least : a >= end ? most : (T)a;
}
/* The nearest number of another integer type. */
template <class T, class S> LONGSHORE_CUDA_ T clamped(S a) {
  const T least = (T)-1 < 0 ? (T)(1ull << (8 * sizeof(T) - 1)) : (T)0, most = (T)(least - (T)1);
  if (a < 0) return (T)-1 < 0 && (s64)a > (s64)least ? (T)a : least;
  return (u64)a < (u64)most ? (T)a : most;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* The address of memory of the block, which may have 32 bits. */
LONGSHORE_CUDA_ W of_shared(W address) { return (W)__cvta_shared_to_generic((size_t)address); }
template <class T> LONGSHORE_CUDA_ W load(W address) { return from<T>(*(const T *)address); }
template <class T> LONGSHORE_CUDA_ W load_volatile(W address) { return from<T>(*(const volatile T *)address); }
template <class T> LONGSHORE_CUDA_ void store(W address, W bits) { *(T *)address = as<T>(bits); }
template <class T> LONGSHORE_CUDA_ void store_volatile(W address, W bits) { *(volatile T *)address = as<T>(bits); }
template <class T> LONGSHORE_CUDA_ W load_atomic(W address, bool acquires) {
  if (acquires) return from<T>(longshore_atomic_load_explicit((T *)address, LONGSHORE_ACQUIRE, LONGSHORE_SCOPE_SYSTEM));
  return from<T>(longshore_atomic_load_explicit((T *)address, LONGSHORE_RELAXED, LONGSHORE_SCOPE_SYSTEM));
}
template <class T> LONGSHORE_CUDA_ void store_atomic(W address, W bits, bool releases) {
  if (releases) longshore_atomic_store_explicit((T *)address, as<T>(bits), LONGSHORE_RELEASE, LONGSHORE_SCOPE_SYSTEM);
  else longshore_atomic_store_explicit((T *)address, as<T>(bits), LONGSHORE_RELAXED, LONGSHORE_SCOPE_SYSTEM);
}
/* A copy to the block's memory, which is done at once. The rest of the bytes is zero. */
LONGSHORE_CUDA_ void copy(W to, W from, u32 bytes, u32 given) {
  for (u32 at = 0; at < bytes; at += 4) {
    const u32 word = at < given ? *(const u32 *)(from + at) : 0;
    *(u32 *)(to + at) = given - at < 4 ? word & ((1u << 8 * (given - at)) - 1) : word;
  }
}

/* ---- The warp -------------------------------------------------------------------------------- */

/* A shuffle by its lane, up to an end, in the part of the warp that `clamp` chooses. */
LONGSHORE_CUDA_ W shuffle(u32 lanes, u32 value, u32 from, u32 clamp, int kind, W *is_inside) {
  const u32 lane = __lane_id() & 31, mask = clamp >> 8 & 31, end = clamp & 31;
  const u32 least = lane & mask, most = least | (end & ~mask);
  from &= 31;
  u32 source = 0;
  bool found = false;
  if (kind == 0) source = lane - from, found = (int)source >= (int)most;
  else if (kind == 1) source = lane + from, found = source <= most;
  else if (kind == 2) source = lane ^ from, found = source <= most;
  else source = least | (from & ~mask), found = source <= most;
  *is_inside = found ? 1 : 0;
  return __shfl_sync(lanes, value, (int)(found ? source : lane));
}
LONGSHORE_CUDA_ u32 lanes_before() { return (u32)((1ull << (__lane_id() & 31)) - 1); }
LONGSHORE_CUDA_ u32 lane_bit() { return 1u << (__lane_id() & 31); }
LONGSHORE_CUDA_ u32 thread_rank() { return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x; }
LONGSHORE_CUDA_ u32 warp_count() { return (blockDim.x * blockDim.y * blockDim.z + 31) / 32; }

LONGSHORE_CUDA_ void leave() {
#if LONGSHORE_ON_GPU_
  __builtin_amdgcn_endpgm();
#else
  __longshore_exit();
#endif
}
} // namespace longshore_ptx
#endif

#endif
