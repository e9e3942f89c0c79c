/* Variables on the stacks of items. */
#include <longshore_device.h>

/* The launch of the next kernel. */
#define LAUNCH(...)

struct stack {
  uint32_t values[4], count;
};
struct bits {
  unsigned low : 3, high : 5;
};

LAUNCH(1 x 8: u32*8)
LONGSHORE_KERNEL(wrong_past_a_local_array, (uint32_t *x)) {
  uint32_t own[4] = {0, 0, 0, 0}, i = longshore_item_id(0);
  own[x[i] % 5] = 1; // BUG: memory
  x[i] = own[0];
}

LAUNCH(1 x 2: u32*2)
LONGSHORE_KERNEL(wrong_past_a_local_array_by_a_constant, (uint32_t *x)) {
  uint32_t own[4] = {1, 2, 3, 4}, i = longshore_item_id(0);
  uint32_t *at = own;
  at[4] = 1; // BUG: memory
  x[i] = own[i];
}

LAUNCH(1 x 2: u32*2)
LONGSHORE_KERNEL(wrong_before_a_local_array, (uint32_t *x)) {
  uint32_t own[4] = {1, 2, 3, 4};
  int i = (int)longshore_item_id(0);
  x[i] = own[i - 1]; // BUG: memory
}

__attribute__((noinline)) static void set(uint32_t *at, uint32_t index) {
  at[index] = 7; // BUG: memory
}

LAUNCH(1 x 2: u32*2)
LONGSHORE_KERNEL(wrong_past_a_local_array_in_a_function, (uint32_t *x)) {
  uint32_t own[4] = {1, 2, 3, 4}, i = longshore_item_id(0);
  set(own, i + 3);
  x[i] = own[3];
}

LAUNCH(1 x 2: u32*2)
LONGSHORE_KERNEL(wrong_push_on_a_full_stack, (uint32_t *x)) {
  struct stack stack = {{0, 0, 0, 0}, 0};
  uint32_t i = longshore_item_id(0), *top = stack.values;
  for (uint32_t k = 0; k < 6; ++k)
    *top++ = k; // BUG: memory
  x[i] = stack.values[i];
}

LAUNCH(1 x 2: u32*2)
LONGSHORE_KERNEL(wrong_unwritten_local_array, (uint32_t *x)) {
  uint32_t own[4], i = longshore_item_id(0);
  for (uint32_t k = 1; k < 4; ++k) own[k] = k;
  x[i] = own[i]; // BUG: initialized
}

LAUNCH(1 x 1: u32*2)
LONGSHORE_KERNEL(wrong_unwritten_in_the_second_round, (uint32_t *x)) {
  for (uint32_t round = 0; round < 2; ++round) {
    uint32_t own[8];
    if (round == 0) own[3] = 1;
    x[round] = own[x[0] - x[0] + 3]; // BUG: initialized
  }
}

LAUNCH(1 x 1: f32*16)
LONGSHORE_KERNEL(wrong_copy_to_a_local_array, (const float *x)) {
  float own[8];
  __builtin_memcpy(own, x, 9 * sizeof(float)); // BUG: memory
}

__attribute__((noinline)) static uint32_t total(const uint32_t *values) {
  uint32_t sum = 0;
  for (int k = 0; k < 4; ++k)
    sum += values[k]; // BUG: initialized
  return sum;
}

LAUNCH(1 x 1: u32*1)
LONGSHORE_KERNEL(wrong_unwritten_array_for_a_function, (uint32_t *x)) {
  uint32_t own[4];
  own[0] = own[1] = own[2] = x[0];
  x[0] = total(own);
}

LAUNCH(1 x 8: u32*8)
LONGSHORE_KERNEL(right_local_array, (uint32_t *x)) {
  uint32_t own[4] = {0, 0, 0, 0}, i = longshore_item_id(0);
  own[x[i] % 4] = 1;
  x[i] = own[0] + own[3];
}

__attribute__((noinline)) static uint32_t last_of(const uint32_t *values, uint32_t count) {
  return values[count - 1];
}

LAUNCH(1 x 2: u32*2)
LONGSHORE_KERNEL(right_local_array_for_a_function, (uint32_t *x)) {
  uint32_t own[4] = {1, 2, 3, 4}, i = longshore_item_id(0);
  x[i] = last_of(own, 4);
}

LAUNCH(1 x 2: u32*2)
LONGSHORE_KERNEL(right_stack, (uint32_t *x)) {
  struct stack stack;
  stack.count = 0;
  for (uint32_t k = 0; k < 4; ++k) stack.values[stack.count++] = k;
  x[longshore_item_id(0)] = stack.values[--stack.count];
}

LAUNCH(1 x 2: u32*2)
LONGSHORE_KERNEL(right_pointer_to_the_end, (uint32_t *x)) {
  uint32_t own[4], *end = own + 4;
  for (uint32_t *at = own; at != end; ++at) *at = 1;
  x[longshore_item_id(0)] = end[-1];
}

