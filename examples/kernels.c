/* Kernels of the programs in this folder: `longshore cc kernels.c` compiles them to kernels.img. */
#include <longshore_device.h>

LONGSHORE_KERNEL(saxpy, (uint64_t n, float a, const float *x, float *y)) {
  uint64_t i = longshore_global_id(0);
  if (i < n) y[i] += a * x[i];
}

LONGSHORE_KERNEL(iota, (uint64_t n, float *y)) {
  uint64_t i = longshore_global_id(0);
  if (i < n) y[i] = (float)i;
}
