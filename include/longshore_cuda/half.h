/*
 * longshore_cuda/half.h: the 16-bit numbers of CUDA and HIP, `half` and `bfloat16`. `longshore cc`
 * includes it for <cuda_fp16.h>, <cuda_bf16.h> and HIP's headers of these names. All arithmetic is
 * that of float, rounded once.
 */
#ifndef LONGSHORE_CUDA_HALF_H
#define LONGSHORE_CUDA_HALF_H
#pragma clang system_header

#include "../longshore_cuda.h"

/* ---- Bits ------------------------------------------------------------------------------------ */

#if defined(__NVPTX__) && __clang_major__ >= 17 || defined(__AMDGCN__) || defined(__F16C__) || defined(__aarch64__)
/* The processor's conversions. */
LONGSHORE_BOTH_ unsigned short longshore_half_bits_(float value) {
  return longshore_same_bits_<unsigned short>((_Float16)value);
}
LONGSHORE_BOTH_ float longshore_from_half_bits_(unsigned short half) {
  return (float)longshore_same_bits_<_Float16>(half);
}
#else
/* To the nearest number, to the even one of two. No branch keeps loops from being vectorised. */
LONGSHORE_BOTH_ unsigned short longshore_half_bits_(float value) {
  const unsigned int bits = longshore_same_bits_<unsigned int>(value), magnitude = bits & 0x7fffffff;
  /* The sum with 0.5 has the last bit of a denormal number as its last. */
  const float sum = longshore_same_bits_<float>(magnitude) + 0.5f;
  const unsigned int denormal = longshore_same_bits_<unsigned int>(sum) - 0x3f000000;
  const unsigned int normal = (magnitude + 0xfff + (magnitude >> 13 & 1) - 0x38000000) >> 13;
  const unsigned int finite = magnitude < 0x38800000 ? denormal : normal;
  const unsigned int number = magnitude < 0x477ff000 ? finite : 0x7c00u;
  return (unsigned short)((bits >> 16 & 0x8000) | (magnitude > 0x7f800000 ? 0x7e00u : number));
}
/* A product gives the exponent its bias, also that of a denormal number. */
LONGSHORE_BOTH_ float longshore_from_half_bits_(unsigned short half) {
  const unsigned int magnitude = (unsigned int)(half & 0x7fff) << 13;
  const float number = longshore_same_bits_<float>(magnitude) * 0x1p112f;
  const unsigned int special = magnitude >= 0x0f800000 ? 0x7f800000u : 0u;
  return longshore_same_bits_<float>(longshore_same_bits_<unsigned int>(number) | special |
                                     (unsigned int)(half & 0x8000) << 16);
}
#endif
/* A double whose last bit is 1 if it is inexact. */
template <class I> LONGSHORE_BOTH_ double longshore_odd_double_(I value) {
  if (sizeof(I) < 8) return (double)value;
  const I high = (value >> 12) | ((value & 4095) != 0);
  const bool is_exact = value < (I)1 << 52 && (value >= 0 || value > -((I)1 << 52));
  return is_exact ? (double)value : (double)high * 4096.0;
}
LONGSHORE_BOTH_ unsigned short longshore_bfloat_bits_(float value) {
  const unsigned int bits = longshore_same_bits_<unsigned int>(value);
  const unsigned int number = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return (unsigned short)((bits & 0x7fffffff) > 0x7f800000 ? 0x7fffu : number);
}
LONGSHORE_BOTH_ float longshore_from_bfloat_bits_(unsigned short bfloat) {
  return longshore_same_bits_<float>((unsigned int)bfloat << 16);
}

/* The number as a float, whose last bit is 1 if the float is inexact: a conversion to fewer bits
 * then rounds once. */
LONGSHORE_BOTH_ float longshore_rounded_to_odd_(double value) {
  const float nearest = (float)value;
  if ((double)nearest == value || value != value) return nearest;
  unsigned int bits = longshore_same_bits_<unsigned int>(nearest);
  const bool is_too_large = value < 0 ? (double)nearest < value : (double)nearest > value;
  return longshore_same_bits_<float>((bits - is_too_large) | 1);
}

/* ---- Types ----------------------------------------------------------------------------------- */

