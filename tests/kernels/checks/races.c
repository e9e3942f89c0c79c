/* Races between items of a group. */
#include <longshore_device.h>

/* The launch of the next kernel. */
#define LAUNCH(...)

LAUNCH(1 x 64: f32*64)
LONGSHORE_KERNEL(wrong_no_barrier_after_writing, (float *x)) {
  LONGSHORE_SHARED(float, tile, [128]);
  uint32_t i = longshore_item_id(0);
  tile[i + 64] = 0;
  tile[i] = x[i];   // BUG: races
  x[i] = tile[i ^ 1]; // BUG: races initialized
}

LAUNCH(1 x 64: f32*64)
LONGSHORE_KERNEL(wrong_no_barrier_before_writing_again, (float *x)) {
  LONGSHORE_SHARED(float, tile, [64]);
  uint32_t i = longshore_item_id(0);
  tile[i] = x[i];
  longshore_barrier();
  float v = tile[63 - i]; // BUG: races
  tile[i] = 2 * v;        // BUG: races
  longshore_barrier();
  x[i] = tile[i];
}

LAUNCH(1 x 64: f32*64)
LONGSHORE_KERNEL(wrong_reduction_without_a_barrier, (float *x)) {
  LONGSHORE_SHARED(float, sums, [64]);
  uint32_t i = longshore_item_id(0);
  sums[i] = x[i];
  longshore_barrier();
  for (uint32_t half = 32; half > 0; half /= 2)
    if (i < half) sums[i] += sums[i + half]; // BUG: races
  longshore_barrier();
  x[i] = sums[0];
}

LAUNCH(1 x 8: f32*8)
LONGSHORE_KERNEL(wrong_all_write_one_shared_variable, (float *x)) {
  LONGSHORE_SHARED(float, value, [1]);
  value[0] = x[longshore_item_id(0)]; // BUG: races
  longshore_barrier();
  x[longshore_item_id(0)] = value[0];
}

LAUNCH(1 x 8: u32*1)
LONGSHORE_KERNEL(wrong_counter_without_atomics, (uint32_t *count)) {
  *count += 1; // BUG: races
}

LAUNCH(1 x 8: u32*1 u32*8)
LONGSHORE_KERNEL(wrong_plain_read_of_a_counter, (uint32_t *count, uint32_t *x)) {
  longshore_atomic_add(count, 1u);      // BUG: races
  x[longshore_item_id(0)] = *count;     // BUG: races
}

LAUNCH(1 x 8: f32*9)
LONGSHORE_KERNEL(wrong_shift_in_place, (float *x)) {
  uint32_t i = longshore_item_id(0);
  x[i] = x[i + 1]; // BUG: races
}

LAUNCH(1 x 8: f32*8)
LONGSHORE_KERNEL(wrong_two_items_per_element, (float *x)) {
  uint32_t i = longshore_item_id(0);
  x[i / 2] = (float)i; // BUG: races
}

LAUNCH(1 x 8: u8*9)
LONGSHORE_KERNEL(wrong_overlapping_bytes, (unsigned char *x)) {
  uint32_t i = longshore_item_id(0);
  __builtin_memset(x + i, (int)i, 2); // BUG: races
}

LAUNCH(1 x 8: f32*8)
LONGSHORE_GROUP_KERNEL(wrong_neighbours_in_one_loop, (float *x)) {
  LONGSHORE_SHARED(float, tile, [8]);
  LONGSHORE_ITEMS { tile[longshore_item_id(0)] = 0; }
  LONGSHORE_ITEMS {
    uint32_t i = longshore_item_id(0);
    tile[i] = x[i];           // BUG: races
    x[i] = tile[(i + 1) % 8]; // BUG: races
  }
}

LAUNCH(1 x 8: f32*8)
LONGSHORE_GROUP_KERNEL(wrong_items_that_do_not_wait, (float *x)) {
  LONGSHORE_SHARED(float, tile, [8]);
  LONGSHORE_ITEMS_NOWAIT {
    tile[longshore_item_id(0)] = 1; // BUG: races
  }
  LONGSHORE_ITEMS {
    x[longshore_item_id(0)] = tile[7 - longshore_item_id(0)]; // BUG: races
  }
}

