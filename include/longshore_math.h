/*
 * longshore_math.h: mathematical functions for kernels. longshore_device.h includes it.
 *
 * The functions take float or double; of a half-precision type, the result has this type, too. All
 * targets and all levels of optimisation give the same bits, except for the bits of a NaN and for
 * longshore_fast_ functions. No function calls a library, sets `errno`, or needs another rounding
 * mode than to nearest. Special values follow C's Annex F. docs/mathematics.md has the errors.
 */
#ifndef LONGSHORE_MATH_H
#define LONGSHORE_MATH_H
#pragma clang system_header

/* ---- Functions ------------------------------------------------------------------------------- */

#define longshore_exp(x) longshore_exp_(x)
#define longshore_exp2(x) longshore_exp2_(x)
#define longshore_exp10(x) longshore_exp10_(x)
#define longshore_expm1(x) longshore_expm1_(x)
#define longshore_log(x) longshore_log_(x)
#define longshore_log2(x) longshore_log2_(x)
#define longshore_log10(x) longshore_log10_(x)
#define longshore_log1p(x) longshore_log1p_(x)
#define longshore_pow(x, y) LONGSHORE_OF_TWO_(pow, x, y)
/* x to the power of an int. */
#define longshore_powi(x, n) longshore_powi_((x), (n))
#define longshore_cbrt(x) longshore_cbrt_(x)
#define longshore_rcbrt(x) longshore_rcbrt_(x)
#define longshore_hypot(x, y) LONGSHORE_OF_TWO_(hypot, x, y)
#define longshore_rhypot(x, y) LONGSHORE_OF_TWO_(rhypot, x, y)

#define longshore_sin(x) longshore_sin_(x)
#define longshore_cos(x) longshore_cos_(x)
#define longshore_tan(x) longshore_tan_(x)
/* Stores the sine and the cosine at two addresses. */
#define longshore_sincos(x, sine, cosine) longshore_sincos_((x), (sine), (cosine))
/* The same of pi * x. */
#define longshore_sinpi(x) longshore_sinpi_(x)
#define longshore_cospi(x) longshore_cospi_(x)
#define longshore_sincospi(x, sine, cosine) longshore_sincospi_((x), (sine), (cosine))
#define longshore_asin(x) longshore_asin_(x)
#define longshore_acos(x) longshore_acos_(x)
#define longshore_atan(x) longshore_atan_(x)
#define longshore_atan2(y, x) LONGSHORE_OF_TWO_(atan2, y, x)
#define longshore_sinh(x) longshore_sinh_(x)
#define longshore_cosh(x) longshore_cosh_(x)
#define longshore_tanh(x) longshore_tanh_(x)
#define longshore_asinh(x) longshore_asinh_(x)
#define longshore_acosh(x) longshore_acosh_(x)
#define longshore_atanh(x) longshore_atanh_(x)

#define longshore_erf(x) longshore_erf_(x)
#define longshore_erfc(x) longshore_erfc_(x)
#define longshore_tgamma(x) longshore_tgamma_(x)
#define longshore_lgamma(x) longshore_lgamma_(x)

/* Exact functions. rint and nearbyint round half to even, round rounds half away from zero. */
#define longshore_round(x) longshore_round_(x)
#define longshore_trunc(x) longshore_trunc_(x)
#define longshore_rint(x) longshore_rint_(x)
#define longshore_nearbyint(x) longshore_rint_(x)
#define longshore_fmod(x, y) LONGSHORE_OF_TWO_(fmod, x, y)
#define longshore_remainder(x, y) LONGSHORE_OF_TWO_(remainder, x, y)
/* Store the integral part, or the exponent as an int, at an address. */
#define longshore_modf(x, whole) longshore_modf_((x), (whole))
#define longshore_frexp(x, exponent) longshore_frexp_((x), (exponent))
#define longshore_ldexp(x, n) longshore_ldexp_((x), (n))
#define longshore_copysign(x, y) LONGSHORE_OF_TWO_(copysign, x, y)
#define longshore_fdim(x, y) LONGSHORE_OF_TWO_(fdim, x, y)
#define longshore_isnan(x) longshore_isnan_(x)
#define longshore_isinf(x) longshore_isinf_(x)
#define longshore_isfinite(x) longshore_isfinite_(x)
#define longshore_signbit(x) longshore_signbit_(x)

/* Functions of integers with 32 or 64 bits. The clz and ctz of `0` are the number of bits. Function
 * rotate moves bits to the left, by a number of places modulo the number of bits. Function mulhi is
 * the upper half of a product. Function sad is `|x - y| + z`, and its difference does not
 * overflow. */