/* An integer may not be a float. */
template <class I> LONGSHORE_BOTH_ unsigned short longshore_bfloat_bits_(I value) {
  return longshore_bfloat_bits_(longshore_rounded_to_odd_(longshore_odd_double_(value)));
}
#if __clang_major__ >= 17
LONGSHORE_BOTH_ unsigned short longshore_bfloat_bits_(_Float16 value) { return longshore_bfloat_bits_((float)value); }
#endif
#define LONGSHORE_SMALL_FROM_(name, bits_of, T) __host__ __device__ name(T value) : bits(bits_of(value)) {}
/* HIP's half types mix with the compiler's. */
#if LONGSHORE_IS_HIP_ && __clang_major__ >= 17
#define LONGSHORE_SMALL_FROM_COMPILERS_(name, bits_of) LONGSHORE_SMALL_FROM_(name, bits_of, _Float16)
#else
#define LONGSHORE_SMALL_FROM_COMPILERS_(name, bits_of)
#endif
/* A comparison holds if it does for both numbers of the pairs. */
#define LONGSHORE_SMALL_PAIRS_TEST_(name, op)                                                                         \
  LONGSHORE_BOTH_ bool operator op(name##2 a, name##2 b) { return a.x op b.x && a.y op b.y; }
#define LONGSHORE_SMALL_(name, bits_of, from_bits)                                                                    \
  struct name##_raw {                                                                                                 \
    unsigned short x;                                                                                                 \
  };                                                                                                                  \
  struct name##2_raw {                                                                                                \
    unsigned short x, y;                                                                                              \
  };                                                                                                                  \
  struct __attribute__((aligned(2))) name {                                                                           \
    name() = default;                                                                                                 \
    __host__ __device__ name(name##_raw value) : bits(value.x) {}                                                     \
    __host__ __device__ name(double value) : bits(bits_of(longshore_rounded_to_odd_(value))) {}                       \
    LONGSHORE_SMALL_FROM_(name, bits_of, float)                                                                       \
    LONGSHORE_SMALL_FROM_(name, bits_of, int)                                                                         \
    LONGSHORE_SMALL_FROM_(name, bits_of, unsigned int)                                                                \
    LONGSHORE_SMALL_FROM_(name, bits_of, long)                                                                        \
    LONGSHORE_SMALL_FROM_(name, bits_of, unsigned long)                                                               \
    LONGSHORE_SMALL_FROM_(name, bits_of, long long)                                                                   \
    LONGSHORE_SMALL_FROM_(name, bits_of, unsigned long long)                                                          \
    LONGSHORE_SMALL_FROM_COMPILERS_(name, bits_of)                                                                    \
    __host__ __device__ operator float() const { return from_bits(bits); }                                            \
    __host__ __device__ operator name##_raw() const {                                                                 \
      name##_raw value = {bits};                                                                                      \
      return value;                                                                                                   \
    }                                                                                                                 \
    __host__ __device__ name &operator+=(name b) { return *this = name((float)*this + (float)b); }                    \
    __host__ __device__ name &operator-=(name b) { return *this = name((float)*this - (float)b); }                    \
    __host__ __device__ name &operator*=(name b) { return *this = name((float)*this * (float)b); }                    \
    __host__ __device__ name &operator/=(name b) { return *this = name((float)*this / (float)b); }                    \
    __host__ __device__ name &operator++() { return *this = name((float)*this + 1.0f); }                              \
    __host__ __device__ name &operator--() { return *this = name((float)*this - 1.0f); }                              \
    __host__ __device__ name operator++(int) {                                                                        \
      const name before = *this;                                                                                      \
      ++*this;                                                                                                        \
      return before;                                                                                                  \
    }                                                                                                                 \
    __host__ __device__ name operator--(int) {                                                                        \
      const name before = *this;                                                                                      \
      --*this;                                                                                                        \
      return before;                                                                                                  \
    }                                                                                                                 \
    unsigned short bits;                                                                                              \
  };                                                                                                                  \
  LONGSHORE_BOTH_ name operator+(name a, name b) { return name((float)a + (float)b); }                                \
  LONGSHORE_BOTH_ name operator-(name a, name b) { return name((float)a - (float)b); }                                \
  LONGSHORE_BOTH_ name operator*(name a, name b) { return name((float)a * (float)b); }                                \
  LONGSHORE_BOTH_ name operator/(name a, name b) { return name((float)a / (float)b); }                                \
  LONGSHORE_BOTH_ name operator-(name a) { return name(-(float)a); }                                                  \
  LONGSHORE_BOTH_ bool operator==(name a, name b) { return (float)a == (float)b; }                                    \
  LONGSHORE_BOTH_ bool operator!=(name a, name b) { return (float)a != (float)b; }                                    \
  LONGSHORE_BOTH_ bool operator<(name a, name b) { return (float)a < (float)b; }                                      \
  LONGSHORE_BOTH_ bool operator>(name a, name b) { return (float)a > (float)b; }                                      \
  LONGSHORE_BOTH_ bool operator<=(name a, name b) { return (float)a <= (float)b; }                                    \
  LONGSHORE_BOTH_ bool operator>=(name a, name b) { return (float)a >= (float)b; }                                    \
  struct __attribute__((aligned(4))) name##2 {                                                                        \
    typedef name longshore_element_;                                                                                  \
    static const int longshore_count_ = 2;                                                                            \
    name##2() = default;                                                                                              \
    __host__ __device__ name##2(name x, name y) : x(x), y(y) {}                                                       \
    __host__ __device__ name##2(name##2_raw value) : x(name##_raw{value.x}), y(name##_raw{value.y}) {}                \
    __host__ __device__ operator name##2_raw() const {                                                                \
      name##2_raw value = {x.bits, y.bits};                                                                           \
      return value;                                                                                                   \
    }                                                                                                                 \
    name x, y;                                                                                                        \
  };                                                                                                                  \
  LONGSHORE_SMALL_PAIRS_TEST_(name, ==)                                                                               \
  LONGSHORE_SMALL_PAIRS_TEST_(name, !=)                                                                               \
  LONGSHORE_SMALL_PAIRS_TEST_(name, <)                                                                                \
  LONGSHORE_SMALL_PAIRS_TEST_(name, >)                                                                                \
  LONGSHORE_SMALL_PAIRS_TEST_(name, <=)                                                                               \
  LONGSHORE_SMALL_PAIRS_TEST_(name, >=)
