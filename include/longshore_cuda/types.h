/*
 * longshore_cuda/types.h: the vector types of CUDA and HIP. Part of longshore_cuda.h.
 */
#ifndef LONGSHORE_CUDA_TYPES_H
#define LONGSHORE_CUDA_TYPES_H
#pragma clang system_header

/* HIP's vectors have constructors: of all elements, and of one value for all. */
#if LONGSHORE_IS_HIP_
#define LONGSHORE_VECTOR_FROM_(name, T, all, of_all, parameters, each)                                                \
  name() = default;                                                                                                   \
  __host__ __device__ constexpr name parameters : each {}                                                             \
  __host__ __device__ explicit constexpr name(T all) : of_all {}
#else
#define LONGSHORE_VECTOR_FROM_(name, T, all, of_all, parameters, each)
#endif
#define LONGSHORE_LIST_(...) __VA_ARGS__
#define LONGSHORE_VECTORS_(T, name, align2, align4)                                                                   \
  struct name##1 {                                                                                                    \
    typedef T longshore_element_;                                                                                     \
    static const int longshore_count_ = 1;                                                                            \
    T x;                                                                                                              \
  };                                                                                                                  \
  struct __attribute__((aligned(align2))) name##2 {                                                                   \
    typedef T longshore_element_;                                                                                     \
    static const int longshore_count_ = 2;                                                                            \
    LONGSHORE_VECTOR_FROM_(name##2, T, v, LONGSHORE_LIST_(x(v), y(v)), (T x, T y), LONGSHORE_LIST_(x(x), y(y)))       \
    T x, y;                                                                                                           \
  };                                                                                                                  \
  struct name##3 {                                                                                                    \
    typedef T longshore_element_;                                                                                     \
    static const int longshore_count_ = 3;                                                                            \
    LONGSHORE_VECTOR_FROM_(name##3, T, v, LONGSHORE_LIST_(x(v), y(v), z(v)), (T x, T y, T z), LONGSHORE_LIST_(x(x), y(y), z(z)))\
    T x, y, z;                                                                                                        \
  };                                                                                                                  \
  struct __attribute__((aligned(align4))) name##4 {                                                                   \
    typedef T longshore_element_;                                                                                     \
    static const int longshore_count_ = 4;                                                                            \
    LONGSHORE_VECTOR_FROM_(name##4, T, v, LONGSHORE_LIST_(x(v), y(v), z(v), w(v)), (T x, T y, T z, T w), LONGSHORE_LIST_(x(x), y(y), z(z), w(w)))\
    T x, y, z, w;                                                                                                     \
  };                                                                                                                  \
  LONGSHORE_BOTH_ name##1 make_##name##1(T x) {                                                                       \
    name##1 v = {x};                                                                                                  \
    return v;                                                                                                         \
  }                                                                                                                   \
  LONGSHORE_BOTH_ name##2 make_##name##2(T x, T y) {                                                                  \
    name##2 v = {x, y};                                                                                               \
    return v;                                                                                                         \
  }                                                                                                                   \
  LONGSHORE_BOTH_ name##3 make_##name##3(T x, T y, T z) {                                                             \
    name##3 v = {x, y, z};                                                                                            \
    return v;                                                                                                         \
  }                                                                                                                   \
  LONGSHORE_BOTH_ name##4 make_##name##4(T x, T y, T z, T w) {                                                        \
    name##4 v = {x, y, z, w};                                                                                         \
    return v;                                                                                                         \
  }
LONGSHORE_VECTORS_(signed char, char, 2, 4)
LONGSHORE_VECTORS_(unsigned char, uchar, 2, 4)
LONGSHORE_VECTORS_(short, short, 4, 8)
LONGSHORE_VECTORS_(unsigned short, ushort, 4, 8)
LONGSHORE_VECTORS_(int, int, 8, 16)
LONGSHORE_VECTORS_(unsigned int, uint, 8, 16)
LONGSHORE_VECTORS_(long, long, 16, 16)
LONGSHORE_VECTORS_(unsigned long, ulong, 16, 16)
LONGSHORE_VECTORS_(long long, longlong, 16, 16)
LONGSHORE_VECTORS_(unsigned long long, ulonglong, 16, 16)
LONGSHORE_VECTORS_(float, float, 8, 16)
LONGSHORE_VECTORS_(double, double, 16, 16)

