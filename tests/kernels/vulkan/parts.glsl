// What the kernels have in common. See `kernels.c`, of which these are the same kernels: what an item does, with
// numbers of 32 bits alone, and with the arguments that are pointers before all others.
#extension GL_EXT_buffer_reference : require

// The items of groups, where there is nothing to choose.
#define GROUP 256

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Numbers { uint at[]; };

// Where a group's elements begin: at a multiple of GROUP, or at the end. The next group's is where they end.
uint part(uint group, uint n) {
  const uint groups = gl_NumWorkGroups.x, blocks = (n + GROUP - 1) / GROUP, each = (blocks + groups - 1) / groups;
  return min(group * each * GROUP, n);
}