LONGSHORE_SMALL_(__half, longshore_half_bits_, longshore_from_half_bits_)
LONGSHORE_SMALL_(__nv_bfloat16, longshore_bfloat_bits_, longshore_from_bfloat_bits_)
typedef __half half;
typedef __half2 half2;
typedef __nv_bfloat16 nv_bfloat16, __hip_bfloat16, hip_bfloat16;
typedef __nv_bfloat162 nv_bfloat162, __hip_bfloat162;

/* ---- Conversions ----------------------------------------------------------------------------- */

/* To the next number in a direction, which is the nearest one or its neighbour. */
#define LONGSHORE_TO_ZERO_ 0
#define LONGSHORE_DOWN_ (-1)
#define LONGSHORE_UP_ 1
template <class S> LONGSHORE_BOTH_ S longshore_small_(double x, int direction) {
  S nearest(x);
  const double rounded = (float)nearest;
  const bool is_low = rounded < x, is_high = rounded > x, is_negative = x < 0;
  if (direction == LONGSHORE_TO_ZERO_) direction = is_negative ? LONGSHORE_UP_ : LONGSHORE_DOWN_;
  if (!(direction == LONGSHORE_UP_ ? is_low : is_high)) return nearest;
  if ((nearest.bits & 0x7fff) == 0)
    nearest.bits = direction == LONGSHORE_UP_ ? 1 : 0x8001;
  else
    nearest.bits = (unsigned short)(nearest.bits + ((nearest.bits >> 15 != 0) == (direction == LONGSHORE_UP_) ? -1 : 1));
  return nearest;
}
/* The nearest integer of the type. */
template <class I> LONGSHORE_BOTH_ I longshore_whole_(float x, I least, I most) {
  return longshore_clamped_<I, float>(x, (float)least, (float)most + 1, least, most);
}
#define LONGSHORE_SMALL_INTEGER_(S, s, I, i, least, most)                                                             \
  LONGSHORE_BOTH_ S __##i##2##s##_rn(I x) { return S(x); }                                                            \
  LONGSHORE_BOTH_ S __##i##2##s##_rz(I x) { return longshore_small_<S>(longshore_odd_double_(x), LONGSHORE_TO_ZERO_); }              \
  LONGSHORE_BOTH_ S __##i##2##s##_rd(I x) { return longshore_small_<S>(longshore_odd_double_(x), LONGSHORE_DOWN_); }                 \
  LONGSHORE_BOTH_ S __##i##2##s##_ru(I x) { return longshore_small_<S>(longshore_odd_double_(x), LONGSHORE_UP_); }                   \
  LONGSHORE_BOTH_ I __##s##2##i##_rn(S x) { return longshore_whole_<I>(__builtin_rintf((float)x), least, most); }     \
  LONGSHORE_BOTH_ I __##s##2##i##_rz(S x) { return longshore_whole_<I>((float)x, least, most); }                      \
  LONGSHORE_BOTH_ I __##s##2##i##_rd(S x) { return longshore_whole_<I>(__builtin_floorf((float)x), least, most); }    \
  LONGSHORE_BOTH_ I __##s##2##i##_ru(S x) { return longshore_whole_<I>(__builtin_ceilf((float)x), least, most); }
