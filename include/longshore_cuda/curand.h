/*
 * longshore_cuda/curand.h: cuRAND's generators in device code: XORWOW (G. Marsaglia, "Xorshift
 * RNGs") and Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"), with
 * cuRAND's seeds, sequences and distributions. `longshore cc` includes it for <curand_kernel.h> and
 * <hiprand/hiprand_kernel.h>; HIP's names have the same numbers.
 */
#ifndef LONGSHORE_CURAND_H
#define LONGSHORE_CURAND_H
#pragma clang system_header

#include "../longshore_cuda.h"

/* ---- States ---------------------------------------------------------------------------------- */

/* The second number of a pair with a normal distribution, until it is asked for. */
struct longshore_normal_pair_ {
  int has_float, has_double;
  float next_float;
  double next_double;
};
struct curandStateXORWOW {
  unsigned int d, v[5];
  longshore_normal_pair_ pair;
};
struct curandStatePhilox4_32_10 {
  uint4 ctr, output;
  uint2 key;
  unsigned int STATE;
  longshore_normal_pair_ pair;
};
typedef curandStateXORWOW curandStateXORWOW_t, curandState_t, curandState;
typedef curandStatePhilox4_32_10 curandStatePhilox4_32_10_t;

/* ---- XORWOW ---------------------------------------------------------------------------------- */

LONGSHORE_BOTH_ void longshore_xorshift_(unsigned int *v) {
  const unsigned int t = v[0] ^ v[0] >> 2;
  v[0] = v[1], v[1] = v[2], v[2] = v[3], v[3] = v[4];
  v[4] = v[4] ^ v[4] << 4 ^ t ^ t << 1;
}
/* Moves the shift register by a polynomial in the step, of 160 bits. */
LONGSHORE_BOTH_ void longshore_xorshift_by_(unsigned int *v, const unsigned int *polynomial) {
  unsigned int sum[5] = {0, 0, 0, 0, 0};
  for (int i = 0; i < 160; ++i) {
    const unsigned int mask = 0u - (polynomial[i / 32] >> (i & 31) & 1);
    for (int k = 0; k < 5; ++k) sum[k] ^= v[k] & mask;
    longshore_xorshift_(v);
  }
  for (int k = 0; k < 5; ++k) v[k] = sum[k];
}
/* The product of two polynomials, modulo the register's characteristic polynomial. */
LONGSHORE_BOTH_ void longshore_xorshift_product_(unsigned int *a, const unsigned int *b) {
  unsigned int sum[5] = {0, 0, 0, 0, 0};
  for (int i = 159; i >= 0; --i) {
    const unsigned int over = 0u - (sum[4] >> 31), mask = 0u - (b[i / 32] >> (i & 31) & 1);
    for (int k = 4; k > 0; --k) sum[k] = sum[k] << 1 | sum[k - 1] >> 31;
    sum[0] <<= 1;
    sum[0] ^= over & 0x00060001u, sum[1] ^= over & 0x08610030u, sum[2] ^= over & 0x00062121u;
    sum[3] ^= over & 0x0f3c0035u, sum[4] ^= over & 0x00000f0eu;
    for (int k = 0; k < 5; ++k) sum[k] ^= a[k] & mask;
  }
  for (int k = 0; k < 5; ++k) a[k] = sum[k];
}