#define longshore_popcount(x) longshore_popcount_(x)
#define longshore_clz(x) longshore_clz_(x)
#define longshore_ctz(x) longshore_ctz_(x)
#define longshore_brev(x) longshore_brev_(x)
#define longshore_rotate(x, places) longshore_rotate_((x), (uint32_t)(places))
#define longshore_mulhi(x, y) LONGSHORE_OF_TWO_(mulhi, x, y)
#define longshore_sad(x, y, z) longshore_sad_((x), (y), (z))

/* Functions of float with the approximations of the GPU. Results differ between targets. Arguments
 * of fast_sin, fast_cos and fast_tan must be from -8192 to 8192. */
#define longshore_fast_exp(x) longshore_fast_exp_(x)
#define longshore_fast_exp2(x) longshore_fast_exp2_(x)
#define longshore_fast_exp10(x) longshore_fast_exp10_(x)
#define longshore_fast_log(x) longshore_fast_log_(x)
#define longshore_fast_log2(x) longshore_fast_log2_(x)
#define longshore_fast_log10(x) longshore_fast_log10_(x)
#define longshore_fast_sin(x) longshore_fast_sin_(x)
#define longshore_fast_cos(x) longshore_fast_cos_(x)
#define longshore_fast_tan(x) longshore_fast_tan_(x)
#define longshore_fast_tanh(x) longshore_fast_tanh_(x)
#define longshore_fast_pow(x, y) longshore_fast_pow_((x), (y))
#define longshore_fast_divide(x, y) longshore_fast_divide_((x), (y))
#define longshore_fast_rsqrt(x) longshore_fast_rsqrt_(x)

/* ======== Details ============================================================================= */

/* The compiler must neither fuse products with sums nor change the order of additions, even if the
 * kernel's source permits it. */
#define LONGSHORE_EXACTLY_ _Pragma("clang fp contract(off) reassociate(off)")
#define LONGSHORE_OF_TWO_(name, x, y) longshore_##name##_((LONGSHORE_COMMON_(x, y))(x), (LONGSHORE_COMMON_(x, y))(y))
#define LONGSHORE_TABLE_ static LONGSHORE_ON_DEVICE_ LONGSHORE_UNUSED_ const

/* A sum with it is rounded to an integer, in the lowest bits. */
#define LONGSHORE_ROUND_ 0x1.8p52
/* Bits of numbers. */
#define LONGSHORE_ONE_ ((uint64_t)0x3ff << 52)
#define LONGSHORE_INFINITY_ ((uint64_t)0x7ff << 52)
#define LONGSHORE_TWO_52_ ((uint64_t)0x433 << 52)
#define LONGSHORE_SQRT_HALF_ ((uint64_t)0x3fe6a09e667f3bcd)

#define LONGSHORE_LOG2_E_ 0x1.71547652b82fep+0
#define LONGSHORE_LOG2_10_ 0x1.a934f0979a371p+1
#define LONGSHORE_LN_2_ 0x1.62e42fefa39efp-1
#define LONGSHORE_LN_PI_ 0x1.250d048e7a1bdp+0
#define LONGSHORE_LOG10_E_ 0x1.bcb7b1526e50ep-2
#define LONGSHORE_PI_ 0x1.921fb54442d18p+1
#define LONGSHORE_HALF_LN_2PI_ 0x1.d67f1c864beb5p-1
#define LONGSHORE_TAN_PI_8_ 0x1.a827999fcef32p-2
#define LONGSHORE_TAN_3PI_8_ 0x1.3504f333f9de6p+1
#define LONGSHORE_LN_10_ 0x1.26bb1bbb55516p+1
#define LONGSHORE_TWO_THIRDS_ 0x1.5555555555555p-1
#define LONGSHORE_TWO_OVER_ROOT_PI_ 0x1.20dd750429b6dp+0
/* The differences between constants and the numbers above. */
#define LONGSHORE_LN_2_REST_ 0x1.abc9e3b39803fp-56
#define LONGSHORE_LN_10_REST_ -0x1.f48ad494ea3e9p-53
#define LONGSHORE_LOG2_E_REST_ 0x1.777d0ffda0d24p-56
#define LONGSHORE_LOG10_E_REST_ 0x1.95355baaafad3p-57
#define LONGSHORE_TWO_OVER_ROOT_PI_REST_ 0x1.1ae3a914fed80p-56
#define LONGSHORE_PI_REST_ 0x1.1a62633145c07p-53
#define LONGSHORE_TWO_THIRDS_REST_ 0x1.5555555555555p-55
#define LONGSHORE_HALF_LN_2PI_REST_ -0x1.65b5a1b7ff5dfp-55
/* Constants as sums of a number of 42 bits, which can be multiplied by 11 bits, and another. */
#define LONGSHORE_LN_2_HIGH_ 0x1.62e42fefa38p-1
#define LONGSHORE_LN_2_LOW_ 0x1.ef35793c76730p-45
#define LONGSHORE_LOG10_2_HIGH_ 0x1.34413509f78p-2
#define LONGSHORE_LOG10_2_LOW_ 0x1.fef311f12b358p-46

