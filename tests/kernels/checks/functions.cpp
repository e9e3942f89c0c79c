// Variables on the stacks of functions in C++.
#include <longshore_device.h>

/* The launch of the next kernel. */
#define LAUNCH(...)

__attribute__((noinline)) static uint32_t of_item(LONGSHORE_SELF, const uint32_t *x) {
  uint32_t own[6];
  for (uint32_t k = 0; k < 6; ++k) own[k] = k;
  return own[x[longshore_item_id(0)]]; // BUG: memory
}

LAUNCH(1 x 8: u32*8 u32*8)
LONGSHORE_KERNEL(wrong_past_a_local_array_with_the_item, (const uint32_t *x, uint32_t *y)) {
  y[longshore_item_id(0)] = of_item(longshore_self, x);
}

LAUNCH(1 x 6: u32*6 u32*6)
LONGSHORE_KERNEL(right_function_of_an_item, (const uint32_t *x, uint32_t *y)) {
  y[longshore_item_id(0)] = of_item(longshore_self, x);
}
