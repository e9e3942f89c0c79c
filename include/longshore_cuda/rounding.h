/*
 * longshore_cuda/rounding.h: arithmetic and conversions that round down (`_rd`), up (`_ru`) or
 * toward zero (`_rz`). Part of longshore_cuda.h.
 */
#ifndef LONGSHORE_CUDA_ROUNDING_H
#define LONGSHORE_CUDA_ROUNDING_H
#pragma clang system_header

/* An exact result: a number and its difference to the result, of which the sign counts. */
template <class F> struct longshore_exact_ {
  F nearest, rest;
};

LONGSHORE_CUDA_ float longshore_next_(float x, bool up) {
  if (x == 0.0f) return longshore_same_bits_<float>(up ? 1u : 0x80000001u);
  const unsigned int bits = longshore_same_bits_<unsigned int>(x);
  return longshore_same_bits_<float>((x > 0.0f) == up ? bits + 1 : bits - 1);
}
LONGSHORE_CUDA_ double longshore_next_(double x, bool up) {
  if (x == 0.0) return longshore_same_bits_<double>(up ? 1ull : 0x8000000000000001ull);
  const unsigned long long bits = longshore_same_bits_<unsigned long long>(x);
  return longshore_same_bits_<double>((x > 0.0) == up ? bits + 1 : bits - 1);
}

template <class F> LONGSHORE_CUDA_ F longshore_down_(longshore_exact_<F> x) {
  return x.rest < (F)0 ? longshore_next_(x.nearest, false) : x.nearest;
}
template <class F> LONGSHORE_CUDA_ F longshore_up_(longshore_exact_<F> x) {
  return x.rest > (F)0 ? longshore_next_(x.nearest, true) : x.nearest;
}
template <class F> LONGSHORE_CUDA_ F longshore_to_zero_(longshore_exact_<F> x) {
  return x.nearest > (F)0 || (x.nearest == (F)0 && x.rest > (F)0) ? longshore_down_(x) : longshore_up_(x);
}

/* The rest of a result that is infinite although its operands are not. */
template <class F> LONGSHORE_CUDA_ longshore_exact_<F> longshore_with_rest_(F nearest, F rest, bool is_finite) {
  longshore_exact_<F> x = {nearest, rest};
  if (longshore_isinf(nearest)) x.rest = is_finite ? -nearest : (F)0;
  return x;
}
template <class F> LONGSHORE_CUDA_ bool longshore_is_finite_(F x) { return !longshore_isnan(x) && !longshore_isinf(x); }

LONGSHORE_CUDA_ longshore_exact_<double> longshore_exact_sum_(double a, double b) {
#pragma clang fp contract(off)
  const double sum = a + b, of_b = sum - a;
  return longshore_with_rest_(sum, (a - (sum - of_b)) + (b - of_b), longshore_is_finite_(a) && longshore_is_finite_(b));
}
/* The rests of smaller results may be too small for a double: factors enlarge them. */
#define LONGSHORE_SMALL_RESULT_ 0x1p-900
LONGSHORE_CUDA_ double longshore_sign_of_product_(double a, double b) {
  return a == 0.0 || b == 0.0 ? 0.0 : (a > 0.0) == (b > 0.0) ? 1.0 : -1.0;
}
/* `(a b + c) scale - nearest scale`, where `a b` is small if the scale is not 1. */
LONGSHORE_CUDA_ double longshore_rest_of_fma_(double a, double b, double c, double nearest, double scale) {
  const bool is_less = longshore_abs(a) < longshore_abs(b);
  return longshore_fma(is_less ? a * scale : a, is_less ? b : b * scale, c * scale - nearest * scale);
}
LONGSHORE_CUDA_ longshore_exact_<double> longshore_exact_product_(double a, double b) {
#pragma clang fp contract(off)
  const double product = a * b, scale = longshore_abs(product) < LONGSHORE_SMALL_RESULT_ ? 0x1p600 : 1.0;
  const double rest = longshore_rest_of_fma_(a, b, 0.0, product, scale);
  return longshore_with_rest_(product, product == 0.0 ? longshore_sign_of_product_(a, b) : rest,
                              longshore_is_finite_(a) && longshore_is_finite_(b));
}
LONGSHORE_CUDA_ longshore_exact_<double> longshore_exact_fma_(double a, double b, double c) {
#pragma clang fp contract(off)
  const double nearest = longshore_fma(a, b, c);
  const bool is_finite = longshore_is_finite_(a) && longshore_is_finite_(b) && longshore_is_finite_(c);
  const double scale = longshore_abs(a * b) < LONGSHORE_SMALL_RESULT_ ? 0x1p1000 : 1.0;
  const bool is_less = longshore_abs(a) < longshore_abs(b), is_scaled = scale != 1.0;
  const longshore_exact_<double> product = longshore_exact_product_(is_less ? a * scale : a, is_less ? b : b * scale);
  /* A product that is small beside `c` leaves it as the nearest number. */
  if (is_scaled && (longshore_abs(c) > 0x1p-700 || longshore_abs(product.nearest) < LONGSHORE_SMALL_RESULT_))
    return longshore_with_rest_(nearest, longshore_sign_of_product_(a, b), is_finite);
  const longshore_exact_<double> low = longshore_exact_sum_(c * scale, product.rest);
  const longshore_exact_<double> high = longshore_exact_sum_(product.nearest, low.nearest);
  return longshore_with_rest_(nearest, ((high.nearest - nearest * scale) + high.rest) + low.rest, is_finite);
}
LONGSHORE_CUDA_ longshore_exact_<double> longshore_exact_quotient_(double a, double b) {
#pragma clang fp contract(off)
  const double nearest = a / b, scale = longshore_abs(a) < LONGSHORE_SMALL_RESULT_ ? 0x1p600 : 1.0;
  const double rest = longshore_rest_of_fma_(-nearest, b, a, 0.0, scale);
  return longshore_with_rest_(nearest, b < 0.0 ? -rest : rest, longshore_is_finite_(a) && b != 0.0);
}
LONGSHORE_CUDA_ longshore_exact_<double> longshore_exact_root_(double a) {
  const double nearest = longshore_sqrt(a), scale = a < LONGSHORE_SMALL_RESULT_ ? 0x1p300 : 1.0;
  const double scaled = nearest * scale;
  return longshore_with_rest_(nearest, longshore_fma(-scaled, scaled, a * scale * scale), false);
}

