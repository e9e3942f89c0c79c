/*
 * Prints one line for each function of longshore_math.h and each type: a hash of its results for
 * pseudo-random arguments and special ones. The lines are the same on all targets and for all
 * options of the compiler. NaNs count as equal.
 */
#include "functions.h"
#include <longshore_device.h>
#include <stdio.h>
#include <string.h>

/* The arguments are the same on all targets, too. */
#pragma STDC FP_CONTRACT OFF

#ifndef ROUNDS
#define ROUNDS 24
#endif
/* An odd number, so that loops have a remainder. */
enum { COUNT = 1021 };

static uint64_t state;
static uint64_t next(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return longshore_rotate(state ^ state >> 29, (uint32_t)(state >> 58));
}

static const double SPECIAL[] = {0,
                                 0x1p-1074,
                                 0x1p-1022,
                                 0x1p-149,
                                 0x1p-126,
                                 0x1p-30,
                                 0.25,
                                 0.5,
                                 1,
                                 1.5,
                                 2,
                                 3,
                                 8,
                                 20,
                                 100,
                                 171,
                                 710,
                                 745,
                                 1e10,
                                 0x1p52,
                                 0x1p53,
                                 0x1p63,
                                 0x1p127,
                                 0x1.fffffep127,
                                 0x1p1000,
                                 0x1p1023,
                                 __builtin_inf(),
                                 0x1.921fb54442d18p0,
                                 0x1.921fb54442d18p1,
                                 0x1.6ac5b262ca1ffp849,
                                 0x1.f9cbe2p72};
static double argument(double low, double high) {
  const uint64_t bits = next();
  const double unit = (double)(bits >> 11) * 0x1p-53;
  const uint64_t kind = next() % 8;
  if (kind < 3)
    return low + (high - low) * unit;
  if (kind < 5)
    return longshore_of_bits_(bits);
  if (kind < 7)
    return (unit - 0.5) * longshore_power_of_2_((int)(bits % 40) - 30);
  const double special = SPECIAL[bits % (sizeof(SPECIAL) / sizeof(*SPECIAL))];
  return bits >> 63 ? -special : special;
}

static uint64_t hash;
static void add(uint64_t word) { hash = (hash ^ word) * 1099511628211u; }
static void add_f32(float x) { add(x != x ? 0x7fc00000 : longshore_bits_(x)); }
static void add_f64(double x) { add(x != x ? (uint64_t)0x7ff8 << 48 : longshore_bits_(x)); }

static float x32[COUNT], y32[COUNT], to32[COUNT], more32[COUNT];
static double x64[COUNT], y64[COUNT], to64[COUNT], more64[COUNT];
static int whole[COUNT];

static void fill(double low, double high) {
  for (int i = 0; i < COUNT; ++i) {
    x64[i] = argument(low, high), y64[i] = argument(low, high);
    x32[i] = (float)x64[i], y32[i] = (float)y64[i];
    const uint64_t bits = next();
    whole[i] = (int)(bits >> 32) >> (bits & 31);
  }
}

