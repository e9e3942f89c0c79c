/* The arithmetic of the programs in this folder. */
#ifndef JACOBI_STEP_H
#define JACOBI_STEP_H

#include <stddef.h>
#include <stdint.h>

/* Returns the mean of the four neighbours of a cell, in rows of `width` cells. */
static inline double jacobi_mean(const double *cell, size_t width) {
  return 0.25 * ((cell[-(ptrdiff_t)width] + cell[width]) + (cell[-1] + cell[1]));
}

#endif
