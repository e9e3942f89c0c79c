/*
 * longshore_cuda/cub_traits.h: CUB's descriptions of number types. Part of longshore_cuda/cub.h.
 */
#ifndef LONGSHORE_CUB_TRAITS_H
#define LONGSHORE_CUB_TRAITS_H
#pragma clang system_header

struct __half;
struct __nv_bfloat16;

namespace cub {

enum Category { NOT_A_NUMBER, SIGNED_INTEGER, UNSIGNED_INTEGER, FLOATING_POINT };

/* A word of a number's size. */
template <int bytes> struct longshore_word_of_size_ {
  typedef unsigned int type;
};
template <> struct longshore_word_of_size_<1> {
  typedef unsigned char type;
};
template <> struct longshore_word_of_size_<2> {
  typedef unsigned short type;
};
template <> struct longshore_word_of_size_<8> {
  typedef unsigned long long type;
};

template <class T> struct longshore_category_ {
  static constexpr bool is_signed = __is_integral(T) && __is_signed(T);
  static constexpr Category value = __is_floating_point(T) ? FLOATING_POINT
                                    : is_signed            ? SIGNED_INTEGER
                                    : __is_integral(T)     ? UNSIGNED_INTEGER
                                                           : NOT_A_NUMBER;
};
template <> struct longshore_category_<__half> {
  static constexpr Category value = FLOATING_POINT;
};
template <> struct longshore_category_<__nv_bfloat16> {
  static constexpr Category value = FLOATING_POINT;
};

/* The bits of keys, and words whose order as integers is the one of the keys. */
template <class T, Category category = longshore_category_<T>::value> struct NumericTraits {
  typedef typename longshore_word_of_size_<sizeof(T)>::type UnsignedBits;
  static constexpr Category CATEGORY = category;
  static constexpr UnsignedBits longshore_top_ = (UnsignedBits)((UnsignedBits)1 << (8 * sizeof(UnsignedBits) - 1));
  static constexpr UnsignedBits LOWEST_KEY = category == UNSIGNED_INTEGER ? 0
                                             : category == FLOATING_POINT ? (UnsignedBits)-1
                                                                          : longshore_top_;
  static constexpr UnsignedBits MAX_KEY = category == UNSIGNED_INTEGER ? (UnsignedBits)-1 : (UnsignedBits)~longshore_top_;
  enum { PRIMITIVE = true, NULL_TYPE = false };

  LONGSHORE_METHOD_OF_BOTH_ static UnsignedBits TwiddleIn(UnsignedBits key) {
    if (category == UNSIGNED_INTEGER) return key;
    return (UnsignedBits)(key ^ (category == FLOATING_POINT && (key & longshore_top_) ? (UnsignedBits)-1 : longshore_top_));
  }
  LONGSHORE_METHOD_OF_BOTH_ static UnsignedBits TwiddleOut(UnsignedBits key) {
    if (category == UNSIGNED_INTEGER) return key;
    return (UnsignedBits)(key ^ (category == FLOATING_POINT && !(key & longshore_top_) ? (UnsignedBits)-1 : longshore_top_));
  }
  /* Infinity has no part in the order of CUB's numbers. */
  LONGSHORE_METHOD_OF_BOTH_ static T Max() { return longshore_same_bits_<T>(limit(1)); }
  LONGSHORE_METHOD_OF_BOTH_ static T Lowest() { return longshore_same_bits_<T>(limit(-1)); }

private:
  LONGSHORE_METHOD_OF_BOTH_ static UnsignedBits limit(int sign) {
    if (category != FLOATING_POINT) return sign < 0 ? LOWEST_KEY : MAX_KEY;
    const int digits = __is_same(T, __nv_bfloat16) ? 7 : sizeof(T) == 2 ? 10 : sizeof(T) == 4 ? 23 : 52;
    const UnsignedBits most = (UnsignedBits)(~longshore_top_ ^ ((UnsignedBits)1 << digits));
    return sign < 0 ? (UnsignedBits)(most | longshore_top_) : most;
  }
};
template <class T> struct NumericTraits<T, NOT_A_NUMBER> {
  static constexpr Category CATEGORY = NOT_A_NUMBER;
  enum { PRIMITIVE = false, NULL_TYPE = false };
};
template <class T> struct Traits : NumericTraits<T> {};
template <class T> struct Traits<const T> : NumericTraits<T> {};

} // namespace cub

#endif
