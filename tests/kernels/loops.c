/*
 * Kernels of items that do not wait for each other, but have loops, for groups of any size in one
 * to three dimensions. Each writes one result for each item; x and y have a number for each item of
 * the grid.
 */
#include "longshore_device.h"

#define GROUP_ITEMS() (longshore_group_items(0) * longshore_group_items(1) * longshore_group_items(2))
/* The item's number in the grid, in the order of groups. */
#define NUMBER() (longshore_group_index() * GROUP_ITEMS() + longshore_item_index())

/* The numbers behind the item's, a known number of them or the rest. */
LONGSHORE_KERNEL(windows, (const uint32_t *x, uint32_t *y, uint32_t n)) {
  const uint64_t at = NUMBER();
  uint32_t sum = 0;
  for (uint32_t k = 0; k < 40; ++k) sum = sum * 3 + (at + k < n ? x[at + k] : k);
  if (at < n) y[at] = sum;
}

/* A chain of divisions. */
LONGSHORE_KERNEL(quotients, (const uint32_t *x, uint32_t *y, uint32_t n)) {
  const uint64_t at = NUMBER();
  if (at >= n) return;
  float value = (float)x[at];
  for (uint32_t k = 0; k < 35 + n % 30; ++k) value = value / 1.5f + (float)k;
  y[at] = (uint32_t)value;
}

/* Items that stride through all numbers. */
LONGSHORE_KERNEL(strides, (const uint32_t *x, uint32_t *y, uint32_t n)) {
  const uint32_t items = longshore_group_items(0) * longshore_group_count(0);
  for (uint32_t at = (uint32_t)longshore_global_id(0); at < n; at += items)
    if (longshore_item_id(1) == 0 && longshore_item_id(2) == 0) y[at] = x[at] * 3 + at;
}

/* Items that return at different times, between loops of all items. */
LONGSHORE_KERNEL(late, (const uint32_t *x, uint32_t *y, uint32_t n)) {
  const uint64_t at = NUMBER();
  if (at >= n) return;
  uint32_t sum = 1;
  for (uint32_t k = 0; k < 33 + n % 8; ++k) sum = sum * 5 + x[at] + k;
  y[at] = sum;
  if (sum % 4 == 1) return;
  for (uint32_t k = 0; k < 35 + n % 4; ++k) sum = sum * 7 + x[at];
  y[at] += sum;
  if (at % 3 == 0) return;
  while (sum > 100) sum = sum / 2 - sum % 2;
  y[at] += sum;
}

/* A private array, and much work for each of its elements. */
LONGSHORE_KERNEL(turning, (const uint32_t *x, uint32_t *y, uint32_t n)) {
  const uint64_t at = NUMBER();
  float seen[16], sum = 0;
  for (uint32_t k = 0; k < 16; ++k) seen[k] = (float)(k * 3);
  for (uint32_t k = 0; k < 50 + n % 3; ++k) {
    float own = at < n ? (float)x[at] : 5;
    own = (own * 0.5f + 2) * (own * 0.25f + 1) / (own * 0.125f + 3) - own * 0.75f + own * own;
    seen[k % 16] = seen[k * 7 % 16] * 0.5f + own;
  }
  for (uint32_t k = 0; k < 16; ++k) sum = sum * 0.5f + seen[k];
  if (at < n) y[at] = (uint32_t)sum;
}

/* A loop in a loop, which end by numbers in memory. */
LONGSHORE_KERNEL(grids, (const uint32_t *x, uint32_t *y, uint32_t n)) {
  const uint64_t at = NUMBER();
  float sum = at < n ? (float)x[at] : 1;
  for (uint32_t i = 0; i < 10 + x[0] % 5; ++i) {
    for (uint32_t j = i; j < 20 + x[1] % 7; ++j) sum = sum * 0.75f + (float)(x[j % 3] % 10);
    sum += 2;
  }
  if (at < n) y[at] = (uint32_t)(sum * 100);
}

/* Items in the middle of the grid, and others that are not side by side. */
LONGSHORE_KERNEL(middle, (const uint32_t *x, uint32_t *y, uint32_t n)) {
  const uint64_t at = NUMBER();
  if (at < 2 || at >= n || (at / 4) % 17 == 3) return;
  float sum = 0;
  for (uint32_t k = 0; k < 40 + n % 3; ++k) sum = sum * 0.5f + (float)(x[at - 2] + x[at]) / (float)(k + 1);
  y[at] = (uint32_t)(sum * 100);
}

/* A loop of all items with a second end. */
LONGSHORE_KERNEL(broken, (const uint32_t *x, uint32_t *y, uint32_t n)) {
  const uint64_t at = NUMBER();
  float sum = at < n ? (float)x[at] : 1;
  for (uint32_t i = 0; i < 50 + x[0] % 5; ++i) {
    if (x[i % 2] % 100 == i) break;
    sum = sum * 0.75f + (float)i;
  }
  if (at < n) y[at] = (uint32_t)(sum * 100);
}

/* A private array, with indices of the item. */
LONGSHORE_KERNEL(scattered, (const uint32_t *x, uint32_t *y, uint32_t n)) {
  const uint64_t at = NUMBER();
  uint32_t seen[16];
  for (uint32_t k = 0; k < 16; ++k) seen[k] = k * 3;
  for (uint32_t k = 0; k < 50 + n % 3; ++k) {
    const uint32_t own = at < n ? x[at] : 5;
    seen[(own + k) % 16] = seen[(own * 7 + k) % 16] * 5 + own / (k + 1);
  }
  uint32_t sum = 0;
  for (uint32_t k = 0; k < 16; ++k) sum = sum * 31 + seen[k];
  if (at < n) y[at] = sum;
}

/* A loop that ends for each item at its own time. */
LONGSHORE_KERNEL(collatz, (const uint32_t *x, uint32_t *y, uint32_t n)) {
  const uint64_t at = NUMBER();
  if (at >= n) return;
  uint32_t steps = 0;
  for (uint32_t own = x[at] + 1; own != 1; ++steps) own = own % 2 ? own * 3 + 1 : own / 2;
  y[at] = steps;
}

/* A loop with atomic operations. */
LONGSHORE_KERNEL(ordered, (const uint32_t *x, uint32_t *y, uint32_t n)) {
  const uint64_t at = NUMBER();
  for (uint32_t k = 0; k < 40 && at < n; ++k)
    longshore_atomic_add_explicit(&y[(at * 3 + k) % n], x[at], LONGSHORE_RELAXED, LONGSHORE_SCOPE_DEVICE);
  for (uint32_t k = 0; k < 40; ++k)
    longshore_atomic_add_explicit(&y[k % n], k, LONGSHORE_RELAXED, LONGSHORE_SCOPE_DEVICE);
}

/* Items that each read a row of numbers. */
LONGSHORE_KERNEL(rows_of_items, (const uint32_t *x, uint32_t *y, uint32_t n)) {
  const uint64_t at = NUMBER();
  uint32_t sum = 0;
  for (uint32_t k = 0; k < 64 + n % 2; ++k) sum += x[(at * 37 + k) % n];
  if (at < n) y[at] = sum;
}

/* A loop of each item in a loop of all items. */
LONGSHORE_KERNEL(inner, (const uint32_t *x, uint32_t *y, uint32_t n)) {
  const uint64_t at = NUMBER();
  if (at >= n) return;
  uint32_t sum = 0;
  for (uint32_t k = 0; k < 20 + n % 2; ++k)
    for (uint32_t rest = x[at]; rest > k; rest /= 2) sum += rest;
  y[at] = sum;
}
