/* Shared memory of groups. */
#include <longshore_device.h>

/* The launch of the next kernel. */
#define LAUNCH(...)

LAUNCH(1 x 64: f32*64)
LONGSHORE_KERNEL(wrong_past_the_shared_end, (float *x)) {
  LONGSHORE_SHARED(float, tile, [64]);
  uint32_t i = longshore_item_id(0);
  tile[i + 1] = x[i]; // BUG: memory
  longshore_barrier();
  x[i] = i ? tile[i] : 0;
}

LAUNCH(1 x 64: f32*64)
LONGSHORE_KERNEL(wrong_before_the_shared_beginning, (float *x)) {
  LONGSHORE_SHARED(float, tile, [64]);
  int i = (int)longshore_item_id(0);
  tile[i] = x[i];
  longshore_barrier();
  x[i] = tile[i - 1]; // BUG: memory
}

LAUNCH(1 x 16: f32*16)
LONGSHORE_KERNEL(wrong_into_the_next_variable, (float *x)) {
  LONGSHORE_SHARED(float, first, [16]);
  LONGSHORE_SHARED(float, second, [16]);
  uint32_t i = longshore_item_id(0);
  second[i] = x[i];
  first[i + 16] = 1; // BUG: memory
  longshore_barrier();
  x[i] = second[i];
}

LAUNCH(1 x 16 shared 60: f32*16)
LONGSHORE_KERNEL(wrong_dynamic_memory_too_small, (float *x)) {
  float *tile = longshore_dynamic_shared();
  uint32_t i = longshore_item_id(0);
  tile[i] = x[i]; // BUG: memory
  longshore_barrier();
  x[i] = tile[i ? i - 1 : 0];
}

LAUNCH(1 x 4: f32*4)
LONGSHORE_KERNEL(wrong_no_dynamic_memory, (float *x)) {
  float *tile = longshore_dynamic_shared();
  uint32_t i = longshore_item_id(0);
  tile[i] = x[i]; // BUG: memory
}

LAUNCH(2 x 32: f32*64)
LONGSHORE_GROUP_KERNEL(wrong_past_the_groups_variable, (float *x)) {
  LONGSHORE_SHARED(float, tile, [32]);
  LONGSHORE_ITEMS {
    uint32_t i = longshore_item_id(0);
    tile[i + (i == 31)] = x[longshore_global_id(0)]; // BUG: memory
  }
}

LAUNCH(1 x 32: f32*32)
LONGSHORE_GROUP_KERNEL(wrong_past_the_private_variables, (float *x)) {
  LONGSHORE_PRIVATE(float, sum);
  LONGSHORE_ITEMS { longshore_private(sum) = 1; }
  LONGSHORE_ITEMS {
    uint32_t i = longshore_item_id(0);
    x[i] = sum[i + 1]; // BUG: memory
  }
}

LAUNCH(1 x 32: f32*32)
LONGSHORE_KERNEL(wrong_rows_of_another_length, (float *x)) {
  LONGSHORE_SHARED(float, tile, [4][8]);
  uint32_t i = longshore_item_id(0);
  (&tile[0][0])[i / 8 * 9 + i % 8] = x[i]; // BUG: memory
}

LAUNCH(1 x 32: f32*32)
LONGSHORE_KERNEL(wrong_unwritten_shared_memory, (float *x)) {
  LONGSHORE_SHARED(float, tile, [32]);
  uint32_t i = longshore_item_id(0);
  if (i < 31) tile[i] = x[i];
  longshore_barrier();
  x[i] = tile[i]; // BUG: initialized
}

LAUNCH(3 x 8: f32*24)
LONGSHORE_KERNEL(wrong_contents_of_another_group, (float *x)) {
  LONGSHORE_SHARED(float, kept, [8]);
  uint32_t i = longshore_item_id(0);
  if (longshore_group_id(0) == 0) kept[i] = 1;
  longshore_barrier();
  x[longshore_global_id(0)] = kept[i]; // BUG: initialized
}

LAUNCH(2 x 8: f32*16)
LONGSHORE_GROUP_KERNEL(wrong_unwritten_variable_of_the_group, (float *x)) {
  LONGSHORE_SHARED(float, tile, [8]);
  LONGSHORE_ITEMS {
    if (longshore_item_id(0) != 3) tile[longshore_item_id(0)] = 1;
  }
  LONGSHORE_ITEMS {
    x[longshore_global_id(0)] = tile[7 - longshore_item_id(0)]; // BUG: initialized
  }
}

LAUNCH(1 x 8 shared 32: f32*8)
LONGSHORE_KERNEL(wrong_unwritten_dynamic_memory, (float *x)) {
  const float *tile = longshore_dynamic_shared();
  x[longshore_item_id(0)] = tile[longshore_item_id(0)]; // BUG: initialized
}

