/*
 * longshore_cuda/numbers.h: integer functions, conversions, and arithmetic with a named rounding.
 * Part of longshore_cuda.h.
 */
#ifndef LONGSHORE_CUDA_NUMBERS_H
#define LONGSHORE_CUDA_NUMBERS_H
#pragma clang system_header

/* ---- Smaller and greater --------------------------------------------------------------------- */

#define LONGSHORE_MIN_MAX_(T)                                                                                         \
  LONGSHORE_BOTH_ T min(T a, T b) { return b < a ? b : a; }                                                           \
  LONGSHORE_BOTH_ T max(T a, T b) { return a < b ? b : a; }
LONGSHORE_MIN_MAX_(int)
LONGSHORE_MIN_MAX_(unsigned int)
LONGSHORE_MIN_MAX_(long)
LONGSHORE_MIN_MAX_(unsigned long)
LONGSHORE_MIN_MAX_(long long)
LONGSHORE_MIN_MAX_(unsigned long long)
#define LONGSHORE_MIN_MAX_MIXED_(A, B, T)                                                                             \
  LONGSHORE_BOTH_ T min(A a, B b) { return (T)b < (T)a ? (T)b : (T)a; }                                               \
  LONGSHORE_BOTH_ T max(A a, B b) { return (T)a < (T)b ? (T)b : (T)a; }                                               \
  LONGSHORE_BOTH_ T min(B a, A b) { return (T)b < (T)a ? (T)b : (T)a; }                                               \
  LONGSHORE_BOTH_ T max(B a, A b) { return (T)a < (T)b ? (T)b : (T)a; }
LONGSHORE_MIN_MAX_MIXED_(int, unsigned int, unsigned int)
LONGSHORE_MIN_MAX_MIXED_(long, unsigned long, unsigned long)
LONGSHORE_MIN_MAX_MIXED_(long long, unsigned long long, unsigned long long)
LONGSHORE_MIN_MAX_MIXED_(int, unsigned long, unsigned long)
LONGSHORE_MIN_MAX_MIXED_(int, long, long)
LONGSHORE_MIN_MAX_MIXED_(int, long long, long long)
LONGSHORE_MIN_MAX_MIXED_(unsigned int, unsigned long, unsigned long)
LONGSHORE_MIN_MAX_MIXED_(unsigned int, long, long)
LONGSHORE_MIN_MAX_MIXED_(unsigned int, unsigned long long, unsigned long long)
LONGSHORE_MIN_MAX_MIXED_(unsigned int, long long, long long)
LONGSHORE_MIN_MAX_MIXED_(long, unsigned long long, unsigned long long)
LONGSHORE_MIN_MAX_MIXED_(unsigned long, long long, unsigned long long)
LONGSHORE_MIN_MAX_MIXED_(long, long long, long long)
LONGSHORE_MIN_MAX_MIXED_(unsigned long, unsigned long long, unsigned long long)
/* A number is preferred to a NaN. */
LONGSHORE_BOTH_ float min(float a, float b) { return __builtin_fminf(a, b); }
LONGSHORE_BOTH_ float max(float a, float b) { return __builtin_fmaxf(a, b); }
LONGSHORE_BOTH_ double min(double a, double b) { return __builtin_fmin(a, b); }
LONGSHORE_BOTH_ double max(double a, double b) { return __builtin_fmax(a, b); }
LONGSHORE_MIN_MAX_MIXED_(float, double, double)
LONGSHORE_MIN_MAX_MIXED_(int, float, float)
LONGSHORE_MIN_MAX_MIXED_(int, double, double)
LONGSHORE_MIN_MAX_MIXED_(unsigned int, float, float)
LONGSHORE_MIN_MAX_MIXED_(unsigned int, double, double)
LONGSHORE_MIN_MAX_MIXED_(long, double, double)
LONGSHORE_MIN_MAX_MIXED_(unsigned long, double, double)
LONGSHORE_MIN_MAX_MIXED_(long, float, float)
LONGSHORE_MIN_MAX_MIXED_(unsigned long, float, float)
LONGSHORE_BOTH_ unsigned int umin(unsigned int a, unsigned int b) { return min(a, b); }
LONGSHORE_BOTH_ unsigned int umax(unsigned int a, unsigned int b) { return max(a, b); }
LONGSHORE_BOTH_ long long llmin(long long a, long long b) { return min(a, b); }
LONGSHORE_BOTH_ long long llmax(long long a, long long b) { return max(a, b); }
LONGSHORE_CUDA_ int abs(int x) { return x < 0 ? -x : x; }
LONGSHORE_CUDA_ long abs(long x) { return x < 0 ? -x : x; }
LONGSHORE_CUDA_ long labs(long x) { return x < 0 ? -x : x; }
LONGSHORE_CUDA_ long long abs(long long x) { return x < 0 ? -x : x; }
LONGSHORE_CUDA_ long long llabs(long long x) { return x < 0 ? -x : x; }
LONGSHORE_CUDA_ float abs(float x) { return __builtin_fabsf(x); }
LONGSHORE_CUDA_ double abs(double x) { return __builtin_fabs(x); }