/* The nearest `float`, of an exact result. */
LONGSHORE_CUDA_ longshore_exact_<float> longshore_in_float_(longshore_exact_<double> x) {
  const float nearest = (float)x.nearest;
  const double rest = x.nearest - (double)nearest;
  const float sign = rest != 0.0 ? (float)(rest > 0.0) - (float)(rest < 0.0) : (float)(x.rest > 0.0) - (float)(x.rest < 0.0);
  return longshore_with_rest_(nearest, longshore_isnan(x.nearest) ? 0.0f : sign, longshore_is_finite_(x.nearest));
}
/* An integer is the sum of two numbers without an error. */
LONGSHORE_CUDA_ longshore_exact_<double> longshore_exact_integer_(long long x) {
  return longshore_exact_sum_((double)(x >> 32) * 4294967296.0, (double)(unsigned int)x);
}
LONGSHORE_CUDA_ longshore_exact_<double> longshore_exact_integer_(unsigned long long x) {
  return longshore_exact_sum_((double)(x >> 32) * 4294967296.0, (double)(unsigned int)x);
}

#define LONGSHORE_DIRECTED_(name, T, parameters, exact)                                                               \
  LONGSHORE_CUDA_ T name##_rd parameters { return longshore_down_(exact); }                                           \
  LONGSHORE_CUDA_ T name##_ru parameters { return longshore_up_(exact); }                                             \
  LONGSHORE_CUDA_ T name##_rz parameters { return longshore_to_zero_(exact); }
LONGSHORE_DIRECTED_(__fadd, float, (float a, float b), longshore_in_float_(longshore_exact_sum_(a, b)))
LONGSHORE_DIRECTED_(__fsub, float, (float a, float b), longshore_in_float_(longshore_exact_sum_(a, -b)))
LONGSHORE_DIRECTED_(__fmul, float, (float a, float b), longshore_in_float_(longshore_exact_product_(a, b)))
LONGSHORE_DIRECTED_(__fdiv, float, (float a, float b), longshore_in_float_(longshore_exact_quotient_(a, b)))
LONGSHORE_DIRECTED_(__fmaf, float, (float a, float b, float c), longshore_in_float_(longshore_exact_fma_(a, b, c)))
LONGSHORE_DIRECTED_(__fmaf_ieee, float, (float a, float b, float c), longshore_in_float_(longshore_exact_fma_(a, b, c)))
LONGSHORE_DIRECTED_(__frcp, float, (float a), longshore_in_float_(longshore_exact_quotient_(1.0, a)))
LONGSHORE_DIRECTED_(__fsqrt, float, (float a), longshore_in_float_(longshore_exact_root_(a)))
LONGSHORE_DIRECTED_(__dadd, double, (double a, double b), longshore_exact_sum_(a, b))
LONGSHORE_DIRECTED_(__dsub, double, (double a, double b), longshore_exact_sum_(a, -b))
LONGSHORE_DIRECTED_(__dmul, double, (double a, double b), longshore_exact_product_(a, b))
LONGSHORE_DIRECTED_(__ddiv, double, (double a, double b), longshore_exact_quotient_(a, b))
LONGSHORE_DIRECTED_(__fma, double, (double a, double b, double c), longshore_exact_fma_(a, b, c))
LONGSHORE_DIRECTED_(__drcp, double, (double a), longshore_exact_quotient_(1.0, a))
LONGSHORE_DIRECTED_(__dsqrt, double, (double a), longshore_exact_root_(a))
LONGSHORE_DIRECTED_(__int2float, float, (int x), longshore_in_float_(longshore_exact_integer_((long long)x)))
LONGSHORE_DIRECTED_(__uint2float, float, (unsigned int x), longshore_in_float_(longshore_exact_integer_((long long)x)))
LONGSHORE_DIRECTED_(__ll2float, float, (long long x), longshore_in_float_(longshore_exact_integer_(x)))
LONGSHORE_DIRECTED_(__ull2float, float, (unsigned long long x), longshore_in_float_(longshore_exact_integer_(x)))
LONGSHORE_DIRECTED_(__ll2double, double, (long long x), longshore_exact_integer_(x))
LONGSHORE_DIRECTED_(__ull2double, double, (unsigned long long x), longshore_exact_integer_(x))
LONGSHORE_DIRECTED_(__double2float, float, (double x), longshore_in_float_(longshore_exact_sum_(x, 0.0)))

#endif
