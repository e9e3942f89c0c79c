// The time of a target region with `nowait`, and of the wait for it. With PARALLEL, the image also
// has a parallel region.
#include "measure.h"

int main(void) {
#ifdef PARALLEL
#pragma omp target parallel
  {}
#endif
  MEASURE(NAME, 2000) {
#pragma omp target nowait
    {}
#pragma omp taskwait
  }
  return 0;
}
