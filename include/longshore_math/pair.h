/*
 * longshore_math/pair.h: sums of two doubles. A part of longshore_math.h.
 */
#ifndef LONGSHORE_MATH_PAIR_H
#define LONGSHORE_MATH_PAIR_H
#pragma clang system_header

struct longshore_pair_ {
  double high, low;
};

/* a + b without an error. */
LONGSHORE_OVERLOAD_ struct longshore_pair_ longshore_sum_(double a, double b) {
  LONGSHORE_EXACTLY_
  const double high = a + b, of_b = high - a;
  const struct longshore_pair_ sum = {high, (a - (high - of_b)) + (b - of_b)};
  return sum;
}
/* The same for |a| >= |b|, or a = 0. */
LONGSHORE_OVERLOAD_ struct longshore_pair_ longshore_fast_sum_(double a, double b) {
  LONGSHORE_EXACTLY_
  const double high = a + b;
  const struct longshore_pair_ sum = {high, b - (high - a)};
  return sum;
}
/* x as a sum of two numbers of 26 bits. */
LONGSHORE_OVERLOAD_ struct longshore_pair_ longshore_halves_(double x) {
  LONGSHORE_EXACTLY_
  const double high = longshore_of_bits_((longshore_bits_(x) + ((uint64_t)1 << 26)) & ~(uint64_t)0x7ffffff);
  const struct longshore_pair_ halves = {high, x - high};
  return halves;
}
/* a * b without an error, where nothing is subnormal. Both ways to compute it give the same. */
#if LONGSHORE_FUSES_
LONGSHORE_OVERLOAD_ struct longshore_pair_ longshore_product_(double a, double b) {
  LONGSHORE_EXACTLY_
  const double high = a * b;
  const struct longshore_pair_ product = {high, longshore_fma_(a, b, -high)};
  return product;
}
#else
LONGSHORE_OVERLOAD_ struct longshore_pair_ longshore_product_(double a, double b) {
  LONGSHORE_EXACTLY_
  const struct longshore_pair_ x = longshore_halves_(a), y = longshore_halves_(b);
  const double high = a * b;
  const struct longshore_pair_ product = {high,
                                          ((x.high * y.high - high) + x.high * y.low + x.low * y.high) + x.low * y.low};
  return product;
}
#endif
/* The product of a double and the constant high + low. */
LONGSHORE_OVERLOAD_ struct longshore_pair_ longshore_product_of_constant_(double a, double high, double low) {
  LONGSHORE_EXACTLY_
  struct longshore_pair_ product = longshore_product_(a, high);
  product.low = product.low + a * low;
  return product;
}
/* Operations on pairs, with a relative error of 2^-100. */
LONGSHORE_OVERLOAD_ struct longshore_pair_ longshore_pair_product_(struct longshore_pair_ a, struct longshore_pair_ b) {
  LONGSHORE_EXACTLY_
  const struct longshore_pair_ product = longshore_product_(a.high, b.high);
  return longshore_fast_sum_(product.high, product.low + (a.high * b.low + a.low * b.high));
}
LONGSHORE_OVERLOAD_ struct longshore_pair_ longshore_quotient_(struct longshore_pair_ a, struct longshore_pair_ b) {
  LONGSHORE_EXACTLY_
  const double inverse = 1 / b.high, quotient = a.high * inverse;
  const struct longshore_pair_ product = longshore_product_(quotient, b.high);
  const double rest = ((a.high - product.high) - product.low) + (a.low - quotient * b.low);
  return longshore_fast_sum_(quotient, rest * inverse);
}
LONGSHORE_OVERLOAD_ struct longshore_pair_ longshore_root_of_pair_(struct longshore_pair_ a) {
  LONGSHORE_EXACTLY_
  const double root = longshore_root_(a.high);
  const struct longshore_pair_ square = longshore_product_(root, root);
  const struct longshore_pair_ pair = {root, (((a.high - square.high) - square.low) + a.low) / (2 * root)};
  return pair;
}

#endif
