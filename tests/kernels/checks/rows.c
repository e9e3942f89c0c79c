/* Accesses of unrolled loops, whose words are checked together, and words that several rows of
 * items read. */
#include <longshore_device.h>

/* The launch of the next kernel. */
#define LAUNCH(...)

LAUNCH(2,2 x 16,16: f32*1024 f32*1024 f32*1024)
LONGSHORE_KERNEL(right_product_by_tiles, (const float *a, const float *b, float *c)) {
  LONGSHORE_SHARED(float, left, [16][16]);
  LONGSHORE_SHARED(float, right, [16][16]);
  uint32_t x = longshore_item_id(0), y = longshore_item_id(1);
  uint32_t column = longshore_global_id(0), row = longshore_global_id(1);
  float sum = 0;
  for (uint32_t tile = 0; tile < 2; ++tile) {
    left[y][x] = a[32 * row + 16 * tile + x];
    right[y][x] = b[32 * (16 * tile + y) + column];
    longshore_barrier();
    for (uint32_t k = 0; k < 16; ++k) sum += left[y][k] * right[k][x];
    longshore_barrier();
  }
  c[32 * row + column] = sum;
}

LAUNCH(1 x 16,16: f32*256)
LONGSHORE_KERNEL(wrong_product_without_the_second_barrier, (float *c)) {
  LONGSHORE_SHARED(float, right, [16][16]);
  uint32_t x = longshore_item_id(0), y = longshore_item_id(1);
  float sum = 0;
  for (uint32_t tile = 0; tile < 2; ++tile) {
    right[y][x] = c[16 * y + x]; // BUG: races
    longshore_barrier();
    for (uint32_t k = 0; k < 16; ++k)
      sum += right[k][x]; // BUG: races
  }
  c[16 * y + x] = sum;
}

LAUNCH(1 x 16,2: f32*255 f32*32)
LONGSHORE_KERNEL(wrong_last_word_of_the_last_row, (const float *x, float *y)) {
  uint32_t column = longshore_item_id(0), row = longshore_item_id(1);
  float sum = 0;
  for (uint32_t k = 0; k < 16; ++k) sum += x[16 * k + column]; // BUG: memory
  y[16 * row + column] = sum;
}

LAUNCH(1 x 16,2: f32*32)
LONGSHORE_KERNEL(wrong_write_by_the_first_reader, (float *y)) {
  LONGSHORE_SHARED(float, tile, [16][16]);
  uint32_t column = longshore_item_id(0), row = longshore_item_id(1);
  for (uint32_t k = row; k < 16; k += 2) tile[k][column] = k;
  longshore_barrier();
  float sum = 0;
  for (uint32_t k = 0; k < 16; ++k)
    sum += tile[k][column];          // BUG: races
  if (row == 0) tile[3][column] = 0; // BUG: races
  y[16 * row + column] = sum;
}

LAUNCH(1 x 16,2: f32*32)
LONGSHORE_KERNEL(wrong_write_by_the_second_reader, (float *y)) {
  LONGSHORE_SHARED(float, tile, [16][16]);
  uint32_t column = longshore_item_id(0), row = longshore_item_id(1);
  for (uint32_t k = row; k < 16; k += 2) tile[k][column] = k;
  longshore_barrier();
  float sum = 0;
  for (uint32_t k = 0; k < 16; ++k)
    sum += tile[k][column];          // BUG: races
  if (row == 1) tile[3][column] = 0; // BUG: races
  y[16 * row + column] = sum;
}

LAUNCH(1 x 8,3: f64*24)
LONGSHORE_KERNEL(wrong_write_by_the_third_reader, (double *y)) {
  LONGSHORE_SHARED(double, tile, [12][8]);
  uint32_t column = longshore_item_id(0), row = longshore_item_id(1);
  for (uint32_t k = row; k < 12; k += 3) tile[k][column] = k;
  longshore_barrier();
  double sum = 0;
  for (uint32_t k = 0; k < 12; ++k)
    sum += tile[11 - k][column];     // BUG: races
  if (row == 2) tile[5][column] = 0; // BUG: races
  y[8 * row + column] = sum;
}

LAUNCH(1 x 16,3: f32*48)
LONGSHORE_KERNEL(right_writes_behind_a_barrier, (float *y)) {
  LONGSHORE_SHARED(float, tile, [15][16]);
  uint32_t column = longshore_item_id(0), row = longshore_item_id(1);
  for (uint32_t round = 0; round < 3; ++round) {
    for (uint32_t k = row; k < 15; k += 3) tile[k][column] = k;
    longshore_barrier();
    float sum = 0;
    for (uint32_t k = 0; k < 15; ++k) sum += tile[k][column] + tile[k][15 - column];
    longshore_barrier();
    if (row == round) tile[3][column] = sum;
    longshore_barrier();
    y[16 * row + column] += sum + tile[3][column];
    longshore_barrier();
  }
}

