/* Accesses of global memory. */
#include <longshore_device.h>

/* The launch of the next kernel. */
#define LAUNCH(...)

struct pair {
  float first, second;
};
struct large {
  double values[4];
};

LAUNCH(1 x 64: f32*64 f32*64)
LONGSHORE_KERNEL(wrong_write_past_the_end, (const float *x, float *y)) {
  uint32_t i = longshore_item_id(0);
  y[i + 1] = x[i]; // BUG: memory
}

LAUNCH(1 x 64: f32*64 f32*64)
LONGSHORE_KERNEL(wrong_read_past_the_end, (const float *x, float *y)) {
  uint32_t i = longshore_item_id(0);
  y[i] = x[i + 1]; // BUG: memory
}

LAUNCH(1 x 64: f32*64 f32*64)
LONGSHORE_KERNEL(wrong_read_before_the_beginning, (const float *x, float *y)) {
  int i = (int)longshore_item_id(0);
  y[i] = x[i - 1]; // BUG: memory
}

LAUNCH(2 x 64: f32*100 f32*100)
LONGSHORE_KERNEL(wrong_no_test_of_the_size, (const float *x, float *y)) {
  uint64_t i = longshore_global_id(0);
  float v = x[i]; // BUG: memory
  y[i] = 2 * v;   // BUG: memory
}

LAUNCH(1 x 4: f32*64)
LONGSHORE_KERNEL(wrong_far_away, (float *x)) {
  uint32_t i = longshore_item_id(0);
  x[i * 1000000] = 1; // BUG: memory
}

LAUNCH(1 x 1: u32*16 u32=16)
LONGSHORE_KERNEL(wrong_loop_to_the_end_inclusive, (uint32_t *x, uint32_t n)) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i <= n; ++i)
    sum += x[i]; // BUG: memory
  x[0] = sum;
}

LAUNCH(1 x 1: null f32*4)
LONGSHORE_KERNEL(wrong_null, (const float *x, float *y)) {
  y[0] = x[2]; // BUG: memory
}

LAUNCH(1 x 8: freed:f32*8 f32*8)
LONGSHORE_KERNEL(wrong_read_after_free, (const float *x, float *y)) {
  uint32_t i = longshore_item_id(0);
  y[i] = x[i]; // BUG: memory
}

LAUNCH(1 x 8: freed:f32*1000000)
LONGSHORE_KERNEL(wrong_write_after_free, (float *x)) {
  uint32_t i = longshore_item_id(0);
  x[i * 1000] = 1; // BUG: memory
}

LAUNCH(1 x 4: u8*64 u32*4)
LONGSHORE_KERNEL(wrong_misaligned, (const unsigned char *bytes, uint32_t *y)) {
  uint32_t i = longshore_item_id(0);
  y[i] = *(const uint32_t *)(bytes + 1 + 4 * i); // BUG: memory
}

LAUNCH(1 x 1: f32*3)
LONGSHORE_KERNEL(wrong_double_at_the_last_float, (float *x)) {
  *(double *)(x + 2) = 1; // BUG: memory
}

LAUNCH(1 x 2: f64*6 f64*8)
LONGSHORE_KERNEL(wrong_copy_of_a_structure, (const struct large *x, struct large *y)) {
  uint32_t i = longshore_item_id(0);
  y[i] = x[i]; // BUG: memory
}

LAUNCH(1 x 1: u8*100)
LONGSHORE_KERNEL(wrong_fill, (unsigned char *x)) {
  __builtin_memset(x, 0, 101); // BUG: memory
}

LONGSHORE_GLOBAL uint32_t wrong_counts[32];

LAUNCH(1 x 33: u32*1)
LONGSHORE_KERNEL(wrong_past_a_variable, (uint32_t *x)) {
  uint32_t i = longshore_item_id(0);
  wrong_counts[i] = x[0]; // BUG: memory
}

static const float wrong_weights[5] = {1, 4, 6, 4, 1};

LAUNCH(1 x 6: f32*6)
LONGSHORE_KERNEL(wrong_past_a_constant, (float *x)) {
  uint32_t i = longshore_item_id(0);
  x[i] = wrong_weights[i]; // BUG: memory
}

LAUNCH(1 x 5: u8*5)
LONGSHORE_KERNEL(wrong_byte_past_the_end, (unsigned char *x)) {
  uint32_t i = longshore_item_id(0);
  x[i + 1] = 1; // BUG: memory
}

LAUNCH(1 x 8: u32*4)
LONGSHORE_KERNEL(wrong_atomic_past_the_end, (uint32_t *x)) {
  uint32_t i = longshore_item_id(0);
  longshore_atomic_add(x + i % 5, 1u); // BUG: memory
}

LAUNCH(1 x 4,8: f32*32)
LONGSHORE_KERNEL(wrong_rows_for_columns, (float *x)) {
  uint32_t column = longshore_item_id(0), row = longshore_item_id(1);
  x[row * 5 + column] = 1; // BUG: memory
}

LAUNCH(1 x 4: f32*8)
LONGSHORE_KERNEL(wrong_field_past_the_end, (struct pair *x)) {
  uint32_t i = longshore_item_id(0);
  if (i == 3) ++i;
  x[i].second = 1; // BUG: memory
}

LONGSHORE_FUNCTION void store(LONGSHORE_SELF, float *x, uint32_t at) {
  (void)longshore_self;
  x[at] = 2; // BUG: memory
}

