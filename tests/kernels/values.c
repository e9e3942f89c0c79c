/*
 * Kernels with values of all kinds, for comparisons of Vulkan devices with the CPU. The results are
 * the same bits on all targets.
 */
#include "longshore_device.h"

struct s { int a; float b; unsigned char c[5]; short d; double e; };
LONGSHORE_GLOBAL uint64_t hits;
LONGSHORE_GLOBAL uint8_t seven[7] = {1,2,3,4,5,6,7};
LONGSHORE_CONSTANT float weights[3] = {0.25f, 0.5f, 0.25f};
static const int table[16] = {3,1,4,1,5,9,2,6,5,3,5,8,9,7,9,3};
const char *const words[3] = {"one", "three", "elevens"};
LONGSHORE_KERNEL(values, (LONGSHORE_BY_VALUE(struct s, v), int8_t p, uint16_t q, double f, double *y)) {
  uint32_t i = (uint32_t)longshore_global_id(0);
  y[i] = v.a * 2 + v.b + v.c[i % 5] + v.d - v.e + p * 3 + q + f;
}
LONGSHORE_KERNEL(globals, (float *y, uint64_t *z)) {
  uint32_t i = (uint32_t)longshore_global_id(0);
  y[i] = weights[i % 3] * (float)table[i % 16] + seven[i % 7] + words[i % 3][i % 2] + sizeof words;
  longshore_atomic_add(&hits, (uint64_t)i);
  z[i] = 0;
  if (i == 0) z[i] = 1;
}
LONGSHORE_KERNEL(hits_are, (uint64_t *z)) { z[0] = hits; }
LONGSHORE_KERNEL(bytes_of, (const uint8_t *x, uint8_t *y, uint32_t n)) {
  LONGSHORE_SHARED(uint8_t, tile, [256]);
  uint32_t i = longshore_item_id(0);
  tile[i] = x[longshore_global_id(0)];
  longshore_barrier();
  y[longshore_global_id(0)] = (uint8_t)(tile[(i + 1) % longshore_group_items(0)] * 3 - (int8_t)tile[i] / 3);
}
LONGSHORE_KERNEL(integers, (const int32_t *x, const int64_t *y, int64_t *z)) {
  uint32_t i = (uint32_t)longshore_global_id(0);
  int32_t a = x[i]; int64_t b = y[i]; int16_t c = (int16_t)a; int8_t d = (int8_t)b;
  uint64_t u = (uint64_t)b;
  int64_t r = a / (c ? c : 1) + a % 7 + b / (d ? d : 3) + b % 1000 + (c >> 3) + (d << 2) + (a >> 5) + (b >> 40);
  r ^= __builtin_popcount((unsigned)a) + __builtin_popcountll(u) * 3;
  r += a ? __builtin_clz((unsigned)a) * 5 + __builtin_ctz((unsigned)a) : 1;
  r += b ? __builtin_clzll(u) * 7 + __builtin_ctzll(u) : 1;
  r += (int64_t)__builtin_bswap64(u) ^ (int64_t)__builtin_bswap32((unsigned)a) ^ __builtin_bswap16((unsigned short)c);
  r += (int64_t)(((unsigned __int128)u * (uint64_t)(b * 31)) >> 64);
  r += (int64_t)(u << 13 | u >> 51);
  unsigned o; if (__builtin_uadd_overflow((unsigned)a, 0xf0000000u, &o)) r += o;
  int m; if (__builtin_sadd_overflow(a, 0x70000000, &m)) r += m;
  if (__builtin_ssub_overflow(a, 0x70000000, &m)) r += m;
  if (__builtin_umul_overflow((unsigned)a, 77777u, &o)) r -= o;
  r += longshore_min(a, (int32_t)b) + longshore_max(c, d) + longshore_abs(a);
  r += (int64_t)__builtin_bitreverse32((unsigned)a) + (int64_t)__builtin_bitreverse64(u);
  z[i] = r;
}
LONGSHORE_KERNEL(floats, (const float *x, const double *y, float *z, double *w)) {
  uint32_t i = (uint32_t)longshore_global_id(0);
  float a = x[i]; double b = y[i];
  z[i] = longshore_floor(a) + longshore_ceil(a) * 2 + longshore_abs(a) + longshore_sqrt(longshore_abs(a)) + longshore_min(a, 3.0f) + longshore_max(a, -2.0f) + longshore_round(a) + (float)(int)a + (float)(unsigned)(a * a) + longshore_trunc(a) + (a > 0 ? 1 : a != a ? 7 : 2);
  w[i] = longshore_floor(b) + longshore_sqrt(longshore_abs(b)) + b / 3 + (double)(long)b + (float)b;
}
LONGSHORE_KERNEL(atomics, (uint32_t *a, float *f, uint64_t *b, double *d)) {
  uint32_t i = (uint32_t)longshore_global_id(0);
  longshore_atomic_add(&a[0], i); longshore_atomic_max(&a[1], i); longshore_atomic_min(&a[2], i);
  longshore_atomic_or(&a[3], 1u << (i % 32)); longshore_atomic_xor(&a[4], i); longshore_atomic_sub(&a[5], 1u); longshore_atomic_and(&a[6], ~(1u << (i % 5)));
  longshore_atomic_add(&f[0], (float)i); longshore_atomic_max(&f[1], (float)i);
  longshore_atomic_add(&b[0], (uint64_t)i << 33); longshore_atomic_max(&b[1], (uint64_t)i << 40);
  longshore_atomic_add(&d[0], (double)i);
  uint32_t old = longshore_atomic_load(&a[7]);
  while (!longshore_atomic_compare_exchange(&a[7], &old, old + 3)) {}
}
LONGSHORE_KERNEL(dynamic, (const uint32_t *x, uint32_t *y)) {
  uint32_t *tile = (uint32_t *)longshore_dynamic_shared();
  uint32_t i = longshore_item_id(0), n = longshore_group_items(0);
  tile[i] = x[longshore_global_id(0)];
  longshore_barrier();
  y[longshore_global_id(0)] = tile[n - 1 - i];
}
LONGSHORE_KERNEL(control, (const uint32_t *x, uint32_t *y, uint32_t n)) {
  uint32_t i = (uint32_t)longshore_global_id(0), s = 0;
  if (i >= n) return;
  for (uint32_t j = 0; j < x[i] % 50; ++j) {
    if (j % 7 == 3) continue;
    if (s > 4000) break;
    switch ((j + i) % 6) {
      case 0: s += j; break;
      case 1: s ^= i; 
      case 2: s += 3; break;
      case 4: if (s % 5 == 1) goto out; s *= 3; break;
      default: for (uint32_t k = 0; k < j; k++) { s += k * j; if (s % 11 == 2) break; if (s % 13 == 1) return; } 
    }
    y[i] = s;
  }
out:
  y[i] = s + 1;
}
LONGSHORE_KERNEL(private_array, (const uint32_t *x, uint32_t *y)) {
  uint32_t i = (uint32_t)longshore_global_id(0), own[16];
  for (int k = 0; k < 16; k++) own[k] = x[(i + k) % 64] * k;
  uint32_t s = 0;
  for (int k = 0; k < 16; k++) s += own[x[(i * 7 + k) % 64] % 16] * (k + 1);
  y[i] = s;
}
LONGSHORE_KERNEL(mixed, (uint32_t *x, uint32_t *y)) {
  LONGSHORE_SHARED(uint32_t, tile, [64]);
  uint32_t i = longshore_item_id(0);
  tile[i] = i * 3;
  longshore_barrier();
  uint32_t *p = i % 2 ? &tile[(i + 1) % 64] : &x[longshore_global_id(0)];
  y[longshore_global_id(0)] = *p;
}
LONGSHORE_GROUP_KERNEL(sized, (uint32_t *y), LONGSHORE_GROUP_SIZE(32, 2, 1)) {
  LONGSHORE_ITEMS { y[longshore_group_index() * 64 + longshore_item_index()] = (uint32_t)longshore_global_id(0) + 1000 * (uint32_t)longshore_global_id(1) + longshore_group_count(0); }
}
#if defined(__FLT16_MAX__)
LONGSHORE_KERNEL(halves, (_Float16 a, const _Float16 *x, _Float16 *y)) {
  y[longshore_global_id(0)] = (_Float16)(a * x[longshore_global_id(0)] + (_Float16)0.5);
}
#endif
typedef float f4 __attribute__((ext_vector_type(4)));
LONGSHORE_KERNEL(vectors, (const f4 *x, f4 *y)) {
  f4 a = x[longshore_global_id(0)];
  a = a.wzyx * 2.0f + a; a[longshore_item_id(0) % 4] += 100; 
  y[longshore_global_id(0)] = a;
}