/* `x * y + z`, rounded once where that is as fast, and else twice. */
#if defined(__FMA__) || defined(__aarch64__) || defined(__NVPTX__) || defined(__AMDGCN__)
#define LONGSHORE_FUSES_ 1
#define LONGSHORE_FUSED_(x, y, z) longshore_fma_((x), (y), (z))
#else
#define LONGSHORE_FUSES_ 0
#define LONGSHORE_FUSED_(x, y, z) ((x) * (y) + (z))
#endif

/* Polynomials. The rest behind the first term is the sum of pairs of terms: Horner's scheme would
 * need twice as many steps that wait for each other. */
#define LONGSHORE_P1_(x, a, b) ((a) + (x) * (b))
#define LONGSHORE_P2_(x, a, ...) ((a) + (x) * LONGSHORE_PAIRS_1_(x, __VA_ARGS__))
#define LONGSHORE_P3_(x, a, ...) ((a) + (x) * LONGSHORE_PAIRS_2_(x, __VA_ARGS__))
#define LONGSHORE_P4_(x, a, ...) ((a) + (x) * LONGSHORE_PAIRS_3_(x, __VA_ARGS__))
#define LONGSHORE_P5_(x, a, ...) ((a) + (x) * LONGSHORE_PAIRS_4_(x, __VA_ARGS__))
#define LONGSHORE_P6_(x, a, ...) ((a) + (x) * LONGSHORE_PAIRS_5_(x, __VA_ARGS__))
#define LONGSHORE_P7_(x, a, ...) ((a) + (x) * LONGSHORE_PAIRS_6_(x, __VA_ARGS__))
#define LONGSHORE_P8_(x, a, ...) ((a) + (x) * LONGSHORE_PAIRS_7_(x, __VA_ARGS__))
#define LONGSHORE_P9_(x, a, ...) ((a) + (x) * LONGSHORE_PAIRS_8_(x, __VA_ARGS__))
#define LONGSHORE_P10_(x, a, ...) ((a) + (x) * LONGSHORE_PAIRS_9_(x, __VA_ARGS__))
#define LONGSHORE_P11_(x, a, ...) ((a) + (x) * LONGSHORE_PAIRS_10_(x, __VA_ARGS__))
#define LONGSHORE_P12_(x, a, ...) ((a) + (x) * LONGSHORE_PAIRS_11_(x, __VA_ARGS__))
#define LONGSHORE_P13_(x, a, ...) ((a) + (x) * LONGSHORE_PAIRS_12_(x, __VA_ARGS__))
#define LONGSHORE_P14_(x, a, ...) ((a) + (x) * LONGSHORE_PAIRS_13_(x, __VA_ARGS__))
#define LONGSHORE_P15_(x, a, ...) ((a) + (x) * LONGSHORE_PAIRS_14_(x, __VA_ARGS__))
#define LONGSHORE_P16_(x, a, ...) ((a) + (x) * LONGSHORE_PAIRS_15_(x, __VA_ARGS__))
#define LONGSHORE_P17_(x, a, ...) ((a) + (x) * LONGSHORE_PAIRS_16_(x, __VA_ARGS__))
#define LONGSHORE_P18_(x, a, ...) ((a) + (x) * LONGSHORE_PAIRS_17_(x, __VA_ARGS__))
#define LONGSHORE_P19_(x, a, ...) ((a) + (x) * LONGSHORE_PAIRS_18_(x, __VA_ARGS__))
#define LONGSHORE_P20_(x, a, ...) ((a) + (x) * LONGSHORE_PAIRS_19_(x, __VA_ARGS__))
#define LONGSHORE_P21_(x, a, ...) ((a) + (x) * LONGSHORE_PAIRS_20_(x, __VA_ARGS__))
#define LONGSHORE_P22_(x, a, ...) ((a) + (x) * LONGSHORE_PAIRS_21_(x, __VA_ARGS__))
#define LONGSHORE_P23_(x, a, ...) ((a) + (x) * LONGSHORE_PAIRS_22_(x, __VA_ARGS__))
#define LONGSHORE_P24_(x, a, ...) ((a) + (x) * LONGSHORE_PAIRS_23_(x, __VA_ARGS__))
#define LONGSHORE_P25_(x, a, ...) ((a) + (x) * LONGSHORE_PAIRS_24_(x, __VA_ARGS__))
#define LONGSHORE_PAIRS_1_(x, a, b) ((a) + (x) * (b))
#define LONGSHORE_PAIRS_2_(x, a, b, c) ((a) + (x) * ((b) + (x) * (c)))
#define LONGSHORE_PAIRS_3_(x, a, b, ...) (((a) + (x) * (b)) + (x) * (x) * LONGSHORE_PAIRS_1_(x, __VA_ARGS__))
#define LONGSHORE_PAIRS_4_(x, a, b, ...) (((a) + (x) * (b)) + (x) * (x) * LONGSHORE_PAIRS_2_(x, __VA_ARGS__))
#define LONGSHORE_PAIRS_5_(x, a, b, ...) (((a) + (x) * (b)) + (x) * (x) * LONGSHORE_PAIRS_3_(x, __VA_ARGS__))
#define LONGSHORE_PAIRS_6_(x, a, b, ...) (((a) + (x) * (b)) + (x) * (x) * LONGSHORE_PAIRS_4_(x, __VA_ARGS__))
#define LONGSHORE_PAIRS_7_(x, a, b, ...) (((a) + (x) * (b)) + (x) * (x) * LONGSHORE_PAIRS_5_(x, __VA_ARGS__))
#define LONGSHORE_PAIRS_8_(x, a, b, ...) (((a) + (x) * (b)) + (x) * (x) * LONGSHORE_PAIRS_6_(x, __VA_ARGS__))
#define LONGSHORE_PAIRS_9_(x, a, b, ...) (((a) + (x) * (b)) + (x) * (x) * LONGSHORE_PAIRS_7_(x, __VA_ARGS__))
#define LONGSHORE_PAIRS_10_(x, a, b, ...) (((a) + (x) * (b)) + (x) * (x) * LONGSHORE_PAIRS_8_(x, __VA_ARGS__))
#define LONGSHORE_PAIRS_11_(x, a, b, ...) (((a) + (x) * (b)) + (x) * (x) * LONGSHORE_PAIRS_9_(x, __VA_ARGS__))
#define LONGSHORE_PAIRS_12_(x, a, b, ...) (((a) + (x) * (b)) + (x) * (x) * LONGSHORE_PAIRS_10_(x, __VA_ARGS__))
#define LONGSHORE_PAIRS_13_(x, a, b, ...) (((a) + (x) * (b)) + (x) * (x) * LONGSHORE_PAIRS_11_(x, __VA_ARGS__))
#define LONGSHORE_PAIRS_14_(x, a, b, ...) (((a) + (x) * (b)) + (x) * (x) * LONGSHORE_PAIRS_12_(x, __VA_ARGS__))
#define LONGSHORE_PAIRS_15_(x, a, b, ...) (((a) + (x) * (b)) + (x) * (x) * LONGSHORE_PAIRS_13_(x, __VA_ARGS__))
#define LONGSHORE_PAIRS_16_(x, a, b, ...) (((a) + (x) * (b)) + (x) * (x) * LONGSHORE_PAIRS_14_(x, __VA_ARGS__))
#define LONGSHORE_PAIRS_17_(x, a, b, ...) (((a) + (x) * (b)) + (x) * (x) * LONGSHORE_PAIRS_15_(x, __VA_ARGS__))
#define LONGSHORE_PAIRS_18_(x, a, b, ...) (((a) + (x) * (b)) + (x) * (x) * LONGSHORE_PAIRS_16_(x, __VA_ARGS__))
#define LONGSHORE_PAIRS_19_(x, a, b, ...) (((a) + (x) * (b)) + (x) * (x) * LONGSHORE_PAIRS_17_(x, __VA_ARGS__))
#define LONGSHORE_PAIRS_20_(x, a, b, ...) (((a) + (x) * (b)) + (x) * (x) * LONGSHORE_PAIRS_18_(x, __VA_ARGS__))
#define LONGSHORE_PAIRS_21_(x, a, b, ...) (((a) + (x) * (b)) + (x) * (x) * LONGSHORE_PAIRS_19_(x, __VA_ARGS__))
#define LONGSHORE_PAIRS_22_(x, a, b, ...) (((a) + (x) * (b)) + (x) * (x) * LONGSHORE_PAIRS_20_(x, __VA_ARGS__))
#define LONGSHORE_PAIRS_23_(x, a, b, ...) (((a) + (x) * (b)) + (x) * (x) * LONGSHORE_PAIRS_21_(x, __VA_ARGS__))
#define LONGSHORE_PAIRS_24_(x, a, b, ...) (((a) + (x) * (b)) + (x) * (x) * LONGSHORE_PAIRS_22_(x, __VA_ARGS__))

