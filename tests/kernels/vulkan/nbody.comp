// Computes the acceleration of each body by all bodies, which have x, y, z and mass.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "parts.glsl"

// Keeps the pull of near bodies, and of a body on itself, finite.
#define SOFTENING 1e-3

layout(local_size_x = GROUP) in;
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Vectors { vec4 at[]; };
layout(push_constant) uniform Arguments { Vectors bodies, pulls; uint n; };

shared vec4 tile[GROUP];

void main() {
  const uint i = gl_GlobalInvocationID.x, id = gl_LocalInvocationID.x;
  const vec3 own = bodies.at[i < n ? i : 0].xyz;
  vec3 sum = vec3(0);
  for (uint begin = 0; begin < n; begin += GROUP) {
    const uint count = min(n - begin, GROUP);
    if (id < count) tile[id] = bodies.at[begin + id];
    barrier();
    for (uint j = 0; j < count; ++j) {
      const vec3 way = tile[j].xyz - own;
      const float inverse = 1 / sqrt(dot(way, way) + SOFTENING);
      sum += tile[j].w * inverse * inverse * inverse * way;
    }
    barrier();
  }
  if (i < n) pulls.at[i] = vec4(sum, 0);
}
