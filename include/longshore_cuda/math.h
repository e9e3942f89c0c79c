/*
 * longshore_cuda/math.h: the mathematical functions of CUDA and HIP, by the functions of
 * longshore_device.h. Part of longshore_cuda.h.
 */
#ifndef LONGSHORE_CUDA_MATH_H
#define LONGSHORE_CUDA_MATH_H
#pragma clang system_header

/* The functions of C, with and without `f`, and the overloads of C++. */
#define LONGSHORE_NAMES_OF_ONE_(name, ours)                                                                                 \
  LONGSHORE_CUDA_ float name##f(float x) { return ours(x); }                                                          \
  LONGSHORE_CUDA_ float name(float x) { return ours(x); }                                                             \
  LONGSHORE_CUDA_ double name(double x) { return ours(x); }                                                           \
  template <class T> LONGSHORE_CUDA_ typename longshore_if_integer_<T>::type name(T x) { return ours((double)x); }
#define LONGSHORE_NAMES_OF_TWO_(name, ours)                                                                                 \
  LONGSHORE_CUDA_ float name##f(float x, float y) { return ours(x, y); }                                              \
  LONGSHORE_CUDA_ float name(float x, float y) { return ours(x, y); }                                                 \
  LONGSHORE_CUDA_ double name(double x, double y) { return ours(x, y); }                                              \
  template <class A, class B> LONGSHORE_CUDA_ typename longshore_if_mixed_<A, B>::type name(A x, B y) {               \
    return ours((double)x, (double)y);                                                                                \
  }
/* Structures, because compilers before clang 17 cannot mangle `__is_integral`. */
template <class T> struct longshore_is_integer_ {
  static const bool value = __is_integral(T);
};
template <> struct longshore_is_integer_<longshore_warp_size_> {
  static const bool value = true;
};
template <class A, class B> struct longshore_is_mixed_ {
  static const bool value = !__is_same(A, B) && (longshore_is_integer_<A>::value || __is_floating_point(A)) &&
                            (longshore_is_integer_<B>::value || __is_floating_point(B));
};
template <class T, bool is_integer = longshore_is_integer_<T>::value> struct longshore_if_integer_ {};
template <class T> struct longshore_if_integer_<T, true> {
  typedef double type;
};
template <class A, class B, bool is_mixed = longshore_is_mixed_<A, B>::value> struct longshore_if_mixed_ {};
template <class A, class B> struct longshore_if_mixed_<A, B, true> {
  typedef double type;
};

