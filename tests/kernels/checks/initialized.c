/* Memory that nothing has written. */
#include <longshore_device.h>

/* The launch of the next kernel. */
#define LAUNCH(...)

LAUNCH(1 x 8: raw:f32*8 f32*8)
LONGSHORE_KERNEL(wrong_unwritten_input, (const float *x, float *y)) {
  uint32_t i = longshore_item_id(0);
  y[i] = x[i]; // BUG: initialized
}

LAUNCH(1 x 8: raw:f32*8 f32*8)
LONGSHORE_KERNEL(wrong_sum_on_unwritten_memory, (float *sum, const float *x)) {
  uint32_t i = longshore_item_id(0);
  sum[i] += x[i]; // BUG: initialized
}

LAUNCH(1 x 8: raw:u32*16 u32*8)
LONGSHORE_KERNEL(wrong_every_other_element, (uint32_t *x, uint32_t *y)) {
  uint32_t i = longshore_item_id(0);
  x[2 * i] = i;
  y[i] = x[2 * i + 1]; // BUG: initialized
}

LAUNCH(1 x 4: raw:u32*1)
LONGSHORE_KERNEL(wrong_unwritten_counter, (uint32_t *count)) {
  longshore_atomic_add(count, 1u); // BUG: initialized
}

LAUNCH(1 x 2: raw:u64*2 u64*2)
LONGSHORE_KERNEL(wrong_half_of_a_word, (uint64_t *x, uint64_t *y)) {
  uint32_t i = longshore_item_id(0);
  *(uint32_t *)(x + i) = 1;
  y[i] = x[i]; // BUG: initialized
}

LAUNCH(1 x 2: raw:u32*2 raw:u32*2 u32*2)
LONGSHORE_KERNEL(wrong_copy_of_unwritten_memory, (const uint32_t *x, uint32_t *copy, uint32_t *y)) {
  uint32_t i = longshore_item_id(0);
  if (i == 0) __builtin_memcpy(copy, x, 8);
  longshore_barrier();
  y[i] = copy[i]; // BUG: initialized
}

LAUNCH(1 x 8: raw:f32*8)
LONGSHORE_KERNEL(right_first_written, (float *x)) {
  uint32_t i = longshore_item_id(0);
  x[i] = 1;
  x[i] += 1;
}

LAUNCH(1 x 8: raw:u8*8)
LONGSHORE_KERNEL(right_bytes_then_words, (unsigned char *x)) {
  uint32_t i = longshore_item_id(0);
  x[i] = (unsigned char)i;
  longshore_barrier();
  if (i == 0) *(uint32_t *)x += *(uint32_t *)(x + 4);
}

LAUNCH(1 x 8: raw:f32*8 f32*8)
LONGSHORE_KERNEL(right_unwritten_element_that_is_not_used, (const float *x, float *y)) {
  uint32_t i = longshore_item_id(0);
  y[i] = i > 100 ? x[i] : 0;
}

LAUNCH(1 x 4: raw:u32*1 u32*4)
LONGSHORE_KERNEL(right_counter_written_by_one, (uint32_t *count, uint32_t *x)) {
  uint32_t i = longshore_item_id(0);
  if (i == 0) *count = 0;
  longshore_barrier();
  x[i] = longshore_atomic_add(count, 1u);
}

LAUNCH(1 x 2: raw:u32*2 raw:u32*2)
LONGSHORE_KERNEL(right_copy_of_unwritten_memory, (const uint32_t *x, uint32_t *copy)) {
  if (longshore_item_id(0) == 0) __builtin_memcpy(copy, x, 8);
}

LAUNCH(1 x 1: raw:u8*64)
LONGSHORE_KERNEL(right_filled_first, (unsigned char *x)) {
  __builtin_memset(x, 3, 64);
  x[0] = (unsigned char)(x[63] + x[31]);
}
