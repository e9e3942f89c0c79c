// y = factor x + y
#version 460
#extension GL_GOOGLE_include_directive : require
#include "parts.glsl"

layout(local_size_x_id = 0) in;
layout(push_constant) uniform Arguments { Floats x, y; float factor; uint n; };

void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i < n) y.at[i] = factor * x.at[i] + y.at[i];
}