LONGSHORE_NAMES_OF_ONE_(exp, longshore_exp)
LONGSHORE_NAMES_OF_ONE_(exp2, longshore_exp2)
LONGSHORE_NAMES_OF_ONE_(exp10, longshore_exp10)
LONGSHORE_NAMES_OF_ONE_(expm1, longshore_expm1)
LONGSHORE_NAMES_OF_ONE_(log, longshore_log)
LONGSHORE_NAMES_OF_ONE_(log2, longshore_log2)
LONGSHORE_NAMES_OF_ONE_(log10, longshore_log10)
LONGSHORE_NAMES_OF_ONE_(log1p, longshore_log1p)
LONGSHORE_NAMES_OF_ONE_(sin, longshore_sin)
LONGSHORE_NAMES_OF_ONE_(cos, longshore_cos)
LONGSHORE_NAMES_OF_ONE_(tan, longshore_tan)
LONGSHORE_NAMES_OF_ONE_(asin, longshore_asin)
LONGSHORE_NAMES_OF_ONE_(acos, longshore_acos)
LONGSHORE_NAMES_OF_ONE_(atan, longshore_atan)
LONGSHORE_NAMES_OF_ONE_(sinh, longshore_sinh)
LONGSHORE_NAMES_OF_ONE_(cosh, longshore_cosh)
LONGSHORE_NAMES_OF_ONE_(tanh, longshore_tanh)
LONGSHORE_NAMES_OF_ONE_(asinh, longshore_asinh)
LONGSHORE_NAMES_OF_ONE_(acosh, longshore_acosh)
LONGSHORE_NAMES_OF_ONE_(atanh, longshore_atanh)
LONGSHORE_NAMES_OF_ONE_(erf, longshore_erf)
LONGSHORE_NAMES_OF_ONE_(erfc, longshore_erfc)
LONGSHORE_NAMES_OF_ONE_(tgamma, longshore_tgamma)
LONGSHORE_NAMES_OF_ONE_(lgamma, longshore_lgamma)
LONGSHORE_NAMES_OF_ONE_(cbrt, longshore_cbrt)
LONGSHORE_NAMES_OF_ONE_(rsqrt, longshore_rsqrt)
LONGSHORE_NAMES_OF_ONE_(round, longshore_round)
LONGSHORE_NAMES_OF_ONE_(trunc, longshore_trunc)
LONGSHORE_NAMES_OF_ONE_(rint, longshore_rint)
LONGSHORE_NAMES_OF_ONE_(nearbyint, longshore_nearbyint)
LONGSHORE_NAMES_OF_ONE_(sqrt, longshore_sqrt)
LONGSHORE_NAMES_OF_ONE_(floor, longshore_floor)
LONGSHORE_NAMES_OF_ONE_(ceil, longshore_ceil)
LONGSHORE_NAMES_OF_ONE_(fabs, longshore_abs)
LONGSHORE_NAMES_OF_TWO_(pow, longshore_pow)
LONGSHORE_NAMES_OF_TWO_(atan2, longshore_atan2)
LONGSHORE_NAMES_OF_TWO_(hypot, longshore_hypot)
LONGSHORE_NAMES_OF_TWO_(fmod, longshore_fmod)
LONGSHORE_NAMES_OF_TWO_(remainder, longshore_remainder)
LONGSHORE_NAMES_OF_TWO_(copysign, longshore_copysign)
LONGSHORE_NAMES_OF_TWO_(fdim, longshore_fdim)
LONGSHORE_NAMES_OF_TWO_(fmin, longshore_min)
LONGSHORE_NAMES_OF_TWO_(fmax, longshore_max)