/* Moves by `n` sequences of 2^67 numbers. */
LONGSHORE_BOTH_ void skipahead_sequence(unsigned long long n, curandStateXORWOW *state) {
  /* The step to the power of 2^67 times 2^i. */
  constexpr unsigned int powers[32][5] = {
      {0x26294934u, 0x77bbc248u, 0x1a87dad0u, 0x930052d4u, 0x947e6dd2u},
      {0x5f39c379u, 0x95e20ba6u, 0x20e9ff72u, 0x1244ce5eu, 0xe8fd228fu},
      {0xa7474d19u, 0x37c549e0u, 0x140877d2u, 0x24c43924u, 0xcd52ebecu},
      {0xe0360ec5u, 0xb1c96c24u, 0xdbb91766u, 0x666ff5dcu, 0xf19a7e52u},
      {0xfcc8f692u, 0x35aa698au, 0x04ebbf85u, 0x448304b0u, 0x082f3fd5u},
      {0x48c289bdu, 0xe851cf98u, 0x845ad581u, 0xfd70752au, 0x2c3e63f6u},
      {0xe502f5b3u, 0x77859d31u, 0x97e1cbb3u, 0xea09047au, 0x61d5f37eu},
      {0xb89326d0u, 0x5a8655a9u, 0xfb6e98f5u, 0x02102162u, 0x7e6fcf6fu},
      {0xb3a15db4u, 0xc6df3330u, 0x1a8be751u, 0xf1e4b221u, 0x6bb61c05u},
      {0x133de1d0u, 0x361e4422u, 0xc6131fcfu, 0xd9719f45u, 0x9658a164u},
      {0x19e2bee8u, 0xf8974218u, 0x4e65536au, 0xa2570336u, 0xe9b88082u},
      {0x7863644bu, 0x2a21ce84u, 0x112e86f1u, 0xed01ce0eu, 0xba143e84u},
      {0x0e2cae2eu, 0xd1011279u, 0x58923768u, 0x2bf650bau, 0xc985bcdau},
      {0x213a286au, 0x6596b510u, 0x6fc10eaeu, 0x38a13547u, 0x11c7749eu},
      {0x146281e7u, 0xa45b4452u, 0xafa8c695u, 0x74a0ac94u, 0x4b250e0au},
      {0x2306bc52u, 0x790f3b4cu, 0x2fe473b9u, 0xbc81d7c0u, 0x093efe98u},
      {0x89658c8bu, 0xf3914315u, 0xa73fe84bu, 0x3c5fadb6u, 0xadba8dd6u},
      {0x09e49814u, 0x09caf5edu, 0x6b2460d9u, 0x1b9981c1u, 0x2d1fefc3u},
      {0x82161afcu, 0x9bb13c55u, 0xfd20d7fbu, 0x306d90b9u, 0x92bf386fu},
      {0x96d32350u, 0x0e081864u, 0x69faa798u, 0xe7faecf5u, 0xf1f951beu},
      {0x3e9058c1u, 0x71da9705u, 0xe2cb1f2bu, 0x73456536u, 0xbd6501b6u},
      {0x990ffc6eu, 0xbfdd1b5du, 0xc83e520bu, 0xe972936au, 0xac79abb9u},
      {0xb1321eb5u, 0xb06d01a2u, 0x51532012u, 0x8fb59962u, 0x141d3b0bu},
      {0x3257dfe1u, 0xd8a3d601u, 0x3a58c735u, 0x845f36e4u, 0x0112c611u},
      {0xa0ffe9a4u, 0xf57be00eu, 0xe706880cu, 0x191211efu, 0xee5664fbu},
      {0x9a3385b8u, 0xc540c30au, 0xb241d1e0u, 0x00626569u, 0x6b355fe9u},
      {0xe129d45du, 0xac3e698bu, 0xd61f79fdu, 0x7a72a28bu, 0x7f4942beu},
      {0x612501bbu, 0xae7b767du, 0xaa66c165u, 0x09bfaf8eu, 0x3e55c16du},
      {0x874e26a7u, 0x33bc5a47u, 0xad95cba5u, 0x67651c39u, 0xf1f07dcau},
      {0xb5ed0732u, 0x30e7a573u, 0x5c056714u, 0x2304f8fau, 0xebc584e1u},
      {0x4b324c2eu, 0x2bdcc5a0u, 0x53eb4240u, 0xcac4fbc1u, 0x13e529e7u},
      {0xe1683e38u, 0xa2339994u, 0x7308a647u, 0xc7c3f0b1u, 0x4a3dcd33u},
  };
  for (int i = 0; i < 32 && n >> i != 0; ++i)
    if (n >> i & 1) longshore_xorshift_by_(state->v, powers[i]);
  if (n >> 32 == 0) return;
  unsigned int power[5], copy[5];
  for (int k = 0; k < 5; ++k) power[k] = powers[31][k];
  for (n >>= 32; n != 0; n >>= 1) {
    for (int k = 0; k < 5; ++k) copy[k] = power[k];
    longshore_xorshift_product_(power, copy);
    if (n & 1) longshore_xorshift_by_(state->v, power);
  }
}
/* Moves by `n` numbers. */
LONGSHORE_BOTH_ void skipahead(unsigned long long n, curandStateXORWOW *state) {
  state->d += 362437u * (unsigned int)n;
  for (unsigned int i = (unsigned int)(n & 127); i > 0; --i) longshore_xorshift_(state->v);
  n >>= 7;
  if (n == 0) return;
  /* The step to the power of 2^7. */
  unsigned int power[5] = {0, 0, 0, 0, 1}, copy[5];
  for (; n != 0; n >>= 1) {
    if (n & 1) longshore_xorshift_by_(state->v, power);
    for (int k = 0; k < 5; ++k) copy[k] = power[k];
    longshore_xorshift_product_(power, copy);
  }
}
LONGSHORE_BOTH_ void curand_init(unsigned long long seed, unsigned long long sequence, unsigned long long offset,
                                 curandStateXORWOW *state) {
  const unsigned int a = ((unsigned int)seed ^ 0xaad26b49u) * 1099087573u;
  const unsigned int b = ((unsigned int)(seed >> 32) ^ 0xf7dcefddu) * 2591861531u;
  state->d = 6615241u + b + a;
  state->v[0] = 123456789u + a, state->v[1] = 362436069u ^ a, state->v[2] = 521288629u + b;
  state->v[3] = 88675123u ^ b, state->v[4] = 5783321u + a;
  skipahead_sequence(sequence, state);
  skipahead(offset, state);
  state->pair.has_float = state->pair.has_double = 0;
  state->pair.next_float = 0.0f, state->pair.next_double = 0.0;
}
LONGSHORE_BOTH_ unsigned int curand(curandStateXORWOW *state) {
  longshore_xorshift_(state->v);
  state->d += 362437u;
  return state->v[4] + state->d;
}

