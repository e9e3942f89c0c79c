/*
 * longshore_cuda/complex.h: complex numbers of CUDA and HIP. `longshore cc` includes it for
 * <cuComplex.h> and <hip/hip_complex.h>.
 */
#ifndef LONGSHORE_CUDA_COMPLEX_H
#define LONGSHORE_CUDA_COMPLEX_H
#pragma clang system_header

#include "../longshore_cuda.h"

/* Quotients are scaled by the size of the divisor, against overflow. */
#define LONGSHORE_COMPLEX_(T, pair, C, suffix)                                                                        \
  LONGSHORE_BOTH_ T cuCreal##suffix(pair x) { return x.x; }                                                           \
  LONGSHORE_BOTH_ T cuCimag##suffix(pair x) { return x.y; }                                                           \
  LONGSHORE_BOTH_ pair make_cu##C##Complex(T x, T y) { return make_##pair(x, y); }                                    \
  LONGSHORE_BOTH_ pair cuConj##suffix(pair x) { return make_##pair(x.x, -x.y); }                                      \
  LONGSHORE_BOTH_ pair cuCadd##suffix(pair x, pair y) { return make_##pair(x.x + y.x, x.y + y.y); }                   \
  LONGSHORE_BOTH_ pair cuCsub##suffix(pair x, pair y) { return make_##pair(x.x - y.x, x.y - y.y); }                   \
  LONGSHORE_BOTH_ pair cuCmul##suffix(pair x, pair y) {                                                               \
    return make_##pair(x.x * y.x - x.y * y.y, x.x * y.y + x.y * y.x);                                                 \
  }                                                                                                                   \
  LONGSHORE_BOTH_ pair cuCfma##suffix(pair x, pair y, pair z) {                                                       \
    return make_##pair((x.x * y.x + z.x) - x.y * y.y, (x.x * y.y + z.y) + x.y * y.x);                                 \
  }                                                                                                                   \
  LONGSHORE_BOTH_ pair cuCdiv##suffix(pair x, pair y) {                                                               \
    const T scale = 1 / ((y.x < 0 ? -y.x : y.x) + (y.y < 0 ? -y.y : y.y));                                            \
    const T a = x.x * scale, b = x.y * scale, c = y.x * scale, d = y.y * scale, length = 1 / (c * c + d * d);         \
    return make_##pair((a * c + b * d) * length, (b * c - a * d) * length);                                           \
  }
typedef float2 cuFloatComplex, cuComplex, hipFloatComplex, hipComplex;
typedef double2 cuDoubleComplex, hipDoubleComplex;
LONGSHORE_COMPLEX_(float, float2, Float, f)
LONGSHORE_COMPLEX_(double, double2, Double, )
LONGSHORE_BOTH_ cuComplex make_cuComplex(float x, float y) { return make_float2(x, y); }
LONGSHORE_CUDA_ float cuCabsf(cuFloatComplex x) { return longshore_hypot(x.x, x.y); }
LONGSHORE_CUDA_ double cuCabs(cuDoubleComplex x) { return longshore_hypot(x.x, x.y); }
LONGSHORE_BOTH_ cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex x) { return make_float2((float)x.x, (float)x.y); }
LONGSHORE_BOTH_ cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex x) { return make_double2(x.x, x.y); }

#define make_hipFloatComplex make_cuFloatComplex
#define make_hipDoubleComplex make_cuDoubleComplex
#define make_hipComplex make_cuComplex
#define hipCrealf cuCrealf
#define hipCimagf cuCimagf
#define hipConjf cuConjf
#define hipCaddf cuCaddf
#define hipCsubf cuCsubf
#define hipCmulf cuCmulf
#define hipCdivf cuCdivf
#define hipCfmaf cuCfmaf
#define hipCabsf cuCabsf
#define hipCreal cuCreal
#define hipCimag cuCimag
#define hipConj cuConj
#define hipCadd cuCadd
#define hipCsub cuCsub
#define hipCmul cuCmul
#define hipCdiv cuCdiv
#define hipCfma cuCfma
#define hipCabs cuCabs

#endif