LONGSHORE_OVERLOAD_ uint64_t longshore_bits_(double x) {
  uint64_t bits;
  __builtin_memcpy(&bits, &x, sizeof(bits));
  return bits;
}
LONGSHORE_OVERLOAD_ uint32_t longshore_bits_(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof(bits));
  return bits;
}
LONGSHORE_OVERLOAD_ double longshore_of_bits_(uint64_t bits) {
  double x;
  __builtin_memcpy(&x, &bits, sizeof(x));
  return x;
}
LONGSHORE_OVERLOAD_ float longshore_of_bits_(uint32_t bits) {
  float x;
  __builtin_memcpy(&x, &bits, sizeof(x));
  return x;
}
LONGSHORE_OVERLOAD_ float longshore_fabs_(float x) { return __builtin_fabsf(x); }
LONGSHORE_OVERLOAD_ double longshore_fabs_(double x) { return __builtin_fabs(x); }
LONGSHORE_OVERLOAD_ float longshore_copysign_(float x, float y) { return __builtin_copysignf(x, y); }
LONGSHORE_OVERLOAD_ double longshore_copysign_(double x, double y) { return __builtin_copysign(x, y); }
/* A choice between values that are both computed, so that no branch keeps a loop from being
 * vectorised. */
LONGSHORE_OVERLOAD_ float longshore_if_(int condition, float yes, float no) { return condition ? yes : no; }
LONGSHORE_OVERLOAD_ double longshore_if_(int condition, double yes, double no) { return condition ? yes : no; }
/* x with its sign changed if y is negative. */
LONGSHORE_OVERLOAD_ float longshore_flip_(float x, float y) {
  return longshore_of_bits_(longshore_bits_(x) ^ (longshore_bits_(y) & (uint32_t)1 << 31));
}
LONGSHORE_OVERLOAD_ double longshore_flip_(double x, double y) {
  return longshore_of_bits_(longshore_bits_(x) ^ (longshore_bits_(y) & (uint64_t)1 << 63));
}
LONGSHORE_OVERLOAD_ double longshore_root_(double x) { return longshore_sqrt_(x); }