/* ---- Philox ---------------------------------------------------------------------------------- */

LONGSHORE_BOTH_ uint4 longshore_philox_(uint4 c, uint2 k) {
  for (int i = 0; i < 10; ++i) {
    const unsigned long long x = 0xd2511f53ull * c.x, y = 0xcd9e8d57ull * c.z;
    c = make_uint4((unsigned int)(y >> 32) ^ c.y ^ k.x, (unsigned int)y, (unsigned int)(x >> 32) ^ c.w ^ k.y, (unsigned int)x);
    k.x += 0x9e3779b9u, k.y += 0xbb67ae85u;
  }
  return c;
}
LONGSHORE_BOTH_ void longshore_philox_add_(curandStatePhilox4_32_10 *state, unsigned long long n) {
  const unsigned long long old = (unsigned long long)state->ctr.y << 32 | state->ctr.x, sum = old + n;
  state->ctr.x = (unsigned int)sum, state->ctr.y = (unsigned int)(sum >> 32);
  if (sum < old && ++state->ctr.z == 0) ++state->ctr.w;
}
LONGSHORE_BOTH_ void skipahead(unsigned long long n, curandStatePhilox4_32_10 *state) {
  state->STATE += (unsigned int)(n & 3);
  n >>= 2;
  if (state->STATE > 3) n += 1, state->STATE -= 4;
  longshore_philox_add_(state, n);
  state->output = longshore_philox_(state->ctr, state->key);
}
LONGSHORE_BOTH_ void skipahead_sequence(unsigned long long n, curandStatePhilox4_32_10 *state) {
  const unsigned long long sum = ((unsigned long long)state->ctr.w << 32 | state->ctr.z) + n;
  state->ctr.z = (unsigned int)sum, state->ctr.w = (unsigned int)(sum >> 32);
  state->output = longshore_philox_(state->ctr, state->key);
}
LONGSHORE_BOTH_ void curand_init(unsigned long long seed, unsigned long long sequence, unsigned long long offset,
                                 curandStatePhilox4_32_10 *state) {
  state->ctr = make_uint4(0, 0, 0, 0);
  state->key = make_uint2((unsigned int)seed, (unsigned int)(seed >> 32));
  state->STATE = 0;
  skipahead_sequence(sequence, state);
  skipahead(offset, state);
  state->pair.has_float = state->pair.has_double = 0;
  state->pair.next_float = 0.0f, state->pair.next_double = 0.0;
}
LONGSHORE_BOTH_ unsigned int curand(curandStatePhilox4_32_10 *state) {
  const uint4 o = state->output;
  const unsigned int at = state->STATE++, value = at == 0 ? o.x : at == 1 ? o.y : at == 2 ? o.z : o.w;
  if (state->STATE == 4) {
    longshore_philox_add_(state, 1);
    state->output = longshore_philox_(state->ctr, state->key);
    state->STATE = 0;
  }
  return value;
}
LONGSHORE_BOTH_ uint4 curand4(curandStatePhilox4_32_10 *state) {
  const uint4 a = state->output;
  longshore_philox_add_(state, 1);
  const uint4 b = state->output = longshore_philox_(state->ctr, state->key);
  switch (state->STATE) {
  case 0: return a;
  case 1: return make_uint4(a.y, a.z, a.w, b.x);
  case 2: return make_uint4(a.z, a.w, b.x, b.y);
  default: return make_uint4(a.w, b.x, b.y, b.z);
  }
}

