// Prints the time from the start of the process to `main`, in nanoseconds.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  printf("%lld\n", (long long)time.tv_sec * 1000000000 + time.tv_nsec);
#ifdef OFFLOAD
  if (argc > 1) {
#pragma omp target
    {}
  }
#endif
  return 0;
}
