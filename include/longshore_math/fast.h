/*
 * longshore_math/fast.h: approximations for `float`. A part of longshore_math.h.
 */
#ifndef LONGSHORE_MATH_FAST_H
#define LONGSHORE_MATH_FAST_H
#pragma clang system_header

#if defined(__NVPTX__)

LONGSHORE_OVERLOAD_ float longshore_fast_exp2_(float x) { return __nvvm_ex2_approx_f(x); }
LONGSHORE_OVERLOAD_ float longshore_fast_log2_(float x) { return __nvvm_lg2_approx_f(x); }
LONGSHORE_OVERLOAD_ float longshore_fast_sin_(float x) { return __nvvm_sin_approx_f(x); }
LONGSHORE_OVERLOAD_ float longshore_fast_cos_(float x) { return __nvvm_cos_approx_f(x); }
LONGSHORE_OVERLOAD_ float longshore_fast_rsqrt_(float x) { return __nvvm_rsqrt_approx_f(x); }
LONGSHORE_OVERLOAD_ float longshore_fast_divide_(float x, float y) { return __nvvm_div_approx_f(x, y); }

#elif defined(__AMDGCN__)

#if __has_builtin(__builtin_amdgcn_exp2f)
LONGSHORE_OVERLOAD_ float longshore_fast_exp2_(float x) { return __builtin_amdgcn_exp2f(x); }
#else
LONGSHORE_OVERLOAD_ float longshore_fast_exp2_(float x) { return __builtin_exp2f(x); }
#endif
#if __has_builtin(__builtin_amdgcn_logf)
LONGSHORE_OVERLOAD_ float longshore_fast_log2_(float x) { return __builtin_amdgcn_logf(x); }
#else
LONGSHORE_OVERLOAD_ float longshore_fast_log2_(float x) { return __builtin_log2f(x); }
#endif
/* The instructions take revolutions from -256 to 256. */
LONGSHORE_OVERLOAD_ float longshore_fast_sin_(float x) {
  return __builtin_amdgcn_sinf(__builtin_amdgcn_fractf(x * 0x1.45f306p-3f));
}
LONGSHORE_OVERLOAD_ float longshore_fast_cos_(float x) {
  return __builtin_amdgcn_cosf(__builtin_amdgcn_fractf(x * 0x1.45f306p-3f));
}
LONGSHORE_OVERLOAD_ float longshore_fast_rsqrt_(float x) { return __builtin_amdgcn_rsqf(x); }
LONGSHORE_OVERLOAD_ float longshore_fast_divide_(float x, float y) { return x * __builtin_amdgcn_rcpf(y); }

#else

/* With an error of 2^-21 between -125 and 128; below, the result is 0. */
LONGSHORE_OVERLOAD_ float longshore_fast_exp2_(float x) {
  LONGSHORE_EXACTLY_
  const float limited = LONGSHORE_CLAMP_(x, -125.0f, 128.0f), steps = limited + 0x1.8p23f;
  const float f = limited - (steps - 0x1.8p23f);
  /* 2^(k - 1), because 2^128 is no float */
  const float power = longshore_of_bits_((longshore_bits_(steps) << 23) + ((uint32_t)126 << 23));
  const float y = 2 * (power * LONGSHORE_P5_(f, 1, 0x1.62e42a0000000p-1f, 0x1.ebf9ba0000000p-3f, 0x1.c6b69a0000000p-5f,
                                             0x1.3ceaf80000000p-7f, 0x1.5bfd580000000p-10f));
  return x < -125 ? 0 : y;
}
/* Subnormal numbers count as 0. */
LONGSHORE_OVERLOAD_ float longshore_fast_log2_(float x) {
  LONGSHORE_EXACTLY_
  const uint32_t bits = longshore_bits_(x), biased = bits - 0x3f3504f3 + ((uint32_t)127 << 23);
  const float exponent = (float)((int)(biased >> 23) - 127);
  const float f = longshore_of_bits_(bits - ((biased & 0xff800000) - ((uint32_t)127 << 23))) - 1;
  const float s = f / (2 + f), z = s * s,
              y = exponent + s * LONGSHORE_P3_(z, 0x1.715476p+1f, 0x1.ec722c0000000p-1f, 0x1.26f2720000000p-1f,
                                               0x1.c6aa600000000p-2f);
  return x >= 0x1p-126f ? x < __builtin_inff() ? y : x : x >= 0 ? -__builtin_inff() : __builtin_nanf("");
}
/* The sine of x less k pi, with the sign of (-1)^k; k is an integer plus `offset`. */
LONGSHORE_OVERLOAD_ float longshore_fast_sine_(float x, float offset) {
  LONGSHORE_EXACTLY_
  const float steps = x * 0x1.45f306p-2f - offset + 0x1.8p23f, k = steps - 0x1.8p23f + offset;
  const float r = ((x - k * 0x1.92p+1f) - k * 0x1.fb4p-11f) - k * 0x1.4442d2p-23f, z = r * r;
  const float y = r + r * z *
                          LONGSHORE_P3_(z, -0x1.55554c0000000p-3f, 0x1.110ed80000000p-7f, -0x1.9f704e0000000p-13f,
                                        0x1.5dbd180000000p-19f);
  return longshore_of_bits_(longshore_bits_(y) ^ longshore_bits_(steps) << 31);
}
LONGSHORE_OVERLOAD_ float longshore_fast_sin_(float x) { return longshore_fast_sine_(x, 0); }
/* The cosine of x is the sine of x + pi/2, thus of x less k pi for k = n - 1/2. */
LONGSHORE_OVERLOAD_ float longshore_fast_cos_(float x) { return longshore_fast_sine_(x, -0.5f); }
LONGSHORE_OVERLOAD_ float longshore_fast_rsqrt_(float x) { return longshore_rsqrt_(x); }
LONGSHORE_OVERLOAD_ float longshore_fast_divide_(float x, float y) { return x / y; }

#endif

LONGSHORE_OVERLOAD_ float longshore_fast_exp_(float x) { return longshore_fast_exp2_(x * 0x1.715476p+0f); }
LONGSHORE_OVERLOAD_ float longshore_fast_exp10_(float x) { return longshore_fast_exp2_(x * 0x1.a934fp+1f); }
LONGSHORE_OVERLOAD_ float longshore_fast_log_(float x) { return longshore_fast_log2_(x) * 0x1.62e43p-1f; }
LONGSHORE_OVERLOAD_ float longshore_fast_log10_(float x) { return longshore_fast_log2_(x) * 0x1.344136p-2f; }
LONGSHORE_OVERLOAD_ float longshore_fast_pow_(float x, float y) {
  return longshore_fast_exp2_(y * longshore_fast_log2_(x));
}
LONGSHORE_OVERLOAD_ float longshore_fast_tan_(float x) {
  return longshore_fast_divide_(longshore_fast_sin_(x), longshore_fast_cos_(x));
}
#if defined(__NVPTX__) && __CUDA_ARCH__ >= 800 && __clang_major__ >= 15
LONGSHORE_OVERLOAD_ float longshore_fast_tanh_(float x) {
  float y;
  __asm__("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
#else
LONGSHORE_OVERLOAD_ float longshore_fast_tanh_(float x) {
  return 1 - longshore_fast_divide_(2, longshore_fast_exp2_(x * 0x1.715476p+1f) + 1);
}
#endif

#endif
