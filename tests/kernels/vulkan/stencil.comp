// Sum of an element and its neighbours; elements beyond the ends count as zero.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "parts.glsl"

layout(local_size_x_id = 0) in;
layout(push_constant) uniform Arguments { Floats x, y; uint n; };

void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i >= n) return;
  const float before = i > 0 ? x.at[i - 1] : 0, after = i + 1 < n ? x.at[i + 1] : 0;
  y.at[i] = before + x.at[i] + after;
}