LAUNCH(1 x 8: f32*8)
LONGSHORE_GROUP_KERNEL(wrong_private_variable_of_another, (float *x)) {
  LONGSHORE_PRIVATE(float, sum);
  LONGSHORE_ITEMS { longshore_private(sum) = 1; }
  LONGSHORE_ITEMS {
    longshore_private(sum) = 2;                       // BUG: races
    x[longshore_item_id(0)] = sum[longshore_item_id(0) ^ 1]; // BUG: races
  }
}

LAUNCH(1 x 64: f32*64)
LONGSHORE_KERNEL(wrong_sub_groups_do_not_wait_for_each_other, (float *x)) {
  LONGSHORE_SHARED(float, tile, [64]);
  uint32_t i = longshore_item_id(0);
  tile[i] = 0;
  longshore_barrier();
  tile[i] = x[i]; // BUG: races
  (void)longshore_subgroup_ballot(1);
  x[i] = tile[63 - i]; // BUG: races
}

LAUNCH(1 x 32: u32*1 u32*2)
LONGSHORE_KERNEL(wrong_write_after_the_release_in_a_group, (uint32_t *flag, uint32_t *x)) {
  uint32_t i = longshore_item_id(0);
  if (i == 0) *flag = 0;
  longshore_barrier();
  if (i == 3) {
    longshore_atomic_store_explicit(flag, 1u, LONGSHORE_RELEASE, LONGSHORE_SCOPE_GROUP);
    x[0] = i; // BUG: races
  }
  if (i == 5 && longshore_atomic_load_explicit(flag, LONGSHORE_ACQUIRE, LONGSHORE_SCOPE_GROUP))
    x[1] = x[0]; // BUG: races
}

LAUNCH(1 x 64: f32*64)
LONGSHORE_KERNEL(right_barriers, (float *x)) {
  LONGSHORE_SHARED(float, tile, [64]);
  uint32_t i = longshore_item_id(0);
  tile[i] = x[i];
  longshore_barrier();
  float v = tile[63 - i];
  longshore_barrier();
  tile[i] = 2 * v;
  longshore_barrier();
  x[i] = tile[63 - i];
}

LAUNCH(2 x 64: f32*128 f32*2)
LONGSHORE_KERNEL(right_reduction, (const float *x, float *y)) {
  LONGSHORE_SHARED(float, sums, [64]);
  uint32_t i = longshore_item_id(0);
  sums[i] = x[longshore_global_id(0)];
  longshore_barrier();
  for (uint32_t half = 32; half > 0; half /= 2) {
    if (i < half) sums[i] += sums[i + half];
    longshore_barrier();
  }
  if (i == 0) y[longshore_group_id(0)] = sums[0];
}

LAUNCH(1 x 64: f32*64)
LONGSHORE_KERNEL(right_reduction_in_a_sub_group, (float *x)) {
  LONGSHORE_SHARED(float, sums, [64]);
  uint32_t i = longshore_item_id(0), lane = longshore_subgroup_lane();
  sums[i] = x[i];
  for (uint32_t half = 16; half > 0; half /= 2) {
    (void)longshore_subgroup_ballot(1);
    float other = lane < half ? sums[i + half] : 0;
    (void)longshore_subgroup_ballot(1);
    sums[i] += other;
  }
  (void)longshore_subgroup_ballot(1);
  x[i] = sums[i - lane];
}

LAUNCH(1 x 8: u32*1 u32*8)
LONGSHORE_KERNEL(right_counter, (uint32_t *count, uint32_t *x)) {
  x[longshore_item_id(0)] = longshore_atomic_add(count, 1u);
  (void)longshore_atomic_load(count);
}

LAUNCH(1 x 8: f32*9)
LONGSHORE_KERNEL(right_shift_in_place, (float *x)) {
  uint32_t i = longshore_item_id(0);
  float v = x[i + 1];
  longshore_barrier();
  x[i] = v;
}

