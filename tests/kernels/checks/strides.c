/* Accesses of all items at addresses with a fixed distance, which are checked before the loop. */
#include <longshore_device.h>

/* The launch of the next kernel. */
#define LAUNCH(...)

LAUNCH(2 x 64: f32*512)
LONGSHORE_KERNEL(right_pairs_of_words, (float *x)) {
  uint32_t i = longshore_global_id(0);
  float real = x[2 * i], imaginary = x[2 * i + 1];
  x[2 * i] = imaginary;
  x[2 * i + 1] = -real;
}

LAUNCH(1 x 64: f32*129)
LONGSHORE_KERNEL(wrong_pairs_that_overlap, (float *x)) {
  uint32_t i = longshore_item_id(0);
  float next = x[2 * i + 2]; // BUG: races
  x[2 * i] = next;           // BUG: races
}

LAUNCH(1 x 64: f32*64)
LONGSHORE_KERNEL(wrong_writes_by_two_items, (float *x)) {
  uint32_t i = longshore_item_id(0);
  x[i] = 1;      // BUG: races
  x[63 - i] = 2; // BUG: races
}

LAUNCH(2 x 64: f32*130 f32*128)
LONGSHORE_KERNEL(right_neighbours_are_read, (const float *x, float *y)) {
  uint32_t i = longshore_global_id(0);
  y[i] = x[i] + x[i + 1] + x[i + 2];
}

LAUNCH(2 x 64: f32*129 f32*128)
LONGSHORE_KERNEL(wrong_last_neighbour, (const float *x, float *y)) {
  uint32_t i = longshore_global_id(0);
  float own = x[i] + x[i + 1];
  own += x[i + 2]; // BUG: memory
  y[i] = own;
}

LAUNCH(3 x 64: f32*150 u32=150)
LONGSHORE_KERNEL(right_rest_of_the_last_group, (float *x, uint32_t n)) {
  uint32_t i = longshore_global_id(0);
  if (i < n) x[i] += 1;
}

LAUNCH(3 x 64: f32*150 u32=151)
LONGSHORE_KERNEL(wrong_rest_of_the_last_group, (float *x, uint32_t n)) {
  uint32_t i = longshore_global_id(0);
  if (i < n) x[i] = 1; // BUG: memory
}

LAUNCH(3 x 64: f32*192 f32*192 i32=192)
LONGSHORE_KERNEL(right_inner_part, (const float *x, float *y, int32_t n)) {
  int32_t i = (int32_t)longshore_global_id(0);
  if (i > 0 && i < n - 1) y[i] = x[i - 1] + x[i + 1];
}

LAUNCH(3 x 64: f32*192 f32*192 i32=193)
LONGSHORE_KERNEL(wrong_inner_part, (const float *x, float *y, int32_t n)) {
  int32_t i = (int32_t)longshore_global_id(0);
  if (i > 0 && i < n - 1) y[i] = x[i - 1] + x[i + 1]; // BUG: memory
}

LAUNCH(1 x 64: f32*64 u32=4294967264)
LONGSHORE_KERNEL(right_index_that_wraps_around, (float *x, uint32_t start)) {
  uint32_t i = start + longshore_item_id(0);
  x[i + 32] += 1;
}

LAUNCH(1 x 64: f32*64 u32=4294967264)
LONGSHORE_KERNEL(wrong_index_that_wraps_around, (float *x, uint32_t start)) {
  uint32_t i = start + longshore_item_id(0);
  x[i] = 1; // BUG: memory
}

LAUNCH(1 x 64: f32*64)
LONGSHORE_KERNEL(right_last_item_first, (float *x)) {
  uint32_t i = longshore_item_id(0);
  LONGSHORE_SHARED(float, tile, [64]);
  tile[63 - i] = x[i];
  longshore_barrier();
  x[i] = tile[i];
}

LAUNCH(1 x 64: f32*64)
LONGSHORE_KERNEL(wrong_last_item_first, (float *x)) {
  uint32_t i = longshore_item_id(0);
  LONGSHORE_SHARED(float, tile, [64]);
  tile[62 - i] = x[i]; // BUG: memory
  longshore_barrier();
  x[i] = tile[i]; // BUG: initialized
}

LAUNCH(1 x 16,16: f32*256 f32*256)
LONGSHORE_KERNEL(right_rows_read_alike, (const float *x, float *y)) {
  uint32_t column = longshore_item_id(0), row = longshore_item_id(1);
  float sum = 0;
  for (uint32_t k = 0; k < 16; ++k) sum += x[16 * row + k] * x[16 * k + column];
  y[16 * row + column] = sum;
}

LAUNCH(1 x 16,16: f32*256)
LONGSHORE_KERNEL(wrong_rows_read_and_written, (float *x)) {
  uint32_t column = longshore_item_id(0), row = longshore_item_id(1);
  float sum = 0;
  for (uint32_t k = 0; k < 16; ++k)
    sum += x[16 * k + column];  // BUG: races
  x[16 * row + column] = sum;   // BUG: races
}

LAUNCH(2 x 16: f64*32 f64*32)
LONGSHORE_KERNEL(right_double_words, (double *x, double *y)) {
  uint32_t i = longshore_global_id(0);
  x[i] += 1;
  y[31 - i] = x[i];
}

LAUNCH(1 x 16: f64*32)
LONGSHORE_KERNEL(wrong_word_of_a_double_word, (double *x)) {
  uint32_t i = longshore_item_id(0);
  uint32_t *words = (uint32_t *)x;
  x[i] = 1;              // BUG: races
  words[2 * i + 2] = 3;  // BUG: races
}

LAUNCH(1 x 16: f32*16)
LONGSHORE_KERNEL(wrong_misaligned_double_words, (float *x)) {
  double *y = (double *)(x + 1);
  uint32_t i = longshore_item_id(0);
  if (i < 7) y[i] = 1; // BUG: memory
}

LAUNCH(1 x 256: f32*256)
LONGSHORE_KERNEL(right_index_of_eight_bits, (float *x)) {
  uint8_t i = (uint8_t)(longshore_item_id(0) + 200);
  x[i] += 1;
}

LAUNCH(1 x 256: f32*255)
LONGSHORE_KERNEL(wrong_index_of_eight_bits, (float *x)) {
  uint8_t i = (uint8_t)(longshore_item_id(0) * 3 + 200);
  x[i] += 1; // BUG: memory
}