#define LONGSHORE_PI_ 3.14159265358979323846
/* The names of <math_constants.h>. */
#define CUDART_INF_F __builtin_inff()
#define CUDART_NAN_F __builtin_nanf("")
#define CUDART_INF __builtin_inf()
#define CUDART_NAN __builtin_nan("")
#define CUDART_PI_F 3.141592654f
#define CUDART_PI 3.1415926535897931e+0
#define CUDART_PIO2_F 1.570796327f
#define CUDART_PIO4_F 0.785398163f
#define CUDART_2PI_F 6.283185307f
#define CUDART_SQRT_TWO_F 1.414213562f
#define CUDART_SQRT_HALF_F 0.707106781f
#define CUDART_LN2_F 0.693147181f
#define CUDART_L2E_F 1.442695041f
#define CUDART_MAX_NORMAL_F 3.402823466e38f
#define CUDART_MIN_DENORM_F 1.4012985e-45f
#define CUDART_ZERO_F 0.0f
#define CUDART_NEG_ZERO_F (-0.0f)
#define CUDART_ONE_F 1.0f
#define CUDART_THIRD_F 0.333333333f
#define CUDART_3PIO4_F 2.356194490f
#define CUDART_2_OVER_PI_F 0.636619772f
#define CUDART_SQRT_2_OVER_PI_F 0.797884561f
#define CUDART_L2T_F 3.321928094f
#define CUDART_LG2_F 0.301029996f
#define CUDART_LGE_F 0.434294482f
#define CUDART_LNT_F 2.302585093f
#define CUDART_LNPI_F 1.144729886f
#define CUDART_ZERO 0.0
#define CUDART_NEG_ZERO (-0.0)
#define CUDART_ONE 1.0
#define CUDART_MIN_DENORM 4.9406564584124654e-324
#define CUDART_THIRD 3.3333333333333333e-1
#define CUDART_TWOTHIRD 6.6666666666666667e-1
#define CUDART_SQRT_TWO 1.4142135623730951e+0
#define CUDART_SQRT_HALF 7.0710678118654757e-1
#define CUDART_PIO4 7.8539816339744828e-1
#define CUDART_PIO2 1.5707963267948966e+0
#define CUDART_3PIO4 2.3561944901923448e+0
#define CUDART_2_OVER_PI 6.3661977236758138e-1
#define CUDART_SQRT_2_OVER_PI 7.9788456080286536e-1
#define CUDART_L2E 1.4426950408889634e+0
#define CUDART_L2T 3.3219280948873622e+0
#define CUDART_LG2 3.0102999566398120e-1
#define CUDART_LGE 4.3429448190325182e-1
#define CUDART_LN2 6.9314718055994529e-1
#define CUDART_LNT 2.3025850929940459e+0
#define CUDART_LNPI 1.1447298858494002e+0
#if LONGSHORE_IS_HIP_
/* The names of <hip/hip_math_constants.h>. */
#define HIP_INF_F CUDART_INF_F
#define HIP_NAN_F CUDART_NAN_F
#define HIP_INF CUDART_INF
#define HIP_NAN CUDART_NAN
#define HIP_PI_F CUDART_PI_F
#define HIP_PI CUDART_PI
#define HIP_PIO2_F CUDART_PIO2_F
#define HIP_PIO4_F CUDART_PIO4_F
#define HIP_2PI_F CUDART_2PI_F
#define HIP_SQRT_TWO_F CUDART_SQRT_TWO_F
#define HIP_SQRT_HALF_F CUDART_SQRT_HALF_F
#define HIP_LN2_F CUDART_LN2_F
#define HIP_L2E_F CUDART_L2E_F
#define HIP_MAX_NORMAL_F CUDART_MAX_NORMAL_F
#define HIP_MIN_DENORM_F CUDART_MIN_DENORM_F
#endif
LONGSHORE_CUDA_ float fmaf(float x, float y, float z) { return longshore_fma(x, y, z); }
LONGSHORE_CUDA_ float fma(float x, float y, float z) { return longshore_fma(x, y, z); }
LONGSHORE_CUDA_ double fma(double x, double y, double z) { return longshore_fma(x, y, z); }
LONGSHORE_CUDA_ float powf(float x, int n) { return longshore_pow(x, (float)n); }
LONGSHORE_CUDA_ float pow(float x, int n) { return longshore_pow(x, (float)n); }
LONGSHORE_CUDA_ double pow(double x, int n) { return longshore_pow(x, (double)n); }
LONGSHORE_CUDA_ double pow(int x, int n) { return longshore_pow((double)x, (double)n); }
LONGSHORE_CUDA_ float powif(float x, int n) { return longshore_powi(x, n); }
LONGSHORE_CUDA_ double powi(double x, int n) { return longshore_powi(x, n); }
/* Second results. The checks count the accesses of this header as the program's. */
#define LONGSHORE_RESULTS_2_(name, F, of)                                                                             \
  LONGSHORE_CUDA_ void name(F x, F *first, F *second) {                                                               \
    F a, b;                                                                                                           \
    of(x, &a, &b);                                                                                                    \
    *first = a, *second = b;                                                                                          \
  }
#define LONGSHORE_RESULTS_1_(name, F, R, of)                                                                          \
  LONGSHORE_CUDA_ F name(F x, R *second) {                                                                            \
    R b;                                                                                                              \
    const F a = of(x, &b);                                                                                            \
    *second = b;                                                                                                      \
    return a;                                                                                                         \
  }
