// a = b + factor c
#version 460
#extension GL_GOOGLE_include_directive : require
#include "parts.glsl"

layout(local_size_x_id = 0) in;
layout(push_constant) uniform Arguments { Floats b, c, a; float factor; uint n; };

void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i < n) a.at[i] = b.at[i] + factor * c.at[i];
}
