/*
 * Times of longshore_math.h beside SLEEF and glibc's libmvec, with vectors of 256 bits.
 *
 *     speed [NAME]
 *
 * One table row per function and type: nanoseconds per element, and the peers' times divided by
 * Longshore's. The rounds of all three alternate, and the least time counts.
 */
#define _GNU_SOURCE
#include "../../tests/mathematics/functions.h"
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if __has_include(<sleef.h>)
#include <sleef.h>
#endif

enum { COUNT = 2048, ROUNDS = 40, REPEATS = 16 };

/* m(name, accuracy of SLEEF's function) */
#define SLEEF_ONE(m)                                                                                                  \
  m(exp, u10) m(exp2, u10) m(exp10, u10) m(expm1, u10) m(log, u10) m(log2, u10) m(log10, u10) m(log1p, u10)           \
  m(sin, u10) m(cos, u10) m(tan, u10) m(asin, u10) m(acos, u10) m(atan, u10) m(sinh, u10) m(cosh, u10) m(tanh, u10)   \
  m(asinh, u10) m(acosh, u10) m(atanh, u10) m(erf, u10) m(erfc, u15) m(tgamma, u10) m(lgamma, u10) m(cbrt, u10)       \
  m(sinpi, u05) m(cospi, u05)
#define MVEC_ONE(m)                                                                                                   \
  m(exp) m(exp2) m(exp10) m(expm1) m(log) m(log2) m(log10) m(log1p) m(sin) m(cos) m(tan) m(asin) m(acos) m(atan)      \
  m(sinh) m(cosh) m(tanh) m(asinh) m(acosh) m(atanh) m(erf) m(erfc) m(cbrt)
#define SLEEF_TWO(m) m(pow, u10) m(atan2, u10) m(hypot, u05)
#define MVEC_TWO(m) m(pow) m(atan2) m(hypot)

#define LOOP_ONE(prefix, name, f32, f64)                                                                              \
  static void prefix##_f32_##name(float *restrict to, const float *restrict x, size_t count) {                        \
    for (size_t i = 0; i < count; i += 8) _mm256_storeu_ps(to + i, f32(_mm256_loadu_ps(x + i)));                      \
  }                                                                                                                   \
  static void prefix##_f64_##name(double *restrict to, const double *restrict x, size_t count) {                      \
    for (size_t i = 0; i < count; i += 4) _mm256_storeu_pd(to + i, f64(_mm256_loadu_pd(x + i)));                      \
  }
#define LOOP_TWO(prefix, name, f32, f64)                                                                              \
  static void prefix##_f32_##name(float *restrict to, const float *restrict x, const float *restrict y,               \
                                  size_t count) {                                                                     \
    for (size_t i = 0; i < count; i += 8)                                                                             \
      _mm256_storeu_ps(to + i, f32(_mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i)));                                  \
  }                                                                                                                   \
  static void prefix##_f64_##name(double *restrict to, const double *restrict x, const double *restrict y,            \
                                  size_t count) {                                                                     \
    for (size_t i = 0; i < count; i += 4)                                                                             \
      _mm256_storeu_pd(to + i, f64(_mm256_loadu_pd(x + i), _mm256_loadu_pd(y + i)));                                  \
  }