LONGSHORE_RESULTS_2_(sincosf, float, longshore_sincos)
LONGSHORE_RESULTS_2_(sincos, float, longshore_sincos)
LONGSHORE_RESULTS_2_(sincos, double, longshore_sincos)
LONGSHORE_RESULTS_1_(frexpf, float, int, longshore_frexp)
LONGSHORE_RESULTS_1_(frexp, float, int, longshore_frexp)
LONGSHORE_RESULTS_1_(frexp, double, int, longshore_frexp)
LONGSHORE_CUDA_ float ldexpf(float x, int e) { return longshore_ldexp(x, e); }
LONGSHORE_CUDA_ float ldexp(float x, int e) { return longshore_ldexp(x, e); }
LONGSHORE_CUDA_ double ldexp(double x, int e) { return longshore_ldexp(x, e); }
LONGSHORE_CUDA_ float scalbnf(float x, int e) { return longshore_ldexp(x, e); }
LONGSHORE_CUDA_ double scalbn(double x, int e) { return longshore_ldexp(x, e); }
LONGSHORE_RESULTS_1_(modff, float, float, longshore_modf)
LONGSHORE_RESULTS_1_(modf, float, float, longshore_modf)
LONGSHORE_RESULTS_1_(modf, double, double, longshore_modf)
LONGSHORE_CUDA_ float fdividef(float x, float y) { return x / y; }
LONGSHORE_CUDA_ float fdivide(float x, float y) { return x / y; }
LONGSHORE_CUDA_ double fdivide(double x, double y) { return x / y; }
LONGSHORE_CUDA_ float __saturatef(float x) { return longshore_min(longshore_max(x, 0.0f), 1.0f); }
LONGSHORE_CUDA_ float rhypotf(float x, float y) { return 1.0f / longshore_hypot(x, y); }
LONGSHORE_CUDA_ double rhypot(double x, double y) { return 1.0 / longshore_hypot(x, y); }
LONGSHORE_CUDA_ float norm3df(float x, float y, float z) { return longshore_hypot(longshore_hypot(x, y), z); }
LONGSHORE_CUDA_ double norm3d(double x, double y, double z) { return longshore_hypot(longshore_hypot(x, y), z); }
LONGSHORE_CUDA_ float rcbrtf(float x) { return 1.0f / longshore_cbrt(x); }
LONGSHORE_CUDA_ double rcbrt(double x) { return 1.0 / longshore_cbrt(x); }
LONGSHORE_NAMES_OF_ONE_(sinpi, longshore_sinpi)
LONGSHORE_NAMES_OF_ONE_(cospi, longshore_cospi)
LONGSHORE_RESULTS_2_(sincospif, float, longshore_sincospi)
LONGSHORE_RESULTS_2_(sincospi, float, longshore_sincospi)
LONGSHORE_RESULTS_2_(sincospi, double, longshore_sincospi)
LONGSHORE_CUDA_ float normcdff(float x) { return (float)(0.5 * longshore_erfc(-(double)x * 0.70710678118654752440)); }
LONGSHORE_CUDA_ double normcdf(double x) { return 0.5 * longshore_erfc(-x * 0.70710678118654752440); }
LONGSHORE_CUDA_ long lroundf(float x) { return (long)longshore_round(x); }
LONGSHORE_CUDA_ long lround(double x) { return (long)longshore_round(x); }
LONGSHORE_CUDA_ long long llroundf(float x) { return (long long)longshore_round(x); }
LONGSHORE_CUDA_ long long llround(double x) { return (long long)longshore_round(x); }
LONGSHORE_CUDA_ long lrintf(float x) { return (long)longshore_rint(x); }
LONGSHORE_CUDA_ long lrint(double x) { return (long)longshore_rint(x); }

/* The quotient's lowest bits, with its sign, beside the remainder. The remainder modulo `8 y` is
 * exact, and so is its difference to the one modulo `y`. */
#define LONGSHORE_REMQUO_(name, F)                                                                                    \
  LONGSHORE_CUDA_ F name(F x, F y, int *quotient) {                                                                   \
    const F rest = longshore_remainder(x, y), a = longshore_abs(x), b = longshore_abs(y);                             \
    const F part = longshore_isinf(8 * b) ? a : longshore_fmod(a, 8 * b);                                             \
    const int low = (int)longshore_rint((part - (x < 0 ? -rest : rest)) / b) & 7;                                     \
    *quotient = longshore_isfinite_(rest) && b != 0 && !longshore_isinf(b) ? ((x < 0) != (y < 0) ? -low : low) : 0;   \
    return rest;                                                                                                      \
  }
LONGSHORE_REMQUO_(remquof, float)
LONGSHORE_REMQUO_(remquo, float)
LONGSHORE_REMQUO_(remquo, double)

