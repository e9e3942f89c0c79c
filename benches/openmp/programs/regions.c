// Times of target regions and data regions.
#include "measure.h"
#include <omp.h>
#include <stdlib.h>
#include <string.h>

// Copies that the compiler cannot leave out.
static void copy(void *to, const void *from, size_t bytes) {
  memcpy(to, from, bytes);
  __asm__ volatile("" : : "r"(to), "r"(from) : "memory");
}

static void regions(void) {
  int on_host = 1;
#pragma omp target map(from : on_host)
  on_host = omp_is_initial_device();
  if (on_host) {
    fprintf(stderr, "the regions do not run on a device\n");
    exit(1);
  }
  MEASURE("null_region", 20000) {
#pragma omp target
    {}
  }
}

static void mapping(void) {
  static double value, shadow, big[131072], other[131072];
  MEASURE("copy_8B_three_times", 20000) {
    copy(&shadow, &value, 8);
    copy(&value, &shadow, 8);
    copy(&value, &shadow, 8);
  }
  MEASURE("map_update_unmap_8B", 20000) {
#pragma omp target enter data map(to : value)
#pragma omp target update from(value)
#pragma omp target exit data map(from : value)
  }
  MEASURE("copy_1MiB", 50) copy(other, big, sizeof big);
  MEASURE("map_unmap_1MiB", 50) {
#pragma omp target enter data map(to : big)
#pragma omp target exit data map(release : big)
  }
}

enum { RANGES = 10000 };

static void lookup(void) {
  static int pool[RANGES * 16];
  for (int range = 0; range < RANGES; range++) {
    int *place = &pool[range * 16];
#pragma omp target enter data map(to : place[0 : 8])
  }
  unsigned state = 1;
  int device = omp_get_default_device();
  volatile int present = 0;
  MEASURE("empty_lookup", 100000) {
    state = state * 1664525 + 1013904223;
    present += pool[(state >> 8) % RANGES * 16] == 0;
  }
  MEASURE("lookup_of_10000", 100000) {
    state = state * 1664525 + 1013904223;
    present += omp_target_is_present(&pool[(state >> 8) % RANGES * 16], device);
  }
  for (int range = 0; range < RANGES; range++) {
    int *place = &pool[range * 16];
#pragma omp target exit data map(release : place[0 : 8])
  }
}

static void copies(void) {
  size_t bytes = 64 << 20;
  int device = omp_get_default_device(), host = omp_get_initial_device();
  char *from = omp_target_alloc(bytes, device), *to = omp_target_alloc(bytes, device);
  char *a = malloc(bytes), *b = malloc(bytes);
  memset(a, 1, bytes);
  memset(b, 2, bytes);
  omp_target_memcpy(from, a, bytes, 0, 0, device, host);
  omp_target_memcpy(to, b, bytes, 0, 0, device, host);
  MEASURE("copy_64MiB", 1) copy(b, a, bytes);
  MEASURE("device_copy_64MiB", 1) omp_target_memcpy(to, from, bytes, 0, 0, device, device);
  omp_target_free(from, device);
  omp_target_free(to, device);
  free(a);
  free(b);
}

static void triad(void) {
  // Three arrays of together 256 MiB.
  long count = (256l << 20) / 3 / 8;
  double *a = malloc(count * 8), *b = malloc(count * 8), *c = malloc(count * 8);
  for (long i = 0; i < count; i++) {
    a[i] = 0;
    b[i] = i;
    c[i] = 2 * i;
  }
#pragma omp target data map(to : b[0 : count], c[0 : count]) map(tofrom : a[0 : count])
  {
    MEASURE("triad_256MiB", 1) {
#pragma omp target teams distribute parallel for
      for (long i = 0; i < count; i++)
        a[i] = b[i] + 3.0 * c[i];
    }
  }
  if (a[count - 1] != b[count - 1] + 3.0 * c[count - 1]) {
    fprintf(stderr, "the triad is wrong\n");
    exit(1);
  }
  free(a);
  free(b);
  free(c);
}

int main(int argc, char **argv) {
  regions();
  mapping();
  lookup();
  copies();
  triad();
  return 0;
}
