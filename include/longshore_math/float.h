/*
 * longshore_math/float.h: mathematical functions of `float`. A part of longshore_math.h.
 *
 * The functions compute in double, whose error is below 2^-28, and round once. Additions,
 * multiplications, divisions and square roots of IEEE 754 have the same results on all targets.
 *
 * LONGSHORE_FUSED_ rounds once or twice, as the target can. Only functions of one float use it, for
 * which a test has found the same float in both ways, for all arguments.
 */
#ifndef LONGSHORE_MATH_FLOAT_H
#define LONGSHORE_MATH_FLOAT_H
#pragma clang system_header

/* ---- Exponential functions ------------------------------------------------------------------- */

/* A number that is far outside the range of exponential functions has the same result as 200 or
 * -200, whose power of 10 is a double. */
LONGSHORE_OVERLOAD_ float longshore_limit_(float x) {
  const float limited = longshore_if_(x > 200, 200, x);
  return longshore_if_(limited < -200, -200, limited);
}

/* `steps` becomes `k + LONGSHORE_ROUND_` and `f` becomes `t - k`, for the integer `k` that is next
 * to `t`. */
#define LONGSHORE_SPLIT_POWER_(t, f, steps)                                                                            \
  const double steps = (t) + LONGSHORE_ROUND_, f = (t) - (steps - LONGSHORE_ROUND_)

/* `y * 2^k` for the `k` of `steps`, where both are normal numbers. */
LONGSHORE_OVERLOAD_ double longshore_times_power_(double y, double steps) {
#ifdef __NVPTX__
  /* NaNs of these GPUs have all bits set, and would become numbers by the addition below. */
  return y * longshore_of_bits_((longshore_bits_(steps) << 52) + LONGSHORE_ONE_);
#else
  return longshore_of_bits_(longshore_bits_(y) + (longshore_bits_(steps) << 52));
#endif
}
/* 2^f for `|f|` up to 1/2, with a relative error of 2^-28. `sum` adds a product to a number. */
#define LONGSHORE_SUM_(x, y, z) ((x) * (y) + (z))
#define LONGSHORE_EXP2_OF_FRACTION_(f, z, sum)                                                                         \
  sum(z,                                                                                                               \
      sum(z, sum(z, 0x1.41fbbc91efe2ep-13, sum(f, 0x1.5f3e52f138af3p-10, 0x1.3b2d4cf0fbd52p-7)),                       \
          sum(f, 0x1.c6aee88e97a40p-5, 0x1.ebfbdc3c31671p-3)),                                                         \
      sum(f, 0x1.62e430af270cbp-1, 1))

/* 2^t for `|t|` up to 1000, of which the caller makes a float. */
LONGSHORE_OVERLOAD_ double longshore_exp2_within_1000_(double t) {
  LONGSHORE_EXACTLY_
  LONGSHORE_SPLIT_POWER_(t, f, steps);
  const double z = f * f;
  return longshore_times_power_(LONGSHORE_EXP2_OF_FRACTION_(f, z, LONGSHORE_FUSED_), steps);
}
/* 2^t for all `t`, with the same bits on all targets. */
LONGSHORE_OVERLOAD_ double longshore_exp2_of_float_(double t) {
  LONGSHORE_EXACTLY_
  t = longshore_if_(t > 1000, 1000, t);
  t = longshore_if_(t < -1000, -1000, t);
  LONGSHORE_SPLIT_POWER_(t, f, steps);
  const double z = f * f;
  return longshore_times_power_(LONGSHORE_EXP2_OF_FRACTION_(f, z, LONGSHORE_SUM_), steps);
}

LONGSHORE_OVERLOAD_ float longshore_exp_(float x) {
  LONGSHORE_EXACTLY_
  return (float)longshore_exp2_within_1000_(longshore_limit_(x) * LONGSHORE_LOG2_E_);
}
LONGSHORE_OVERLOAD_ float longshore_exp2_(float x) {
  return (float)longshore_exp2_within_1000_(longshore_limit_(x));
}
LONGSHORE_OVERLOAD_ float longshore_exp10_(float x) {
  LONGSHORE_EXACTLY_
  return (float)longshore_exp2_within_1000_(longshore_limit_(x) * LONGSHORE_LOG2_10_);
}