LAUNCH(1 x 1: u32*2)
LONGSHORE_KERNEL(right_written_in_each_round, (uint32_t *x)) {
  for (uint32_t round = 0; round < 2; ++round) {
    uint32_t own[8];
    for (uint32_t k = 0; k < 8; ++k) own[k] = k;
    x[round] = own[x[round] % 8];
  }
}

LAUNCH(1 x 2: u32*2)
LONGSHORE_KERNEL(right_bit_fields, (uint32_t *x)) {
  struct bits own;
  own.low = longshore_item_id(0) & 7;
  own.high = 3;
  x[longshore_item_id(0)] = own.low + own.high;
}

struct padded {
  uint32_t number;
  char letter;
};
__attribute__((noinline)) static uint32_t of_padded(struct padded value) {
  return value.number + (uint32_t)value.letter;
}

LAUNCH(1 x 2: u32*2)
LONGSHORE_KERNEL(right_structures_with_gaps, (uint32_t *x)) {
  struct padded own, copy;
  own.number = 1;
  own.letter = 2;
  copy = own;
  x[longshore_item_id(0)] = of_padded(copy);
}

LAUNCH(1 x 1: f32*16)
LONGSHORE_KERNEL(right_copy_of_a_part, (float *x)) {
  float own[8];
  __builtin_memcpy(own, x, 4 * sizeof(float));
  x[0] = own[3];
  __builtin_memset(own, 0, sizeof(own));
  x[1] = own[7];
}

LAUNCH(1 x 4: u32*4)
LONGSHORE_KERNEL(right_copy_of_an_unwritten_array, (uint32_t *x)) {
  struct stack own, copy;
  own.values[0] = 3;
  copy = own;
  x[longshore_item_id(0)] = copy.values[0];
}

__attribute__((noinline)) static void both(uint32_t value, uint32_t *low, uint32_t *high) {
  *low = value & 1;
  *high = value >> 1;
}

LAUNCH(1 x 4: u32*4)
LONGSHORE_KERNEL(right_results_by_pointers, (uint32_t *x)) {
  uint32_t low, high;
  both(x[longshore_item_id(0)], &low, &high);
  x[longshore_item_id(0)] = low + high;
}

struct scale {
  float factor, offsets[3];
};
LAUNCH(1 x 3: by:scale f32*3)
LONGSHORE_KERNEL(right_structure_by_value, (LONGSHORE_BY_VALUE(struct scale, scale), float *x)) {
  uint32_t i = longshore_item_id(0);
  x[i] = scale.factor * x[i] + scale.offsets[i];
}

LAUNCH(1 x 40: u32*40)
LONGSHORE_KERNEL(right_exchange_of_local_values, (uint32_t *x)) {
  uint32_t own[2] = {longshore_item_id(0), 1};
  own[1] = longshore_subgroup_shuffle_down(own[0], 1);
  x[longshore_item_id(0)] = own[1] + (uint32_t)longshore_subgroup_ballot(own[0] & 1);
}

LAUNCH(1 x 8: u32*8)
LONGSHORE_KERNEL(wrong_past_one_of_two_arrays, (uint32_t *x)) {
  uint32_t one[4], other[4], i = longshore_item_id(0);
  for (uint32_t k = 0; k < 4; ++k) one[k] = other[k] = k;
  uint32_t *chosen = i & 1 ? one : other;
  x[i] = chosen[x[i]]; // BUG: memory
}

LAUNCH(1 x 8: u32*8)
LONGSHORE_KERNEL(wrong_unwritten_in_a_swapped_array, (uint32_t *x)) {
  uint32_t one[4], other[4], i = longshore_item_id(0);
  uint32_t *current = one, *next = other;
  for (uint32_t k = 0; k < 4; ++k) current[k] = k;
  for (uint32_t round = 0; round < x[i] % 3 + 1; ++round) {
    for (uint32_t k = 0; k < 3; ++k) next[k] = current[k] + 1;
    uint32_t *held = current;
    current = next;
    next = held;
  }
  if (x[i] % 3 == 0) x[i] = current[3]; // BUG: initialized
}

LAUNCH(1 x 8: u32*8)
LONGSHORE_KERNEL(right_swapped_arrays, (uint32_t *x)) {
  uint32_t one[4], other[4], i = longshore_item_id(0);
  uint32_t *current = one, *next = other;
  for (uint32_t k = 0; k < 4; ++k) current[k] = k;
  for (uint32_t round = 0; round < x[i]; ++round) {
    for (uint32_t k = 0; k < 4; ++k) next[k] = current[k] + 1;
    uint32_t *held = current;
    current = next;
    next = held;
  }
  x[i] = current[3];
}

LAUNCH(1 x 4: u32*4)
LONGSHORE_KERNEL(wrong_misaligned_in_a_local_array, (uint32_t *x)) {
  unsigned char own[32] = {0};
  uint32_t i = longshore_item_id(0);
  unsigned char *at = own;
  at += x[i] + 1;
  uint32_t *word = (uint32_t *)at;
  x[i] = *word; // BUG: memory
}