#define LONGSHORE_SMALL_CONVERSIONS_(S, s)                                                                            \
  LONGSHORE_BOTH_ S __float2##s(float x) { return S(x); }                                                             \
  LONGSHORE_BOTH_ S __float2##s##_rn(float x) { return S(x); }                                                        \
  LONGSHORE_BOTH_ S __float2##s##_rz(float x) { return longshore_small_<S>(x, LONGSHORE_TO_ZERO_); }                  \
  LONGSHORE_BOTH_ S __float2##s##_rd(float x) { return longshore_small_<S>(x, LONGSHORE_DOWN_); }                     \
  LONGSHORE_BOTH_ S __float2##s##_ru(float x) { return longshore_small_<S>(x, LONGSHORE_UP_); }                       \
  LONGSHORE_BOTH_ S __double2##s(double x) { return S(x); }                                                           \
  LONGSHORE_BOTH_ float __##s##2float(S x) { return (float)x; }                                                       \
  LONGSHORE_BOTH_ unsigned short __##s##_as_ushort(S x) { return x.bits; }                                            \
  LONGSHORE_BOTH_ short __##s##_as_short(S x) { return (short)x.bits; }                                               \
  LONGSHORE_BOTH_ S __ushort_as_##s(unsigned short x) { return S(S##_raw{x}); }                                       \
  LONGSHORE_BOTH_ S __short_as_##s(short x) { return S(S##_raw{(unsigned short)x}); }                                 \
  LONGSHORE_BOTH_ S##2 __halves2##s##2(S x, S y) { return S##2(x, y); }                                               \
  LONGSHORE_BOTH_ S##2 make_##s##2(S x, S y) { return S##2(x, y); }                                                   \
  LONGSHORE_BOTH_ S##2 __##s##2##s##2(S x) { return S##2(x, x); }                                                     \
  LONGSHORE_BOTH_ S##2 __float2##s##2_rn(float x) { return S##2(S(x), S(x)); }                                        \
  LONGSHORE_BOTH_ S##2 __floats2##s##2_rn(float x, float y) { return S##2(S(x), S(y)); }                              \
  LONGSHORE_BOTH_ S##2 __float22##s##2_rn(float2 v) { return S##2(S(v.x), S(v.y)); }                                  \
  LONGSHORE_BOTH_ float2 __##s##22float2(S##2 v) { return make_float2((float)v.x, (float)v.y); }                      \
  LONGSHORE_BOTH_ S __low2##s(S##2 v) { return v.x; }                                                                 \
  LONGSHORE_BOTH_ S __high2##s(S##2 v) { return v.y; }                                                                \
  LONGSHORE_BOTH_ S##2 __low2##s##2(S##2 v) { return S##2(v.x, v.x); }                                                \
  LONGSHORE_BOTH_ S##2 __high2##s##2(S##2 v) { return S##2(v.y, v.y); }                                               \
  LONGSHORE_BOTH_ S##2 __lows2##s##2(S##2 a, S##2 b) { return S##2(a.x, b.x); }                                       \
  LONGSHORE_BOTH_ S##2 __highs2##s##2(S##2 a, S##2 b) { return S##2(a.y, b.y); }                                      \
  LONGSHORE_BOTH_ S##2 __lowhigh2highlow(S##2 v) { return S##2(v.y, v.x); }                                           \
  LONGSHORE_BOTH_ float __low2float(S##2 v) { return (float)v.x; }                                                    \
  LONGSHORE_BOTH_ float __high2float(S##2 v) { return (float)v.y; }                                                   \
  LONGSHORE_SMALL_INTEGER_(S, s, short, short, SHRT_MIN, SHRT_MAX)                                                    \
  LONGSHORE_SMALL_INTEGER_(S, s, unsigned short, ushort, 0, USHRT_MAX)                                                \
  LONGSHORE_SMALL_INTEGER_(S, s, int, int, INT_MIN, INT_MAX)                                                          \
  LONGSHORE_SMALL_INTEGER_(S, s, unsigned int, uint, 0, UINT_MAX)                                                     \
  LONGSHORE_SMALL_INTEGER_(S, s, long long, ll, LLONG_MIN, LLONG_MAX)                                                 \
  LONGSHORE_SMALL_INTEGER_(S, s, unsigned long long, ull, 0, ULLONG_MAX)                                              \
  LONGSHORE_BOTH_ signed char __##s##2char_rz(S x) { return longshore_whole_<signed char>(x, SCHAR_MIN, SCHAR_MAX); } \
  LONGSHORE_BOTH_ unsigned char __##s##2uchar_rz(S x) { return longshore_whole_<unsigned char>(x, 0, UCHAR_MAX); }
LONGSHORE_SMALL_CONVERSIONS_(__half, half)
LONGSHORE_SMALL_CONVERSIONS_(__nv_bfloat16, bfloat16)

/* ---- Arithmetic ------------------------------------------------------------------------------ */

/* A function of two numbers and its form for pairs, of which names have an end. */
#define LONGSHORE_SMALL_TWO_OF_(S, name, pair, expression)                                                            \
  LONGSHORE_CUDA_ S name(S a, S b) {                                                                                  \
    const float x = (float)a, y = (float)b;                                                                           \
    return S(expression);                                                                                             \
  }                                                                                                                   \
  LONGSHORE_CUDA_ S##2 pair(S##2 a, S##2 b) { return S##2(name(a.x, b.x), name(a.y, b.y)); }
#define LONGSHORE_SMALL_TWO_(name, pair, expression)                                                                  \
  LONGSHORE_SMALL_TWO_OF_(__half, name, pair, expression)                                                             \
  LONGSHORE_SMALL_TWO_OF_(__nv_bfloat16, name, pair, expression)
#define LONGSHORE_SMALL_SUM_(name, expression)                                                                        \
  LONGSHORE_SMALL_TWO_(name, name##2, expression)                                                                     \
  LONGSHORE_SMALL_TWO_(name##_rn, name##2_rn, expression)                                                             \
  LONGSHORE_SMALL_TWO_(name##_sat, name##2_sat, __saturatef(expression))
LONGSHORE_SMALL_SUM_(__hadd, x + y)
LONGSHORE_SMALL_SUM_(__hsub, x - y)
LONGSHORE_SMALL_SUM_(__hmul, x *y)
LONGSHORE_SMALL_TWO_(__hdiv, __h2div, x / y)
LONGSHORE_SMALL_TWO_(__hmin, __hmin2, longshore_min(x, y))
LONGSHORE_SMALL_TWO_(__hmax, __hmax2, longshore_max(x, y))
LONGSHORE_SMALL_TWO_(__hmin_nan, __hmin2_nan, x != x || y != y ? x + y : longshore_min(x, y))
LONGSHORE_SMALL_TWO_(__hmax_nan, __hmax2_nan, x != x || y != y ? x + y : longshore_max(x, y))
#define LONGSHORE_SMALL_ONE_(name, expression)                                                                        \
  LONGSHORE_CUDA_ __half h##name(__half a) { return __half(expression); }                                             \
  LONGSHORE_CUDA_ __nv_bfloat16 h##name(__nv_bfloat16 a) { return __nv_bfloat16(expression); }                        \
  LONGSHORE_CUDA_ __half2 h2##name(__half2 a) { return __halves2half2(h##name(a.x), h##name(a.y)); }                  \
  LONGSHORE_CUDA_ __nv_bfloat162 h2##name(__nv_bfloat162 a) { return __halves2bfloat162(h##name(a.x), h##name(a.y)); }
LONGSHORE_SMALL_ONE_(exp, longshore_exp((float)a))
LONGSHORE_SMALL_ONE_(exp2, longshore_exp2((float)a))
LONGSHORE_SMALL_ONE_(exp10, longshore_exp10((float)a))
LONGSHORE_SMALL_ONE_(log, longshore_log((float)a))
LONGSHORE_SMALL_ONE_(log2, longshore_log2((float)a))
LONGSHORE_SMALL_ONE_(log10, longshore_log10((float)a))
LONGSHORE_SMALL_ONE_(sin, longshore_sin((float)a))
LONGSHORE_SMALL_ONE_(cos, longshore_cos((float)a))
LONGSHORE_SMALL_ONE_(tanh, longshore_tanh((float)a))
LONGSHORE_SMALL_ONE_(tanh_approx, longshore_tanh((float)a))
LONGSHORE_SMALL_ONE_(sqrt, longshore_sqrt((float)a))
LONGSHORE_SMALL_ONE_(rsqrt, longshore_rsqrt((float)a))
LONGSHORE_SMALL_ONE_(rcp, 1.0f / (float)a)
LONGSHORE_SMALL_ONE_(floor, longshore_floor((float)a))
LONGSHORE_SMALL_ONE_(ceil, longshore_ceil((float)a))
LONGSHORE_SMALL_ONE_(trunc, longshore_trunc((float)a))
LONGSHORE_SMALL_ONE_(rint, longshore_rint((float)a))
#define LONGSHORE_SMALL_TEST_OF_(S, name, expression)                                                                 \
  LONGSHORE_CUDA_ bool __h##name(S a, S b) {                                                                          \
    const float x = (float)a, y = (float)b;                                                                           \
    return expression;                                                                                                \
  }                                                                                                                   \
  LONGSHORE_CUDA_ S##2 __h##name##2(S##2 a, S##2 b) {                                                                 \
    return S##2(S(__h##name(a.x, b.x) ? 1.0f : 0.0f), S(__h##name(a.y, b.y) ? 1.0f : 0.0f));                          \
  }                                                                                                                   \
  LONGSHORE_CUDA_ bool __hb##name##2(S##2 a, S##2 b) { return __h##name(a.x, b.x) && __h##name(a.y, b.y); }           \
  LONGSHORE_CUDA_ unsigned int __h##name##2_mask(S##2 a, S##2 b) {                                                    \
    return (__h##name(a.x, b.x) ? 0xffffu : 0u) | (__h##name(a.y, b.y) ? 0xffff0000u : 0u);                           \
  }
/* The forms that end in `u` hold for NaN. */
#define LONGSHORE_SMALL_TEST_(name, op)                                                                               \
  LONGSHORE_SMALL_TEST_OF_(__half, name, x == x && y == y && x op y)                                                  \
  LONGSHORE_SMALL_TEST_OF_(__nv_bfloat16, name, x == x && y == y && x op y)                                           \
  LONGSHORE_SMALL_TEST_OF_(__half, name##u, x != x || y != y || x op y)                                               \
  LONGSHORE_SMALL_TEST_OF_(__nv_bfloat16, name##u, x != x || y != y || x op y)
LONGSHORE_SMALL_TEST_(eq, ==)
LONGSHORE_SMALL_TEST_(ne, !=)
LONGSHORE_SMALL_TEST_(lt, <)
LONGSHORE_SMALL_TEST_(le, <=)
LONGSHORE_SMALL_TEST_(gt, >)
LONGSHORE_SMALL_TEST_(ge, >=)
/* The product has 22 bits, which a float holds, and one more rounding than the hardware's. */
LONGSHORE_CUDA_ __half __hfma(__half a, __half b, __half c) {
  return __half((double)((float)a * (float)b) + (double)(float)c);
}
LONGSHORE_CUDA_ __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
  return __nv_bfloat16(longshore_fma((float)a, (float)b, (float)c));
}
#define LONGSHORE_SMALL_FMA_(S, suffix, value)                                                                        \
  LONGSHORE_CUDA_ S __hfma##suffix(S a, S b, S c) {                                                                   \
    const float v = (float)__hfma(a, b, c);                                                                           \
    return S(value);                                                                                                  \
  }                                                                                                                   \
  LONGSHORE_CUDA_ S##2 __hfma2##suffix(S##2 a, S##2 b, S##2 c) {                                                      \
    return S##2(__hfma##suffix(a.x, b.x, c.x), __hfma##suffix(a.y, b.y, c.y));                                        \
  }
#define LONGSHORE_SMALL_SIGNS_(S, infinity)                                                                           \
  LONGSHORE_CUDA_ S##2 __hfma2(S##2 a, S##2 b, S##2 c) { return S##2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)); } \
  LONGSHORE_SMALL_FMA_(S, _sat, __saturatef(v))                                                                       \
  LONGSHORE_SMALL_FMA_(S, _relu, v < 0 ? 0.0f : v)                                                                    \
  LONGSHORE_CUDA_ S __hneg(S a) { return -a; }                                                                        \
  LONGSHORE_CUDA_ S __habs(S a) { return S(S##_raw{(unsigned short)(a.bits & 0x7fff)}); }                             \
  LONGSHORE_CUDA_ S##2 __hneg2(S##2 a) { return S##2(-a.x, -a.y); }                                                   \
  LONGSHORE_CUDA_ S##2 __habs2(S##2 a) { return S##2(__habs(a.x), __habs(a.y)); }                                     \
  LONGSHORE_CUDA_ bool __hisnan(S a) { return (a.bits & 0x7fff) > infinity; }                                         \
  LONGSHORE_CUDA_ S##2 __hisnan2(S##2 a) { return __hneu2(a, a); }                                                    \
  LONGSHORE_CUDA_ int __hisinf(S a) { return (a.bits & 0x7fff) == infinity ? (a.bits >> 15 ? -1 : 1) : 0; }
/* Products of complex numbers, with a complex sum. */
#define LONGSHORE_SMALL_COMPLEX_(S)                                                                                   \
  LONGSHORE_CUDA_ S##2 __hcmadd(S##2 a, S##2 b, S##2 c) {                                                             \
    return __hfma2(S##2(a.y, a.y), S##2(-b.y, b.x), __hfma2(S##2(a.x, a.x), b, c));                                   \
  }
LONGSHORE_SMALL_SIGNS_(__half, 0x7c00)
LONGSHORE_SMALL_SIGNS_(__nv_bfloat16, 0x7f80)
LONGSHORE_SMALL_COMPLEX_(__half)
LONGSHORE_SMALL_COMPLEX_(__nv_bfloat16)

/* Sums in memory, as part of the four bytes around them. */
template <class S> LONGSHORE_CUDA_ S longshore_small_add_(S *p, S v) {
  unsigned short *const bits = (unsigned short *)p;
  unsigned short old = *(volatile unsigned short *)bits;
  for (;;) {
    S value;
    __builtin_memcpy(&value, &old, sizeof(old));
    const S sum = value + v;
    const unsigned short seen = atomicCAS(bits, old, sum.bits);
    if (seen == old) return value;
    old = seen;
  }
}
LONGSHORE_CUDA_ __half atomicAdd(__half *p, __half v) { return longshore_small_add_(p, v); }
LONGSHORE_CUDA_ __nv_bfloat16 atomicAdd(__nv_bfloat16 *p, __nv_bfloat16 v) { return longshore_small_add_(p, v); }
/* Each number by itself. */
LONGSHORE_CUDA_ __half2 atomicAdd(__half2 *p, __half2 v) {
  return __half2(atomicAdd(&p->x, v.x), atomicAdd(&p->y, v.y));
}
LONGSHORE_CUDA_ __nv_bfloat162 atomicAdd(__nv_bfloat162 *p, __nv_bfloat162 v) {
  return __nv_bfloat162(atomicAdd(&p->x, v.x), atomicAdd(&p->y, v.y));
}

#endif
