/*
 * longshore_cuda/fp8.h: the 8-bit floating-point numbers of CUDA, `e4m3` and `e5m2`. `longshore
 * cc` includes it for <cuda_fp8.h>. All conversions round to the nearest number, and to the even one
 * of two.
 */
#ifndef LONGSHORE_CUDA_FP8_H
#define LONGSHORE_CUDA_FP8_H
#pragma clang system_header

#include "half.h"

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;
typedef enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE } __nv_saturation_t;
typedef enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 } __nv_fp8_interpretation_t;

/* ---- Bits ------------------------------------------------------------------------------------ */

/* E4M3 has no infinity: a number outside its range becomes NaN, if the result is not saturated. */
LONGSHORE_BOTH_ __nv_fp8_storage_t longshore_fp8_bits_(float value, bool is_saturated, bool is_e4m3) {
  const int fraction = is_e4m3 ? 3 : 2, bias = is_e4m3 ? 7 : 15, dropped = 23 - fraction;
  const unsigned int most = is_e4m3 ? 0x7e : 0x7b;
  const unsigned int bits = longshore_same_bits_<unsigned int>(value), magnitude = bits & 0x7fffffff;
  const unsigned int sign = bits >> 24 & 0x80;
  /* The sum has the last bit of a denormal number as its last. */
  const unsigned int least_normal = (unsigned int)(128 - bias) << 23, large = least_normal + ((unsigned int)dropped << 23);
  const float sum = longshore_same_bits_<float>(magnitude) + longshore_same_bits_<float>(large);
  const unsigned int denormal = longshore_same_bits_<unsigned int>(sum) - large;
  const unsigned int half = (1u << (dropped - 1)) - 1 + (magnitude >> dropped & 1);
  const unsigned int normal = ((magnitude + half) >> dropped) - ((unsigned int)(127 - bias) << fraction);
  const unsigned int finite = magnitude < least_normal ? denormal : normal;
  const unsigned int above = is_saturated ? most : is_e4m3 ? 0x7fu : 0x7cu;
  const unsigned int number = sign | (finite > most ? above : finite);
  return (__nv_fp8_storage_t)(magnitude > 0x7f800000 ? 0x7fu : number);
}
LONGSHORE_BOTH_ float longshore_from_fp8_bits_(__nv_fp8_storage_t bits, bool is_e4m3) {
  const unsigned int sign = bits & 0x80, magnitude = bits & 0x7f;
  if (!is_e4m3) return longshore_from_half_bits_((unsigned short)(bits << 8));
  if (magnitude == 0x7f) return longshore_same_bits_<float>(sign << 24 | 0x7fffffff);
  return longshore_from_half_bits_((unsigned short)(sign << 8 | magnitude << 7)) * 256.0f;
}

/* ---- Conversions ----------------------------------------------------------------------------- */

#define LONGSHORE_TO_FP8_(from, T, as_float)                                                                          \
  LONGSHORE_BOTH_ __nv_fp8_storage_t __nv_cvt_##from##_to_fp8(T x, __nv_saturation_t saturation,                      \
                                                              __nv_fp8_interpretation_t kind) {                       \
    return longshore_fp8_bits_(as_float, saturation == __NV_SATFINITE, kind == __NV_E4M3);                            \
  }
