/*
 * longshore_math/exact.h: functions without rounding errors, and of integers. A part of
 * longshore_math.h.
 */
#ifndef LONGSHORE_MATH_EXACT_H
#define LONGSHORE_MATH_EXACT_H
#pragma clang system_header

/* ---- Of numbers ------------------------------------------------------------------------------ */

/* m(type, unsigned type, suffix of builtins, number from which on all are integers, bits of the
 * fraction, bias of the exponent) */
#define LONGSHORE_FOR_FORMATS_(m) m(float, uint32_t, f, 0x1p23f, 23, 127) m(double, uint64_t, , 0x1p52, 52, 1023)

#if defined(__SSE4_1__) || defined(__aarch64__) || defined(__NVPTX__) || defined(__AMDGCN__)
#define LONGSHORE_ROUNDING_(T, U, suffix, whole, bits, bias)                                                           \
  LONGSHORE_OVERLOAD_ T longshore_rint_(T x) { return __builtin_rint##suffix(x); }                                     \
  LONGSHORE_OVERLOAD_ T longshore_trunc_(T x) { return __builtin_trunc##suffix(x); }
#else
#define LONGSHORE_ROUNDING_(T, U, suffix, whole, bits, bias)                                                           \
  LONGSHORE_OVERLOAD_ T longshore_rint_(T x) {                                                                         \
    LONGSHORE_EXACTLY_                                                                                                 \
    const T a = longshore_fabs_(x), y = (a + whole) - whole;                                                           \
    return a < whole ? longshore_copysign_(y, x) : x;                                                                  \
  }                                                                                                                    \
  LONGSHORE_OVERLOAD_ T longshore_trunc_(T x) {                                                                        \
    LONGSHORE_EXACTLY_                                                                                                 \
    const T a = longshore_fabs_(x), y = (a + whole) - whole;                                                           \
    return a < whole ? longshore_copysign_(y > a ? y - 1 : y, x) : x;                                                  \
  }
#endif
LONGSHORE_FOR_FORMATS_(LONGSHORE_ROUNDING_)

#define LONGSHORE_EXACT_(T, U, suffix, whole, bits, bias)                                                              \
  LONGSHORE_OVERLOAD_ T longshore_round_(T x) {                                                                        \
    LONGSHORE_EXACTLY_                                                                                                 \
    const T y = longshore_trunc_(x), rest = longshore_fabs_(x - y);                                                    \
    return longshore_copysign_(rest >= (T)0.5 ? longshore_fabs_(y) + 1 : longshore_fabs_(y), x);                       \
  }                                                                                                                    \
  LONGSHORE_OVERLOAD_ int longshore_signbit_(T x) { return (int)(longshore_bits_(x) >> (sizeof(T) * 8 - 1)); }         \
  LONGSHORE_OVERLOAD_ U longshore_size_bits_(T x) { return longshore_bits_(x) & ~(U)0 >> 1; }                          \
  LONGSHORE_OVERLOAD_ int longshore_isnan_(T x) { return longshore_size_bits_(x) > (U)(2 * (bias) + 1) << (bits); }    \
  LONGSHORE_OVERLOAD_ int longshore_isinf_(T x) { return longshore_size_bits_(x) == (U)(2 * (bias) + 1) << (bits); }   \
  LONGSHORE_OVERLOAD_ int longshore_isfinite_(T x) { return longshore_size_bits_(x) < (U)(2 * (bias) + 1) << (bits); } \
  LONGSHORE_OVERLOAD_ T longshore_modf_(T x, T *to) {                                                                  \
    LONGSHORE_EXACTLY_                                                                                                 \
    const T y = longshore_trunc_(x);                                                                                   \
    *to = y;                                                                                                           \
    return longshore_copysign_(longshore_isinf_(x) ? 0 : x - y, x);                                                    \
  }                                                                                                                    \
  LONGSHORE_OVERLOAD_ T longshore_frexp_(T x, int *exponent) {                                                         \
    LONGSHORE_EXACTLY_                                                                                                 \
    const U size = longshore_size_bits_(x), least = (U)1 << (bits);                                                    \
    const int is_number = size != 0 && size < (U)(2 * (bias) + 1) << (bits), is_small = size < least;                  \
    const U word = longshore_bits_(is_small ? x * (2 * whole) : x);                                                    \
    const int biased = (int)(word >> (bits)) & (2 * (bias) + 1);                                                       \
    *exponent = is_number ? biased - ((bias) - 1) - (is_small ? (bits) + 1 : 0) : 0;                                   \
    const T y = longshore_of_bits_((word & ~((U)(2 * (bias) + 1) << (bits))) | (U)((bias) - 1) << (bits));             \
    return is_number ? y : x;                                                                                          \
  }                                                                                                                    \
  LONGSHORE_OVERLOAD_ T longshore_fdim_(T x, T y) {                                                                    \
    LONGSHORE_EXACTLY_                                                                                                 \
    return x <= y ? 0 : x - y;                                                                                         \
  }
LONGSHORE_FOR_FORMATS_(LONGSHORE_EXACT_)

/* 2^n for a double. */
LONGSHORE_OVERLOAD_ double longshore_power_of_2_(int n) { return longshore_of_bits_((uint64_t)(n + 1023) << 52); }
LONGSHORE_OVERLOAD_ float longshore_ldexp_(float x, int n) {
  LONGSHORE_EXACTLY_
  return (float)(x * longshore_power_of_2_(n < -400 ? -400 : n > 400 ? 400 : n));
}
/* The first factor keeps the product normal, so that only the last product is rounded. */
LONGSHORE_OVERLOAD_ double longshore_ldexp_(double x, int n) {
  LONGSHORE_EXACTLY_
  n = n < -2200 ? -2200 : n > 2200 ? 2200 : n;
  const int first = n < -1022 ? -969 : n > 1023 ? 1023 : n, rest = n - first;
  const int second = rest < -1022 ? -1022 : rest > 1023 ? 1023 : rest;
  return x * longshore_power_of_2_(first) * longshore_power_of_2_(second) * longshore_power_of_2_(rest - second);
}

/* ---- Remainders ------------------------------------------------------------------------------ */

/* The remainder of `x * 2^n` modulo `y`, by steps of some bits, for `x < y`. */
LONGSHORE_OVERLOAD_ uint32_t longshore_shifted_remainder_(uint32_t x, uint32_t y, int n) {
  uint64_t rest = x;
  for (; n > 32; n -= 32)
    rest = (rest << 32) % y;
  return (uint32_t)((rest << n) % y);
}
LONGSHORE_OVERLOAD_ uint64_t longshore_shifted_remainder_(uint64_t x, uint64_t y, int n) {
  for (; n > 11; n -= 11)
    x = (x << 11) % y;
  return (x << n) % y;
}
/* The remainder comes from whole numbers of units in the last place. For `remainder`, the one
 * modulo `2 y`, if that is finite, is at most two steps from the result. */
#define LONGSHORE_REMAINDERS_(T, U, suffix, whole, bits, bias)                                                         \
  LONGSHORE_OVERLOAD_ U longshore_whole_of_(U word, int *exponent) {                                                   \
    *exponent = (int)(word >> (bits));                                                                                 \
    const U fraction = word & (((U)1 << (bits)) - 1);                                                                  \
    if (*exponent)                                                                                                     \
      return fraction | (U)1 << (bits);                                                                                \
    *exponent = 1;                                                                                                     \
    return fraction;                                                                                                   \
  }                                                                                                                    \
  LONGSHORE_OVERLOAD_ T longshore_fmod_of_sizes_(T x, T y) {                                                           \
    int of_x, of_y;                                                                                                    \
    const U a = longshore_whole_of_(longshore_bits_(x), &of_x), b = longshore_whole_of_(longshore_bits_(y), &of_y);    \
    if (of_x < of_y)                                                                                                   \
      return x;                                                                                                        \
    const U rest = longshore_shifted_remainder_((U)(a % b), b, of_x - of_y);                                           \
    return (T)rest * longshore_unit_(y);                                                                               \
  }                                                                                                                    \
  LONGSHORE_OVERLOAD_ T longshore_fmod_(T x, T y) {                                                                    \
    LONGSHORE_EXACTLY_                                                                                                 \
    const T a = longshore_fabs_(x), b = longshore_fabs_(y);                                                            \
    if (!longshore_isfinite_(x) || longshore_isnan_(y) || b == 0)                                                      \
      return (x - x) / (b - b);                                                                                        \
    if (a < b)                                                                                                         \
      return x;                                                                                                        \
    return longshore_copysign_(longshore_fmod_of_sizes_(a, b), x);                                                     \
  }                                                                                                                    \
  LONGSHORE_OVERLOAD_ T longshore_remainder_(T x, T y) {                                                               \
    LONGSHORE_EXACTLY_                                                                                                 \
    T a = longshore_fabs_(x);                                                                                          \
    const T b = longshore_fabs_(y);                                                                                    \
    if (!longshore_isfinite_(x) || longshore_isnan_(y) || b == 0)                                                      \
      return (x - x) / (b - b);                                                                                        \
    if (longshore_isinf_(y))                                                                                           \
      return x;                                                                                                        \
    if (longshore_isfinite_(b + b) && a >= b + b)                                                                      \
      a = longshore_fmod_of_sizes_(a, b + b);                                                                          \
    if (b < 4 * longshore_least_(y)) {                                                                                 \
      if (a + a > b) {                                                                                                 \
        a -= b;                                                                                                        \
        if (a + a >= b)                                                                                                \
          a -= b;                                                                                                      \
      }                                                                                                                \
    } else {                                                                                                           \
      const T half = b * (T)0.5;                                                                                       \
      if (a > half) {                                                                                                  \
        a -= b;                                                                                                        \
        if (a >= half)                                                                                                 \
          a -= b;                                                                                                      \
      }                                                                                                                \
    }                                                                                                                  \
    return longshore_flip_(a, x);                                                                                      \
  }
/* The unit in the last place of a number > 0, and the least normal number. */
LONGSHORE_OVERLOAD_ float longshore_unit_(float x) {
  const int exponent = (int)(longshore_bits_(x) >> 23);
  return (float)longshore_power_of_2_((exponent ? exponent : 1) - 150);
}
LONGSHORE_OVERLOAD_ double longshore_unit_(double x) {
  const int exponent = (int)(longshore_bits_(x) >> 52);
  return longshore_ldexp_(1.0, (exponent ? exponent : 1) - 1075);
}
LONGSHORE_OVERLOAD_ float longshore_least_(float x) { return (void)x, 0x1p-126f; }
LONGSHORE_OVERLOAD_ double longshore_least_(double x) { return (void)x, 0x1p-1022; }
LONGSHORE_FOR_FORMATS_(LONGSHORE_REMAINDERS_)

/* ---- Of integers ----------------------------------------------------------------------------- */

/* m(signed type, unsigned type, type of twice the size, suffix of builtins, number of bits). A
 * negative factor of a signed product is too large by `2^bits` in the unsigned one. */
#define LONGSHORE_FOR_WORDS_(m)                                                                                        \
  m(int, unsigned, uint64_t, , 32) m(long, unsigned long, unsigned __int128, l, 64)                                    \
      m(long long, unsigned long long, unsigned __int128, ll, 64)
#define LONGSHORE_INTEGERS_(S, U, wide, suffix, bits)                                                                  \
  LONGSHORE_OVERLOAD_ int longshore_popcount_(U x) { return __builtin_popcount##suffix(x); }                           \
  LONGSHORE_OVERLOAD_ int longshore_popcount_(S x) { return __builtin_popcount##suffix((U)x); }                        \
  LONGSHORE_OVERLOAD_ int longshore_clz_(U x) { return x ? __builtin_clz##suffix(x) : (bits); }                        \
  LONGSHORE_OVERLOAD_ int longshore_clz_(S x) { return longshore_clz_((U)x); }                                         \
  LONGSHORE_OVERLOAD_ int longshore_ctz_(U x) { return x ? __builtin_ctz##suffix(x) : (bits); }                        \
  LONGSHORE_OVERLOAD_ int longshore_ctz_(S x) { return longshore_ctz_((U)x); }                                         \
  LONGSHORE_OVERLOAD_ U longshore_brev_(U x) { return (U)__builtin_bitreverse##bits(x); }                              \
  LONGSHORE_OVERLOAD_ S longshore_brev_(S x) { return (S)longshore_brev_((U)x); }                                      \
  LONGSHORE_OVERLOAD_ U longshore_rotate_(U x, uint32_t n) { return x << (n % (bits)) | x >> (-n % (bits)); }          \
  LONGSHORE_OVERLOAD_ S longshore_rotate_(S x, uint32_t n) { return (S)longshore_rotate_((U)x, n); }                   \
  LONGSHORE_OVERLOAD_ U longshore_mulhi_(U x, U y) { return (U)((wide)x * y >> (bits)); }                              \
  LONGSHORE_OVERLOAD_ S longshore_mulhi_(S x, S y) {                                                                   \
    return (S)(longshore_mulhi_((U)x, (U)y) - (x < 0 ? (U)y : 0) - (y < 0 ? (U)x : 0));                                \
  }                                                                                                                    \
  LONGSHORE_OVERLOAD_ U longshore_sad_(U x, U y, U z) { return (x > y ? x - y : y - x) + z; }                          \
  LONGSHORE_OVERLOAD_ U longshore_sad_(S x, S y, U z) { return (x > y ? (U)x - (U)y : (U)y - (U)x) + z; }
__extension__ LONGSHORE_FOR_WORDS_(LONGSHORE_INTEGERS_)

#endif
