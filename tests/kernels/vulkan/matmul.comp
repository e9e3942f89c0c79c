// Computes c = a b, of m x k and k x n elements, row by row. A group computes a tile of c.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "parts.glsl"

#define TILE 16

layout(local_size_x = TILE, local_size_y = TILE) in;
layout(push_constant) uniform Arguments { Floats a, b, c; uint m, n, k; };

shared float left[TILE][TILE];
shared float right[TILE][TILE];

// Returns an element of a matrix; 0 beyond its edges.
float element(Floats matrix, uint rows, uint columns, uint row, uint column) {
  return row < rows && column < columns ? matrix.at[row * columns + column] : 0;
}

void main() {
  const uint row = gl_GlobalInvocationID.y, column = gl_GlobalInvocationID.x;
  const uint x = gl_LocalInvocationID.x, y = gl_LocalInvocationID.y;
  float sum = 0;
  for (uint begin = 0; begin < k; begin += TILE) {
    left[y][x] = element(a, m, k, row, begin + x);
    right[y][x] = element(b, k, n, begin + y, column);
    barrier();
    for (uint j = 0; j < TILE; ++j) sum += left[y][j] * right[j][x];
    barrier();
  }
  if (row < m && column < n) c.at[row * n + column] = sum;
}
