// Common parts of the kernels. They are the kernels of `kernels.c` in the form for an item. Numbers
// have only 32 bits, and pointer arguments come before all others.
#extension GL_EXT_buffer_reference : require

// Items in a group, for kernels with a fixed size.
#define GROUP 256

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Numbers { uint at[]; };

// Returns the beginning of a group's elements: a multiple of GROUP, or n. The elements end where
// the next group's begin.
uint part(uint group, uint n) {
  const uint groups = gl_NumWorkGroups.x, blocks = (n + GROUP - 1) / GROUP, each = (blocks + groups - 1) / groups;
  return min(group * each * GROUP, n);
}