#if !defined(isnan) && !defined(isinf)
LONGSHORE_CUDA_ bool isnan(float x) { return longshore_isnan(x); }
LONGSHORE_CUDA_ bool isnan(double x) { return longshore_isnan(x); }
LONGSHORE_CUDA_ bool isinf(float x) { return longshore_isinf(x); }
LONGSHORE_CUDA_ bool isinf(double x) { return longshore_isinf(x); }
LONGSHORE_CUDA_ bool isfinite(float x) { return !longshore_isnan(x) && !longshore_isinf(x); }
LONGSHORE_CUDA_ bool isfinite(double x) { return !longshore_isnan(x) && !longshore_isinf(x); }
LONGSHORE_CUDA_ bool signbit(float x) { return __builtin_signbitf(x) != 0; }
LONGSHORE_CUDA_ bool signbit(double x) { return __builtin_signbit(x) != 0; }
LONGSHORE_CUDA_ bool isnormal(float x) { return __builtin_isnormal(x) != 0; }
LONGSHORE_CUDA_ bool isnormal(double x) { return __builtin_isnormal(x) != 0; }
#endif
LONGSHORE_CUDA_ int __isnanf(float x) { return longshore_isnan(x); }
LONGSHORE_CUDA_ int __isnan(double x) { return longshore_isnan(x); }
LONGSHORE_CUDA_ int __isinff(float x) { return longshore_isinf(x); }
LONGSHORE_CUDA_ int __isinf(double x) { return longshore_isinf(x); }
LONGSHORE_CUDA_ int __finitef(float x) { return !longshore_isnan(x) && !longshore_isinf(x); }
LONGSHORE_CUDA_ int __finite(double x) { return !longshore_isnan(x) && !longshore_isinf(x); }

LONGSHORE_CUDA_ long long llrintf(float x) { return (long long)longshore_rint(x); }
LONGSHORE_CUDA_ long long llrint(float x) { return (long long)longshore_rint(x); }
LONGSHORE_CUDA_ long long llrint(double x) { return (long long)longshore_rint(x); }
LONGSHORE_CUDA_ float scalblnf(float x, long e) { return longshore_ldexp(x, (int)(e < -5000 ? -5000 : e > 5000 ? 5000 : e)); }
LONGSHORE_CUDA_ double scalbln(double x, long e) { return longshore_ldexp(x, (int)(e < -5000 ? -5000 : e > 5000 ? 5000 : e)); }
LONGSHORE_CUDA_ int ilogb(double x) {
  int e = 0;
  if (x == 0.0) return INT_MIN;
  if (longshore_isnan(x) || longshore_isinf(x)) return longshore_isnan(x) ? INT_MIN : INT_MAX;
  (void)longshore_frexp(x, &e);
  return e - 1;
}
LONGSHORE_CUDA_ int ilogb(float x) { return ilogb((double)x); }
LONGSHORE_CUDA_ int ilogbf(float x) { return ilogb((double)x); }
LONGSHORE_CUDA_ double logb(double x) {
  return x == 0.0 ? -CUDART_INF : longshore_isnan(x) || longshore_isinf(x) ? x * x : (double)ilogb(x);
}
LONGSHORE_CUDA_ float logb(float x) { return (float)logb((double)x); }
LONGSHORE_CUDA_ float logbf(float x) { return (float)logb((double)x); }
#define LONGSHORE_NEXT_AFTER_(name, F, I)                                                                             \
  LONGSHORE_CUDA_ F name(F x, F y) {                                                                                  \
    if (longshore_isnan(x) || longshore_isnan(y) || x == y) return x == y ? y : x + y;                                \
    I bits;                                                                                                           \
    __builtin_memcpy(&bits, &x, sizeof(bits));                                                                        \
    bits = x == 0 ? (I)1 | (I)(y < 0) << (sizeof(I) * 8 - 1) : (x > 0) == (y > x) ? bits + 1 : bits - 1;              \
    __builtin_memcpy(&x, &bits, sizeof(bits));                                                                        \
    return x;                                                                                                         \
  }