LAUNCH(1 x 16,2: f32*32)
LONGSHORE_KERNEL(wrong_write_of_a_word_that_all_read, (float *y)) {
  LONGSHORE_SHARED(float, part, [16]);
  uint32_t column = longshore_item_id(0), row = longshore_item_id(1);
  if (row == 0) part[column] = column;
  longshore_barrier();
  float sum = 0;
  for (uint32_t k = 0; k < 16; ++k)
    sum += part[k];                                // BUG: races
  if (row == 0 && column == 3) part[column] = sum; // BUG: races
  y[16 * row + column] = sum;
}

LAUNCH(2 x 16: f32*32)
LONGSHORE_KERNEL(right_words_that_all_read, (float *y)) {
  LONGSHORE_SHARED(float, part, [16]);
  uint32_t i = longshore_item_id(0);
  for (uint32_t round = 0; round < 2; ++round) {
    part[i] = i + round;
    longshore_barrier();
    float sum = 0;
    for (uint32_t k = 0; k < 16; ++k) sum += part[k];
    longshore_barrier();
    y[longshore_global_id(0)] += sum;
  }
}

LAUNCH(1 x 16: f32*16)
LONGSHORE_KERNEL(wrong_unwritten_word_that_all_read, (float *y)) {
  LONGSHORE_SHARED(float, part, [16]);
  uint32_t i = longshore_item_id(0);
  if (i < 15) part[i] = i;
  longshore_barrier();
  float sum = 0;
  for (uint32_t k = 0; k < 16; ++k) sum += part[k]; // BUG: initialized
  y[i] = sum;
}

LAUNCH(1 x 16: f32*16)
LONGSHORE_KERNEL(wrong_unwritten_row, (float *y)) {
  LONGSHORE_SHARED(float, tile, [8][16]);
  uint32_t i = longshore_item_id(0);
  for (uint32_t k = 0; k < 7; ++k) tile[k][i] = k;
  longshore_barrier();
  float sum = 0;
  for (uint32_t k = 0; k < 8; ++k) sum += tile[k][i]; // BUG: initialized
  y[i] = sum;
}

LAUNCH(3 x 16: f32*64 f32*48)
LONGSHORE_KERNEL(wrong_write_of_words_that_groups_read, (float *x, float *y)) {
  uint32_t i = longshore_item_id(0), group = longshore_group_id(0);
  float sum = 0;
  for (uint32_t k = 0; k < 4; ++k)
    sum += x[16 * k + i];    // BUG: races
  if (group == 2) x[i] = sum; // BUG: races
  y[16 * group + i] = sum;
}

LAUNCH(3 x 16: f32*64 f32*48)
LONGSHORE_KERNEL(right_words_that_groups_read, (const float *x, float *y)) {
  uint32_t i = longshore_item_id(0);
  float sum = 0;
  for (uint32_t k = 0; k < 4; ++k) sum += x[16 * k + i] + x[16 * k + 15 - i];
  y[longshore_global_id(0)] = sum;
}

LAUNCH(2 x 16: f32*32 f32*2)
LONGSHORE_KERNEL(wrong_sum_that_misses_a_barrier, (const float *x, float *sums)) {
  LONGSHORE_SHARED(float, part, [16]);
  uint32_t i = longshore_item_id(0);
  part[i] = x[longshore_global_id(0)];
  longshore_barrier();
  if (i < 8) part[i] += part[i + 8]; // BUG: races
  if (i < 4) part[i] += part[i + 4]; // BUG: races
  longshore_barrier();
  if (i == 0) sums[longshore_group_id(0)] = part[0];
}

LAUNCH(1 x 16,16: f32*256 f32*256)
LONGSHORE_KERNEL(right_columns, (const float *x, float *y)) {
  LONGSHORE_SHARED(float, tile, [16][17]);
  uint32_t column = longshore_item_id(0), row = longshore_item_id(1);
  for (uint32_t round = 0; round < 2; ++round) {
    tile[column][row] = x[16 * row + column];
    longshore_barrier();
    y[16 * row + column] = tile[row][column] + tile[column][row];
    longshore_barrier();
  }
}

LAUNCH(1 x 16,16: f32*256 f32*256)
LONGSHORE_KERNEL(wrong_columns_without_a_barrier, (const float *x, float *y)) {
  LONGSHORE_SHARED(float, tile, [16][17]);
  uint32_t column = longshore_item_id(0), row = longshore_item_id(1);
  tile[row][column] = 1;
  longshore_barrier();
  tile[column][row] = x[16 * row + column]; // BUG: races
  y[16 * row + column] = tile[row][column]; // BUG: races
}

LAUNCH(4 x 64: f32*256 f32*256 u32=256)
LONGSHORE_KERNEL(right_neighbours_of_unsigned_numbers, (const float *x, float *y, uint32_t n)) {
  uint32_t i = longshore_global_id(0);
  if (i > 0 && i < n - 1) y[i] = x[i - 1] + x[i] + x[i + 1];
}

LAUNCH(4 x 64: f32*256 f32*256 u32=258)
LONGSHORE_KERNEL(wrong_neighbours_of_unsigned_numbers, (const float *x, float *y, uint32_t n)) {
  uint32_t i = longshore_global_id(0);
  if (i > 0 && i < n - 1) {
    float sum = x[i - 1] + x[i];
    sum += x[i + 1]; // BUG: memory
    y[i] = sum;
  }
}