#include "longshore_math/exact.h"
#include "longshore_math/float.h"
#include "longshore_math/pair.h"
#include "longshore_math/double.h"
#include "longshore_math/angles.h"
#include "longshore_math/fast.h"

/* Functions of half-precision numbers. */
#if (defined(__FLT16_MAX__) && !(defined(__NVPTX__) && __clang_major__ < 17)) ||                                       \
    (defined(__AMDGCN__) && !defined(__cplusplus))
#define LONGSHORE_HALF_ONE_(name)                                                                                      \
  LONGSHORE_OVERLOAD_ _Float16 longshore_##name##_(_Float16 x) { return (_Float16)longshore_##name##_((float)x); }
#define LONGSHORE_HALF_TWO_(name)                                                                                      \
  LONGSHORE_OVERLOAD_ _Float16 longshore_##name##_(_Float16 x, _Float16 y) {                                           \
    return (_Float16)longshore_##name##_((float)x, (float)y);                                                          \
  }
#define LONGSHORE_FOR_HALF_ONE_(m)                                                                                     \
  m(exp) m(exp2) m(exp10) m(expm1) m(log) m(log2) m(log10) m(log1p) m(cbrt) m(rcbrt) m(sin) m(cos) m(tan) m(sinpi)     \
      m(cospi) m(asin) m(acos) m(atan) m(sinh) m(cosh) m(tanh) m(asinh) m(acosh) m(atanh) m(erf) m(erfc) m(tgamma)     \
          m(lgamma) m(round) m(trunc) m(rint)
#define LONGSHORE_FOR_HALF_TWO_(m) m(pow) m(hypot) m(rhypot) m(atan2) m(fmod) m(remainder) m(copysign) m(fdim)
LONGSHORE_FOR_HALF_ONE_(LONGSHORE_HALF_ONE_)
LONGSHORE_FOR_HALF_TWO_(LONGSHORE_HALF_TWO_)
LONGSHORE_OVERLOAD_ _Float16 longshore_powi_(_Float16 x, int n) { return (_Float16)longshore_powi_((float)x, n); }
#endif

#endif