namespace std {
using ::abs;
} // namespace std

/* ---- Bits ------------------------------------------------------------------------------------ */

LONGSHORE_CUDA_ int __popc(unsigned int x) { return __builtin_popcount(x); }
LONGSHORE_CUDA_ int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
LONGSHORE_CUDA_ int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned int)x); }
LONGSHORE_CUDA_ int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
/* Arguments of these functions are any integers. */
template <class I> LONGSHORE_CUDA_ int __ffs(I x) { return (unsigned int)x == 0 ? 0 : __builtin_ctz((unsigned int)x) + 1; }
template <class I> LONGSHORE_CUDA_ int __ffsll(I x) {
  return x == 0 ? 0 : __builtin_ctzll((unsigned long long)x) + 1;
}
LONGSHORE_CUDA_ unsigned int __brev(unsigned int x) { return __builtin_bitreverse32(x); }
LONGSHORE_CUDA_ unsigned long long __brevll(unsigned long long x) { return __builtin_bitreverse64(x); }
LONGSHORE_CUDA_ unsigned int __fns(unsigned int mask, unsigned int base, int offset) {
  int left = offset;
  if (left == 0) return mask >> base & 1 ? base : ~0u;
  const int step = left > 0 ? 1 : -1;
  for (int at = (int)base; at >= 0 && at < 32; at += step)
    if ((mask >> at & 1) && (left -= step) == 0) return (unsigned int)at;
  return ~0u;
}
LONGSHORE_CUDA_ unsigned int __byte_perm(unsigned int x, unsigned int y, unsigned int selector) {
  const unsigned long long both = (unsigned long long)y << 32 | x;
  unsigned int result = 0;
  for (int i = 0; i < 4; ++i) result |= (unsigned int)(both >> (selector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  return result;
}
LONGSHORE_CUDA_ unsigned int __funnelshift_l(unsigned int low, unsigned int high, unsigned int shift) {
  return (unsigned int)((((unsigned long long)high << 32 | low) << (shift & 31)) >> 32);
}
LONGSHORE_CUDA_ unsigned int __funnelshift_r(unsigned int low, unsigned int high, unsigned int shift) {
  return (unsigned int)(((unsigned long long)high << 32 | low) >> (shift & 31));
}
LONGSHORE_CUDA_ unsigned int __funnelshift_lc(unsigned int low, unsigned int high, unsigned int shift) {
  return shift >= 32 ? low : __funnelshift_l(low, high, shift);
}
LONGSHORE_CUDA_ unsigned int __funnelshift_rc(unsigned int low, unsigned int high, unsigned int shift) {
  return shift >= 32 ? high : __funnelshift_r(low, high, shift);
}

/* ---- Products and sums ----------------------------------------------------------------------- */

LONGSHORE_CUDA_ int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
LONGSHORE_CUDA_ unsigned int __umul24(unsigned int a, unsigned int b) { return (a & 0xffffff) * (b & 0xffffff); }
LONGSHORE_CUDA_ int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
LONGSHORE_CUDA_ unsigned int __umulhi(unsigned int a, unsigned int b) {
  return (unsigned int)((unsigned long long)a * b >> 32);
}
LONGSHORE_CUDA_ long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
LONGSHORE_CUDA_ unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
LONGSHORE_CUDA_ unsigned int __sad(int a, int b, unsigned int c) {
  return c + (a < b ? (unsigned int)b - (unsigned int)a : (unsigned int)a - (unsigned int)b);
}
LONGSHORE_CUDA_ unsigned int __usad(unsigned int a, unsigned int b, unsigned int c) { return c + (a < b ? b - a : a - b); }
LONGSHORE_CUDA_ int __hadd(int a, int b) { return (int)(((long long)a + b) >> 1); }
LONGSHORE_CUDA_ int __rhadd(int a, int b) { return (int)(((long long)a + b + 1) >> 1); }
LONGSHORE_CUDA_ unsigned int __uhadd(unsigned int a, unsigned int b) {
  return (unsigned int)(((unsigned long long)a + b) >> 1);
}
LONGSHORE_CUDA_ unsigned int __urhadd(unsigned int a, unsigned int b) {
  return (unsigned int)(((unsigned long long)a + b + 1) >> 1);
}
LONGSHORE_CUDA_ int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; ++i) c += (int)(signed char)(a >> 8 * i) * (int)(signed char)(b >> 8 * i);
  return c;
}
LONGSHORE_CUDA_ unsigned int __dp4a(unsigned int a, unsigned int b, unsigned int c) {
  for (int i = 0; i < 4; ++i) c += (a >> 8 * i & 0xff) * (b >> 8 * i & 0xff);
  return c;
}
/* Two numbers of 16 bits, with two of the four bytes. */
#define LONGSHORE_DP2A_(name, first)                                                                                  \
  LONGSHORE_CUDA_ int name(int a, int b, int c) {                                                                     \
    return c + (short)a * (signed char)(b >> 8 * first) + (short)(a >> 16) * (signed char)(b >> 8 * (first + 1));     \
  }                                                                                                                   \
  LONGSHORE_CUDA_ unsigned int name(unsigned int a, unsigned int b, unsigned int c) {                                 \
    return c + (a & 0xffff) * (b >> 8 * first & 0xff) + (a >> 16) * (b >> 8 * (first + 1) & 0xff);                    \
  }