/* Runs the code for both types and prints the hashes. */
#define HASHES(name, low, high, of_f32, of_f64)                                                                        \
  {                                                                                                                    \
    uint64_t hashes[2] = {0, 0};                                                                                       \
    state = 1;                                                                                                         \
    for (int round = 0; round < ROUNDS; ++round) {                                                                     \
      fill(low, high);                                                                                                 \
      hash = hashes[0];                                                                                                \
      of_f32;                                                                                                          \
      for (int i = 0; i < COUNT; ++i)                                                                                  \
        add_f32(to32[i]);                                                                                              \
      hashes[0] = hash;                                                                                                \
      hash = hashes[1];                                                                                                \
      of_f64;                                                                                                          \
      for (int i = 0; i < COUNT; ++i)                                                                                  \
        add_f64(to64[i]);                                                                                              \
      hashes[1] = hash;                                                                                                \
    }                                                                                                                  \
    printf("%s %016llx %016llx\n", #name, (unsigned long long)hashes[0], (unsigned long long)hashes[1]);               \
  }
#define FOR_ALL for (int i = 0; i < COUNT; ++i)
#define BOTH(name, low, high, f32, f64) HASHES(name, low, high, FOR_ALL{f32}, FOR_ALL{f64})

#define DECLARE_ONE(name, low, high, reference)                                                                        \
  void f32_##name(float *, const float *, size_t);                                                                     \
  void f64_##name(double *, const double *, size_t);
#define DECLARE_TWO(name, low, high, reference)                                                                        \
  void f32_##name(float *, const float *, const float *, size_t);                                                      \
  void f64_##name(double *, const double *, const double *, size_t);
ONE_ARGUMENT(DECLARE_ONE)
TWO_ARGUMENTS(DECLARE_TWO)

int main(void) {
#define ONE(name, low, high, reference)                                                                                \
  HASHES(name, low, high, f32_##name(to32, x32, COUNT), f64_##name(to64, x64, COUNT))
  ONE_ARGUMENT(ONE)
#define TWO(name, low, high, reference)                                                                                \
  HASHES(name, low, high, f32_##name(to32, x32, y32, COUNT), f64_##name(to64, x64, y64, COUNT))
  TWO_ARGUMENTS(TWO)

#define TWO_RESULTS(name, low, high)                                                                                   \
  BOTH(name, low, high, longshore_##name(x32[i], &to32[i], &more32[i]); add_f32(more32[i]);                            \
       , longshore_##name(x64[i], &to64[i], &more64[i]); add_f64(more64[i]);)
  TWO_RESULTS(sincos, -100, 100)
  TWO_RESULTS(sincospi, -100, 100)
  BOTH(modf, -100, 100, to32[i] = longshore_modf(x32[i], &more32[i]); add_f32(more32[i]);
       , to64[i] = longshore_modf(x64[i], &more64[i]); add_f64(more64[i]);)
  BOTH(frexp, -100, 100, int e; to32[i] = longshore_frexp(x32[i], &e); add((uint32_t)e);, int e;
       to64[i] = longshore_frexp(x64[i], &e); add((uint32_t)e);)
  BOTH(ldexp, -100, 100, to32[i] = longshore_ldexp(x32[i], whole[i]);, to64[i] = longshore_ldexp(x64[i], whole[i]);)
  BOTH(powi, 0, 2, to32[i] = longshore_powi(x32[i], whole[i]);, to64[i] = longshore_powi(x64[i], whole[i]);)
  BOTH(nearbyint, -9, 9, to32[i] = longshore_nearbyint(x32[i]);, to64[i] = longshore_nearbyint(x64[i]);)
#define CLASSES(x)                                                                                                     \
  (longshore_isnan(x) | longshore_isinf(x) << 1 | longshore_isfinite(x) << 2 | (x == x && longshore_signbit(x)) << 3)
  BOTH(classes, -9, 9, to32[i] = (float)CLASSES(x32[i]);, to64[i] = CLASSES(x64[i]);)
#define INTEGERS(T, S, x, y)                                                                                           \
  add((uint64_t)longshore_popcount((T)x));                                                                             \
  add((uint64_t)longshore_clz((T)x));                                                                                  \
  add((uint64_t)longshore_ctz((T)x));                                                                                  \
  add(longshore_brev((T)x));                                                                                           \
  add(longshore_rotate((T)x, whole[i]));                                                                               \
  add(longshore_mulhi((T)x, (T)y));                                                                                    \
  add((uint64_t)longshore_mulhi((S)x, (S)y));                                                                          \
  add(longshore_sad((T)x, (T)y, (T)x));                                                                                \
  add(longshore_sad((S)x, (S)y, (T)x));
  HASHES(
      integers, 0, 1,
      FOR_ALL {
        const uint64_t x = next() >> next() % 64;
        INTEGERS(uint32_t, int32_t, x, x >> 9)
      },
      FOR_ALL {
        const uint64_t x = next() >> next() % 64;
        INTEGERS(uint64_t, int64_t, x, next())
      })
  return 0;
}
