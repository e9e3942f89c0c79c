/* The kernel of jacobi.rs: `longshore cc kernel.c` compiles it to kernel.img. */
#include "step.h"
#include <longshore_device.h>

/*
 * Sets each cell of `to`, without the edge, to the mean of its neighbours in `from`. The items are
 * exactly the cells: a comparison with the size would make each load and store a masked one.
 */
LONGSHORE_KERNEL(jacobi, (const double *restrict from, double *restrict to, uint64_t columns)) {
  uint64_t column = longshore_global_id(0), row = longshore_global_id(1);
  uint64_t width = columns + 2, at = (row + 1) * width + column + 1;
  to[at] = jacobi_mean(from + at, width);
}