/* Each item compares what sub-groups compute with a loop over shared memory. */
LONGSHORE_KERNEL(subgroups, (const uint32_t *x, uint32_t *right)) {
  LONGSHORE_SHARED(uint32_t, tile, [64]);
  const uint32_t at = longshore_item_id(0), lane = longshore_subgroup_lane(), first = at - lane;
  const uint32_t width = longshore_subgroup_width(), items = longshore_group_items(0);
  const uint32_t value = x[longshore_global_id(0)] % 1000;
  tile[at] = value;
  longshore_barrier();
  uint32_t sum = 0, before = 0, most = 0;
  uint64_t odd = 0, bits = 0;
  for (uint32_t i = 0; i < width && first + i < items; ++i) {
    const uint32_t other = tile[first + i];
    sum += other;
    if (i < lane) before += other;
    if (i <= lane && other > most) most = other;
    odd |= (uint64_t)(other % 2) << i;
    bits ^= (uint64_t)other << 30;
  }
  uint32_t all = longshore_subgroup_reduce_add(value) == sum;
  all += 2u * (longshore_subgroup_exclusive_add(value) == before);
  all += 4u * (longshore_subgroup_inclusive_max(value) == most);
  all += 8u * (longshore_subgroup_ballot(value % 2) == odd);
  all += 16u * (longshore_subgroup_reduce_xor((uint64_t)value << 30) == bits);
  all += 32u * (longshore_subgroup_reduce_add((float)value) == (float)sum);
  all += 64u * (longshore_subgroup_id() == at / width);
  right[longshore_global_id(0)] = all;
}
LONGSHORE_KERNEL(shuffles, (const uint32_t *x, uint32_t *right)) {
  LONGSHORE_SHARED(uint32_t, tile, [64]);
  const uint32_t at = longshore_item_id(0), lane = longshore_subgroup_lane(), first = at - lane;
  const uint32_t value = x[longshore_global_id(0)];
  tile[at] = value;
  longshore_barrier();
  const uint64_t wide = (uint64_t)value << 20;
  uint32_t all = longshore_subgroup_shuffle_xor(value, 1u) == tile[at ^ 1];
  all += 2u * (longshore_subgroup_broadcast(value, 1u) == tile[first + 1]);
  all += 4u * (longshore_subgroup_shuffle_up(wide, 1u) == (uint64_t)tile[lane ? at - 1 : at] << 20);
  right[longshore_global_id(0)] = all;
}