/* 2^t - 1 for `|t|` up to 1000, with a relative error of 2^-37. */
LONGSHORE_OVERLOAD_ double longshore_exp2m1_within_1000_(double t) {
  LONGSHORE_EXACTLY_
  LONGSHORE_SPLIT_POWER_(t, f, steps);
  const double power = longshore_of_bits_((longshore_bits_(steps) << 52) + LONGSHORE_ONE_);
  return power * (f * LONGSHORE_P7_(f, 0x1.62e42fef9cdf7p-1, 0x1.ebfbdff85f48fp-3, 0x1.c6b08da69c95fp-5,
                                    0x1.3b2ab6a0e1347p-7, 0x1.5d87762dfc4dbp-10, 0x1.43099b4e4ddb0p-13,
                                    0x1.00c080f753390p-16, 0x1.62c010c12bad8p-20)) +
         (power - 1);
}

LONGSHORE_OVERLOAD_ float longshore_expm1_(float x) {
  LONGSHORE_EXACTLY_
  const float y = (float)longshore_exp2m1_within_1000_(longshore_limit_(x) * LONGSHORE_LOG2_E_);
  return longshore_if_(x == 0, x, y);
}
LONGSHORE_OVERLOAD_ float longshore_sinh_(float x) {
  LONGSHORE_EXACTLY_
  const double a = longshore_limit_(longshore_fabs_(x)), u = longshore_exp2m1_within_1000_(a * LONGSHORE_LOG2_E_);
  return longshore_copysign_((float)(0.5 * (u + u / (u + 1))), x);
}
LONGSHORE_OVERLOAD_ float longshore_cosh_(float x) {
  LONGSHORE_EXACTLY_
  const double e = longshore_exp2_within_1000_(longshore_limit_(longshore_fabs_(x)) * LONGSHORE_LOG2_E_);
  return (float)(0.5 * e + 0.5 / e);
}
LONGSHORE_OVERLOAD_ float longshore_tanh_(float x) {
  LONGSHORE_EXACTLY_
  const double a = longshore_limit_(longshore_fabs_(x)), u = longshore_exp2m1_within_1000_(a * (2 * LONGSHORE_LOG2_E_));
  return longshore_copysign_((float)(u / (u + 2)), x);
}

/* ---- Logarithms ------------------------------------------------------------------------------ */

/* For a normal `x > 0`: `x = 2^exponent * (1 + f)`, with `1 + f` from `sqrt(1 / 2)` to `sqrt(2)`.
 * `shift` is the exponent as bits of a double. */
