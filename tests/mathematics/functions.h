/* The functions of longshore_math.h: X(name, lowest and highest argument of a uniform distribution,
 * reference). The reference is the C library's function, or one of this folder. */
#define ONE_ARGUMENT(X)                                                                                               \
  X(exp, -745, 710, exp)                                                                                              \
  X(exp2, -1075, 1024, exp2)                                                                                          \
  X(exp10, -324, 309, exp10)                                                                                          \
  X(expm1, -40, 710, expm1)                                                                                           \
  X(log, 0, 10, log)                                                                                                  \
  X(log2, 0, 10, log2)                                                                                                \
  X(log10, 0, 10, log10)                                                                                              \
  X(log1p, -1, 10, log1p)                                                                                             \
  X(sin, -100, 100, sin)                                                                                              \
  X(cos, -100, 100, cos)                                                                                              \
  X(tan, -100, 100, tan)                                                                                              \
  X(asin, -1, 1, asin)                                                                                                \
  X(acos, -1, 1, acos)                                                                                                \
  X(atan, -10, 10, atan)                                                                                              \
  X(sinh, -20, 20, sinh)                                                                                              \
  X(cosh, -20, 20, cosh)                                                                                              \
  X(tanh, -10, 10, tanh)                                                                                              \
  X(asinh, -10, 10, asinh)                                                                                            \
  X(acosh, 1, 10, acosh)                                                                                              \
  X(atanh, -1, 1, atanh)                                                                                              \
  X(erf, -6, 6, erf)                                                                                                  \
  X(erfc, -6, 28, erfc)                                                                                               \
  X(tgamma, -30, 172, tgamma)                                                                                         \
  X(lgamma, -20, 30, lgamma)                                                                                          \
  X(cbrt, -10, 10, cbrt)                                                                                              \
  X(rcbrt, -10, 10, own_rcbrt)                                                                                        \
  X(sinpi, -10, 10, own_sinpi)                                                                                        \
  X(cospi, -10, 10, own_cospi)                                                                                        \
  X(rsqrt, 0, 10, own_rsqrt)                                                                                          \
  X(round, -10, 10, round)                                                                                            \
  X(trunc, -10, 10, trunc)                                                                                            \
  X(rint, -10, 10, rint)
#define TWO_ARGUMENTS(X)                                                                                              \
  X(pow, 0, 30, pow)                                                                                                  \
  X(atan2, -10, 10, atan2)                                                                                            \
  X(hypot, -10, 10, hypot)                                                                                            \
  X(fmod, -100, 100, fmod)                                                                                            \
  X(remainder, -100, 100, remainder)                                                                                  \
  X(rhypot, -10, 10, own_rhypot)                                                                                      \
  X(fdim, -10, 10, fdim)                                                                                              \
  X(copysign, -10, 10, copysign)
