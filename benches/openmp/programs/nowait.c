// The time of a target region with `nowait`, and of the wait for it. With PARALLEL, the image also
// has a parallel region. The floor is libomp's task for a region with an empty body,
// made as clang's code does for `nowait`.
#include "measure.h"
#include <stddef.h>
#include <stdint.h>

typedef int32_t entry_function(int32_t thread, void *task);
extern int32_t __kmpc_global_thread_num(void *location);
extern void *__kmpc_omp_target_task_alloc(void *location, int32_t thread, int32_t flags,
                                          size_t bytes, size_t shared_bytes, entry_function *entry,
                                          int64_t device);
extern int32_t __kmpc_omp_task(void *location, int32_t thread, void *task);

// Bytes of libomp's `kmp_task_t`, and its flag of a tied task.
enum { TASK_BYTES = 40, TIED = 1 };

static struct {
  int32_t reserved[4];
  const char *source;
} location = {.source = ";unknown;unknown;0;0;;"};

static int32_t empty(int32_t thread, void *task) { return 0; }

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
  int32_t thread = __kmpc_global_thread_num(&location);
  MEASURE(NAME "_task", 2000) {
    void *task = __kmpc_omp_target_task_alloc(&location, thread, TIED, TASK_BYTES, 0, empty, -1);
    __kmpc_omp_task(&location, thread, task);
#pragma omp taskwait
  }
  return 0;
}
