/*
 * longshore_cuda/thrust.h: the pairs and tuples of Thrust, which kernels use too. `longshore cc`
 * includes it for <thrust/tuple.h> and <thrust/pair.h>. Thrust's algorithms are not part of it.
 */
#ifndef LONGSHORE_THRUST_H
#define LONGSHORE_THRUST_H
#pragma clang system_header

#include "../longshore_cuda.h"

#define LONGSHORE_OF_TUPLES_ LONGSHORE_METHOD_OF_BOTH_ constexpr

namespace thrust {

/* ---- Pairs ----------------------------------------------------------------------------------- */

template <class A, class B> struct pair {
  typedef A first_type;
  typedef B second_type;
  A first;
  B second;
  LONGSHORE_OF_TUPLES_ pair() : first(), second() {}
  LONGSHORE_OF_TUPLES_ pair(const A &first, const B &second) : first(first), second(second) {}
  template <class C, class D> LONGSHORE_OF_TUPLES_ pair(const pair<C, D> &from) : first(from.first), second(from.second) {}
  LONGSHORE_METHOD_OF_BOTH_ void swap(pair &other) {
    const pair before = *this;
    *this = other;
    other = before;
  }
};
template <class A, class B> LONGSHORE_OF_TUPLES_ pair<A, B> make_pair(A first, B second) {
  return pair<A, B>(first, second);
}

/* ---- Tuples ---------------------------------------------------------------------------------- */

/* An element, with its index. An assignment to a reference assigns to its object. */
template <int index, class T> struct longshore_element_ {
  T value;
  LONGSHORE_OF_TUPLES_ longshore_element_() : value() {}
  template <class U> LONGSHORE_OF_TUPLES_ longshore_element_(int, U &&from) : value(static_cast<U &&>(from)) {}
};
template <int index, class T> struct longshore_element_<index, T &> {
  T &value;
  LONGSHORE_OF_TUPLES_ longshore_element_(int, T &object) : value(object) {}
  longshore_element_(const longshore_element_ &) = default;
  LONGSHORE_METHOD_OF_BOTH_ longshore_element_ &operator=(const longshore_element_ &from) {
    value = from.value;
    return *this;
  }
};
template <int index, class T> LONGSHORE_OF_TUPLES_ T &longshore_get_(longshore_element_<index, T> &from) { return from.value; }
template <int index, class T> LONGSHORE_OF_TUPLES_ const T &longshore_get_(const longshore_element_<index, T> &from) {
  return from.value;
}

template <class Index, Index... indices> struct longshore_indices_ {};
template <class Indices, class... T> struct longshore_elements_;
template <int... indices, class... T>
struct longshore_elements_<longshore_indices_<int, indices...>, T...> : longshore_element_<indices, T>... {
  LONGSHORE_OF_TUPLES_ longshore_elements_() {}
  template <class... U>
  LONGSHORE_OF_TUPLES_ longshore_elements_(int, U &&...from)
      : longshore_element_<indices, T>(0, static_cast<U &&>(from))... {}
  template <class Other>
  LONGSHORE_OF_TUPLES_ longshore_elements_(const Other &from) : longshore_element_<indices, T>(0, longshore_get_<indices>(from))... {}
  template <class Other> LONGSHORE_METHOD_OF_BOTH_ void assign(const Other &from) {
    const int each[] = {0, (longshore_get_<indices>(*this) = longshore_get_<indices>(from), 0)...};
    (void)each;
  }
};

template <bool condition> struct longshore_only_if_ {};
template <> struct longshore_only_if_<true> {
  typedef int type;
};
template <class A, class B> struct longshore_all_made_;
template <class... T> struct tuple;
template <class... T, class... U> struct longshore_all_made_<tuple<T...>, tuple<U...>> {
  /* The comparison of all elements with an end at each side. */
  template <bool... made> struct list;
  static constexpr bool value = __is_same(list<true, __is_constructible(T, U)...>, list<__is_constructible(T, U)..., true>);
};
template <bool has_same_size, class A, class B> struct longshore_if_made_ {};
template <class A, class B> struct longshore_if_made_<true, A, B> : longshore_only_if_<longshore_all_made_<A, B>::value> {};

template <class... T> struct tuple : longshore_elements_<__make_integer_seq<longshore_indices_, int, sizeof...(T)>, T...> {
  typedef longshore_elements_<__make_integer_seq<longshore_indices_, int, sizeof...(T)>, T...> longshore_base_;
  LONGSHORE_OF_TUPLES_ tuple() {}
  template <class... U, class = typename longshore_if_made_<sizeof...(U) == sizeof...(T) && sizeof...(U) != 0, tuple, tuple<U...>>::type>
  LONGSHORE_OF_TUPLES_ tuple(U &&...from) : longshore_base_(0, static_cast<U &&>(from)...) {}
  template <class U, class... More, class = typename longshore_only_if_<sizeof...(More) + 1 == sizeof...(T)>::type>
  LONGSHORE_OF_TUPLES_ tuple(const tuple<U, More...> &from) : longshore_base_(from) {}
  template <class A, class B> LONGSHORE_OF_TUPLES_ tuple(const pair<A, B> &from) : longshore_base_(0, from.first, from.second) {}
  template <class... U> LONGSHORE_METHOD_OF_BOTH_ tuple &operator=(const tuple<U...> &from) {
    static_assert(sizeof...(U) == sizeof...(T), "the tuples have different sizes");
    this->assign(from);
    return *this;
  }
  template <class A, class B> LONGSHORE_METHOD_OF_BOTH_ tuple &operator=(const pair<A, B> &from) {
    return *this = tuple<const A &, const B &>(from.first, from.second);
  }
  template <int index> LONGSHORE_OF_TUPLES_ auto &get() { return longshore_get_<index>(*this); }
  template <int index> LONGSHORE_OF_TUPLES_ auto &&get() const { return longshore_get_<index>(*this); }
};

template <class T> struct tuple_size;
template <class... T> struct tuple_size<tuple<T...>> {
  static constexpr size_t value = sizeof...(T);
};
template <class A, class B> struct tuple_size<pair<A, B>> {
  static constexpr size_t value = 2;
};
template <class T> struct tuple_size<const T> : tuple_size<T> {};
template <size_t index, class T> struct tuple_element;
template <size_t index, class... T> struct tuple_element<index, tuple<T...>> {
  typedef __type_pack_element<index, T...> type;
};
template <size_t index, class A, class B> struct tuple_element<index, pair<A, B>> {
  typedef __type_pack_element<index, A, B> type;
};
template <size_t index, class T> struct tuple_element<index, const T> {
  typedef const typename tuple_element<index, T>::type type;
};
template <size_t index, class T> using tuple_element_t = typename tuple_element<index, T>::type;

template <size_t index, class... T> LONGSHORE_OF_TUPLES_ auto &get(tuple<T...> &from) { return longshore_get_<(int)index>(from); }
template <size_t index, class... T> LONGSHORE_OF_TUPLES_ auto &&get(const tuple<T...> &from) {
  return longshore_get_<(int)index>(from);
}
template <size_t index, class A, class B> LONGSHORE_OF_TUPLES_ tuple_element_t<index, pair<A, B>> &get(pair<A, B> &from) {
  return thrust::get<index>(tuple<A &, B &>(from.first, from.second));
}
template <size_t index, class A, class B>
LONGSHORE_OF_TUPLES_ const tuple_element_t<index, pair<A, B>> &get(const pair<A, B> &from) {
  return thrust::get<index>(tuple<const A &, const B &>(from.first, from.second));
}

template <class... T> LONGSHORE_OF_TUPLES_ tuple<T...> make_tuple(T... from) { return tuple<T...>(static_cast<T &&>(from)...); }
template <class... T> LONGSHORE_OF_TUPLES_ tuple<T &...> tie(T &...objects) { return tuple<T &...>(objects...); }
template <class A, class B> LONGSHORE_METHOD_OF_BOTH_ void swap(pair<A, B> &a, pair<A, B> &b) { a.swap(b); }
/* An element of `tie` without an object. */
struct longshore_ignored_ {
  template <class T> LONGSHORE_OF_TUPLES_ const longshore_ignored_ &operator=(const T &) const { return *this; }
};
static constexpr longshore_ignored_ ignore{};

/* ---- Comparisons ----------------------------------------------------------------------------- */

/* The elements from an index on. */
template <size_t index, size_t size> struct longshore_rest_ {
  template <class A, class B> LONGSHORE_METHOD_OF_BOTH_ static constexpr bool is_equal(const A &a, const B &b) {
    return thrust::get<index>(a) == thrust::get<index>(b) && longshore_rest_<index + 1, size>::is_equal(a, b);
  }
  template <class A, class B> LONGSHORE_METHOD_OF_BOTH_ static constexpr bool is_less(const A &a, const B &b) {
    return thrust::get<index>(a) < thrust::get<index>(b) ||
           (!(thrust::get<index>(b) < thrust::get<index>(a)) && longshore_rest_<index + 1, size>::is_less(a, b));
  }
};
template <size_t size> struct longshore_rest_<size, size> {
  template <class A, class B> LONGSHORE_METHOD_OF_BOTH_ static constexpr bool is_equal(const A &, const B &) { return true; }
  template <class A, class B> LONGSHORE_METHOD_OF_BOTH_ static constexpr bool is_less(const A &, const B &) { return false; }
};
#define LONGSHORE_COMPARISONS_(parameters, A, B, size)                                                                \
  template <LONGSHORE_LIST_ parameters> LONGSHORE_OF_TUPLES_ bool operator==(const A &a, const B &b) {                \
    return longshore_rest_<0, size>::is_equal(a, b);                                                                  \
  }                                                                                                                   \
  template <LONGSHORE_LIST_ parameters> LONGSHORE_OF_TUPLES_ bool operator!=(const A &a, const B &b) {                \
    return !(a == b);                                                                                                 \
  }                                                                                                                   \
  template <LONGSHORE_LIST_ parameters> LONGSHORE_OF_TUPLES_ bool operator<(const A &a, const B &b) {                 \
    return longshore_rest_<0, size>::is_less(a, b);                                                                   \
  }                                                                                                                   \
  template <LONGSHORE_LIST_ parameters> LONGSHORE_OF_TUPLES_ bool operator>(const A &a, const B &b) { return b < a; } \
  template <LONGSHORE_LIST_ parameters> LONGSHORE_OF_TUPLES_ bool operator<=(const A &a, const B &b) {                \
    return !(b < a);                                                                                                  \
  }                                                                                                                   \
  template <LONGSHORE_LIST_ parameters> LONGSHORE_OF_TUPLES_ bool operator>=(const A &a, const B &b) {                \
    return !(a < b);                                                                                                  \
  }
#define LONGSHORE_LIST_(...) __VA_ARGS__
#define LONGSHORE_PAIR_ pair<T, U>
LONGSHORE_COMPARISONS_((class... T, class... U), tuple<T...>, tuple<U...>, sizeof...(T))
LONGSHORE_COMPARISONS_((class T, class U), LONGSHORE_PAIR_, LONGSHORE_PAIR_, 2)

} // namespace thrust

/* Declarations such as `auto [a, b] = pair` ask the standard library's templates. */
#if __has_include(<utility>)
namespace std {
template <class... T> struct tuple_size<thrust::tuple<T...>> {
  static constexpr size_t value = sizeof...(T);
};
template <size_t index, class... T> struct tuple_element<index, thrust::tuple<T...>> : thrust::tuple_element<index, thrust::tuple<T...>> {};
} // namespace std
#endif

#endif