#ifdef SLEEF_VERSION_MAJOR
#define SLEEF_LOOP(name, accuracy)                                                                                    \
  LOOP_ONE(sleef, name, Sleef_##name##f8_##accuracy##avx2, Sleef_##name##d4_##accuracy##avx2)
#define SLEEF_LOOP_TWO(name, accuracy)                                                                                \
  LOOP_TWO(sleef, name, Sleef_##name##f8_##accuracy##avx2, Sleef_##name##d4_##accuracy##avx2)
SLEEF_ONE(SLEEF_LOOP)
SLEEF_TWO(SLEEF_LOOP_TWO)
#endif
#define MVEC_LOOP(name)                                                                                               \
  __m256 _ZGVdN8v_##name##f(__m256);                                                                                  \
  __m256d _ZGVdN4v_##name(__m256d);                                                                                   \
  LOOP_ONE(mvec, name, _ZGVdN8v_##name##f, _ZGVdN4v_##name)
#define MVEC_LOOP_TWO(name)                                                                                           \
  __m256 _ZGVdN8vv_##name##f(__m256, __m256);                                                                         \
  __m256d _ZGVdN4vv_##name(__m256d, __m256d);                                                                         \
  LOOP_TWO(mvec, name, _ZGVdN8vv_##name##f, _ZGVdN4vv_##name)
MVEC_ONE(MVEC_LOOP)
MVEC_TWO(MVEC_LOOP_TWO)

typedef void (*function)(void);
struct peer {
  const char *name;
  function f32, f64;
};
static const struct peer SLEEF[] = {
#ifdef SLEEF_VERSION_MAJOR
#define SLEEF_ROW(name, accuracy) {#name, (function)sleef_f32_##name, (function)sleef_f64_##name},
    SLEEF_ONE(SLEEF_ROW) SLEEF_TWO(SLEEF_ROW)
#endif
        {0, 0, 0}};
#define MVEC_ROW(name) {#name, (function)mvec_f32_##name, (function)mvec_f64_##name},
static const struct peer MVEC[] = {MVEC_ONE(MVEC_ROW) MVEC_TWO(MVEC_ROW){0, 0, 0}};

#define DECLARE(name, low, high, reference)                                                                           \
  void f32_##name(float *, const float *, size_t);                                                                    \
  void f64_##name(double *, const double *, size_t);
#define DECLARE_TWO(name, low, high, reference)                                                                       \
  void f32_##name(float *, const float *, const float *, size_t);                                                     \
  void f64_##name(double *, const double *, const double *, size_t);
ONE_ARGUMENT(DECLARE)
TWO_ARGUMENTS(DECLARE_TWO)

struct subject {
  struct peer peer;
  int arguments;
  double low, high;
};
#define ROW(name, low, high, reference) {{#name, (function)f32_##name, (function)f64_##name}, 1, low, high},
#define ROW_TWO(name, low, high, reference) {{#name, (function)f32_##name, (function)f64_##name}, 2, low, high},
static const struct subject SUBJECTS[] = {ONE_ARGUMENT(ROW) TWO_ARGUMENTS(ROW_TWO)};

static float x32[COUNT], y32[COUNT], to32[COUNT];
static double x64[COUNT], y64[COUNT], to64[COUNT];

static void call(const struct subject *subject, function f, int is_float) {
  if (is_float && subject->arguments == 1) ((void (*)(float *, const float *, size_t))f)(to32, x32, COUNT);
  else if (is_float) ((void (*)(float *, const float *, const float *, size_t))f)(to32, x32, y32, COUNT);
  else if (subject->arguments == 1) ((void (*)(double *, const double *, size_t))f)(to64, x64, COUNT);
  else ((void (*)(double *, const double *, const double *, size_t))f)(to64, x64, y64, COUNT);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static function peer_of(const struct peer *peers, const char *name, int is_float) {
  for (; peers->name; ++peers)
    if (strcmp(peers->name, name) == 0) return is_float ? peers->f32 : peers->f64;
  return 0;
}

static void measure(const struct subject *subject, int is_float) {
  const double low = is_float && subject->low < -87 ? -87 : subject->low;
  double high = is_float && subject->high > 88 ? 88 : subject->high;
  if (is_float && strcmp(subject->peer.name, "exp10") == 0) high = 38;
  if (is_float && strcmp(subject->peer.name, "tgamma") == 0) high = 35;
  for (int i = 0; i < COUNT; ++i) {
    x64[i] = low + (high - low) * rand() / RAND_MAX, y64[i] = low + (high - low) * rand() / RAND_MAX;
    x32[i] = (float)x64[i], y32[i] = (float)y64[i];
  }
  const char *name = subject->peer.name;
  const function functions[3] = {is_float ? subject->peer.f32 : subject->peer.f64, peer_of(SLEEF, name, is_float),
                                 peer_of(MVEC, name, is_float)};
  double least[3] = {1e18, 1e18, 1e18};
  for (int round = 0; round < ROUNDS; ++round)
    for (int i = 0; i < 3; ++i) {
      if (!functions[i]) continue;
      const double start = now();
      for (int repeat = 0; repeat < REPEATS; ++repeat) call(subject, functions[i], is_float);
      const double time = (now() - start) / REPEATS / COUNT;
      if (time < least[i]) least[i] = time;
    }
  printf("%-10s %s %8.2f", name, is_float ? "f32" : "f64", least[0]);
  for (int i = 1; i < 3; ++i)
    if (functions[i]) printf(" %8.2f %6.2f", least[i], least[i] / least[0]);
    else printf(" %8s %6s", "-", "-");
  printf("\n");
  fflush(stdout);
}

int main(int argc, char **argv) {
  printf("%-10s %s %8s %8s %6s %8s %6s\n", "function", "   ", "ns", "SLEEF", "ratio", "libmvec", "ratio");
  for (size_t i = 0; i < sizeof(SUBJECTS) / sizeof(*SUBJECTS); ++i)
    for (int is_float = 1; is_float >= 0; --is_float)
      if (argc < 2 || strcmp(argv[1], SUBJECTS[i].peer.name) == 0) measure(&SUBJECTS[i], is_float);
  return 0;
}