LONGSHORE_DP2A_(__dp2a_lo, 0)
LONGSHORE_DP2A_(__dp2a_hi, 2)
#define LONGSHORE_OF_THREE_(T, suffix)                                                                                \
  LONGSHORE_CUDA_ T __vimax3_##suffix(T a, T b, T c) { return max(max(a, b), c); }                                    \
  LONGSHORE_CUDA_ T __vimin3_##suffix(T a, T b, T c) { return min(min(a, b), c); }                                    \
  LONGSHORE_CUDA_ T __viaddmax_##suffix(T a, T b, T c) { return max((T)((unsigned int)a + (unsigned int)b), c); }     \
  LONGSHORE_CUDA_ T __viaddmin_##suffix(T a, T b, T c) { return min((T)((unsigned int)a + (unsigned int)b), c); }
LONGSHORE_OF_THREE_(int, s32)
LONGSHORE_OF_THREE_(unsigned int, u32)
LONGSHORE_CUDA_ int __vimax_s32_relu(int a, int b) { return max(max(a, b), 0); }
LONGSHORE_CUDA_ int __vimin_s32_relu(int a, int b) { return max(min(a, b), 0); }
LONGSHORE_CUDA_ int __vimax3_s32_relu(int a, int b, int c) { return max(__vimax3_s32(a, b, c), 0); }
LONGSHORE_CUDA_ int __vimin3_s32_relu(int a, int b, int c) { return max(__vimin3_s32(a, b, c), 0); }
LONGSHORE_CUDA_ int __viaddmax_s32_relu(int a, int b, int c) { return max(__viaddmax_s32(a, b, c), 0); }
LONGSHORE_CUDA_ int __viaddmin_s32_relu(int a, int b, int c) { return max(__viaddmin_s32(a, b, c), 0); }
/* The greater or smaller number; `is_first` reports that it is the first one. */
#define LONGSHORE_CHOICE_(T, suffix)                                                                                  \
  LONGSHORE_CUDA_ T __vibmax_##suffix(T a, T b, bool *is_first) {                                                     \
    *is_first = a >= b;                                                                                               \
    return max(a, b);                                                                                                 \
  }                                                                                                                   \
  LONGSHORE_CUDA_ T __vibmin_##suffix(T a, T b, bool *is_first) {                                                     \
    *is_first = a <= b;                                                                                               \
    return min(a, b);                                                                                                 \
  }