/* ---- Distributions --------------------------------------------------------------------------- */

/* Above 0, up to 1. */
LONGSHORE_BOTH_ float longshore_uniform_(unsigned int x) {
  return (float)x * 2.3283064365386963e-10f + 1.1641532182693481e-10f;
}
LONGSHORE_BOTH_ double longshore_uniform_(unsigned int x, unsigned int y) {
  return (double)((unsigned long long)x ^ (unsigned long long)y << 21) * 1.1102230246251565e-16 + 5.5511151231257827e-17;
}
/* Two numbers with a normal distribution, by Box and Muller. */
LONGSHORE_CUDA_ float2 longshore_normals_(unsigned int x, unsigned int y) {
  const float angle = (float)y * 1.4629180792671596e-9f + 7.3145903963357982e-10f;
  const float radius = sqrtf(-2.0f * logf(longshore_uniform_(x)));
  float2 result;
  sincosf(angle, &result.x, &result.y);
  return make_float2(result.x * radius, result.y * radius);
}
LONGSHORE_CUDA_ double2 longshore_normals_(uint4 x) {
  const double angle = (double)((unsigned long long)x.z ^ (unsigned long long)x.w << 21) * 2.2204460492503131e-16 + 1.1102230246251565e-16;
  const double radius = sqrt(-2.0 * log(longshore_uniform_(x.x, x.y)));
  double2 result;
  sincospi(angle, &result.x, &result.y);
  return make_double2(result.x * radius, result.y * radius);
}
template <class S> LONGSHORE_BOTH_ uint4 longshore_four_(S *state) {
  const unsigned int x = curand(state), y = curand(state), z = curand(state);
  return make_uint4(x, y, z, curand(state));
}
template <class S> LONGSHORE_BOTH_ float curand_uniform(S *state) { return longshore_uniform_(curand(state)); }
template <class S> LONGSHORE_BOTH_ double curand_uniform_double(S *state) {
  const unsigned int x = curand(state);
  return longshore_uniform_(x, curand(state));
}
template <class S> LONGSHORE_CUDA_ float2 curand_normal2(S *state) {
  const unsigned int x = curand(state);
  return longshore_normals_(x, curand(state));
}
template <class S> LONGSHORE_CUDA_ double2 curand_normal2_double(S *state) {
  return longshore_normals_(longshore_four_(state));
}
template <class S> LONGSHORE_CUDA_ float curand_normal(S *state) {
  longshore_normal_pair_ *const pair = &state->pair;
  pair->has_float ^= 1;
  if (!pair->has_float) return pair->next_float;
  const float2 v = curand_normal2(state);
  pair->next_float = v.y;
  return v.x;
}
template <class S> LONGSHORE_CUDA_ double curand_normal_double(S *state) {
  longshore_normal_pair_ *const pair = &state->pair;
  pair->has_double ^= 1;
  if (!pair->has_double) return pair->next_double;
  const double2 v = curand_normal2_double(state);
  pair->next_double = v.y;
  return v.x;
}
template <class S> LONGSHORE_CUDA_ float curand_log_normal(S *state, float mean, float deviation) {
  return expf(mean + deviation * curand_normal(state));
}
template <class S> LONGSHORE_CUDA_ double curand_log_normal_double(S *state, double mean, double deviation) {
  return exp(mean + deviation * curand_normal_double(state));
}
template <class S> LONGSHORE_CUDA_ float2 curand_log_normal2(S *state, float mean, float deviation) {
  const float2 v = curand_normal2(state);
  return make_float2(expf(mean + deviation * v.x), expf(mean + deviation * v.y));
}
LONGSHORE_BOTH_ float4 curand_uniform4(curandStatePhilox4_32_10 *state) {
  const uint4 x = curand4(state);
  return make_float4(longshore_uniform_(x.x), longshore_uniform_(x.y), longshore_uniform_(x.z), longshore_uniform_(x.w));
}
LONGSHORE_BOTH_ double2 curand_uniform2_double(curandStatePhilox4_32_10 *state) {
  const uint4 x = curand4(state);
  return make_double2(longshore_uniform_(x.x, x.y), longshore_uniform_(x.z, x.w));
}
LONGSHORE_CUDA_ float4 curand_normal4(curandStatePhilox4_32_10 *state) {
  const uint4 x = curand4(state);
  const float2 a = longshore_normals_(x.x, x.y), b = longshore_normals_(x.z, x.w);
  return make_float4(a.x, a.y, b.x, b.y);
}
LONGSHORE_BOTH_ double4 curand_uniform4_double(curandStatePhilox4_32_10 *state) {
  const double2 a = curand_uniform2_double(state), b = curand_uniform2_double(state);
  return make_double4(a.x, a.y, b.x, b.y);
}
LONGSHORE_CUDA_ double4 curand_normal4_double(curandStatePhilox4_32_10 *state) {
  const double2 a = curand_normal2_double(state), b = curand_normal2_double(state);
  return make_double4(a.x, a.y, b.x, b.y);
}
LONGSHORE_CUDA_ float4 curand_log_normal4(curandStatePhilox4_32_10 *state, float mean, float deviation) {
  const float4 v = curand_normal4(state);
  return make_float4(expf(mean + deviation * v.x), expf(mean + deviation * v.y), expf(mean + deviation * v.z),
                     expf(mean + deviation * v.w));
}
/* Counts of events: products of uniform numbers, in parts for a high rate. Their sequence is not
 * cuRAND's. */