LAUNCH(1 x 4: f32*4)
LONGSHORE_KERNEL(wrong_in_a_function, (float *x)) {
  store(longshore_self, x, longshore_item_id(0) + 1);
}

LAUNCH(2 x 64: f32*100 f32*100 u64=100)
LONGSHORE_KERNEL(right_test_of_the_size, (const float *x, float *y, uint64_t n)) {
  uint64_t i = longshore_global_id(0);
  if (i < n) y[i] = x[i];
}

LAUNCH(1 x 64: f32*64 f32*64)
LONGSHORE_KERNEL(right_pointers_outside_that_are_not_used, (const float *x, float *y)) {
  int i = (int)longshore_item_id(0);
  const float *past = x + 1000, *before = x - 1000;
  y[i] = past[i - 1000] + before[i + 1000];
}

LAUNCH(1 x 1: f32*4 null)
LONGSHORE_KERNEL(right_null_that_is_tested, (float *x, const float *bias)) {
  x[0] = bias ? bias[0] : 0;
}

LAUNCH(1 x 1: u8*8)
LONGSHORE_KERNEL(right_last_byte, (unsigned char *x)) {
  x[7] = x[0];
}

LAUNCH(1 x 4: f32*16)
LONGSHORE_KERNEL(right_copies_of_structures, (struct pair *x)) {
  uint32_t i = longshore_item_id(0);
  struct pair own = x[i];
  x[i + 4] = own;
}

LAUNCH(1 x 1: u8*100)
LONGSHORE_KERNEL(right_fill_of_all, (unsigned char *x)) {
  __builtin_memset(x, 1, 100);
  __builtin_memset(x + 100, 0, 0);
}

LAUNCH(1 x 4: u8*64 u32*4)
LONGSHORE_KERNEL(right_unaligned_copies, (const unsigned char *bytes, uint32_t *y)) {
  uint32_t i = longshore_item_id(0), v;
  __builtin_memcpy(&v, bytes + 1 + 4 * i, sizeof(v));
  y[i] = v;
}

LONGSHORE_CONSTANT float right_weights[3] = {1, 2, 1};
LONGSHORE_GLOBAL uint32_t right_counts[32];

LAUNCH(1 x 32: f32*32)
LONGSHORE_KERNEL(right_variables, (float *x)) {
  uint32_t i = longshore_item_id(0);
  right_counts[i] = i;
  x[i] = right_weights[i % 3] + (float)right_counts[i];
}

LAUNCH(1 x 8: host:f32*8 f32*8)
LONGSHORE_KERNEL(right_memory_that_the_host_writes, (const float *x, float *y)) {
  uint32_t i = longshore_item_id(0);
  y[i] = x[i];
}

static const char *const names[2] = {"even", "odd"};

LAUNCH(1 x 2: u8*2)
LONGSHORE_KERNEL(right_constants_of_the_image, (unsigned char *x)) {
  uint32_t i = longshore_item_id(0);
  x[i] = (unsigned char)names[i][0];
}

LAUNCH(1 x 4,8: f32*32)
LONGSHORE_KERNEL(right_rows_and_columns, (float (*x)[4])) {
  x[longshore_item_id(1)][longshore_item_id(0)] = 1;
}

LAUNCH(1 x 3: f32*9)
LONGSHORE_KERNEL(right_backwards, (float *x)) {
  float *at = x + 3 * longshore_item_id(0) + 3;
  for (int k = 0; k < 3; ++k) *--at = 1;
}

struct __attribute__((aligned(16))) four {
  float x, y, z, w;
};
typedef float vector __attribute__((ext_vector_type(4)));

LAUNCH(1 x 8: f32*40 f32*8)
LONGSHORE_KERNEL(wrong_misaligned_vector, (const float *x, float *y)) {
  uint32_t i = longshore_item_id(0);
  vector v = *(const vector *)(x + 1 + 4 * i); // BUG: memory
  y[i] = v.x + v.w;
}

LAUNCH(1 x 8: f32*40 f32*8)
LONGSHORE_KERNEL(wrong_misaligned_structure, (const float *x, float *y)) {
  uint32_t i = longshore_item_id(0);
  struct four v = *(const struct four *)(x + 1 + 4 * i); // BUG: memory
  y[i] = v.x + v.w;
}

LAUNCH(1 x 8: f32*40 f32*40)
LONGSHORE_KERNEL(wrong_misaligned_target_of_a_copy, (const struct four *x, float *y)) {
  uint32_t i = longshore_item_id(0);
  *(struct four *)(y + 1 + 4 * i) = x[i]; // BUG: memory
}

LAUNCH(1 x 8: f32*40 f32*8)
LONGSHORE_KERNEL(wrong_misaligned_member_of_later_items, (const float *x, float *y)) {
  uint32_t i = longshore_item_id(0);
  y[i] = ((const struct four *)(x + i))->x; // BUG: memory
}

LAUNCH(1 x 8: u32*8 f32*40 f32*8)
LONGSHORE_KERNEL(wrong_misaligned_by_an_index, (const int32_t *at, const float *x, float *y)) {
  uint32_t i = longshore_item_id(0);
  y[i] = ((const struct four *)(x + at[i]))->x; // BUG: memory
}

LAUNCH(1 x 8: f32*64 f32*64)
LONGSHORE_KERNEL(right_aligned_structures, (const struct four *x, struct four *y)) {
  uint32_t i = longshore_item_id(0);
  y[i] = x[i];
  y[i + 8].x = x[i + 8].x + x[i].z;
}