#if LONGSHORE_IS_HIP_
template <class T, unsigned int count> struct longshore_hip_vector_;
#define LONGSHORE_HIP_VECTORS_(T, name)                                                                               \
  template <> struct longshore_hip_vector_<T, 1> { typedef name##1 type; };                                           \
  template <> struct longshore_hip_vector_<T, 2> { typedef name##2 type; };                                           \
  template <> struct longshore_hip_vector_<T, 3> { typedef name##3 type; };                                           \
  template <> struct longshore_hip_vector_<T, 4> { typedef name##4 type; };
LONGSHORE_HIP_VECTORS_(signed char, char)
LONGSHORE_HIP_VECTORS_(unsigned char, uchar)
LONGSHORE_HIP_VECTORS_(short, short)
LONGSHORE_HIP_VECTORS_(unsigned short, ushort)
LONGSHORE_HIP_VECTORS_(int, int)
LONGSHORE_HIP_VECTORS_(unsigned int, uint)
LONGSHORE_HIP_VECTORS_(long, long)
LONGSHORE_HIP_VECTORS_(unsigned long, ulong)
LONGSHORE_HIP_VECTORS_(float, float)
LONGSHORE_HIP_VECTORS_(double, double)
template <class T, unsigned int count> using HIP_vector_type = typename longshore_hip_vector_<T, count>::type;
#endif

struct dim3 {
  unsigned int x, y, z;
  __host__ __device__ constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
  __host__ __device__ constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  __host__ __device__ operator uint3() const {
    uint3 v = {x, y, z};
    return v;
  }
};

/* HIP defines operators of vectors, CUDA leaves them to the program. These are templates, to which
 * the compiler prefers a program's own. */
template <class V, int count = V::longshore_count_> struct longshore_vector_ {
  typedef V type;
};
template <class S> struct longshore_is_number_ {
  static const bool value = __is_integral(S) || __is_floating_point(S);
};
template <class S, class T, bool is_number> struct longshore_scalar_ {};
template <class S, class T> struct longshore_scalar_<S, T, true> {
  typedef T type;
};
#define LONGSHORE_SCALAR_(S, V)                                                                                       \
  typename longshore_scalar_<S, typename longshore_vector_<V>::type, longshore_is_number_<S>::value>::type
#define LONGSHORE_OPERATOR_(op)                                                                                       \
  template <class V>                                                                                                  \
  __host__ __device__ inline typename longshore_vector_<V>::type operator op(V a, V b) {                              \
    typedef typename V::longshore_element_ T;                                                                         \
    T *const x = (T *)&a;                                                                                             \
    const T *const y = (const T *)&b;                                                                                 \
    for (int i = 0; i < V::longshore_count_; ++i) x[i] = (T)(x[i] op y[i]);                                           \
    return a;                                                                                                         \
  }                                                                                                                   \
  template <class V, class S> __host__ __device__ inline LONGSHORE_SCALAR_(S, V) operator op(V a, S b) {              \
    typedef typename V::longshore_element_ T;                                                                         \
    T *const x = (T *)&a;                                                                                             \
    for (int i = 0; i < V::longshore_count_; ++i) x[i] = (T)(x[i] op (T)b);                                           \
    return a;                                                                                                         \
  }                                                                                                                   \
  template <class S, class V> __host__ __device__ inline LONGSHORE_SCALAR_(S, V) operator op(S a, V b) {              \
    typedef typename V::longshore_element_ T;                                                                         \
    T *const y = (T *)&b;                                                                                             \
    for (int i = 0; i < V::longshore_count_; ++i) y[i] = (T)((T)a op y[i]);                                           \
    return b;                                                                                                         \
  }                                                                                                                   \
  template <class V, class B> __host__ __device__ inline typename longshore_vector_<V>::type &operator op##=(V & a, B b) { \
    a = a op b;                                                                                                       \
    return a;                                                                                                         \
  }
LONGSHORE_OPERATOR_(+)
LONGSHORE_OPERATOR_(-)
LONGSHORE_OPERATOR_(*)
LONGSHORE_OPERATOR_(/)
LONGSHORE_OPERATOR_(%)
LONGSHORE_OPERATOR_(&)
LONGSHORE_OPERATOR_(|)
LONGSHORE_OPERATOR_(^)
LONGSHORE_OPERATOR_(<<)
LONGSHORE_OPERATOR_(>>)
template <class V> __host__ __device__ inline typename longshore_vector_<V>::type operator~(V a) {
  typedef typename V::longshore_element_ T;
  T *const x = (T *)&a;
  for (int i = 0; i < V::longshore_count_; ++i) x[i] = (T)~x[i];
  return a;
}
template <class V> __host__ __device__ inline typename longshore_vector_<V>::type &operator++(V &a) {
  return a += (typename V::longshore_element_)1;
}
template <class V> __host__ __device__ inline typename longshore_vector_<V>::type &operator--(V &a) {
  return a -= (typename V::longshore_element_)1;
}
template <class V> __host__ __device__ inline typename longshore_vector_<V>::type operator++(V &a, int) {
  const V before = a;
  ++a;
  return before;
}
template <class V> __host__ __device__ inline typename longshore_vector_<V>::type operator--(V &a, int) {
  const V before = a;
  --a;
  return before;
}
template <class V> __host__ __device__ inline typename longshore_vector_<V>::type operator-(V a) {
  typedef typename V::longshore_element_ T;
  T *const x = (T *)&a;
  for (int i = 0; i < V::longshore_count_; ++i) x[i] = -x[i];
  return a;
}
template <class V> __host__ __device__ inline bool longshore_equal_(typename longshore_vector_<V>::type a, V b) {
  typedef typename V::longshore_element_ T;
  const T *const x = (const T *)&a, *const y = (const T *)&b;
  bool equal = true;
  for (int i = 0; i < V::longshore_count_; ++i) equal = equal && x[i] == y[i];
  return equal;
}
template <class V, int count = V::longshore_count_> __host__ __device__ inline bool operator==(V a, V b) {
  return longshore_equal_<V>(a, b);
}
template <class V, int count = V::longshore_count_> __host__ __device__ inline bool operator!=(V a, V b) {
  return !longshore_equal_<V>(a, b);
}

#endif