LONGSHORE_CHOICE_(int, s32)
LONGSHORE_CHOICE_(unsigned int, u32)
/* HIP's names. */
LONGSHORE_CUDA_ unsigned int __bitextract_u32(unsigned int x, unsigned int from, unsigned int count) {
  const unsigned int first = from & 31, bits = count & 31;
  return bits == 0 ? 0 : x << (first + bits < 32 ? 32 - first - bits : 0) >> (first + bits < 32 ? 32 - bits : first);
}
LONGSHORE_CUDA_ unsigned long long __bitextract_u64(unsigned long long x, unsigned int from, unsigned int count) {
  const unsigned int first = from & 63, bits = count & 63;
  return bits == 0 ? 0 : x << (first + bits < 64 ? 64 - first - bits : 0) >> (first + bits < 64 ? 64 - bits : first);
}
LONGSHORE_CUDA_ unsigned long long __bitinsert_u64(unsigned long long x, unsigned long long y, unsigned int from,
                                                   unsigned int count) {
  const unsigned long long mask = (1ull << (count & 63)) - 1;
  const unsigned int first = from & 63;
  return (x & ~(mask << first)) | (y & mask) << first;
}
LONGSHORE_CUDA_ unsigned int __bitinsert_u32(unsigned int x, unsigned int y, unsigned int from, unsigned int count) {
  const unsigned int mask = (1u << (count & 31)) - 1, first = from & 31;
  return (x & ~(mask << first)) | (y & mask) << first;
}
LONGSHORE_CUDA_ unsigned int __lastbit_u32_u32(unsigned int x) { return x == 0 ? ~0u : (unsigned int)__builtin_ctz(x); }
#define LONGSHORE_ROUNDED_(name, T, op)                                                                               \
  LONGSHORE_CUDA_ T name(T a, T b) {                                                                                  \
    _Pragma("clang fp contract(off)") return a op b;                                                                  \
  }
LONGSHORE_ROUNDED_(__fadd_rn, float, +)
LONGSHORE_ROUNDED_(__fsub_rn, float, -)
LONGSHORE_ROUNDED_(__fmul_rn, float, *)
LONGSHORE_ROUNDED_(__fdiv_rn, float, /)
LONGSHORE_ROUNDED_(__dadd_rn, double, +)
LONGSHORE_ROUNDED_(__dsub_rn, double, -)
LONGSHORE_ROUNDED_(__dmul_rn, double, *)
LONGSHORE_ROUNDED_(__ddiv_rn, double, /)
LONGSHORE_CUDA_ float __fmaf_rn(float a, float b, float c) { return longshore_fma(a, b, c); }
LONGSHORE_CUDA_ float __fmaf_ieee_rn(float a, float b, float c) { return longshore_fma(a, b, c); }
LONGSHORE_CUDA_ double __fma_rn(double a, double b, double c) { return longshore_fma(a, b, c); }
LONGSHORE_CUDA_ float __frcp_rn(float x) { return 1.0f / x; }
LONGSHORE_CUDA_ double __drcp_rn(double x) { return 1.0 / x; }

/* ---- Conversions ----------------------------------------------------------------------------- */

template <class To, class From> LONGSHORE_BOTH_ To longshore_same_bits_(From from) {
  static_assert(sizeof(To) == sizeof(From), "the types have the same size");
  To to;
  __builtin_memcpy(&to, &from, sizeof(to));
  return to;
}
/* Sums of products of the parts of vectors. */
LONGSHORE_CUDA_ int __dp4a(char4 a, char4 b, int c) {
  return __dp4a(longshore_same_bits_<int>(a), longshore_same_bits_<int>(b), c);
}
LONGSHORE_CUDA_ unsigned int __dp4a(uchar4 a, uchar4 b, unsigned int c) {
  return __dp4a(longshore_same_bits_<unsigned int>(a), longshore_same_bits_<unsigned int>(b), c);
}
#define LONGSHORE_DP2A_OF_VECTORS_(name)                                                                              \
  LONGSHORE_CUDA_ int name(short2 a, char4 b, int c) {                                                                \
    return name(longshore_same_bits_<int>(a), longshore_same_bits_<int>(b), c);                                       \
  }                                                                                                                   \
  LONGSHORE_CUDA_ unsigned int name(ushort2 a, uchar4 b, unsigned int c) {                                            \
    return name(longshore_same_bits_<unsigned int>(a), longshore_same_bits_<unsigned int>(b), c);                     \
  }