#define LONGSHORE_TO_FP8_PAIR_(from, T, one, S)                                                                       \
  LONGSHORE_BOTH_ __nv_fp8x2_storage_t __nv_cvt_##from##_to_fp8x2(T v, __nv_saturation_t saturation,                  \
                                                                  __nv_fp8_interpretation_t kind) {                   \
    const S x = {v.x}, y = {v.y};                                                                                     \
    return (__nv_fp8x2_storage_t)(__nv_cvt_##one##_to_fp8(x, saturation, kind) |                                      \
                                  __nv_cvt_##one##_to_fp8(y, saturation, kind) << 8);                                 \
  }
LONGSHORE_TO_FP8_(float, float, x)
LONGSHORE_TO_FP8_(double, double, longshore_rounded_to_odd_(x))
LONGSHORE_TO_FP8_(halfraw, __half_raw, longshore_from_half_bits_(x.x))
LONGSHORE_TO_FP8_(bfloat16raw, __nv_bfloat16_raw, longshore_from_bfloat_bits_(x.x))
LONGSHORE_TO_FP8_PAIR_(float2, float2, float, float)
LONGSHORE_TO_FP8_PAIR_(double2, double2, double, double)
LONGSHORE_TO_FP8_PAIR_(halfraw2, __half2_raw, halfraw, __half_raw)
LONGSHORE_TO_FP8_PAIR_(bfloat16raw2, __nv_bfloat162_raw, bfloat16raw, __nv_bfloat16_raw)
LONGSHORE_BOTH_ __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t kind) {
  __half_raw raw = {longshore_half_bits_(longshore_from_fp8_bits_(x, kind == __NV_E4M3))};
  return raw;
}
LONGSHORE_BOTH_ __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t v, __nv_fp8_interpretation_t kind) {
  __half2_raw raw = {__nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)v, kind).x,
                     __nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)(v >> 8), kind).x};
  return raw;
}

/* ---- Types ----------------------------------------------------------------------------------- */

#define LONGSHORE_FP8_FROM_(name, is_e4m3, T, as_float)                                                               \
  __host__ __device__ explicit name(T x) : __x(longshore_fp8_bits_(as_float, true, is_e4m3)) {}
#define LONGSHORE_FP8_AS_(T)                                                                                          \
  __host__ __device__ explicit operator T() const { return (T)(float)*this; }