LONGSHORE_NEXT_AFTER_(nextafterf, float, unsigned int)
LONGSHORE_NEXT_AFTER_(nextafter, float, unsigned int)
LONGSHORE_NEXT_AFTER_(nextafter, double, unsigned long long)
LONGSHORE_CUDA_ float norm4df(float x, float y, float z, float w) {
  return longshore_hypot(longshore_hypot(x, y), longshore_hypot(z, w));
}
LONGSHORE_CUDA_ double norm4d(double x, double y, double z, double w) {
  return longshore_hypot(longshore_hypot(x, y), longshore_hypot(z, w));
}
LONGSHORE_CUDA_ float rnorm3df(float x, float y, float z) { return 1.0f / norm3df(x, y, z); }
LONGSHORE_CUDA_ double rnorm3d(double x, double y, double z) { return 1.0 / norm3d(x, y, z); }
LONGSHORE_CUDA_ float rnorm4df(float x, float y, float z, float w) { return 1.0f / norm4df(x, y, z, w); }
LONGSHORE_CUDA_ double rnorm4d(double x, double y, double z, double w) { return 1.0 / norm4d(x, y, z, w); }
LONGSHORE_CUDA_ double norm(int count, const double *x) {
  double length = 0.0;
  for (int i = 0; i < count; ++i) length = longshore_hypot(length, x[i]);
  return length;
}
LONGSHORE_CUDA_ float normf(int count, const float *x) {
  double sum = 0.0;
  for (int i = 0; i < count; ++i) sum += (double)x[i] * (double)x[i];
  return (float)longshore_sqrt(sum);
}
LONGSHORE_CUDA_ float rnormf(int count, const float *x) { return 1.0f / normf(count, x); }
LONGSHORE_CUDA_ double rnorm(int count, const double *x) { return 1.0 / norm(count, x); }
LONGSHORE_CUDA_ float nanf(const char *) { return __builtin_nanf(""); }
LONGSHORE_CUDA_ double nan(const char *) { return __builtin_nan(""); }

/* An approximation of `erfinv(x) / x` by M. Giles, as a function of `w = -log(1 - x^2)`. */
LONGSHORE_CUDA_ double longshore_erfinv_ratio_(double w) {
  double r;
  if (w < 5.0) {
    w -= 2.5;
    r = 2.81022636e-08;
    r = 3.43273939e-07 + r * w;
    r = -3.5233877e-06 + r * w;
    r = -4.39150654e-06 + r * w;
    r = 0.00021858087 + r * w;
    r = -0.00125372503 + r * w;
    r = -0.00417768164 + r * w;
    r = 0.246640727 + r * w;
    r = 1.50140941 + r * w;
  } else {
    w = longshore_sqrt(w) - 3.0;
    r = -0.000200214257;
    r = 0.000100950558 + r * w;
    r = 0.00134934322 + r * w;
    r = -0.00367342844 + r * w;
    r = 0.00573950773 + r * w;
    r = -0.0076224613 + r * w;
    r = 0.00943887047 + r * w;
    r = 1.00167406 + r * w;
    r = 2.83297682 + r * w;
  }
  return r;
}
/* The number that the normal distribution exceeds with a probability of at most a half: the
 * approximation, then Newton's steps by the distribution's function itself. */
LONGSHORE_CUDA_ double longshore_quantile_(double tail) {
  const double ratio = longshore_erfinv_ratio_(-longshore_log(4.0 * tail * (1.0 - tail)));
  double x = 1.41421356237309504880 * ratio * (1.0 - 2.0 * tail);
  if (tail < 1e-7) {
    /* Far out: C. Hastings' approximation. */
    const double t = longshore_sqrt(-2.0 * longshore_log(tail));
    x = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
  }
  /* The logarithm of the tail is nearly a parabola, so that the steps end anywhere. */
  for (int i = 0; i < 4; ++i) {
    const double q = 0.5 * longshore_erfc(x * 0.70710678118654752440);
    const double slope = 0.39894228040143267794 * longshore_exp(-0.5 * x * x);
    if (!(q > 0.0)) x -= 1.0;
    else x += q / slope * longshore_log(q / tail);
  }
  return x;
}
LONGSHORE_CUDA_ double longshore_normcdfinv_(double p) {
  if (!(p > 0.0 && p < 1.0)) return p == 0.0 ? -CUDART_INF : p == 1.0 ? CUDART_INF : CUDART_NAN;
  return p < 0.5 ? -longshore_quantile_(p) : longshore_quantile_(1.0 - p);
}
LONGSHORE_CUDA_ double normcdfinv(double p) { return longshore_normcdfinv_(p); }
LONGSHORE_CUDA_ float normcdfinvf(float p) { return (float)longshore_normcdfinv_(p); }
LONGSHORE_CUDA_ double erfcinv(double x) { return -0.70710678118654752440 * longshore_normcdfinv_(0.5 * x); }
LONGSHORE_CUDA_ float erfcinvf(float x) { return (float)erfcinv((double)x); }
LONGSHORE_CUDA_ double erfinv(double x) {
  const double size = longshore_abs(x);
  if (!(size < 1.0)) return size == 1.0 ? x * CUDART_INF : CUDART_NAN;
  /* The tail is exact. */
  if (size >= 0.5) return longshore_copysign(0.70710678118654752440 * longshore_quantile_(0.5 * (1.0 - size)), x);
  double y = longshore_erfinv_ratio_(-longshore_log1p(-x * x)) * x;
  for (int i = 0; i < 2; ++i) y -= (longshore_erf(y) - x) * 0.88622692545275801365 * longshore_exp(y * y);
  return y;
}
LONGSHORE_CUDA_ float erfinvf(float x) { return (float)erfinv((double)x); }
LONGSHORE_CUDA_ double erfcx(double x) {
  if (x < 25.0) return longshore_exp(x * x) * longshore_erfc(x);
  const double s = 1.0 / (x * x);
  return 0.56418958354775628695 / x * (1.0 - 0.5 * s * (1.0 - 1.5 * s * (1.0 - 2.5 * s)));
}
LONGSHORE_CUDA_ float erfcxf(float x) { return (float)erfcx((double)x); }

