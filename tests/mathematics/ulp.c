/*
 * Errors of longshore_math.h in units in the last place (ulp).
 *
 *     ulp [NAME|-] [f32|f64] [COUNT]
 *
 * Functions of one float are computed for all arguments, the others for COUNT random arguments.
 * Results are compared with the C library's of the next wider type, and near the greatest error
 * with MPFR's. A sample of the C library's results is compared with MPFR's, too.
 */
#define _GNU_SOURCE
#include "functions.h"
#include <math.h>
#include <mpfr.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 4096, SAMPLE = 20000, RANDOM = 100000000 };

static double own_rcbrt(double x) { return 1 / cbrt(x); }
static long double own_rcbrtl(long double x) { return 1 / cbrtl(x); }
static double own_rsqrt(double x) { return 1 / sqrt(x); }
static long double own_rsqrtl(long double x) { return 1 / sqrtl(x); }
static double own_rhypot(double x, double y) { return 1 / hypot(x, y); }
static long double own_rhypotl(long double x, long double y) { return 1 / hypotl(x, y); }
/* The remainder is exact, and the sine is near 0. */
static long double own_sinpil(long double x) {
  const long double r = remainderl(x, 2);
  const long double near = fabsl(r) > 0.5L ? copysignl(1, r) - r : r;
  return near == 0 ? copysignl(0, x) : sinl(M_PIl * near);
}
static long double own_cospil(long double x) {
  const long double r = fabsl(remainderl(x, 2));
  return r == 0.5L ? 0 : r < 0.25L ? cosl(M_PIl * r) : sinl(M_PIl * (0.5L - r));
}
static double own_sinpi(double x) { return (double)own_sinpil(x); }
static double own_cospi(double x) { return (double)own_cospil(x); }

static void big_turns(mpfr_t to, const mpfr_t x, int is_sine) {
  mpfr_t r, two;
  mpfr_init2(r, 1200);
  mpfr_init2(two, 1200);
  mpfr_set_ui(two, 2, MPFR_RNDN);
  mpfr_remainder(two, x, two, MPFR_RNDN);
  mpfr_const_pi(r, MPFR_RNDN);
  mpfr_mul(r, r, two, MPFR_RNDN);
  if (is_sine)
    mpfr_sin(to, r, MPFR_RNDN);
  else
    mpfr_cos(to, r, MPFR_RNDN);
  mpfr_clear(r);
  mpfr_clear(two);
}
static int mpfr_own_sinpi(mpfr_t to, const mpfr_t x, mpfr_rnd_t r) { return (void)r, big_turns(to, x, 1), 0; }
static int mpfr_own_cospi(mpfr_t to, const mpfr_t x, mpfr_rnd_t r) { return (void)r, big_turns(to, x, 0), 0; }
static int mpfr_own_rcbrt(mpfr_t to, const mpfr_t x, mpfr_rnd_t r) {
  mpfr_cbrt(to, x, r);
  return mpfr_ui_div(to, 1, to, r);
}
static int mpfr_own_rsqrt(mpfr_t to, const mpfr_t x, mpfr_rnd_t r) { return mpfr_rec_sqrt(to, x, r); }
static int mpfr_own_rhypot(mpfr_t to, const mpfr_t x, const mpfr_t y, mpfr_rnd_t r) {
  mpfr_hypot(to, x, y, r);
  return mpfr_ui_div(to, 1, to, r);
}
#define mpfr_tgamma mpfr_gamma
#define mpfr_fdim mpfr_dim
#undef mpfr_round
#define mpfr_round mpfr_rint_round
#undef mpfr_trunc
#define mpfr_trunc mpfr_rint_trunc
static int mpfr_lgamma_(mpfr_t to, const mpfr_t x, mpfr_rnd_t r) {
  int sign;
  return (mpfr_lgamma)(to, &sign, x, r);
}
static int big_lgamma(mpfr_t to, const mpfr_t x, mpfr_rnd_t r) { return mpfr_lgamma_(to, x, r); }
#define mpfr_lgamma big_lgamma

typedef int (*big_one)(mpfr_t, const mpfr_t, mpfr_rnd_t);
typedef int (*big_two)(mpfr_t, const mpfr_t, const mpfr_t, mpfr_rnd_t);

struct function {
  const char *name;
  double low, high;
  void (*f32)(float *, const float *, size_t), (*f64)(double *, const double *, size_t);
  void (*f32_two)(float *, const float *, const float *, size_t);
  void (*f64_two)(double *, const double *, const double *, size_t);
  double (*wide)(double), (*wide_two)(double, double);
  long double (*wider)(long double), (*wider_two)(long double, long double);
  big_one big;
  big_two big_two;
};

#define DECLARE(name, low, high, reference)                                                                            \
  void f32_##name(float *, const float *, size_t);                                                                     \
  void f64_##name(double *, const double *, size_t);
