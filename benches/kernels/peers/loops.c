/* The work of the kernels, as loops with OpenMP. */
#include <omp.h>
#include <stdint.h>

void saxpy(float factor, const float *restrict x, float *restrict y, uint64_t n) {
#pragma omp parallel for simd
  for (uint64_t i = 0; i < n; ++i) y[i] = factor * x[i] + y[i];
}

void triad(float factor, const float *restrict b, const float *restrict c, float *restrict a, uint64_t n) {
#pragma omp parallel for simd
  for (uint64_t i = 0; i < n; ++i) a[i] = b[i] + factor * c[i];
}

void stencil(const float *restrict x, float *restrict y, uint64_t n) {
  if (n < 2) {
    if (n == 1) y[0] = x[0];
    return;
  }
  y[0] = x[0] + x[1];
  y[n - 1] = x[n - 2] + x[n - 1];
#pragma omp parallel for simd
  for (uint64_t i = 1; i < n - 1; ++i) y[i] = x[i - 1] + x[i] + x[i + 1];
}

void matmul(const float *restrict a, const float *restrict b, float *restrict c, uint32_t m, uint32_t n, uint32_t k) {
#pragma omp parallel for
  for (uint64_t row = 0; row < m; ++row) {
    float *restrict to = c + row * n;
    for (uint64_t x = 0; x < n; ++x) to[x] = 0;
    for (uint64_t j = 0; j < k; ++j) {
      const float factor = a[row * k + j];
      for (uint64_t x = 0; x < n; ++x) to[x] += factor * b[j * n + x];
    }
  }
}

void reduce(const float *restrict x, float *restrict result, uint64_t n) {
  float sum = 0;
#pragma omp parallel for simd reduction(+ : sum)
  for (uint64_t i = 0; i < n; ++i) sum += x[i];
  *result = sum;
}

void histogram(const uint8_t *restrict x, uint32_t *restrict bins, uint64_t n) {
#pragma omp parallel for reduction(+ : bins[ : 256])
  for (uint64_t i = 0; i < n; ++i) ++bins[x[i]];
}

/* Each thread sums its part, and then computes the prefix sums of its part. `sums` has an element
 * for each thread. */
void prefix_sum(const uint32_t *restrict x, uint32_t *restrict y, uint32_t *restrict sums, uint64_t n) {
#pragma omp parallel
  {
    const uint64_t thread = omp_get_thread_num(), threads = omp_get_num_threads();
    const uint64_t begin = n * thread / threads, end = n * (thread + 1) / threads;
    uint32_t sum = 0;
    for (uint64_t i = begin; i < end; ++i) sum += x[i];
    sums[thread] = sum;
#pragma omp barrier
    sum = 0;
    for (uint64_t i = 0; i < thread; ++i) sum += sums[i];
    for (uint64_t i = begin; i < end; ++i) y[i] = sum += x[i];
  }
}

struct body {
  float x, y, z, mass;
};

void nbody(const struct body *restrict bodies, struct body *restrict pulls, uint64_t n) {
#pragma omp parallel for
  for (uint64_t i = 0; i < n; ++i) {
    const struct body own = bodies[i];
    float sum_x = 0, sum_y = 0, sum_z = 0;
#pragma omp simd reduction(+ : sum_x, sum_y, sum_z)
    for (uint64_t j = 0; j < n; ++j) {
      const float x = bodies[j].x - own.x, y = bodies[j].y - own.y, z = bodies[j].z - own.z;
      const float square = x * x + y * y + z * z + 1e-3f, inverse = 1 / __builtin_sqrtf(square);
      const float pull = bodies[j].mass * inverse * inverse * inverse;
      sum_x += pull * x;
      sum_y += pull * y;
      sum_z += pull * z;
    }
    pulls[i] = (struct body){sum_x, sum_y, sum_z, 0};
  }
}
