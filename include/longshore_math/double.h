/*
 * longshore_math/double.h: mathematical functions of `double`. A part of longshore_math.h.
 *
 * Where one double has too few bits, a number is a pair: the sum of two doubles. The second is
 * small: it is about half a unit in the last place of the first.
 */
#ifndef LONGSHORE_MATH_DOUBLE_H
#define LONGSHORE_MATH_DOUBLE_H
#pragma clang system_header

/* ---- Exponential functions ------------------------------------------------------------------- */

/* Splits the logarithm `x = x_high + x_low` of a power: `x = k ln(2) + r`, for the pair `r` and the
 * integer `k`. `steps` is `k + LONGSHORE_ROUND_`. */
#define LONGSHORE_SPLIT_LOGARITHM_(x_high, x_low, r, steps)                                                            \
  const double steps = (x_high) * LONGSHORE_LOG2_E_ + LONGSHORE_ROUND_, steps##_k = steps - LONGSHORE_ROUND_;          \
  const struct longshore_pair_ r =                                                                                     \
      longshore_sum_((x_high) - steps##_k * LONGSHORE_LN_2_HIGH_, (x_low) - steps##_k * LONGSHORE_LN_2_LOW_)
/* `y * 2^k`, with one rounding where the result is subnormal. */
LONGSHORE_OVERLOAD_ double longshore_scale_(double y, double steps) {
  LONGSHORE_EXACTLY_
  const double half = (steps - LONGSHORE_ROUND_) * 0.5 + LONGSHORE_ROUND_;
  const uint64_t first = longshore_bits_(half), second = longshore_bits_(steps) - first;
  return y * longshore_of_bits_((first << 52) + LONGSHORE_ONE_) * longshore_of_bits_((second << 52) + LONGSHORE_ONE_);
}
/* `(e^r - 1 - r) / r^2` for `|r|` up to `ln(2) / 2`. */
#define LONGSHORE_EXP_REST_(r)                                                                                         \
  LONGSHORE_P10_(r, 0x1p-1, 0x1.555555555555cp-3, 0x1.5555555555542p-5, 0x1.111111110e9d8p-7, 0x1.6c16c16c1f388p-10,   \
                 0x1.a01a01b45b89ap-13, 0x1.a01a017932ffbp-16, 0x1.71ddee27e55fdp-19, 0x1.27e53ba8ed120p-22,           \
                 0x1.af6f1bd52f506p-26, 0x1.1ee1d0b97d644p-29)
/* `e^r` for a pair `r`. */
LONGSHORE_OVERLOAD_ double longshore_exp_of_pair_(struct longshore_pair_ r) {
  LONGSHORE_EXACTLY_
  const struct longshore_pair_ sum = longshore_fast_sum_(1, r.high);
  return sum.high + (sum.low + (r.low + r.high * r.high * LONGSHORE_EXP_REST_(r.high)));
}
/* The same as a pair. */
LONGSHORE_OVERLOAD_ struct longshore_pair_ longshore_exp_pair_of_pair_(struct longshore_pair_ r) {
  LONGSHORE_EXACTLY_
  const struct longshore_pair_ square = longshore_product_(r.high, r.high);
  const double cube =
      square.high * r.high *
      LONGSHORE_P9_(r.high, 0x1.555555555555cp-3, 0x1.5555555555542p-5, 0x1.111111110e9d8p-7, 0x1.6c16c16c1f388p-10,
                    0x1.a01a01b45b89ap-13, 0x1.a01a017932ffbp-16, 0x1.71ddee27e55fdp-19, 0x1.27e53ba8ed120p-22,
                    0x1.af6f1bd52f506p-26, 0x1.1ee1d0b97d644p-29);
  const struct longshore_pair_ first = longshore_fast_sum_(1, r.high);
  const struct longshore_pair_ second = longshore_sum_(first.high, 0.5 * square.high);
  const double low = r.low + r.low * r.high + 0.5 * square.low;
  return longshore_fast_sum_(second.high, second.low + first.low + (low + cube));
}
#define LONGSHORE_CLAMP_(x, low, high) (longshore_if_((x) < (low), (low), longshore_if_((x) > (high), (high), (x))))

LONGSHORE_OVERLOAD_ double longshore_exp_(double x) {
  LONGSHORE_EXACTLY_
  x = LONGSHORE_CLAMP_(x, -1000, 1000);
  LONGSHORE_SPLIT_LOGARITHM_(x, 0, r, steps);
  return longshore_scale_(longshore_exp_of_pair_(r), steps);
}
LONGSHORE_OVERLOAD_ double longshore_exp2_(double x) {
  LONGSHORE_EXACTLY_
  x = LONGSHORE_CLAMP_(x, -1200, 1200);
  const double steps = x + LONGSHORE_ROUND_, rest = x - (steps - LONGSHORE_ROUND_);
  const struct longshore_pair_ r = longshore_product_of_constant_(rest, LONGSHORE_LN_2_, LONGSHORE_LN_2_REST_);
  return longshore_scale_(longshore_exp_of_pair_(r), steps);
}
LONGSHORE_OVERLOAD_ double longshore_exp10_(double x) {
  LONGSHORE_EXACTLY_
  x = LONGSHORE_CLAMP_(x, -400, 400);
  const double steps = x * LONGSHORE_LOG2_10_ + LONGSHORE_ROUND_, k = steps - LONGSHORE_ROUND_;
  const struct longshore_pair_ rest = longshore_sum_(x - k * LONGSHORE_LOG10_2_HIGH_, -(k * LONGSHORE_LOG10_2_LOW_));
  struct longshore_pair_ r = longshore_product_of_constant_(rest.high, LONGSHORE_LN_10_, LONGSHORE_LN_10_REST_);
  r.low = r.low + rest.low * LONGSHORE_LN_10_;
  return longshore_scale_(longshore_exp_of_pair_(r), steps);
}
LONGSHORE_OVERLOAD_ double longshore_expm1_(double x) {
  LONGSHORE_EXACTLY_
  const double limited = LONGSHORE_CLAMP_(x, -60, 710);
  LONGSHORE_SPLIT_LOGARITHM_(limited, 0, r, steps);
  const double power = longshore_of_bits_((longshore_bits_(steps) << 52) + LONGSHORE_ONE_ - ((uint64_t)1 << 52));
  const double less = power - 0.5, less_rest = (power - less) - 0.5;
  const struct longshore_pair_ sum = longshore_sum_(less, power * r.high);
  const double rest = r.low + r.high * r.high * LONGSHORE_EXP_REST_(r.high);
  const double y = 2 * (sum.high + (sum.low + (less_rest + power * rest)));
  return longshore_if_(longshore_fabs_(x) < 0x1p-54, x, y);
}

/* `e^x / 2` as a pair, for x from `0` to `720`. */
LONGSHORE_OVERLOAD_ struct longshore_pair_ longshore_half_exp_(double x) {
  LONGSHORE_EXACTLY_
  LONGSHORE_SPLIT_LOGARITHM_(x, 0, r, steps);
  struct longshore_pair_ y = longshore_exp_pair_of_pair_(r);
  y.high = longshore_scale_(0.5 * y.high, steps);
  y.low = longshore_scale_(0.5 * y.low, steps);
  return y;
}
LONGSHORE_OVERLOAD_ double longshore_sinh_(double x) {
  LONGSHORE_EXACTLY_
  double a = longshore_fabs_(x);
  a = longshore_if_(a > 720, 720, a);
  const struct longshore_pair_ e = longshore_half_exp_(a);
  const double z = a * a,
               small = a + a * z *
                               LONGSHORE_P7_(z, 0x1.5555555555555p-3, 0x1.111111111117cp-7, 0x1.a01a01a00db3ap-13,
                                             0x1.71de3a60a9f7dp-19, 0x1.ae644b32db998p-26, 0x1.612abe6b5d71ep-33,
                                             0x1.aab9951a7065bp-41, 0x1.409579384599ap-48);
  const struct longshore_pair_ sum = longshore_fast_sum_(e.high, -0.25 / e.high);
  return longshore_copysign_(
      longshore_if_(a < 1, small, longshore_if_(a > 40, e.high + e.low, sum.high + (sum.low + e.low))), x);
}
LONGSHORE_OVERLOAD_ double longshore_cosh_(double x) {
  LONGSHORE_EXACTLY_
  double a = longshore_fabs_(x);
  a = longshore_if_(a > 720, 720, a);
  const struct longshore_pair_ e = longshore_half_exp_(a);
  const struct longshore_pair_ sum = longshore_fast_sum_(e.high, 0.25 / e.high);
  return longshore_if_(a > 40, e.high + e.low, sum.high + (sum.low + e.low));
}
LONGSHORE_OVERLOAD_ double longshore_tanh_(double x) {
  LONGSHORE_EXACTLY_
  double a = longshore_fabs_(x);
  a = longshore_if_(a > 25, 25, a);
  struct longshore_pair_ e = longshore_half_exp_(2 * a);
  const double z = a * a,
               small = a + a * z *
                               LONGSHORE_P10_(z, -0x1.555555555554fp-2, 0x1.1111111110794p-3, -0x1.ba1ba1b97d0e0p-5,
                                              0x1.664f4859598d1p-6, -0x1.226e2f11e98b2p-7, 0x1.d6d29b3a9be7ep-9,
                                              -0x1.7d8fcf79b25dep-10, 0x1.34838ed8def4bp-11, -0x1.e96e9aaa7d05fp-13,
                                              0x1.5d71385dfab3ap-14, -0x1.4709c2bd555dbp-16);
  const struct longshore_pair_ one = {1, 0}, sum = longshore_sum_(e.high, 0.5);
  e = longshore_fast_sum_(sum.high, sum.low + e.low);
  const struct longshore_pair_ quotient = longshore_quotient_(one, e);
  const struct longshore_pair_ rest = longshore_fast_sum_(1, -quotient.high);
  return longshore_copysign_(longshore_if_(a < 0.54, small, rest.high + (rest.low - quotient.low)), x);
}

/* ---- Logarithms ------------------------------------------------------------------------------ */

/* The parts of a pair `x > 0`: its exponent, and the pair `f`, where `1 + f` is from `sqrt(1 / 2)`
 * to `sqrt(2)`. */
struct longshore_parts_ {
  double exponent;
  struct longshore_pair_ f;
};
LONGSHORE_OVERLOAD_ struct longshore_parts_ longshore_split_pair_(double x, double low) {
  LONGSHORE_EXACTLY_
  LONGSHORE_SPLIT_NUMBER_(x, exponent, f, shift);
  const double scale = longshore_if_(exponent > 1000, 0, longshore_of_bits_(LONGSHORE_ONE_ - shift));
  const struct longshore_parts_ parts = {exponent, longshore_sum_(f, low * scale)};
  return parts;
}
LONGSHORE_OVERLOAD_ struct longshore_parts_ longshore_split_double_(double x) {
  LONGSHORE_EXACTLY_
  const int is_small = x < 0x1p-1022;
  const double normal = longshore_if_(is_small, x * 0x1p54, x);
  LONGSHORE_SPLIT_NUMBER_(normal, exponent, f, shift);
  const struct longshore_parts_ parts = {longshore_if_(is_small, exponent - 54, exponent), {f, 0}};
  return parts;
}
/* f / (2 + f) for a pair. */
LONGSHORE_OVERLOAD_ struct longshore_pair_ longshore_log_ratio_(struct longshore_pair_ f) {
  LONGSHORE_EXACTLY_
  struct longshore_pair_ divisor = longshore_fast_sum_(2, f.high);
  divisor.low = divisor.low + f.low;
  return longshore_quotient_(f, divisor);
}
/* log(1 + f) with a relative error of 2^-59. */
LONGSHORE_OVERLOAD_ struct longshore_pair_ longshore_log_of_fraction_(struct longshore_pair_ f) {
  LONGSHORE_EXACTLY_
  const struct longshore_pair_ s = longshore_log_ratio_(f);
  const double z = s.high * s.high;
  return longshore_fast_sum_(2 * s.high, 2 * s.low + s.high * z *
                                                         LONGSHORE_P7_(z, 0x1.5555555555555p-1, 0x1.9999999999d9bp-2,
                                                                       0x1.249249242911bp-2, 0x1.c71c7262aaad2p-3,
                                                                       0x1.745cd9bbb5336p-3, 0x1.3b219aec28ae9p-3,
                                                                       0x1.0f44f8f80f881p-3, 0x1.104d9819e2e11p-3));
}
/* The same with a relative error of 2^-64. */
LONGSHORE_OVERLOAD_ struct longshore_pair_ longshore_fine_log_of_fraction_(struct longshore_pair_ f) {
  LONGSHORE_EXACTLY_
  const struct longshore_pair_ s = longshore_log_ratio_(f);
  struct longshore_pair_ z = longshore_product_(s.high, s.high);
  z.low = z.low + 2 * s.high * s.low;
  struct longshore_pair_ c = longshore_fast_sum_(
      LONGSHORE_TWO_THIRDS_,
      z.high * LONGSHORE_P8_(z.high, 0x1.999999999999ap-2, 0x1.249249249239p-2, 0x1.c71c71c73d5f7p-3,
                             0x1.745d1733af068p-3, 0x1.3b13b73ef8a2ep-3, 0x1.110fcf5b41066p-3, 0x1.e236fd00a4528p-4,
                             0x1.a846843a9422ap-4, 0x1.d495aad708468p-4));
  c.low = c.low + LONGSHORE_TWO_THIRDS_REST_;
  const struct longshore_pair_ rest = longshore_pair_product_(s, longshore_pair_product_(z, c));
  const struct longshore_pair_ sum = longshore_fast_sum_(2 * s.high, rest.high);
  return longshore_fast_sum_(sum.high, sum.low + (2 * s.low + rest.low));
}
/* Adds the exponent's logarithm. */
LONGSHORE_OVERLOAD_ struct longshore_pair_ longshore_add_exponent_(double exponent, struct longshore_pair_ log) {
  LONGSHORE_EXACTLY_
  const struct longshore_pair_ sum = longshore_sum_(exponent * LONGSHORE_LN_2_HIGH_, log.high);
  return longshore_fast_sum_(sum.high, sum.low + (exponent * LONGSHORE_LN_2_LOW_ + log.low));
}
LONGSHORE_OVERLOAD_ struct longshore_pair_ longshore_log_pair_(struct longshore_parts_ parts) {
  return longshore_add_exponent_(parts.exponent, longshore_log_of_fraction_(parts.f));
}
LONGSHORE_OVERLOAD_ struct longshore_pair_ longshore_fine_log_pair_(struct longshore_parts_ parts) {
  return longshore_add_exponent_(parts.exponent, longshore_fine_log_of_fraction_(parts.f));
}

#define LONGSHORE_LOGARITHM_OF_DOUBLE_(x, y)                                                                           \
  (longshore_if_(((x) > 0) & ((x) < __builtin_inf()), (y),                                                             \
                 longshore_if_((x) == 0, -__builtin_inf(), longshore_if_((x) < 0, __builtin_nan(""), (x)))))

LONGSHORE_OVERLOAD_ double longshore_log_(double x) {
  LONGSHORE_EXACTLY_
  const struct longshore_pair_ log = longshore_log_pair_(longshore_split_double_(x));
  return LONGSHORE_LOGARITHM_OF_DOUBLE_(x, log.high);
}
LONGSHORE_OVERLOAD_ double longshore_log2_(double x) {
  LONGSHORE_EXACTLY_
  const struct longshore_parts_ parts = longshore_split_double_(x);
  const struct longshore_pair_ log = longshore_log_of_fraction_(parts.f);
  struct longshore_pair_ y = longshore_product_of_constant_(log.high, LONGSHORE_LOG2_E_, LONGSHORE_LOG2_E_REST_);
  y.low = y.low + log.low * LONGSHORE_LOG2_E_;
  const struct longshore_pair_ sum = longshore_sum_(parts.exponent, y.high);
  return LONGSHORE_LOGARITHM_OF_DOUBLE_(x, sum.high + (sum.low + y.low));
}
LONGSHORE_OVERLOAD_ double longshore_log10_(double x) {
  LONGSHORE_EXACTLY_
  const struct longshore_pair_ log = longshore_log_pair_(longshore_split_double_(x));
  const struct longshore_pair_ y =
      longshore_product_of_constant_(log.high, LONGSHORE_LOG10_E_, LONGSHORE_LOG10_E_REST_);
  return LONGSHORE_LOGARITHM_OF_DOUBLE_(x, y.high + (y.low + log.low * LONGSHORE_LOG10_E_));
}
LONGSHORE_OVERLOAD_ double longshore_log1p_(double x) {
  LONGSHORE_EXACTLY_
  const struct longshore_pair_ sum = longshore_sum_(1, x);
  const double y = longshore_log_pair_(longshore_split_pair_(sum.high, sum.low)).high;
  const double finite = longshore_if_(longshore_fabs_(x) < 0x1p-54, x, y);
  return longshore_if_((x > -1) & (x < __builtin_inf()), finite,
                       longshore_if_(x == -1, -__builtin_inf(), longshore_if_(x < 0, __builtin_nan(""), x)));
}
LONGSHORE_OVERLOAD_ double longshore_asinh_(double x) {
  LONGSHORE_EXACTLY_
  const double a = longshore_fabs_(x), limited = longshore_if_(a > 0x1p60, 0x1p60, a);
  struct longshore_pair_ square = longshore_product_(limited, limited);
  const struct longshore_pair_ more = longshore_sum_(1, square.high);
  square = longshore_fast_sum_(more.high, more.low + square.low);
  const struct longshore_pair_ root = longshore_root_of_pair_(square);
  struct longshore_pair_ sum = longshore_sum_(limited, root.high);
  const int is_large = a > 0x1p60;
  struct longshore_parts_ parts =
      longshore_split_pair_(longshore_if_(is_large, a, sum.high), longshore_if_(is_large, 0, sum.low + root.low));
  parts.exponent = longshore_if_(is_large, parts.exponent + 1, parts.exponent);
  const double y = longshore_log_pair_(parts).high;
  return longshore_if_((a >= 0x1p-28) & (a < __builtin_inf()), longshore_copysign_(y, x), x);
}
LONGSHORE_OVERLOAD_ double longshore_acosh_(double x) {
  LONGSHORE_EXACTLY_
  const double limited = longshore_if_(x > 0x1p60, 0x1p60, x);
  struct longshore_pair_ square = longshore_product_(limited, limited);
  const struct longshore_pair_ less = longshore_sum_(square.high, -1);
  square = longshore_sum_(less.high, less.low + square.low);
  const struct longshore_pair_ root = longshore_root_of_pair_(square);
  const struct longshore_pair_ sum = longshore_sum_(limited, root.high);
  const int is_large = x > 0x1p60;
  struct longshore_parts_ parts =
      longshore_split_pair_(longshore_if_(is_large, x, sum.high), longshore_if_(is_large, 0, sum.low + root.low));
  parts.exponent = longshore_if_(is_large, parts.exponent + 1, parts.exponent);
  const double y = longshore_log_pair_(parts).high;
  return longshore_if_(x > 1, longshore_if_(x < __builtin_inf(), y, x), longshore_if_(x == 1, 0, __builtin_nan("")));
}
LONGSHORE_OVERLOAD_ double longshore_atanh_(double x) {
  LONGSHORE_EXACTLY_
  const double a = longshore_fabs_(x);
  const struct longshore_pair_ quotient = longshore_quotient_(longshore_fast_sum_(1, a), longshore_fast_sum_(1, -a));
  const double y = 0.5 * longshore_log_pair_(longshore_split_pair_(quotient.high, quotient.low)).high;
  const double finite = longshore_if_(a < 0x1p-28, a, y);
  return longshore_copysign_(longshore_if_(a < 1, finite, longshore_if_(a == 1, __builtin_inf(), __builtin_nan(""))),
                             x);
}

/* ---- Powers and roots ------------------------------------------------------------------------ */

LONGSHORE_OVERLOAD_ double longshore_pow_(double x, double y) {
  LONGSHORE_EXACTLY_
  const double a = longshore_fabs_(x), size = longshore_fabs_(y);
  const struct longshore_pair_ log = longshore_fine_log_pair_(longshore_split_double_(a));
  /* Beyond `2^80` only the sign of the logarithm counts. */
  const double factor = LONGSHORE_CLAMP_(y, -0x1p80, 0x1p80);
  struct longshore_pair_ power = longshore_product_(factor, log.high);
  power.low = power.low + factor * log.low;
  power.high = longshore_if_(a < __builtin_inf(), longshore_if_(a == 0, -__builtin_inf() * y, power.high), a * y);
  const int is_extreme = !(longshore_fabs_(power.high) < 1000);
  power.low = longshore_if_(is_extreme, 0, power.low);
  power.high = LONGSHORE_CLAMP_(power.high, -1000, 1000);
  LONGSHORE_SPLIT_LOGARITHM_(power.high, power.low, r, steps);
  const double result = longshore_scale_(longshore_exp_of_pair_(r), steps);

  const double shifted = size + 0x1p52;
  const int is_whole = (size >= 0x1p52) | (shifted - 0x1p52 == size);
  const int is_odd = is_whole & (size < 0x1p53) & (longshore_bits_(longshore_if_(size >= 0x1p52, size, shifted)) & 1);
  const double with_sign = longshore_if_(is_odd, longshore_flip_(result, x), result);
  const double valid = longshore_if_((x < 0) & !is_whole & (a < __builtin_inf()), __builtin_nan(""), with_sign);
  return longshore_if_((x == 1) | (y == 0) | ((x == -1) & (size == __builtin_inf())), 1, valid);
}
LONGSHORE_OVERLOAD_ double longshore_powi_(double x, int n) { return longshore_pow_(x, (double)n); }

/* A factor for sizes whose cubes or inverses are not normal, and the cube root of its inverse. */
#define LONGSHORE_SCALE_FOR_ROOT_(size, factor, of_root)                                                               \
  const double factor = longshore_if_(size < 0x1p-900, 0x1p300, longshore_if_(size > 0x1p900, 0x1p-300, 1));           \
  const double of_root = longshore_if_(size < 0x1p-900, 0x1p-100, longshore_if_(size > 0x1p900, 0x1p100, 1))
LONGSHORE_OVERLOAD_ double longshore_cbrt_(double x) {
  LONGSHORE_EXACTLY_
  const double size = longshore_fabs_(x);
  LONGSHORE_SCALE_FOR_ROOT_(size, factor, of_root);
  const double a = size * factor, y = longshore_rcbrt_of_normal_(a), square = y * y, c = a * square;
  const struct longshore_pair_ c2 = longshore_product_(c, c), c3 = longshore_product_(c2.high, c);
  const double root = c + (((a - c3.high) - c3.low) - c2.low * c) * (square * (1.0 / 3));
  return longshore_if_((size > 0) & (size < __builtin_inf()), longshore_copysign_(root * of_root, x), x);
}
LONGSHORE_OVERLOAD_ double longshore_rcbrt_(double x) {
  LONGSHORE_EXACTLY_
  const double size = longshore_fabs_(x);
  LONGSHORE_SCALE_FOR_ROOT_(size, factor, of_root);
  const double a = size * factor, y = longshore_rcbrt_of_normal_(a);
  const struct longshore_pair_ y2 = longshore_product_(y, y), y3 = longshore_product_(y2.high, y);
  const struct longshore_pair_ one = longshore_product_(a, y3.high);
  const double error = ((1 - one.high) - one.low) - a * (y3.low + y2.low * y);
  const double root = (y + y * error * (1.0 / 3)) / of_root;
  return longshore_if_((size > 0) & (size < __builtin_inf()), longshore_copysign_(root, x), 1 / x);
}

/* The square of the hypotenuse, scaled, as a pair; `scale` is the factor of its root. */
#define LONGSHORE_SQUARES_(x, y, sum, scale)                                                                           \
  double sum##_a = longshore_fabs_(x), sum##_b = longshore_fabs_(y);                                                   \
  const double sum##_size = longshore_if_(sum##_a > sum##_b, sum##_a, sum##_b);                                        \
  const double scale =                                                                                                 \
      longshore_if_(sum##_size > 0x1p500, 0x1p600, longshore_if_(sum##_size < 0x1p-400, 0x1p-600, 1));                 \
  const double sum##_factor =                                                                                          \
      longshore_if_(sum##_size > 0x1p500, 0x1p-600, longshore_if_(sum##_size < 0x1p-400, 0x1p600, 1));                 \
  sum##_a = sum##_a * sum##_factor;                                                                                    \
  sum##_b = sum##_b * sum##_factor;                                                                                    \
  const struct longshore_pair_ sum##_first = longshore_product_(sum##_a, sum##_a);                                     \
  const struct longshore_pair_ sum##_second = longshore_product_(sum##_b, sum##_b);                                    \
  struct longshore_pair_ sum = longshore_sum_(sum##_first.high, sum##_second.high);                                    \
  sum = longshore_fast_sum_(sum.high, sum.low + (sum##_first.low + sum##_second.low))
LONGSHORE_OVERLOAD_ double longshore_hypot_(double x, double y) {
  LONGSHORE_EXACTLY_
  LONGSHORE_SQUARES_(x, y, sum, scale);
  const struct longshore_pair_ root = longshore_root_of_pair_(sum);
  const int is_infinite = (longshore_fabs_(x) == __builtin_inf()) | (longshore_fabs_(y) == __builtin_inf());
  return longshore_if_(is_infinite, __builtin_inf(), longshore_if_(sum.high == 0, 0, (root.high + root.low) * scale));
}
LONGSHORE_OVERLOAD_ double longshore_rhypot_(double x, double y) {
  LONGSHORE_EXACTLY_
  LONGSHORE_SQUARES_(x, y, sum, scale);
  const struct longshore_pair_ one = {1, 0}, root = longshore_root_of_pair_(sum);
  const struct longshore_pair_ quotient = longshore_quotient_(one, root);
  const int is_infinite = (longshore_fabs_(x) == __builtin_inf()) | (longshore_fabs_(y) == __builtin_inf());
  return longshore_if_(is_infinite, 0,
                       longshore_if_(sum.high == 0, __builtin_inf(), (quotient.high + quotient.low) / scale));
}

/* ---- Inverse trigonometric functions --------------------------------------------------------- */

/* The arctangent of a / b for a, b >= 0 and b > 0. Quotients below `2^-40` may be multiplied by
 * a power of two. */
LONGSHORE_OVERLOAD_ struct longshore_pair_ longshore_atan_of_doubles_(double a, double b) {
  LONGSHORE_EXACTLY_
  const int is_small = a <= b * LONGSHORE_TAN_PI_8_, is_large = a > b * LONGSHORE_TAN_3PI_8_;
  const struct longshore_pair_ difference = longshore_sum_(a, -b), sum = longshore_sum_(a, b);
  const struct longshore_pair_ numerator = {longshore_if_(is_small, a, longshore_if_(is_large, -b, difference.high)),
                                            longshore_if_(is_small | is_large, 0, difference.low)};
  const struct longshore_pair_ divisor = {longshore_if_(is_small, b, longshore_if_(is_large, a, sum.high)),
                                          longshore_if_(is_small | is_large, 0, sum.low)};
  const struct longshore_pair_ t = longshore_quotient_(numerator, divisor);
  const double z = t.high * t.high;
  const double rest = t.low + t.high * z *
                                  LONGSHORE_P10_(z, -0x1.555555555553bp-2, 0x1.9999999995437p-3, -0x1.2492492293b92p-3,
                                                 0x1.c71c70dc28c4fp-4, -0x1.745cf7c09335bp-4, 0x1.3b11055bd2f6ap-4,
                                                 -0x1.10ead6df1ed30p-4, 0x1.df02697adbbe1p-5, -0x1.9c98569125238p-5,
                                                 0x1.374049f4969d5p-5, -0x1.242101725ae0cp-6);
  const double base = longshore_if_(is_small, 0, longshore_if_(is_large, LONGSHORE_PI_ / 2, LONGSHORE_PI_ / 4));
  const double base_rest =
      longshore_if_(is_small, 0, longshore_if_(is_large, LONGSHORE_PI_REST_ / 2, LONGSHORE_PI_REST_ / 4));
  const struct longshore_pair_ angle = longshore_fast_sum_(base, t.high);
  return longshore_fast_sum_(angle.high, angle.low + (base_rest + rest));
}
LONGSHORE_OVERLOAD_ double longshore_atan_(double x) {
  LONGSHORE_EXACTLY_
  double a = longshore_fabs_(x);
  a = longshore_if_(a > 0x1p100, 0x1p100, a);
  const double y = longshore_atan_of_doubles_(a, 1).high;
  return longshore_copysign_(longshore_if_(a < 0x1p-28, a, y), x);
}
LONGSHORE_OVERLOAD_ double longshore_atan2_(double y, double x) {
  LONGSHORE_EXACTLY_
  const double y_size = longshore_fabs_(y), x_size = longshore_fabs_(x),
               size = longshore_if_(y_size > x_size, y_size, x_size);
  /* The quotient of two infinities is 1. */
  const double largest = 0x1.fffffffffffffp1023;
  const double factor = longshore_if_(size > 0x1p1000, 0x1p-60, longshore_if_(size < 0x1p-700, 0x1p500, 1));
  double a = (longshore_if_(y_size > largest, largest, y_size)) * factor,
         b = (longshore_if_(x_size > largest, largest, x_size)) * factor;
  /* An infinity is beyond the quotient of all numbers. */
  b = longshore_if_((x_size > largest) & (y_size <= largest), 0x1p1000, b);
  a = longshore_if_((x_size > largest) & (y_size <= largest), 0, a);
  b = longshore_if_((y_size > largest) & (x_size <= largest), 0, b);
  const int is_tiny = a < 0x1p-900;
  struct longshore_pair_ angle = longshore_atan_of_doubles_(longshore_if_(is_tiny, a * 0x1p160, a), b);
  const double scaled = longshore_if_(is_tiny, angle.high * 0x1p-160, angle.high);
  angle.high = longshore_if_(a == 0, 0, longshore_if_(b == 0, LONGSHORE_PI_ / 2, scaled));
  angle.low = longshore_if_((a == 0) | is_tiny, 0, longshore_if_(b == 0, LONGSHORE_PI_REST_ / 2, angle.low));
  const struct longshore_pair_ turned = longshore_fast_sum_(LONGSHORE_PI_, -angle.high);
  const int is_left = (int)(longshore_bits_(x) >> 63);
  const double result =
      longshore_if_(is_left, turned.high + (turned.low + (LONGSHORE_PI_REST_ - angle.low)), angle.high);
  return longshore_if_((x != x) | (y != y), x + y, longshore_copysign_(result, y));
}

/* For `|x| > 1 / 2`, the arcsine of `|x|` is `pi / 2 - 2 asin(sqrt((1 - |x|) / 2))`. */
#define LONGSHORE_ASIN_PAIR_(a, is_large, y)                                                                           \
  const double y##_square = longshore_if_(is_large, 0.5 - 0.5 * (a), (a) * (a));                                       \
  const struct longshore_pair_ y##_exact = {y##_square, 0}, y##_root = longshore_root_of_pair_(y##_exact);             \
  struct longshore_pair_ y = {longshore_if_(is_large, y##_root.high, (a)),                                             \
                              longshore_if_(is_large & (y##_square != 0), y##_root.low, 0)};                           \
  y.low = y.low + y.high * y##_square *                                                                                \
                      LONGSHORE_P12_(y##_square, 0x1.5555555555577p-3, 0x1.333333332e133p-4, 0x1.6db6db721247bp-5,     \
                                     0x1.f1c71a95002fbp-6, 0x1.6e8bdedebf9e1p-6, 0x1.1c49f077d5b5ap-6,                 \
                                     0x1.ca1f8af1f1d9ap-7, 0x1.75859dacf6aedp-7, 0x1.613c1e6f4a2f0p-7,                 \
                                     0x1.e5fbe8857f6f5p-9, 0x1.639a895132223p-6, -0x1.57fad0e39eaf7p-6,                \
                                     0x1.0b45e9f8e6b15p-5)
LONGSHORE_OVERLOAD_ double longshore_asin_(double x) {
  LONGSHORE_EXACTLY_
  const double a = longshore_fabs_(x);
  const int is_large = a > 0.5;
  LONGSHORE_ASIN_PAIR_(a, is_large, y);
  const struct longshore_pair_ large = longshore_fast_sum_(LONGSHORE_PI_ / 2, -2 * y.high);
  const double angle =
      longshore_if_(is_large, large.high + (large.low + (LONGSHORE_PI_REST_ / 2 - 2 * y.low)), y.high + y.low);
  return longshore_copysign_(longshore_if_(a > 1, __builtin_nan(""), angle), x);
}
LONGSHORE_OVERLOAD_ double longshore_acos_(double x) {
  LONGSHORE_EXACTLY_
  const double a = longshore_fabs_(x);
  const int is_large = a > 0.5, is_negative = x < 0;
  LONGSHORE_ASIN_PAIR_(a, is_large, y);
  const double factor =
      longshore_if_(is_large, longshore_if_(is_negative, -2.0, 2), longshore_if_(is_negative, 1.0, -1));
  const double base = longshore_if_(is_large, longshore_if_(is_negative, LONGSHORE_PI_, 0), LONGSHORE_PI_ / 2);
  const double base_rest =
      longshore_if_(is_large, longshore_if_(is_negative, LONGSHORE_PI_REST_, 0), LONGSHORE_PI_REST_ / 2);
  const struct longshore_pair_ sum = longshore_fast_sum_(base, factor * y.high);
  const double angle = sum.high + (sum.low + (base_rest + factor * y.low));
  return longshore_if_(a > 1, __builtin_nan(""), angle);
}

#endif
