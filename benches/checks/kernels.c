// Kernels whose checks are measured.

#include <longshore_device.h>

LONGSHORE_KERNEL(saxpy, (float a, const float *x, float *y, uint32_t n)) {
  uint32_t i = longshore_global_id(0);
  if (i < n) y[i] += a * x[i];
}

LONGSHORE_KERNEL(stencil, (const float *x, float *y, uint32_t n)) {
  uint32_t i = longshore_global_id(0);
  if (i > 0 && i < n - 1) y[i] = (x[i - 1] + x[i] + x[i + 1]) / 3;
}

LONGSHORE_KERNEL(transpose, (const float *x, float *y, uint32_t n)) {
  LONGSHORE_SHARED(float, tile, [16][17]);
  uint32_t column = longshore_item_id(0), row = longshore_item_id(1);
  uint32_t left = 16 * longshore_group_id(0), top = 16 * longshore_group_id(1);
  tile[row][column] = x[(top + row) * n + left + column];
  longshore_barrier();
  y[(left + row) * n + top + column] = tile[column][row];
}

LONGSHORE_KERNEL(histogram, (const uint32_t *x, uint32_t *counts, uint32_t n)) {
  uint32_t i = longshore_global_id(0);
  if (i < n) longshore_atomic_add(&counts[x[i] % 256], 1);
}

LONGSHORE_KERNEL(divide, (float *y, float by, uint32_t rounds)) {
  uint32_t i = longshore_global_id(0);
  float value = y[i];
  for (uint32_t round = 0; round < rounds; ++round) value = 1 + value / by;
  y[i] = value;
}

LONGSHORE_KERNEL(sum, (const float *x, float *sums)) {
  LONGSHORE_SHARED(float, part, [256]);
  uint32_t i = longshore_item_id(0);
  part[i] = x[longshore_global_id(0)];
  longshore_barrier();
  for (uint32_t half = 128; half > 0; half /= 2) {
    if (i < half) part[i] += part[i + half];
    longshore_barrier();
  }
  if (i == 0) sums[longshore_group_id(0)] = part[0];
}

LONGSHORE_KERNEL(multiply, (const float *a, const float *b, float *c, uint32_t n)) {
  LONGSHORE_SHARED(float, left, [16][16]);
  LONGSHORE_SHARED(float, right, [16][16]);
  uint32_t x = longshore_item_id(0), y = longshore_item_id(1);
  uint32_t column = longshore_global_id(0), row = longshore_global_id(1);
  float result = 0;
  for (uint32_t tile = 0; tile < n / 16; ++tile) {
    left[y][x] = a[row * n + 16 * tile + x];
    right[y][x] = b[(16 * tile + y) * n + column];
    longshore_barrier();
    for (uint32_t k = 0; k < 16; ++k) result += left[y][k] * right[k][x];
    longshore_barrier();
  }
  c[row * n + column] = result;
}
