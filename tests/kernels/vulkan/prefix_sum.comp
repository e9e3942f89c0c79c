// Each element of y becomes the sum of the group's elements of x up to the same index. If the sum
// of all elements before the group is known, it is added.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "parts.glsl"

layout(local_size_x = GROUP) in;
layout(push_constant) uniform Arguments { Numbers x, y, before; uint n; bool before_is_known; };

shared uint tile[2][GROUP];

void main() {
  const uint group = gl_WorkGroupID.x, end = part(group + 1, n), id = gl_LocalInvocationID.x;
  uint sum = before_is_known && group > 0 ? before.at[group - 1] : 0;
  for (uint begin = part(group, n); begin < end; begin += GROUP) {
    uint from = 0;
    tile[0][id] = begin + id < end ? x.at[begin + id] : 0;
    barrier();
    for (uint near = 1; near < GROUP; near *= 2) {
      tile[1 - from][id] = tile[from][id] + (id >= near ? tile[from][id - near] : 0);
      from = 1 - from;
      barrier();
    }
    if (begin + id < end) y.at[begin + id] = sum + tile[from][id];
    sum += tile[from][GROUP - 1];
    barrier();
  }
}
