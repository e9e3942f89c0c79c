// Writes the sum of each group's elements: the first of a prefix sum's three launches.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "parts.glsl"

layout(local_size_x = GROUP) in;
layout(push_constant) uniform Arguments { Numbers x, sums; uint n; };

shared uint tile[GROUP];

void main() {
  const uint group = gl_WorkGroupID.x, end = part(group + 1, n), id = gl_LocalInvocationID.x;
  uint sum = 0;
  for (uint i = part(group, n) + id; i < end; i += GROUP) sum += x.at[i];
  tile[id] = sum;
  barrier();
  for (uint near = GROUP / 2; near > 0; near /= 2) {
    if (id < near) tile[id] += tile[id + near];
    barrier();
  }
  if (id == 0) sums.at[group] = tile[0];
}