LAUNCH(2 x 64: f32*128)
LONGSHORE_KERNEL(right_reversed_tile, (float *x)) {
  LONGSHORE_SHARED(float, tile, [64]);
  uint32_t i = longshore_item_id(0);
  tile[i] = x[longshore_global_id(0)];
  longshore_barrier();
  x[longshore_global_id(0)] = tile[63 - i];
}

LAUNCH(1 x 16: f32*16)
LONGSHORE_KERNEL(right_two_variables, (float *x)) {
  LONGSHORE_SHARED(float, first, [16]);
  LONGSHORE_SHARED(float, second, [16]);
  uint32_t i = longshore_item_id(0);
  first[15 - i] = x[i];
  second[i] = 1;
  longshore_barrier();
  x[i] = first[i] + second[15 - i];
}

LAUNCH(1 x 16 shared 64: f32*16)
LONGSHORE_KERNEL(right_dynamic_memory, (float *x)) {
  float *tile = longshore_dynamic_shared();
  uint32_t i = longshore_item_id(0);
  tile[i] = x[i];
  longshore_barrier();
  x[i] = tile[15 - i];
}

LAUNCH(3 x 32: f32*96)
LONGSHORE_GROUP_KERNEL(right_groups_variable, (float *x)) {
  LONGSHORE_SHARED(float, tile, [32]);
  LONGSHORE_ITEMS { tile[31 - longshore_item_id(0)] = x[longshore_global_id(0)]; }
  LONGSHORE_ITEMS { x[longshore_global_id(0)] = tile[longshore_item_id(0)]; }
}

LAUNCH(2 x 32: f32*64)
LONGSHORE_GROUP_KERNEL(right_private_variables, (float *x)) {
  LONGSHORE_PRIVATE(float, sum);
  LONGSHORE_PRIVATE_ARRAY(float, parts, 2);
  LONGSHORE_ITEMS {
    longshore_private(sum) = 1;
    longshore_private_of(parts, 0) = x[longshore_global_id(0)];
    longshore_private_of(parts, 1) = 2;
  }
  for (int k = 0; k < 3; ++k) {
    LONGSHORE_ITEMS { longshore_private(sum) += longshore_private_of(parts, 0); }
  }
  LONGSHORE_ITEMS { x[longshore_global_id(0)] = longshore_private(sum) + longshore_private_of(parts, 1); }
}

LAUNCH(1 x 32: f32*32)
LONGSHORE_KERNEL(right_padded_rows, (float *x)) {
  LONGSHORE_SHARED(float, tile, [4][9]);
  uint32_t i = longshore_item_id(0);
  tile[i / 8][i % 8] = x[i];
  longshore_barrier();
  x[i] = tile[i % 4][i / 4];
}

LAUNCH(3 x 8: f32*24)
LONGSHORE_KERNEL(right_one_item_writes_for_all, (float *x)) {
  LONGSHORE_SHARED(float, value, [1]);
  if (longshore_item_id(0) == 0) value[0] = x[longshore_global_id(0)];
  longshore_barrier();
  x[longshore_global_id(0)] = value[0];
}

LAUNCH(1 x 32: u32*32)
LONGSHORE_KERNEL(right_zeroed_by_a_loop, (uint32_t *x)) {
  LONGSHORE_SHARED(uint32_t, bins, [100]);
  uint32_t i = longshore_item_id(0);
  for (uint32_t bin = i; bin < 100; bin += 32) bins[bin] = 0;
  longshore_barrier();
  longshore_atomic_add(&bins[x[i] % 100], 1u);
  longshore_barrier();
  x[i] = bins[i];
}

LAUNCH(1 x 8: u8*8)
LONGSHORE_KERNEL(right_adjacent_bytes, (unsigned char *x)) {
  LONGSHORE_SHARED(unsigned char, bytes, [8]);
  uint32_t i = longshore_item_id(0);
  bytes[i] = x[i];
  longshore_barrier();
  x[i] = bytes[7 - i];
}

LAUNCH(1 x 8: f32*8)
LONGSHORE_GROUP_KERNEL(right_a_loop_around_items, (float *x)) {
  LONGSHORE_SHARED(float, a, [8]);
  LONGSHORE_SHARED(float, b, [8]);
  LONGSHORE_ITEMS { a[longshore_item_id(0)] = x[longshore_item_id(0)]; }
  for (int k = 0; k < 4; ++k) {
    LONGSHORE_ITEMS { b[longshore_item_id(0)] = a[(longshore_item_id(0) + 1) % 8]; }
    LONGSHORE_ITEMS { a[longshore_item_id(0)] = b[(longshore_item_id(0) + 1) % 8]; }
  }
  LONGSHORE_ITEMS { x[longshore_item_id(0)] = a[longshore_item_id(0)]; }
}
