/* Parts of vectors, structures and words that nothing has written. */
#include <longshore_device.h>

/* The launch of the next kernel. */
#define LAUNCH(...)

typedef float float2 __attribute__((ext_vector_type(2)));
typedef float float3 __attribute__((ext_vector_type(3)));
typedef float float4 __attribute__((ext_vector_type(4)));
struct pair {
  int32_t first, second;
};
struct bits {
  unsigned low : 3, high : 20;
};
struct rows {
  uint32_t number;
  struct bits rows[3];
};

LAUNCH(1 x 8: f32*8)
LONGSHORE_KERNEL(wrong_unwritten_element_of_a_vector, (float *y)) {
  LONGSHORE_SHARED(float4, tile, [8]);
  uint32_t i = longshore_item_id(0);
  tile[i].x = 1;
  tile[i].yw = 2;
  longshore_barrier();
  y[i] = tile[7 - i].z; // BUG: initialized
}

LAUNCH(1 x 8: f32*8)
LONGSHORE_KERNEL(wrong_unwritten_element_by_another_type, (float *y)) {
  LONGSHORE_SHARED(float4, tile, [8]);
  uint32_t i = longshore_item_id(0);
  for (int k = 0; k < 3; ++k) ((float *)&tile[i])[k] = 1;
  longshore_barrier();
  float4 v = tile[i]; // BUG: initialized
  y[i] = v.x + v.w;
}

LAUNCH(1 x 8: f32*8)
LONGSHORE_KERNEL(wrong_element_of_a_local_vector, (float *y)) {
  float2 own[4];
  uint32_t i = longshore_item_id(0);
  for (int k = 0; k < 4; ++k) own[k].x = 1;
  y[i] = own[(uint32_t)y[i] % 4].y; // BUG: initialized
}

LAUNCH(1 x 8: u32*8)
LONGSHORE_KERNEL(wrong_unwritten_member_of_a_copy, (int32_t *y)) {
  LONGSHORE_SHARED(struct pair, tile, [8]);
  uint32_t i = longshore_item_id(0);
  tile[i].first = 1;
  longshore_barrier();
  struct pair own = tile[7 - i];
  y[i] = own.second; // BUG: initialized
}

LAUNCH(1 x 8: u64*8)
LONGSHORE_KERNEL(wrong_half_of_a_local_word, (uint64_t *y)) {
  uint64_t own[4];
  uint32_t i = longshore_item_id(0);
  ((uint32_t *)own)[y[i] % 2] = 1;
  y[i] = own[y[i] / 8]; // BUG: initialized
}

LAUNCH(1 x 8: f32*8)
LONGSHORE_KERNEL(right_elements_of_vectors, (float *y)) {
  LONGSHORE_SHARED(float4, four, [8]);
  LONGSHORE_SHARED(float3, three, [8]);
  LONGSHORE_SHARED(float2, two, [8]);
  uint32_t i = longshore_item_id(0);
  four[i].x = 1;
  four[i].wy = (float2){2, 3};
  three[i].x = 1;
  three[i].y = 2;
  three[i].z = 3;
  two[i].y = 4;
  longshore_barrier();
  float3 v = three[7 - i];
  y[i] = four[7 - i].x + four[7 - i].y + v.x + v.z + two[7 - i].y;
}

LAUNCH(1 x 8: f32*8)
LONGSHORE_KERNEL(right_elements_of_local_vectors, (float *y)) {
  float4 own[4];
  uint32_t i = longshore_item_id(0);
  for (int k = 0; k < 4; ++k) {
    own[k].x = 1;
    own[k].y = 2;
  }
  y[i] = own[(uint32_t)y[i] % 4].y;
}

__attribute__((noinline)) static int32_t first_of(struct pair pair) {
  return pair.first;
}

__attribute__((noinline)) static struct pair made(int32_t first) {
  struct pair pair;
  pair.first = first;
  return pair;
}

LAUNCH(1 x 8: u32*8)
LONGSHORE_KERNEL(right_structures_by_value, (int32_t *y)) {
  LONGSHORE_SHARED(struct pair, tile, [8]);
  uint32_t i = longshore_item_id(0);
  struct pair own, other = made(3);
  own.first = 2;
  tile[i].first = 1;
  y[i] = first_of(tile[i]) + first_of(own) + other.first;
}

LAUNCH(1 x 8: u32*8)
LONGSHORE_KERNEL(right_member_of_a_copy, (int32_t *y)) {
  LONGSHORE_SHARED(struct pair, tile, [8]);
  uint32_t i = longshore_item_id(0);
  tile[i].first = 1;
  longshore_barrier();
  struct pair own = tile[7 - i];
  y[i] = own.first;
}

LAUNCH(1 x 8: u32*8)
LONGSHORE_KERNEL(right_bit_fields_in_arrays, (uint32_t *y)) {
  LONGSHORE_SHARED(struct bits, tile, [8]);
  LONGSHORE_SHARED(struct rows, rows, [8]);
  struct bits own[4];
  uint32_t i = longshore_item_id(0);
  own[i & 3].low = 1;
  own[i & 3].high = i;
  tile[i].high = i;
  rows[i].rows[i % 3].low = 2;
  longshore_barrier();
  uint32_t other = 7 - i;
  y[i] = own[i & 3].high + tile[other].high + rows[other].rows[other % 3].low;
}