LONGSHORE_DP2A_OF_VECTORS_(__dp2a_lo)
LONGSHORE_DP2A_OF_VECTORS_(__dp2a_hi)
LONGSHORE_CUDA_ int __float_as_int(float x) { return longshore_same_bits_<int>(x); }
LONGSHORE_CUDA_ unsigned int __float_as_uint(float x) { return longshore_same_bits_<unsigned int>(x); }
LONGSHORE_CUDA_ float __int_as_float(int x) { return longshore_same_bits_<float>(x); }
LONGSHORE_CUDA_ float __uint_as_float(unsigned int x) { return longshore_same_bits_<float>(x); }
LONGSHORE_CUDA_ long long __double_as_longlong(double x) { return longshore_same_bits_<long long>(x); }
LONGSHORE_CUDA_ double __longlong_as_double(long long x) { return longshore_same_bits_<double>(x); }
LONGSHORE_CUDA_ int __double2hiint(double x) { return (int)(longshore_same_bits_<long long>(x) >> 32); }
LONGSHORE_CUDA_ int __double2loint(double x) { return (int)longshore_same_bits_<long long>(x); }
LONGSHORE_CUDA_ double __hiloint2double(int high, int low) {
  return longshore_same_bits_<double>((long long)((unsigned long long)(unsigned int)high << 32 | (unsigned int)low));
}

/* From numbers with a point to integers, rounded as the name says. A GPU takes the nearest integer
 * of the type for a number outside. For NaN it takes the highest bit, or 0 where neither type has
 * 64 bits. */
template <class I, class F> LONGSHORE_BOTH_ I longshore_of_nan_() {
  return sizeof(F) == 8 || sizeof(I) == 8 ? (I)(1ull << (8 * sizeof(I) - 1)) : (I)0;
}
template <class I, class F> LONGSHORE_BOTH_ I longshore_clamped_(F x, F low, F high, I least, I most) {
  return x != x ? longshore_of_nan_<I, F>() : x < low ? least : x >= high ? most : (I)x;
}
#define LONGSHORE_TO_INTEGER_(from, F, to, I, low, high, least, most)                                                 \
  LONGSHORE_CUDA_ I __##from##2##to##_rn(F x) { return longshore_clamped_<I, F>(longshore_rint(x), low, high, least, most); } \
  LONGSHORE_CUDA_ I __##from##2##to##_rz(F x) { return longshore_clamped_<I, F>(longshore_trunc(x), low, high, least, most); } \
  LONGSHORE_CUDA_ I __##from##2##to##_ru(F x) { return longshore_clamped_<I, F>(longshore_ceil(x), low, high, least, most); } \
  LONGSHORE_CUDA_ I __##from##2##to##_rd(F x) { return longshore_clamped_<I, F>(longshore_floor(x), low, high, least, most); }
#define LONGSHORE_TO_INTEGERS_(from, F)                                                                               \
  LONGSHORE_TO_INTEGER_(from, F, int, int, (F)-2147483648.0, (F)2147483648.0, INT_MIN, INT_MAX)                       \
  LONGSHORE_TO_INTEGER_(from, F, uint, unsigned int, (F)0, (F)4294967296.0, 0u, UINT_MAX)                             \
  LONGSHORE_TO_INTEGER_(from, F, ll, long long, (F)-9223372036854775808.0, (F)9223372036854775808.0, LLONG_MIN, LLONG_MAX) \
  LONGSHORE_TO_INTEGER_(from, F, ull, unsigned long long, (F)0, (F)18446744073709551616.0, 0ull, ULLONG_MAX)
LONGSHORE_TO_INTEGERS_(float, float)
LONGSHORE_TO_INTEGERS_(double, double)
LONGSHORE_CUDA_ float __int2float_rn(int x) { return (float)x; }
LONGSHORE_CUDA_ float __uint2float_rn(unsigned int x) { return (float)x; }
LONGSHORE_CUDA_ float __ll2float_rn(long long x) { return (float)x; }
LONGSHORE_CUDA_ float __ull2float_rn(unsigned long long x) { return (float)x; }
LONGSHORE_CUDA_ double __int2double_rn(int x) { return (double)x; }
LONGSHORE_CUDA_ double __uint2double_rn(unsigned int x) { return (double)x; }
LONGSHORE_CUDA_ double __ll2double_rn(long long x) { return (double)x; }
LONGSHORE_CUDA_ double __ull2double_rn(unsigned long long x) { return (double)x; }
LONGSHORE_CUDA_ float __double2float_rn(double x) { return (float)x; }

#endif
