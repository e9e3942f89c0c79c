/* Accesses at fixed distances from row to row of a group, which are checked together. */
#include <longshore_device.h>

/* The launch of the next kernel. */
#define LAUNCH(...)

LAUNCH(2,2 x 16,8: f32*512 f32*512 u32=32 u32=16)
LONGSHORE_KERNEL(right_rows_of_a_picture, (const float *x, float *y, uint32_t w, uint32_t h)) {
  uint32_t column = longshore_global_id(0), row = longshore_global_id(1);
  if (column < w && row < h) y[w * row + column] = 2 * x[w * row + column];
}

LAUNCH(2,2 x 16,8: f32*330 f32*330 u32=30 u32=11)
LONGSHORE_KERNEL(right_rows_with_rests, (const float *x, float *y, uint32_t w, uint32_t h)) {
  uint32_t column = longshore_global_id(0), row = longshore_global_id(1);
  if (column < w && row < h) y[w * row + column] = 2 * x[w * row + column];
}

LAUNCH(1 x 16,8: f32*127 f32*128)
LONGSHORE_KERNEL(wrong_last_word_of_a_picture, (const float *x, float *y)) {
  uint32_t at = 16 * longshore_item_id(1) + longshore_item_id(0);
  float value = x[at]; // BUG: memory
  y[at] = value;
}

LAUNCH(1 x 16,8: f32*128 f32*112)
LONGSHORE_KERNEL(wrong_last_row_of_a_picture, (const float *x, float *y)) {
  uint32_t at = 16 * longshore_item_id(1) + longshore_item_id(0);
  y[at] = x[at]; // BUG: memory
}

LAUNCH(1 x 16,8: f32*128)
LONGSHORE_KERNEL(wrong_row_below_in_place, (float *x)) {
  uint32_t column = longshore_item_id(0), row = longshore_item_id(1);
  if (row < 7) {
    float below = x[16 * (row + 1) + column]; // BUG: races
    x[16 * row + column] = below;             // BUG: races
  }
}

LAUNCH(1 x 16,8: f32*144 f32*128)
LONGSHORE_KERNEL(right_row_below, (const float *x, float *y)) {
  uint32_t column = longshore_item_id(0), row = longshore_item_id(1);
  y[16 * row + column] = x[16 * row + column] - x[16 * (row + 1) + column];
}

LAUNCH(1 x 16,8: f32*128)
LONGSHORE_KERNEL(wrong_rows_that_share_words, (float *y)) {
  uint32_t column = longshore_item_id(0), row = longshore_item_id(1);
  y[15 * row + column] = 1; // BUG: races
}

LAUNCH(1 x 16,8: f32*128)
LONGSHORE_KERNEL(wrong_row_of_all_rows, (float *y)) {
  y[longshore_item_id(0) + 0 * longshore_item_id(1)] = 1; // BUG: races
}

LAUNCH(1 x 16,8: f32*128 f32*128)
LONGSHORE_KERNEL(right_items_that_alternate, (const float *x, float *y)) {
  uint32_t column = longshore_item_id(0), row = longshore_item_id(1);
  y[8 * column + row] = x[16 * row + column];
}

LAUNCH(1 x 16,8: f32*128)
LONGSHORE_KERNEL(wrong_items_that_alternate, (float *y)) {
  uint32_t column = longshore_item_id(0), row = longshore_item_id(1);
  y[7 * column + row] = 1; // BUG: races
}

LAUNCH(1 x 16,8: f32*128 f32*8)
LONGSHORE_KERNEL(right_word_of_a_row, (float *y, const float *x)) {
  uint32_t column = longshore_item_id(0), row = longshore_item_id(1);
  y[16 * row + column] = x[row];
}

LAUNCH(1 x 16,8: f32*8 f32*128)
LONGSHORE_KERNEL(wrong_word_of_a_row, (float *x, float *y)) {
  uint32_t column = longshore_item_id(0), row = longshore_item_id(1);
  y[16 * row + column] = x[row]; // BUG: races
  if (column == 3) x[row] = 0;   // BUG: races
}

LAUNCH(1 x 16,8: f32*128)
LONGSHORE_KERNEL(wrong_rows_without_a_value, (float *y)) {
  LONGSHORE_SHARED(float, tile, [9][16]);
  uint32_t column = longshore_item_id(0), row = longshore_item_id(1);
  tile[row][column] = row;
  longshore_barrier();
  y[16 * row + column] = tile[row + 1][column]; // BUG: initialized
}

LAUNCH(1 x 16,4,2: f32*128 f32*128)
LONGSHORE_KERNEL(right_rows_of_two_planes, (const float *x, float *y)) {
  uint32_t row = 4 * longshore_item_id(2) + longshore_item_id(1);
  y[16 * row + longshore_item_id(0)] = x[16 * row + longshore_item_id(0)];
}

LAUNCH(1 x 16,4,2: f32*64 f32*128)
LONGSHORE_KERNEL(wrong_second_plane, (float *y, const float *x)) {
  uint32_t row = longshore_item_id(1), plane = longshore_item_id(2);
  float value = x[64 * plane + 16 * row + longshore_item_id(0)];
  y[64 * plane + 16 * row + longshore_item_id(0)] = value; // BUG: memory
}