template <class S> LONGSHORE_CUDA_ unsigned int curand_poisson(S *state, double rate) {
  unsigned int count = 0;
  while (rate > 0.0) {
    const double part = rate < 32.0 ? rate : 32.0, limit = exp(-part);
    for (double product = curand_uniform_double(state); product > limit; product *= curand_uniform_double(state)) ++count;
    rate -= part;
  }
  return count;
}

/* ---- HIP's names ----------------------------------------------------------------------------- */

typedef curandStateXORWOW hiprandStateXORWOW, hiprandStateXORWOW_t, hiprandState_t, hiprandState;
typedef curandStatePhilox4_32_10 hiprandStatePhilox4_32_10_t;
#define hiprand_init curand_init
#define hiprand(state) curand(state)
#define hiprand4(state) curand4(state)
#define hiprand_uniform curand_uniform
#define hiprand_uniform4 curand_uniform4
#define hiprand_uniform_double curand_uniform_double
#define hiprand_uniform2_double curand_uniform2_double
#define hiprand_normal curand_normal
#define hiprand_normal2 curand_normal2
#define hiprand_normal4 curand_normal4
#define hiprand_normal_double curand_normal_double
#define hiprand_normal2_double curand_normal2_double
#define hiprand_uniform4_double curand_uniform4_double
#define hiprand_normal4_double curand_normal4_double
#define hiprand_log_normal curand_log_normal
#define hiprand_log_normal4 curand_log_normal4
#define hiprand_log_normal_double curand_log_normal_double
#define hiprand_poisson curand_poisson

#endif
