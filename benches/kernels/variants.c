/* Kernels with arguments that rarely change, for the measurement of variants. */
#include "longshore_device.h"

/* A polynomial with `count` coefficients for each number. */
LONGSHORE_KERNEL(polynomial, (const float *x, float *y, const float *coefficients, uint32_t count)) {
  const uint64_t i = longshore_global_id(0);
  const float value = x[i];
  float sum = 0;
  for (uint32_t k = 0; k < count; k++) sum = sum * value + coefficients[k];
  y[i] = sum;
}

/* The sum of the numbers around each number, in rows of `width` numbers. */
LONGSHORE_KERNEL(blur, (const float *x, float *y, uint32_t width, uint32_t radius)) {
  const uint32_t column = (uint32_t)longshore_global_id(0), row = (uint32_t)longshore_global_id(1);
  const float *around = x + (uint64_t)row * (width + 2 * radius) + column;
  float sum = 0;
  for (uint32_t dy = 0; dy <= 2 * radius; dy++)
    for (uint32_t dx = 0; dx <= 2 * radius; dx++) sum += around[dy * (width + 2 * radius) + dx];
  y[(uint64_t)row * width + column] = sum;
}

/* The number of the bucket of each number. */
LONGSHORE_KERNEL(bucket, (const uint32_t *x, uint32_t *y, uint32_t buckets)) {
  const uint64_t i = longshore_global_id(0);
  y[i] = x[i] % buckets;
}

/* Sums of the groups' numbers. Only the group size is constant. */
LONGSHORE_KERNEL(sums, (const uint32_t *x, uint32_t *y)) {
  LONGSHORE_SHARED(uint32_t, tile, [256]);
  const uint32_t item = longshore_item_id(0);
  tile[item] = x[longshore_global_id(0)];
  longshore_barrier();
  for (uint32_t half = longshore_group_items(0) / 2; half > 0; half /= 2) {
    if (item < half) tile[item] += tile[item + half];
    longshore_barrier();
  }
  if (item == 0) y[longshore_group_id(0)] = tile[0];
}
