/*
 * longshore_cuda/simd.h: operations on the two halves, or the four bytes, of a word. Part of
 * longshore_cuda.h.
 */
#ifndef LONGSHORE_CUDA_SIMD_H
#define LONGSHORE_CUDA_SIMD_H
#pragma clang system_header

/* A part of a word, with its sign if `is_signed`. */
template <int bits, bool is_signed> LONGSHORE_CUDA_ int longshore_part_(unsigned int word, int at) {
  const unsigned int part = word >> at & ((1u << bits) - 1);
  return is_signed ? (int)(part << (32 - bits)) >> (32 - bits) : (int)part;
}
template <int bits> LONGSHORE_CUDA_ int longshore_saturated_(int x, bool is_signed) {
  const int least = is_signed ? -(1 << (bits - 1)) : 0, most = (1 << (bits - (is_signed ? 1 : 0))) - 1;
  return x < least ? least : x > most ? most : x;
}
LONGSHORE_CUDA_ int longshore_distance_(int x, int y) { return x < y ? y - x : x - y; }

/* An operation on parts `x` and `y`, with a sign if the name's `sign` is 1. */
#define LONGSHORE_OF_PARTS_(name, bits, sign, expression)                                                             \
  LONGSHORE_CUDA_ unsigned int name(unsigned int a, unsigned int b) {                                                 \
    unsigned int result = 0;                                                                                          \
    for (int at = 0; at < 32; at += bits) {                                                                           \
      const int x = longshore_part_<bits, sign>(a, at), y = longshore_part_<bits, sign>(b, at);                       \
      result |= ((unsigned int)(expression) & ((1u << bits) - 1)) << at;                                              \
    }                                                                                                                 \
    return result;                                                                                                    \
  }
#define LONGSHORE_OF_ONES_(name, bits, expression)                                                                    \
  LONGSHORE_CUDA_ unsigned int name(unsigned int a) {                                                                 \
    unsigned int result = 0;                                                                                          \
    for (int at = 0; at < 32; at += bits) {                                                                           \
      const int x = longshore_part_<bits, true>(a, at);                                                               \
      result |= ((unsigned int)(expression) & ((1u << bits) - 1)) << at;                                              \
    }                                                                                                                 \
    return result;                                                                                                    \
  }
#define LONGSHORE_SUM_OF_DISTANCES_(name, bits, sign)                                                                 \
  LONGSHORE_CUDA_ unsigned int name(unsigned int a, unsigned int b) {                                                 \
    unsigned int result = 0;                                                                                          \
    for (int at = 0; at < 32; at += bits)                                                                             \
      result += (unsigned int)longshore_distance_(longshore_part_<bits, sign>(a, at), longshore_part_<bits, sign>(b, at)); \
    return result;                                                                                                    \
  }
#define LONGSHORE_COMPARED_(name, count, bits, sign, op)                                                              \
  LONGSHORE_OF_PARTS_(__vcmp##name##count, bits, sign, x op y ? -1 : 0)                                               \
  LONGSHORE_OF_PARTS_(__vset##name##count, bits, sign, x op y ? 1 : 0)
#define LONGSHORE_WORDS_OF_(count, bits)                                                                              \
  LONGSHORE_OF_PARTS_(__vadd##count, bits, 0, x + y)                                                                  \
  LONGSHORE_OF_PARTS_(__vaddss##count, bits, 1, longshore_saturated_<bits>(x + y, true))                              \
  LONGSHORE_OF_PARTS_(__vaddus##count, bits, 0, longshore_saturated_<bits>(x + y, false))                             \
  LONGSHORE_OF_PARTS_(__vsub##count, bits, 0, x - y)                                                                  \
  LONGSHORE_OF_PARTS_(__vsubss##count, bits, 1, longshore_saturated_<bits>(x - y, true))                              \
  LONGSHORE_OF_PARTS_(__vsubus##count, bits, 0, longshore_saturated_<bits>(x - y, false))                             \
  LONGSHORE_OF_PARTS_(__vavgs##count, bits, 1, (x + y + (x + y >= 0 ? 1 : 0)) >> 1)                                   \
  LONGSHORE_OF_PARTS_(__vavgu##count, bits, 0, (x + y + 1) >> 1)                                                      \
  LONGSHORE_OF_PARTS_(__vhaddu##count, bits, 0, (x + y) >> 1)                                                         \
  LONGSHORE_OF_PARTS_(__vabsdiffs##count, bits, 1, longshore_distance_(x, y))                                         \
  LONGSHORE_OF_PARTS_(__vabsdiffu##count, bits, 0, longshore_distance_(x, y))                                         \
  LONGSHORE_OF_PARTS_(__vmins##count, bits, 1, x < y ? x : y)                                                         \
  LONGSHORE_OF_PARTS_(__vminu##count, bits, 0, x < y ? x : y)                                                         \
  LONGSHORE_OF_PARTS_(__vmaxs##count, bits, 1, x < y ? y : x)                                                         \
  LONGSHORE_OF_PARTS_(__vmaxu##count, bits, 0, x < y ? y : x)                                                         \
  LONGSHORE_OF_ONES_(__vabs##count, bits, x < 0 ? -x : x)                                                             \
  LONGSHORE_OF_ONES_(__vabsss##count, bits, longshore_saturated_<bits>(x < 0 ? -x : x, true))                         \
  LONGSHORE_OF_ONES_(__vneg##count, bits, -x)                                                                         \
  LONGSHORE_OF_ONES_(__vnegss##count, bits, longshore_saturated_<bits>(-x, true))                                     \
  LONGSHORE_SUM_OF_DISTANCES_(__vsads##count, bits, true)                                                             \
  LONGSHORE_SUM_OF_DISTANCES_(__vsadu##count, bits, false)                                                            \
  LONGSHORE_COMPARED_(eq, count, bits, 0, ==)                                                                         \
  LONGSHORE_COMPARED_(ne, count, bits, 0, !=)                                                                         \
  LONGSHORE_COMPARED_(lts, count, bits, 1, <)                                                                         \
  LONGSHORE_COMPARED_(ltu, count, bits, 0, <)                                                                         \
  LONGSHORE_COMPARED_(les, count, bits, 1, <=)                                                                        \
  LONGSHORE_COMPARED_(leu, count, bits, 0, <=)                                                                        \
  LONGSHORE_COMPARED_(gts, count, bits, 1, >)                                                                         \
  LONGSHORE_COMPARED_(gtu, count, bits, 0, >)                                                                         \
  LONGSHORE_COMPARED_(ges, count, bits, 1, >=)                                                                        \
  LONGSHORE_COMPARED_(geu, count, bits, 0, >=)
LONGSHORE_WORDS_OF_(2, 16)
LONGSHORE_WORDS_OF_(4, 8)

#endif
