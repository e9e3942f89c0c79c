/* Loops over the functions, compiled as kernels are. */
#include <longshore_device.h>
#include "functions.h"

#ifndef SUFFIX
#define SUFFIX(name) name
#endif

#define LOOPS(name, low, high, reference)                                                                              \
  void SUFFIX(f32_##name)(float *restrict to, const float *restrict x, size_t count) {                                 \
    for (size_t i = 0; i < count; ++i)                                                                                 \
      to[i] = longshore_##name(x[i]);                                                                                  \
  }                                                                                                                    \
  void SUFFIX(f64_##name)(double *restrict to, const double *restrict x, size_t count) {                               \
    for (size_t i = 0; i < count; ++i)                                                                                 \
      to[i] = longshore_##name(x[i]);                                                                                  \
  }
ONE_ARGUMENT(LOOPS)
#undef LOOPS
#define LOOPS(name, low, high, reference)                                                                              \
  void SUFFIX(f32_##name)(float *restrict to, const float *restrict x, const float *restrict y, size_t count) {        \
    for (size_t i = 0; i < count; ++i)                                                                                 \
      to[i] = longshore_##name(x[i], y[i]);                                                                            \
  }                                                                                                                    \
  void SUFFIX(f64_##name)(double *restrict to, const double *restrict x, const double *restrict y, size_t count) {     \
    for (size_t i = 0; i < count; ++i)                                                                                 \
      to[i] = longshore_##name(x[i], y[i]);                                                                            \
  }
TWO_ARGUMENTS(LOOPS)
