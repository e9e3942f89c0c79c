// Adds the number of occurrences of each byte to the bins. Reads four bytes at a time.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "parts.glsl"

layout(local_size_x = GROUP) in;
layout(push_constant) uniform Arguments { Numbers x, bins; uint n; };

shared uint own[256];

void main() {
  const uint group = gl_WorkGroupID.x, end = part(group + 1, n), id = gl_LocalInvocationID.x;
  own[id] = 0;
  barrier();
  for (uint i = part(group, n) + id; i < end; i += GROUP) {
    atomicAdd(own[x.at[i / 4] >> i % 4 * 8 & 0xff], 1);
  }
  barrier();
  atomicAdd(bins.at[id], own[id]);
}
