/*
 * longshore_gpu/here.h: the item that runs the code, for sources whose functions do not take it as
 * a parameter: CUDA, HIP, and C or C++ with gpuintrin.h.
 */
#ifndef LONGSHORE_GPU_HERE_H
#define LONGSHORE_GPU_HERE_H
#pragma clang system_header

#include "../longshore_device.h"

/* `longshore_self` in the functions of a header. */
#if defined(__NVPTX__) || defined(__AMDGCN__)
#define LONGSHORE_HERE_                                                                                               \
  struct longshore_self longshore_own_ = longshore_start_(0, 0, 0), *const longshore_self = &longshore_own_;          \
  (void)longshore_self;
#else
/* `longshore cc` replaces its calls by the item. */
LONGSHORE_EXTERN_C_ LONGSHORE_ON_DEVICE_ __attribute__((const)) struct longshore_self *__longshore_self(void);
#define LONGSHORE_HERE_                                                                                               \
  struct longshore_self *const longshore_self = __longshore_self();                                                   \
  (void)longshore_self;

/* Functions from which `longshore cc` makes the entry of a kernel. */
#ifdef __cplusplus
#define LONGSHORE_FOR_ENTRY_ extern "C" LONGSHORE_ON_DEVICE_ __attribute__((weak))
#else
#define LONGSHORE_FOR_ENTRY_ __attribute__((weak))
#endif
typedef void (*longshore_item_function_)(void *const *arguments, const struct longshore_self *group, uint32_t x,
                                         uint32_t y, uint32_t z);
LONGSHORE_FOR_ENTRY_ void __longshore_start_item(struct longshore_self *self, const struct longshore_self *group,
                                                 uint32_t x, uint32_t y, uint32_t z) {
  *self = longshore_item_start_(group, x, y, z, 0, 0, 0);
}
LONGSHORE_FOR_ENTRY_ void __longshore_run_items(void *const *arguments, struct longshore_work *work,
                                                longshore_item_function_ item) {
  LONGSHORE_EACH_GROUP_(0, 0) {
    *(volatile uint64_t *)&work->group = group;
    for (uint32_t z = 0; z < self.items[2]; ++z)
      for (uint32_t y = 0; y < self.items[1]; ++y)
        LONGSHORE_KEEP_LOOP_
        for (uint32_t x = 0; x < self.items[0]; ++x) item(arguments, &self, x, y, z);
  }
}
LONGSHORE_FOR_ENTRY_ void __longshore_trace_items(void *const *arguments, struct longshore_work *work,
                                                  longshore_item_function_ item) {
  LONGSHORE_EACH_GROUP_(0, 1) {
    *(volatile uint64_t *)&work->group = group;
    for (uint32_t z = work->first[2]; z < work->last[2]; ++z)
      for (uint32_t y = work->first[1]; y < work->last[1]; ++y)
        for (uint32_t x = work->first[0]; x < work->last[0]; ++x) {
          (void)longshore_item_(&self, x, y, z);
          item(arguments, &self, x, y, z);
        }
  }
}
#endif

#endif