#define LONGSHORE_FP8_PART_(kind, shift) longshore_from_fp8_bits_((__nv_fp8_storage_t)(__x >> shift), kind == __NV_E4M3)
#define LONGSHORE_FP8_(e, kind)                                                                                       \
  struct __nv_fp8_##e {                                                                                               \
    __nv_fp8_storage_t __x;                                                                                           \
    __nv_fp8_##e() = default;                                                                                         \
    LONGSHORE_FP8_FROM_(__nv_fp8_##e, kind == __NV_E4M3, float, x)                                                    \
    LONGSHORE_FP8_FROM_(__nv_fp8_##e, kind == __NV_E4M3, double, longshore_rounded_to_odd_(x))                        \
    LONGSHORE_FP8_FROM_(__nv_fp8_##e, kind == __NV_E4M3, __half, (float)x)                                            \
    LONGSHORE_FP8_FROM_(__nv_fp8_##e, kind == __NV_E4M3, __nv_bfloat16, (float)x)                                     \
    LONGSHORE_FP8_FROM_(__nv_fp8_##e, kind == __NV_E4M3, short, (float)x)                                             \
    LONGSHORE_FP8_FROM_(__nv_fp8_##e, kind == __NV_E4M3, unsigned short, (float)x)                                    \
    LONGSHORE_FP8_FROM_(__nv_fp8_##e, kind == __NV_E4M3, int, (float)x)                                               \
    LONGSHORE_FP8_FROM_(__nv_fp8_##e, kind == __NV_E4M3, unsigned int, (float)x)                                      \
    LONGSHORE_FP8_FROM_(__nv_fp8_##e, kind == __NV_E4M3, long, (float)x)                                              \
    LONGSHORE_FP8_FROM_(__nv_fp8_##e, kind == __NV_E4M3, unsigned long, (float)x)                                     \
    LONGSHORE_FP8_FROM_(__nv_fp8_##e, kind == __NV_E4M3, long long, (float)x)                                         \
    LONGSHORE_FP8_FROM_(__nv_fp8_##e, kind == __NV_E4M3, unsigned long long, (float)x)                                \
    __host__ __device__ explicit operator float() const { return LONGSHORE_FP8_PART_(kind, 0); }                      \
    LONGSHORE_FP8_AS_(double)                                                                                         \
    LONGSHORE_FP8_AS_(__half)                                                                                         \
    LONGSHORE_FP8_AS_(__nv_bfloat16)                                                                                  \
    LONGSHORE_FP8_AS_(bool)                                                                                           \
    LONGSHORE_FP8_AS_(char)                                                                                           \
    LONGSHORE_FP8_AS_(signed char)                                                                                    \
    LONGSHORE_FP8_AS_(unsigned char)                                                                                  \
    LONGSHORE_FP8_AS_(short)                                                                                          \
    LONGSHORE_FP8_AS_(unsigned short)                                                                                 \
    LONGSHORE_FP8_AS_(int)                                                                                            \
    LONGSHORE_FP8_AS_(unsigned int)                                                                                   \
    LONGSHORE_FP8_AS_(long)                                                                                           \
    LONGSHORE_FP8_AS_(unsigned long)                                                                                  \
    LONGSHORE_FP8_AS_(long long)                                                                                      \
    LONGSHORE_FP8_AS_(unsigned long long)                                                                             \
  };                                                                                                                  \
  struct __attribute__((aligned(2))) __nv_fp8x2_##e {                                                                 \
    __nv_fp8x2_storage_t __x;                                                                                         \
    __nv_fp8x2_##e() = default;                                                                                       \
    __host__ __device__ explicit __nv_fp8x2_##e(float2 v)                                                             \
        : __x(__nv_cvt_float2_to_fp8x2(v, __NV_SATFINITE, kind)) {}                                                   \
    __host__ __device__ explicit __nv_fp8x2_##e(double2 v)                                                            \
        : __x(__nv_cvt_double2_to_fp8x2(v, __NV_SATFINITE, kind)) {}                                                  \
    __host__ __device__ explicit __nv_fp8x2_##e(__half2 v) : __nv_fp8x2_##e(__half22float2(v)) {}                     \
    __host__ __device__ explicit __nv_fp8x2_##e(__nv_bfloat162 v) : __nv_fp8x2_##e(__bfloat1622float2(v)) {}          \
    __host__ __device__ explicit operator float2() const {                                                            \
      return make_float2(LONGSHORE_FP8_PART_(kind, 0), LONGSHORE_FP8_PART_(kind, 8));                                 \
    }                                                                                                                 \
    __host__ __device__ explicit operator __half2() const { return __float22half2_rn((float2)*this); }                \
  };                                                                                                                  \
  struct __attribute__((aligned(4))) __nv_fp8x4_##e {                                                                 \
    __nv_fp8x4_storage_t __x;                                                                                         \
    __nv_fp8x4_##e() = default;                                                                                       \
    __host__ __device__ explicit __nv_fp8x4_##e(float4 v)                                                             \
        : __x(__nv_fp8x2_##e(make_float2(v.x, v.y)).__x |                                                             \
              (unsigned int)__nv_fp8x2_##e(make_float2(v.z, v.w)).__x << 16) {}                                       \
    __host__ __device__ explicit __nv_fp8x4_##e(double4 v)                                                            \
        : __x(__nv_fp8x2_##e(make_double2(v.x, v.y)).__x |                                                            \
              (unsigned int)__nv_fp8x2_##e(make_double2(v.z, v.w)).__x << 16) {}                                      \
    __host__ __device__ explicit __nv_fp8x4_##e(__half2 low, __half2 high)                                            \
        : __x(__nv_fp8x2_##e(low).__x | (unsigned int)__nv_fp8x2_##e(high).__x << 16) {}                              \
    __host__ __device__ explicit __nv_fp8x4_##e(__nv_bfloat162 low, __nv_bfloat162 high)                              \
        : __x(__nv_fp8x2_##e(low).__x | (unsigned int)__nv_fp8x2_##e(high).__x << 16) {}                              \
    __host__ __device__ explicit operator float4() const {                                                            \
      return make_float4(LONGSHORE_FP8_PART_(kind, 0), LONGSHORE_FP8_PART_(kind, 8), LONGSHORE_FP8_PART_(kind, 16),   \
                         LONGSHORE_FP8_PART_(kind, 24));                                                              \
    }                                                                                                                 \
  };
LONGSHORE_FP8_(e4m3, __NV_E4M3)
LONGSHORE_FP8_(e5m2, __NV_E5M2)

#endif