LAUNCH(1 x 8: u8*8 u16*8)
LONGSHORE_KERNEL(right_small_neighbours, (unsigned char *x, uint16_t *y)) {
  uint32_t i = longshore_item_id(0);
  x[i] = (unsigned char)(x[i] + 1);
  y[i] = (uint16_t)(y[i] + 1);
}

struct rgb {
  unsigned char red, green, blue;
};

LAUNCH(1 x 16: u8*48)
LONGSHORE_KERNEL(right_pixels_of_three_bytes, (struct rgb *x)) {
  struct rgb *own = x + longshore_item_id(0);
  own->red = own->blue;
  own->green = 0;
}

LAUNCH(1 x 8: f32*1 f32*8)
LONGSHORE_KERNEL(right_all_read_one_element, (const float *x, float *y)) {
  y[longshore_item_id(0)] = *x;
}

LAUNCH(1 x 8: f32*8)
LONGSHORE_GROUP_KERNEL(right_items_that_do_not_wait, (float *x)) {
  LONGSHORE_SHARED(float, tile, [8]);
  LONGSHORE_ITEMS_NOWAIT { tile[longshore_item_id(0)] = 1; }
  longshore_barrier();
  LONGSHORE_ITEMS { x[longshore_item_id(0)] = tile[7 - longshore_item_id(0)]; }
}

LAUNCH(1 x 8: f32*8)
LONGSHORE_GROUP_KERNEL(right_own_elements_without_waiting, (float *x)) {
  LONGSHORE_ITEMS_NOWAIT { x[longshore_item_id(0)] = 1; }
  LONGSHORE_ITEMS_NOWAIT { x[longshore_item_id(0)] += 1; }
  LONGSHORE_FIRST_ITEMS(3) { x[longshore_item_id(0)] = 0; }
}

LAUNCH(1 x 32: u32*32 u32*32)
LONGSHORE_KERNEL(right_last_item_to_arrive, (uint32_t *x, uint32_t *y)) {
  LONGSHORE_SHARED(uint32_t, arrived, [1]);
  uint32_t i = longshore_item_id(0);
  if (i == 0) arrived[0] = 0;
  longshore_barrier();
  x[i] = i;
  if (longshore_atomic_add_explicit(arrived, 1u, LONGSHORE_ACQ_REL, LONGSHORE_SCOPE_GROUP) == 31)
    for (uint32_t k = 0; k < 32; ++k) y[k] = x[k];
}

LAUNCH(1 x 64: u32*1 u32*64)
LONGSHORE_KERNEL(right_release_and_fence_in_a_group, (uint32_t *flag, uint32_t *x)) {
  uint32_t i = longshore_item_id(0);
  if (i == 0) *flag = 0;
  longshore_barrier();
  if (i == 0) {
    x[0] = 7;
    longshore_atomic_store_explicit(flag, 1u, LONGSHORE_RELEASE, LONGSHORE_SCOPE_GROUP);
  } else if (longshore_atomic_load(flag)) {
    longshore_fence(LONGSHORE_ACQUIRE, LONGSHORE_SCOPE_GROUP);
    x[i] = x[0];
  }
}

LAUNCH(1 x 64: u32*64)
LONGSHORE_KERNEL(right_double_buffers, (uint32_t *x)) {
  LONGSHORE_SHARED(uint32_t, buffers, [2][64]);
  uint32_t i = longshore_item_id(0), now = 0;
  buffers[0][i] = x[i];
  for (uint32_t distance = 1; distance < 64; distance *= 2) {
    longshore_barrier();
    buffers[1 - now][i] = buffers[now][i] + (i >= distance ? buffers[now][i - distance] : 0);
    now = 1 - now;
  }
  longshore_barrier();
  x[i] = buffers[now][63 - i];
}

LAUNCH(1 x 4,4: f32*16)
LONGSHORE_KERNEL(right_transposition, (float *x)) {
  LONGSHORE_SHARED(float, tile, [4][5]);
  uint32_t column = longshore_item_id(0), row = longshore_item_id(1);
  tile[row][column] = x[4 * row + column];
  longshore_barrier();
  x[4 * row + column] = tile[column][row];
}