ONE_ARGUMENT(DECLARE)
#define DECLARE_TWO(name, low, high, reference)                                                                        \
  void f32_##name(float *, const float *, const float *, size_t);                                                      \
  void f64_##name(double *, const double *, const double *, size_t);
TWO_ARGUMENTS(DECLARE_TWO)
static const struct function FUNCTIONS[] = {
#define ROW(name, low, high, reference)                                                                                \
  {#name, low, high, f32_##name, f64_##name, 0, 0, reference, 0, reference##l, 0, mpfr_##reference, 0},
    ONE_ARGUMENT(ROW)
#define ROW_TWO(name, low, high, reference)                                                                            \
  {#name, low, high, 0, 0, f32_##name, f64_##name, 0, reference, 0, reference##l, 0, mpfr_##reference},
        TWO_ARGUMENTS(ROW_TWO)};

static uint64_t state = 88172645463325252u;
static uint64_t random_bits(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state * 2685821657736338717u;
}

static double of_bits(uint64_t bits) {
  double x;
  memcpy(&x, &bits, 8);
  return x;
}
static float of_bits32(uint32_t bits) {
  float x;
  memcpy(&x, &bits, 4);
  return x;
}

/* A third of the arguments are uniform in the range, a third any bits, a third has an exponent
 * near 0. */
static double random_argument(const struct function *f) {
  const uint64_t bits = random_bits();
  switch (random_bits() % 3) {
  case 0:
    return f->low + (f->high - f->low) * ((double)(bits >> 11) * 0x1p-53);
  case 1:
    return of_bits(bits);
  default: {
    const double scaled = ldexp(1 + (double)(bits >> 12) * 0x1p-52, (int)(random_bits() % 40) - 32);
    return bits & 1 ? -scaled : scaled;
  }
  }
}

/* The unit in the last place of numbers of `precision` bits near `x`. */
static long double ulp_of(long double x, int precision, int least) {
  int exponent;
  frexpl(x, &exponent);
  exponent = exponent - precision < least ? least : exponent - precision;
  return ldexpl(1, exponent);
}

struct format {
  int precision, least;
  long double overflow;
};
static const struct format F32 = {24, -149, 0x1.ffffffp127L}, F64 = {53, -1074, 0x1.fffffffffffff8p1023L};

/* The error of `got`, or -1 if both agree on a special value, or infinity if they disagree. */
static double error_of(long double got, long double expected, const struct format *format) {
  if (fabsl(expected) >= format->overflow)
    expected = copysignl(INFINITY, expected);
  if (isnan(got) || isnan(expected))
    return isnan(got) && isnan(expected) ? -1 : INFINITY;
  if (isinf(got) && !isinf(expected) && fabsl(expected) > format->overflow * (1 - 0x1p-22L))
    return 1;
  if (isinf(got) || isinf(expected))
    return got == expected ? -1 : INFINITY;
  return (double)(fabsl(got - expected) / ulp_of(expected, format->precision, format->least));
}

/* Near zeros of negative arguments only the absolute error of lgamma is small. */
static long double scale_of(const struct function *f, double x, long double expected) {
  return f->big == mpfr_lgamma && x < 0 && fabsl(expected) < 1 ? 1 : expected;
}

static double precise_error(const struct function *f, double x, double y, double got, const struct format *format) {
  mpfr_t a, b, r;
  mpfr_init2(a, 64);
  mpfr_init2(b, 64);
  mpfr_init2(r, 200);
  mpfr_set_d(a, x, MPFR_RNDN);
  mpfr_set_d(b, y, MPFR_RNDN);
  if (f->big)
    f->big(r, a, MPFR_RNDN);
  else
    f->big_two(r, a, b, MPFR_RNDN);
  long double rounded = mpfr_get_ld(r, MPFR_RNDN);
  double error = error_of(got, rounded, format);
  if (error >= 0 && error < INFINITY) {
    const long double unit = ulp_of(scale_of(f, x, rounded), format->precision, format->least);
    mpfr_sub_d(r, r, got, MPFR_RNDN);
    error = (double)(fabsl(mpfr_get_ld(r, MPFR_RNDN)) / unit);
  }
  mpfr_clear(a);
  mpfr_clear(b);
  mpfr_clear(r);
  return error;
}

struct worst {
  double error, x, y, got;
  uint64_t count, wrong, unsure;
};

static void note(struct worst *worst, const struct function *f, double x, double y, double got, long double expected,
                 const struct format *format) {
  ++worst->count;
  /* A unit in the last place is at least this part of the number, if the number is normal. */
  const double size = fabs((double)expected), difference = fabs((double)(got - expected));
  if (size > 0x1p-1000 && difference <= worst->error * size * (format == &F32 ? 0x1p-24 : 0x1p-53))
    return;
  double error = error_of(got, expected, format);
  if (error < 0)
    return;
  if (got == 0 && expected == 0 && signbit(got) != signbit(expected))
    error = INFINITY;
  if (error <= worst->error && error < INFINITY)
    return;
  if (error < INFINITY || fabsl(expected) > 0)
    error = precise_error(f, x, y, got, format);
  if (error == INFINITY) {
    if (worst->wrong++ < 4)
      printf("  wrong: %s(%a, %a) = %a, not %La\n", f->name, x, y, got, expected);
  } else if (error > worst->error) {
    worst->error = error, worst->x = x, worst->y = y, worst->got = got;
  }
}

/* The greatest error of the reference in ulps of the format, for a sample. */
static double reference_error(const struct function *f, int is_float, int samples) {
  const struct format *format = is_float ? &F32 : &F64;
  double greatest = 0;
  for (int i = 0; i < samples; ++i) {
    double x = random_argument(f), y = random_argument(f);
    if (is_float)
      x = (float)x, y = (float)y;
    const long double r = f->big     ? is_float ? f->wide(x) : f->wider(x)
                              : is_float ? f->wide_two(x, y)
                                     : f->wider_two(x, y);
    if (!isfinite(r) || r == 0 || fabsl(r) >= format->overflow)
      continue;
    mpfr_t a, b, big;
    mpfr_init2(a, 64);
    mpfr_init2(b, 64);
    mpfr_init2(big, 200);
    mpfr_set_d(a, x, MPFR_RNDN);
    mpfr_set_d(b, y, MPFR_RNDN);
    if (f->big)
      f->big(big, a, MPFR_RNDN);
    else
      f->big_two(big, a, b, MPFR_RNDN);
    mpfr_set_prec(a, 200);
    mpfr_set_ld(a, r, MPFR_RNDN);
    mpfr_sub(a, a, big, MPFR_RNDN);
    const long double difference = fabsl(mpfr_get_ld(a, MPFR_RNDN));
    const double error = (double)(difference / ulp_of(r, format->precision, format->least));
    if (error > greatest)
      greatest = error;
    mpfr_clear(a);
    mpfr_clear(b);
    mpfr_clear(big);
  }
  return greatest;
}

static void print(const struct function *f, const char *type, const struct worst *worst) {
  printf("%-10s %s  %8.4f ulp at %a", f->name, type, worst->error, worst->x);
  if (!f->big)
    printf(", %a", worst->y);
  printf("  (%llu arguments, %llu wrong, reference within %.1e ulp)\n", (unsigned long long)worst->count,
         (unsigned long long)worst->wrong,
         reference_error(f, type[1] == '3', worst->count < RANDOM / 100 ? SAMPLE / 100 : SAMPLE));
  fflush(stdout);
}

/* Both signs of these are special arguments, of f32 as far as it has them. */
static const double SPECIAL[] = {
    0,
    0x1p-1074,
    0x1.8p-1073,
    0x1p-1022,
    0x1.fffffffffffffp-1023,
    0x1p-149,
    0x1p-126,
    0x1p-60,
    0x1p-30,
    0.25,
    0.5,
    0.75,
    1,
    1.25,
    1.5,
    2,
    2.5,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
    10,
    15,
    16,
    17,
    20,
    25,
    30,
    31,
    32,
    33,
    34,
    35,
    36,
    40,
    64,
    100,
    127,
    128,
    129,
    149,
    150,
    170,
    171,
    172,
    200,
    308,
    309,
    324,
    709,
    710,
    745,
    746,
    1000,
    1023,
    1024,
    1074,
    1075,
    0x1p23,
    0x1.000002p23,
    0x1p24,
    0x1.000002p24,
    0x1p31,
    0x1p52,
    0x1.0000000000001p52,
    0x1p53,
    0x1.0000000000001p53,
    0x1p63,
    0x1p127,
    0x1p128,
    0x1.fffffep127,
    0x1p500,
    0x1p1000,
    0x1.fffffffffffffp1023,
    INFINITY,
    NAN,
    0x1.921fb54442d18p0,
    0x1.921fb54442d18p1,
    0x1.2d97c7f3321d2p2,
    0x1.921fb6p0,
    0x1.921fb6p1,
    0x1.6ac5b262ca1ffp849,
    0x1.f9cbe2p72,
};
enum { SPECIALS = 2 * sizeof(SPECIAL) / sizeof(*SPECIAL) };
static double special(size_t i) { return i & 1 ? -SPECIAL[i / 2] : SPECIAL[i / 2]; }

static float x32[BATCH], y32[BATCH], r32[BATCH];
static double x64[BATCH], y64[BATCH], r64[BATCH];

/* Computes with the special arguments, in all pairs if there are two. */
static void specials(const struct function *f, int is_float, struct worst *worst) {
  for (size_t i = 0; i < SPECIALS; ++i)
    for (size_t j = 0; j < (f->big ? 1 : SPECIALS); ++j) {
      double x = special(i), y = special(j), got, expected;
      if (is_float) {
        /* A vector of equal elements, because the remainder of a loop is other code. */
        for (int k = 0; k < 8; ++k)
          x32[k] = (float)x, y32[k] = (float)y;
        x = x32[0], y = y32[0];
        if (f->big)
          f->f32(r32, x32, 8);
        else
          f->f32_two(r32, x32, y32, 8);
        got = r32[0];
        expected = f->big ? f->wide(x) : f->wide_two(x, y);
        note(worst, f, x, y, got, expected, &F32);
      } else {
        for (int k = 0; k < 8; ++k)
          x64[k] = x, y64[k] = y;
        if (f->big)
          f->f64(r64, x64, 8);
        else
          f->f64_two(r64, x64, y64, 8);
        got = r64[0];
        note(worst, f, x, y, got, f->big ? f->wider(x) : f->wider_two(x, y), &F64);
      }
    }
}

static uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return bits;
}
/* Compares results with expected ones. Most are not worse than the worst, and end here. */
static void compare(struct worst *worst, const struct function *f) {
  for (int i = 0; i < BATCH; ++i) {
    const int is_nearest = bits_of(r32[i]) == bits_of((float)r64[i]) && worst->error >= 0.5;
    if (is_nearest || fabs(r32[i] - r64[i]) <= worst->error * fabs(r64[i]) * 0x1p-24)
      ++worst->count;
    else
      note(worst, f, x32[i], y32[i], r32[i], r64[i], &F32);
  }
}

static void floats(const struct function *f, uint64_t count) {
  struct worst worst = {0};
  specials(f, 1, &worst);
  for (uint64_t done = 0; done < count; done += BATCH) {
    for (int i = 0; i < BATCH; ++i) {
      const int is_any = random_bits() % 3 == 0;
      x32[i] = is_any ? of_bits32((uint32_t)random_bits()) : (float)random_argument(f);
      y32[i] = f->big ? 0 : random_bits() % 4 == 0 ? of_bits32((uint32_t)random_bits()) : (float)random_argument(f);
      r64[i] = f->big ? f->wide(x32[i]) : f->wide_two(x32[i], y32[i]);
    }
    if (f->big)
      f->f32(r32, x32, BATCH);
    else
      f->f32_two(r32, x32, y32, BATCH);
    compare(&worst, f);
  }
  print(f, "f32", &worst);
}

/* All arguments. The function of double, whose errors are measured separately, is faster than the C
 * library's. */
static void all_floats(const struct function *f) {
  struct worst worst = {0};
  specials(f, 1, &worst);
  for (uint64_t done = 0; done >> 32 == 0; done += BATCH) {
    for (int i = 0; i < BATCH; ++i)
      x32[i] = of_bits32((uint32_t)(done + i)), x64[i] = x32[i];
    f->f32(r32, x32, BATCH);
    f->f64(r64, x64, BATCH);
    compare(&worst, f);
  }
  print(f, "f32", &worst);
}

static void doubles(const struct function *f, uint64_t count) {
  struct worst worst = {0};
  specials(f, 0, &worst);
  for (uint64_t done = 0; done < count; done += BATCH) {
    for (int i = 0; i < BATCH; ++i)
      x64[i] = random_argument(f), y64[i] = random_argument(f);
    if (f->big)
      f->f64(r64, x64, BATCH);
    else
      f->f64_two(r64, x64, y64, BATCH);
    for (int i = 0; i < BATCH; ++i) {
      const long double expected = f->big ? f->wider(x64[i]) : f->wider_two(x64[i], y64[i]);
      note(&worst, f, x64[i], y64[i], r64[i], expected, &F64);
    }
  }
  print(f, "f64", &worst);
}

int main(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : "-", *type = argc > 2 ? argv[2] : "-";
  const uint64_t count = argc > 3 ? strtoull(argv[3], 0, 10) : 0;
  mpfr_set_emin(-20000);
  mpfr_set_emax(20000);
  for (size_t i = 0; i < sizeof(FUNCTIONS) / sizeof(*FUNCTIONS); ++i) {
    const struct function *f = &FUNCTIONS[i];
    if (strcmp(name, "-") != 0 && strcmp(name, f->name) != 0)
      continue;
    if (strcmp(type, "f64") != 0) {
      if (f->big && count == 0)
        all_floats(f);
      else
        floats(f, count ? count : RANDOM);
    }
    if (strcmp(type, "f32") != 0)
      doubles(f, count ? count : RANDOM);
  }
  return 0;
}