/* The hardware's approximations. */
LONGSHORE_CUDA_ float __expf(float x) { return longshore_fast_exp(x); }
LONGSHORE_CUDA_ float __exp2f(float x) { return longshore_fast_exp2(x); }
LONGSHORE_CUDA_ float __tanhf(float x) { return longshore_tanh(x); }
LONGSHORE_CUDA_ float __exp10f(float x) { return longshore_fast_exp2(x * 3.32192809488736234787f); }
LONGSHORE_CUDA_ float __logf(float x) { return longshore_fast_log(x); }
LONGSHORE_CUDA_ float __log2f(float x) { return longshore_fast_log2(x); }
LONGSHORE_CUDA_ float __log10f(float x) { return longshore_fast_log2(x) * 0.30102999566398119521f; }
LONGSHORE_CUDA_ float __sinf(float x) { return longshore_fast_sin(x); }
LONGSHORE_CUDA_ float __cosf(float x) { return longshore_fast_cos(x); }
LONGSHORE_CUDA_ float __tanf(float x) { return longshore_fast_tan(x); }
LONGSHORE_CUDA_ float __powf(float x, float y) { return longshore_fast_pow(x, y); }
LONGSHORE_CUDA_ float __fdividef(float x, float y) { return longshore_fast_divide(x, y); }
LONGSHORE_CUDA_ void __sincosf(float x, float *s, float *c) { *s = longshore_fast_sin(x), *c = longshore_fast_cos(x); }
LONGSHORE_CUDA_ float __frsqrt_rn(float x) { return longshore_rsqrt(x); }
LONGSHORE_CUDA_ float __fsqrt_rn(float x) { return longshore_sqrt(x); }
LONGSHORE_CUDA_ double __dsqrt_rn(double x) { return longshore_sqrt(x); }

/* Clang prefers these to functions of the host with the same parameters, also in namespace std. */
namespace std {
using ::acos;
using ::acosh;
using ::asin;
using ::asinh;
using ::atan;
using ::atan2;
using ::atanh;
using ::cbrt;
using ::ceil;
using ::copysign;
using ::cos;
using ::cosh;
using ::erf;
using ::erfc;
using ::exp;
using ::exp2;
using ::expm1;
using ::fabs;
using ::fdim;
using ::floor;
using ::fma;
using ::fmax;
using ::fmin;
using ::fmod;
using ::frexp;
using ::hypot;
using ::ldexp;
using ::lgamma;
using ::llround;
using ::log;
using ::log10;
using ::log1p;
using ::log2;
using ::lrint;
using ::lround;
using ::modf;
using ::nearbyint;
using ::pow;
using ::remainder;
using ::rint;
using ::round;
using ::scalbn;
using ::sin;
using ::sinh;
using ::sqrt;
using ::tan;
using ::tanh;
using ::tgamma;
using ::trunc;
} // namespace std

#endif
