/*
 * Sums of the results for every float, of functions of one float.
 *
 *     every LEAST GREATEST NAME...
 *
 * One line for each function and exponent, from LEAST to GREATEST, with the sign as their bit 8.
 * The lines are the same on all targets. NaNs count as equal.
 */
#include "functions.h"
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FRACTIONS = 1 << 23, BATCH = 4096 };

#define DECLARE(name, low, high, reference) void f32_##name(float *, const float *, size_t);
ONE_ARGUMENT(DECLARE)
static const struct {
  const char *name;
  void (*run)(float *, const float *, size_t);
} FUNCTIONS[] = {
#define ENTRY(name, low, high, reference) {#name, f32_##name},
    ONE_ARGUMENT(ENTRY)};

static float x[BATCH], y[BATCH];

/* Each result counts with an odd number of its own, so that one changed bit changes the sum. */
static uint64_t sum_of(void (*run)(float *, const float *, size_t), uint32_t high_bits) {
  uint64_t sum = 0;
  for (uint32_t first = 0; first < FRACTIONS; first += BATCH) {
    for (uint32_t i = 0; i < BATCH; ++i) {
      const uint32_t bits = high_bits << 23 | (first + i);
      memcpy(&x[i], &bits, sizeof(bits));
    }
    run(y, x, BATCH);
    for (uint32_t i = 0; i < BATCH; ++i) {
      uint32_t bits;
      memcpy(&bits, &y[i], sizeof(bits));
      bits = (bits & 0x7fffffff) > 0x7f800000 ? 0x7fc00000 : bits;
      sum += (uint64_t)bits * (2 * (first + i) + 1);
    }
  }
  return sum;
}

int main(int argc, char **argv) {
  for (int i = 3; i < argc; ++i) {
    size_t f = 0;
    while (strcmp(FUNCTIONS[f].name, argv[i]) != 0)
      if (++f == sizeof(FUNCTIONS) / sizeof(*FUNCTIONS))
        return fprintf(stderr, "every: no function %s\n", argv[i]), 1;
    for (uint32_t high_bits = 0; high_bits < 512; ++high_bits) {
      const uint32_t exponent = high_bits & 255;
      if (exponent >= strtoul(argv[1], 0, 10) && exponent <= strtoul(argv[2], 0, 10))
        printf("%s/%u %016llx\n", argv[i], high_bits, (unsigned long long)sum_of(FUNCTIONS[f].run, high_bits));
    }
  }
  return 0;
}