#define LONGSHORE_SPLIT_NUMBER_(x, exponent, f, shift)                                                                 \
  const uint64_t shift##_biased = longshore_bits_(x) - LONGSHORE_SQRT_HALF_ + LONGSHORE_ONE_;                          \
  const uint64_t shift = (shift##_biased & LONGSHORE_INFINITY_) - LONGSHORE_ONE_;                                      \
  const double exponent = longshore_of_bits_(shift##_biased >> 52 | LONGSHORE_TWO_52_) - (0x1p52 + 1023);              \
  double f = longshore_of_bits_(longshore_bits_(x) - shift) - 1

/* log((1 + s) / (1 - s)) for z = s * s with a relative error of 2^-37. */
#define LONGSHORE_LOG_OF_RATIO_(s, z)                                                                                  \
  (2 * (s) +                                                                                                           \
   (s) * (z) *                                                                                                         \
       LONGSHORE_P3_(z, 0x1.555554ec4e720p-1, 0x1.999a9b4fa69bbp-2, 0x1.243046240b88fp-2, 0x1.e4495f1e7ac47p-3))

/* The natural logarithm of x > 0. */
LONGSHORE_OVERLOAD_ double longshore_log_of_float_(double x) {
  LONGSHORE_EXACTLY_
  LONGSHORE_SPLIT_NUMBER_(x, exponent, f, shift);
  const double s = f / (2 + f), z = s * s;
  return exponent * LONGSHORE_LN_2_ + LONGSHORE_LOG_OF_RATIO_(s, z);
}
/* The natural logarithm of 1 + x for x > -1. */
LONGSHORE_OVERLOAD_ double longshore_log1p_of_float_(double x) {
  LONGSHORE_EXACTLY_
  const double sum = 1 + x, rest = x - (sum - 1);
  LONGSHORE_SPLIT_NUMBER_(sum, exponent, f, shift);
  f = f + rest * longshore_of_bits_(LONGSHORE_ONE_ - shift);
  const double s = f / (2 + f), z = s * s;
  return exponent * LONGSHORE_LN_2_ + LONGSHORE_LOG_OF_RATIO_(s, z);
}
/* The logarithm to base 2 of x > 0 with a relative error of 2^-50. */
LONGSHORE_OVERLOAD_ double longshore_log2_of_float_(double x) {
  LONGSHORE_EXACTLY_
  LONGSHORE_SPLIT_NUMBER_(x, exponent, f, shift);
  const double s = f / (2 + f), z = s * s;
  return exponent + LONGSHORE_LOG2_E_ *
                        (2 * s + s * z *
                                     LONGSHORE_P5_(z, 0x1.55555555530acp-1, 0x1.999999a4de1dap-2, 0x1.24923fed8ef4cp-2,
                                                   0x1.c7235c5e8ff9ap-3, 0x1.730e6f8a89d1fp-3, 0x1.59e4bef2e563ap-3));
}

/* `y` is the logarithm of x if x > 0. */
#define LONGSHORE_LOGARITHM_OF_FLOAT_(x, y)                                                                            \
  longshore_if_(((x) > 0) & ((x) < __builtin_inff()), (float)(y),                                                      \
                longshore_if_((x) == 0, -__builtin_inff(), longshore_if_((x) < 0, __builtin_nanf(""), (x))))

LONGSHORE_OVERLOAD_ float longshore_log_(float x) {
  LONGSHORE_EXACTLY_
  return LONGSHORE_LOGARITHM_OF_FLOAT_(x, longshore_log_of_float_(x));
}
LONGSHORE_OVERLOAD_ float longshore_log2_(float x) {
  LONGSHORE_EXACTLY_
  LONGSHORE_SPLIT_NUMBER_((double)x, exponent, f, shift);
  const double s = f / (2 + f), z = s * s;
  const double y = exponent + LONGSHORE_LOG_OF_RATIO_(s, z) * LONGSHORE_LOG2_E_;
  return LONGSHORE_LOGARITHM_OF_FLOAT_(x, y);
}
LONGSHORE_OVERLOAD_ float longshore_log10_(float x) {
  LONGSHORE_EXACTLY_
  return LONGSHORE_LOGARITHM_OF_FLOAT_(x, longshore_log_of_float_(x) * LONGSHORE_LOG10_E_);
}
LONGSHORE_OVERLOAD_ float longshore_log1p_(float x) {
  LONGSHORE_EXACTLY_
  const float y = (float)longshore_log1p_of_float_(x);
  return longshore_if_((x > -1) & (x < __builtin_inff()), longshore_if_(x == 0, x, y),
                       longshore_if_(x == -1, -__builtin_inff(), longshore_if_(x < 0, __builtin_nanf(""), x)));
}
LONGSHORE_OVERLOAD_ float longshore_asinh_(float x) {
  LONGSHORE_EXACTLY_
  const double a = longshore_fabs_((double)x), square = a * a;
  const float y = (float)longshore_log1p_of_float_(a + square / (1 + longshore_root_(square + 1)));
  return longshore_if_(a < __builtin_inf(), longshore_copysign_(y, x), x);
}
LONGSHORE_OVERLOAD_ float longshore_acosh_(float x) {
  LONGSHORE_EXACTLY_
  const double t = (double)x - 1;
  const float y = (float)longshore_log1p_of_float_(t + longshore_root_(t * (t + 2)));
  return longshore_if_(x >= 1, longshore_if_(x < __builtin_inff(), y, x), __builtin_nanf(""));
}
LONGSHORE_OVERLOAD_ float longshore_atanh_(float x) {
  LONGSHORE_EXACTLY_
  const double a = longshore_fabs_((double)x);
  const float y = (float)(0.5 * longshore_log1p_of_float_(2 * a / (1 - a)));
  return longshore_copysign_(longshore_if_(a < 1, y, longshore_if_(a == 1, __builtin_inff(), __builtin_nanf(""))), x);
}

/* ---- Powers and roots ------------------------------------------------------------------------ */

/* The power of a base without special cases of its own, for an exponent of float or int. */
LONGSHORE_OVERLOAD_ float longshore_pow_of_float_(double x, double y) {
  LONGSHORE_EXACTLY_
  const double a = longshore_fabs_(x);
  double log = longshore_log2_of_float_(a);
  log = longshore_if_(a < __builtin_inf(), log, a);
  log = longshore_if_(a == 0, -__builtin_inf(), log);
  const float power = (float)longshore_exp2_of_float_(y * log);
  const double size = longshore_fabs_(y), shifted = size + 0x1p52;
  const int is_large = size >= 0x1p51, is_integer = is_large | (shifted - 0x1p52 == size);
  const int is_odd = !is_large & is_integer & (longshore_bits_(shifted) & 1);
  const int is_negative = (int)(longshore_bits_(x) >> 63);
  float result = longshore_if_(is_odd & is_negative, -power, power);
  result = longshore_if_((x < 0) & !is_integer & (a < __builtin_inf()), __builtin_nanf(""), result);
  return longshore_if_((x == 1) | (y == 0) | ((x == -1) & (size == __builtin_inf())), 1, result);
}
LONGSHORE_OVERLOAD_ float longshore_pow_(float x, float y) { return longshore_pow_of_float_(x, y); }
LONGSHORE_OVERLOAD_ float longshore_powi_(float x, int n) { return longshore_pow_of_float_(x, n); }

/* 1 / cbrt(x) for a normal x > 0 with a relative error of 2^-48. */
LONGSHORE_OVERLOAD_ double longshore_rcbrt_of_normal_(double x) {
  LONGSHORE_EXACTLY_
  /* The exponent divided by -3, and the fraction with it, has a relative error below 4 %. Each
   * step takes the error to its fourth power. */
  const double word = longshore_of_bits_(longshore_bits_(x) >> 32 | LONGSHORE_TWO_52_) - 0x1p52;
  double y = longshore_of_bits_(longshore_bits_((0x553ef0ff - word * (1.0 / 3)) + 0x1p52) << 32);
  double h = 1 - x * (y * y * y);
  y = y + y * h * (1.0 / 3 + h * (2.0 / 9 + h * (14.0 / 81)));
  h = 1 - x * (y * y * y);
  return y + y * h * (1.0 / 3 + h * (2.0 / 9 + h * (14.0 / 81)));
}
LONGSHORE_OVERLOAD_ float longshore_cbrt_(float x) {
  LONGSHORE_EXACTLY_
  const double a = longshore_fabs_((double)x), y = longshore_rcbrt_of_normal_(a);
  const float root = (float)(a * y * y);
  return longshore_if_((a > 0) & (a < __builtin_inf()), longshore_copysign_(root, x), x);
}
LONGSHORE_OVERLOAD_ float longshore_rcbrt_(float x) {
  LONGSHORE_EXACTLY_
  const double a = longshore_fabs_((double)x);
  const float y = (float)longshore_rcbrt_of_normal_(a);
  return longshore_if_((a > 0) & (a < __builtin_inf()), longshore_copysign_(y, x), 1 / x);
}
LONGSHORE_OVERLOAD_ float longshore_hypot_(float x, float y) {
  LONGSHORE_EXACTLY_
  const double a = x, b = y;
  const int is_infinite = (longshore_fabs_(a) == __builtin_inf()) | (longshore_fabs_(b) == __builtin_inf());
  return longshore_if_(is_infinite, __builtin_inff(), (float)longshore_root_(a * a + b * b));
}
LONGSHORE_OVERLOAD_ float longshore_rhypot_(float x, float y) {
  LONGSHORE_EXACTLY_
  const double a = x, b = y;
  const int is_infinite = (longshore_fabs_(a) == __builtin_inf()) | (longshore_fabs_(b) == __builtin_inf());
  return longshore_if_(is_infinite, 0, (float)(1 / longshore_root_(a * a + b * b)));
}

/* ---- Trigonometric functions ----------------------------------------------------------------- */

/* 1/pi, and 1/pi modulo 2^-52, as four summands. The products of a float with the first three are
 * exact. No summand is negative, so that the sum of the products of -0 is -0. */
#define LONGSHORE_INVERSE_PI_(i, is_far)                                                                               \
  (longshore_if_((is_far), LONGSHORE_INVERSE_PI_##i##_FAR_, LONGSHORE_INVERSE_PI_##i##_))
#define LONGSHORE_INVERSE_PI_0_ 0x1.45f306dp-2
#define LONGSHORE_INVERSE_PI_1_ 0x1.9391054p-31
#define LONGSHORE_INVERSE_PI_2_ 0x1.4fe13abp-60
#define LONGSHORE_INVERSE_PI_3_ 0x1.d1f534ddc0db6p-89
#define LONGSHORE_INVERSE_PI_0_FAR_ 0x1.529fc27p-53
#define LONGSHORE_INVERSE_PI_1_FAR_ 0x1.5f47d4cp-83
#define LONGSHORE_INVERSE_PI_2_FAR_ 0x1.377036dp-111
#define LONGSHORE_INVERSE_PI_3_FAR_ 0x1.14acc9e21c821p-140

/* `turns` becomes x/pi + `offset` modulo 2, less the next multiple of `unit`, which is 1 or 1/2.
 * That multiple is `steps` times the unit, plus LONGSHORE_ROUND_. The lowest bits of `steps` are
 * the number of units.
 *
 * From 2^76 on, products of x with multiples of 2^-52 are even, and the rest of 1/pi counts. Then
 * and below, the product with the first summand is below 2^76. From 2^53 on it is even, and below,
 * its next multiple of 4 is taken from it. The product with the second summand is below 2^46, and
 * the one with the third is below 2^18. The sums are exact, or `turns` is so large that their
 * errors are small beside it. */
#define LONGSHORE_REDUCE_FLOAT_(x, offset, unit, turns, steps)                                                         \
  const double turns##_x = (x);                                                                                        \
  const int turns##_is_far = longshore_fabs_(turns##_x) >= 0x1p76;                                                     \
  const double turns##_0 = turns##_x * LONGSHORE_INVERSE_PI_(0, turns##_is_far);                                       \
  const double turns##_1 = turns##_x * LONGSHORE_INVERSE_PI_(1, turns##_is_far);                                       \
  const double turns##_2 = turns##_x * LONGSHORE_INVERSE_PI_(2, turns##_is_far);                                       \
  const double turns##_3 = turns##_x * LONGSHORE_INVERSE_PI_(3, turns##_is_far);                                       \
  const double turns##_even = (turns##_0 + 4 * LONGSHORE_ROUND_) - 4 * LONGSHORE_ROUND_;                               \
  const double turns##_first = (offset) ? (turns##_0 - turns##_even) + (offset) : turns##_0 - turns##_even;            \
  const double steps = ((turns##_first + turns##_1) + turns##_2) + LONGSHORE_ROUND_ * (unit);                          \
  const double turns =                                                                                                 \
      (((turns##_first - (steps - LONGSHORE_ROUND_ * (unit))) + turns##_1) + turns##_2) + turns##_3

/* The sine of pi * f, for `|f|` up to `1 / 2`, or `1 / 4`. The relative error of the first is
 * 2^-27, and that of the others 2^-35. The first is for `|f|` up to 0.504: the steps of numbers
 * above 2^70 are rounded. */
#define LONGSHORE_QUICK_SINPI_HALF_(f, z)                                                                              \
  ((f) * LONGSHORE_P4_(z, 0x1.921fb51d51a6dp+1, -0x1.4abbc08606c4dp+2, 0x1.466887d8297dcp+1, -0x1.3248693bae6d2p-1,    \
                       0x1.3d62f3111b001p-4))
#define LONGSHORE_SINPI_HALF_(f, z)                                                                                    \
  ((f) * LONGSHORE_P5_(z, 0x1.921fb5441d64fp+1, -0x1.4abbce4eb6933p+2, 0x1.466bbfa6c70c8p+1, -0x1.32d10cb879774p-1,    \
                       0x1.500f256597c96p-4, -0x1.cc1d91b3f01d4p-8))
#define LONGSHORE_SINPI_QUARTER_(f, z)                                                                                 \
  ((f) * LONGSHORE_P4_(z, 0x1.921fb5443aeddp+1, -0x1.4abbce5642e5ap+2, 0x1.466bba84a0931p+1, -0x1.32ca81e69e8efp-1,    \
                       0x1.4bc15ec82037fp-4))
#define LONGSHORE_COSPI_QUARTER_(z)                                                                                    \
  LONGSHORE_P5_(z, 1, -0x1.3bd3cc9bd6751p+2, 0x1.03c1f075d3b99p+2, -0x1.55d3ba957380bp+0, 0x1.e1e7f01a77910p-3,        \
                -0x1.a0f2343f9072fp-6)

LONGSHORE_OVERLOAD_ float longshore_sin_(float x) {
  LONGSHORE_EXACTLY_
  LONGSHORE_REDUCE_FLOAT_(x, 0, 1, f, steps);
  const double z = f * f, y = LONGSHORE_QUICK_SINPI_HALF_(f, z);
  return (float)longshore_of_bits_(longshore_bits_(y) ^ longshore_bits_(steps) << 63);
}
LONGSHORE_OVERLOAD_ float longshore_cos_(float x) {
  LONGSHORE_EXACTLY_
  LONGSHORE_REDUCE_FLOAT_(x, 0.5, 1, f, steps);
  const double z = f * f, y = LONGSHORE_QUICK_SINPI_HALF_(f, z);
  return (float)longshore_of_bits_(longshore_bits_(y) ^ longshore_bits_(steps) << 63);
}
/* The sine and the cosine of pi * (f + half turns), of which `quadrants` counts. */
#define LONGSHORE_QUADRANT_(f, quadrants, sine, cosine)                                                                \
  const double sine##_square = (f) * (f);                                                                              \
  const double sine##_first = LONGSHORE_SINPI_QUARTER_(f, sine##_square);                                              \
  const double sine##_second = LONGSHORE_COSPI_QUARTER_(sine##_square);                                                \
  const int sine##_swap = (quadrants) & 1;                                                                             \
  const double sine = longshore_of_bits_(longshore_bits_(longshore_if_(sine##_swap, sine##_second, sine##_first)) ^    \
                                         ((quadrants) >> 1) << 63),                                                    \
               cosine = longshore_of_bits_(longshore_bits_(longshore_if_(sine##_swap, sine##_first, sine##_second)) ^  \
                                           (((quadrants) + 1) >> 1) << 63)
LONGSHORE_OVERLOAD_ void longshore_sincos_(float x, float *sine, float *cosine) {
  LONGSHORE_EXACTLY_
  LONGSHORE_REDUCE_FLOAT_(x, 0, 0.5, f, steps);
  const uint64_t quadrants = longshore_bits_(steps);
  LONGSHORE_QUADRANT_(f, quadrants, s, c);
  *sine = (float)s;
  *cosine = (float)c;
}
LONGSHORE_OVERLOAD_ float longshore_tan_(float x) {
  LONGSHORE_EXACTLY_
  LONGSHORE_REDUCE_FLOAT_(x, 0, 0.5, f, steps);
  const uint64_t quadrants = longshore_bits_(steps);
  LONGSHORE_QUADRANT_(f, quadrants, s, c);
  return (float)(s / c);
}

/* The same of pi * x. Numbers from 2^24 on are even. */
#define LONGSHORE_REDUCE_TURNS_(x, f, quadrants)                                                                       \
  double f = longshore_fabs_((double)(x));                                                                             \
  f = longshore_if_(f >= 0x1p24, f - f, f);                                                                            \
  const uint64_t quadrants = longshore_bits_(f + LONGSHORE_ROUND_ * 0.5);                                              \
  f = f - (longshore_of_bits_(quadrants) - LONGSHORE_ROUND_ * 0.5)
LONGSHORE_OVERLOAD_ void longshore_sincospi_(float x, float *sine, float *cosine) {
  LONGSHORE_EXACTLY_
  LONGSHORE_REDUCE_TURNS_(x, f, quadrants);
  LONGSHORE_QUADRANT_(f, quadrants, s, c);
  *sine = longshore_if_((x < 0) | (x > 0), longshore_flip_((float)(longshore_if_(s == 0, 0, s)), x), x);
  *cosine = (float)(longshore_if_(c == 0, 0, c));
}
LONGSHORE_OVERLOAD_ float longshore_sinpi_(float x) {
  float sine, cosine;
  longshore_sincospi_(x, &sine, &cosine);
  return sine;
}
LONGSHORE_OVERLOAD_ float longshore_cospi_(float x) {
  float sine, cosine;
  longshore_sincospi_(x, &sine, &cosine);
  return cosine;
}

/* ---- Inverse trigonometric functions --------------------------------------------------------- */

/* The arctangent of a / b for a, b >= 0 and b > 0. */
LONGSHORE_OVERLOAD_ double longshore_atan_of_floats_(double a, double b) {
  LONGSHORE_EXACTLY_
  const int is_small = a <= b * LONGSHORE_TAN_PI_8_, is_large = a > b * LONGSHORE_TAN_3PI_8_;
  const double numerator = longshore_if_(is_small, a, longshore_if_(is_large, -b, a - b));
  const double t = numerator / (longshore_if_(is_small, b, longshore_if_(is_large, a, a + b))), z = t * t;
  const double base = longshore_if_(is_small, 0, longshore_if_(is_large, LONGSHORE_PI_ / 2, LONGSHORE_PI_ / 4));
  return base + (t + t * z *
                         LONGSHORE_P5_(z, -0x1.555554c2404acp-2, 0x1.999915d9c3218p-3, -0x1.247e869a1e803p-3,
                                       0x1.c45b7cf404b1ep-4, -0x1.5afe86627ab74p-4, 0x1.83cc50adf28dbp-5));
}
LONGSHORE_OVERLOAD_ float longshore_atan_(float x) {
  LONGSHORE_EXACTLY_
  return longshore_copysign_((float)longshore_atan_of_floats_(longshore_fabs_((double)x), 1), x);
}
LONGSHORE_OVERLOAD_ float longshore_atan2_(float y, float x) {
  LONGSHORE_EXACTLY_
  double a = longshore_fabs_((double)y), b = longshore_fabs_((double)x);
  /* The quotient of two infinities is 1, and the one of two zeros is 0. */
  a = longshore_if_(a > 0x1p200, 0x1p200, a);
  b = longshore_if_(b > 0x1p200, 0x1p200, b);
  const double angle = longshore_if_(a == 0, a + (longshore_if_(b != b, b, 0)), longshore_atan_of_floats_(a, b));
  return longshore_copysign_((float)(longshore_if_(longshore_bits_(x) >> 31, LONGSHORE_PI_ - angle, angle)), y);
}

/* For `|x| > 1 / 2`, the arcsine of `|x|` is `pi / 2 - 2 asin(sqrt((1 - |x|) / 2))`. */
#define LONGSHORE_ASIN_PART_(a, is_large, y)                                                                           \
  const double y##_square = longshore_if_(is_large, 0.5 - 0.5 * (a), (a) * (a));                                       \
  const double y##_root = longshore_if_(is_large, longshore_root_(y##_square), (a));                                   \
  const double y = y##_root + y##_root * y##_square *                                                                  \
                                  LONGSHORE_P6_(y##_square, 0x1.55555605cd511p-3, 0x1.3332aa05fe0a9p-4,                \
                                                0x1.6ddabff65b4eap-5, 0x1.ed5d1680e9eafp-6, 0x1.931fa0cd443ffp-6,      \
                                                0x1.ec2439f12ffe5p-8, 0x1.1bd2978d5e5c8p-5)
LONGSHORE_OVERLOAD_ float longshore_asin_(float x) {
  LONGSHORE_EXACTLY_
  const double a = longshore_fabs_((double)x);
  const int is_large = a > 0.5;
  LONGSHORE_ASIN_PART_(a, is_large, y);
  return longshore_copysign_((float)(longshore_if_(is_large, LONGSHORE_PI_ / 2 - 2 * y, y)), x);
}
LONGSHORE_OVERLOAD_ float longshore_acos_(float x) {
  LONGSHORE_EXACTLY_
  const double a = longshore_fabs_((double)x);
  const int is_large = a > 0.5, is_negative = x < 0;
  LONGSHORE_ASIN_PART_(a, is_large, y);
  const double part =
      longshore_if_(is_large, 2 * y, longshore_if_(is_negative, LONGSHORE_PI_ / 2 + y, LONGSHORE_PI_ / 2 - y));
  return (float)(longshore_if_(is_large & is_negative, LONGSHORE_PI_ - part, part));
}

/* ---- Error functions and gamma functions ----------------------------------------------------- */

/* erf(a) is 1 - 2^(-a R(a)), for a polynomial R. */
LONGSHORE_OVERLOAD_ float longshore_erf_(float x) {
  LONGSHORE_EXACTLY_
  double a = longshore_fabs_((double)x);
  a = longshore_if_(a > 4, 4, a);
  const double exponent =
      -a * LONGSHORE_P11_(a, 0x1.a0be83d80a12ep+0, 0x1.d63ed81d885ebp-1, 0x1.2fa7a047a689fp-3, -0x1.c40db8a217b7ep-6,
                          -0x1.56800962e49b8p-12, 0x1.497b24055a58cp-9, -0x1.f89babb0af995p-11, 0x1.4794221f90900p-13,
                          0x1.964ed5b11941ap-17, -0x1.7b0b36683df1fp-17, 0x1.2356fa103c3b1p-19, -0x1.468ca8a7fdd09p-23);
  return longshore_copysign_((float)-longshore_exp2m1_within_1000_(exponent), x);
}
/* erfc(a) is exp(-a^2) w Q(w), for w = 1 / (a + 5/2) and a polynomial Q. */
LONGSHORE_OVERLOAD_ float longshore_erfc_(float x) {
  LONGSHORE_EXACTLY_
  double a = longshore_fabs_((double)x);
  a = longshore_if_(a > 10.125, 10.125, a);
  const double w = 1 / (a + 2.5);
  const double y = longshore_exp2_within_1000_(a * a * -LONGSHORE_LOG2_E_) *
                   (w * LONGSHORE_P11_(w, 0x1.20dc3abc39edcp-1, 0x1.6940f4dbf3bedp+0, 0x1.9c7c292c28c91p+1,
                                       0x1.c6bb5075677b2p+2, 0x1.b97c83d23eb50p+2, 0x1.d2ffc52046ec5p+5,
                                       -0x1.da5bec77ef177p+7, 0x1.f2fd9353ea429p+9, -0x1.6b0e693bc9600p+11,
                                       0x1.20d92195bcac8p+12, -0x1.dc4d2d4bd54cdp+11, 0x1.45323b03e60fbp+10));
  return (float)(longshore_if_(x < 0, 2 - y, y));
}

/* For a > 0: the logarithm of the gamma function of `a` is `log` less the logarithm of `product`,
 * which is `1` from `8` on. For `a < 8` it comes from the value of `a + 8`. */
#define LONGSHORE_GAMMA_OF_FLOAT_(a, log, product)                                                                     \
  const double product##_y = (a) * ((a) + 7), log##_w = longshore_if_((a) < 8, (a) + 8, (a)), log##_r = 1 / log##_w;   \
  const double log##_z = log##_r * log##_r;                                                                            \
  const double product =                                                                                               \
      longshore_if_((a) < 8, product##_y * (product##_y + 6) * (product##_y + 10) * (product##_y + 12), 1);            \
  const double log = (log##_w - 0.5) * (longshore_log2_of_float_(log##_w) * LONGSHORE_LN_2_) - log##_w +               \
                     (LONGSHORE_HALF_LN_2PI_ +                                                                         \
                      log##_r * (1.0 / 12 - log##_z * (1.0 / 360 - log##_z * (1.0 / 1260 - log##_z / 1680))))
/* The absolute value of sin(pi * a) for a double from a float. */
LONGSHORE_OVERLOAD_ double longshore_sinpi_of_float_(double a) {
  LONGSHORE_EXACTLY_
  a = longshore_if_(a >= 0x1p24, 0, a);
  const double f = a - ((a + LONGSHORE_ROUND_) - LONGSHORE_ROUND_), z = f * f;
  return longshore_fabs_(LONGSHORE_SINPI_HALF_(f, z));
}

LONGSHORE_OVERLOAD_ float longshore_tgamma_(float x) {
  LONGSHORE_EXACTLY_
  double a = longshore_fabs_((double)x);
  a = longshore_if_(a > 200, 200, a);
  LONGSHORE_GAMMA_OF_FLOAT_(a, log, product);
  const double power = longshore_exp2_of_float_(log * LONGSHORE_LOG2_E_);
  const double sine = longshore_sinpi_of_float_(longshore_fabs_((double)x));
  const int is_negative = x < 0;
  const double numerator = longshore_if_(is_negative, LONGSHORE_PI_ * product, power);
  const double y = numerator / (longshore_if_(is_negative, a * sine * power, product));
  /* The sign is that of the sine, which is negative between -1 and 0. */
  const float whole = longshore_trunc_(x);
  const int is_odd = longshore_trunc_(whole * 0.5f) * 2 != whole;
  const double signed_y = longshore_if_(is_negative, longshore_if_(is_odd, y, -y), y);
  const int has_no_value = is_negative & (whole == x);
  return longshore_if_(x == 0, 1 / x, longshore_if_(has_no_value, __builtin_nanf(""), (float)signed_y));
}
LONGSHORE_OVERLOAD_ float longshore_lgamma_(float x) {
  LONGSHORE_EXACTLY_
  const double a = longshore_fabs_((double)x);
  LONGSHORE_GAMMA_OF_FLOAT_(a, log, product);
  const int is_negative = x < 0;
  const double sine = longshore_sinpi_of_float_(a);
  const double rest =
      longshore_log2_of_float_(longshore_if_(is_negative, a * sine / product, product)) * LONGSHORE_LN_2_;
  const double y = longshore_if_(is_negative, LONGSHORE_LN_PI_ - log - rest, log - rest);
  const int is_pole = (x == 0) | (is_negative & (sine == 0)) | (a == __builtin_inf());
  /* Near the zeros 1 and 2, where adding 0 makes a zero positive. */
  const int is_one = longshore_fabs_(x - 1) < 0x1p-4f, is_two = longshore_fabs_(x - 2) < 0x1p-4f;
  const double t = longshore_if_(is_one, (double)x - 1, (double)x - 2);
  const double near_one =
      t * LONGSHORE_P6_(t, -0x1.2788cfc6fb619p-1, 0x1.a51a662c41a54p-1, -0x1.9a4d55cb35412p-2, 0x1.1512b1a54359ap-2,
                        -0x1.a8b8f8ede8cdcp-3, 0x1.5d0460be0204bp-3, -0x1.289440751647bp-3) +
      0;
  const double near_two =
      t * LONGSHORE_P6_(t, 0x1.b0ee6072093cep-2, 0x1.4a34cc4a6f9c6p-2, -0x1.13e001a571015p-4, 0x1.5132237707c2dp-6,
                        -0x1.e404ef51717e7p-8, 0x1.7b5273253144bp-9, -0x1.3912d55ddbc64p-10) +
      0;
  return longshore_if_(is_pole, __builtin_inff(),
                       (float)(longshore_if_(is_one, near_one, longshore_if_(is_two, near_two, y))));
}

#endif
