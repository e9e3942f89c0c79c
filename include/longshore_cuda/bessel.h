/*
 * longshore_cuda/bessel.h: Bessel functions, for all targets. Part of longshore_cuda.h.
 *
 * Small arguments: recurrence from high orders down, which Neumann's sum normalises (Abramowitz and
 * Stegun, 9.1.46, 9.1.88, 9.12). Large ones: Hankel's asymptotic series (9.2.5).
 */
#ifndef LONGSHORE_CUDA_BESSEL_H
#define LONGSHORE_CUDA_BESSEL_H
#pragma clang system_header

#define LONGSHORE_BESSEL_ static __device__ inline __attribute__((unused))
#define LONGSHORE_BESSEL_LARGE_ 25.0
#define LONGSHORE_EULER_ 0.57721566490153286061

struct longshore_bessel_ {
  double j0, j1, jn, y0, y1;
};

/* The first terms of the series, for 0 < x < 1e-9. */
LONGSHORE_BESSEL_ longshore_bessel_ longshore_bessel_near_(double x, int n) {
  longshore_bessel_ found = {1.0, 0.5 * x, 1.0, 0.0, 0.0};
  for (int k = 1; k <= n && found.jn > 0.0; ++k) found.jn *= 0.5 * x / k;
  found.y0 = 2.0 * (longshore_log(0.5 * x) + LONGSHORE_EULER_) / LONGSHORE_PI_;
  found.y1 = -2.0 / LONGSHORE_PI_ / x;
  return found;
}

/* For 0 < x < 25, or n >= x. Without Y_0 and Y_1 for a large x, where their sums are inexact. */
LONGSHORE_BESSEL_ longshore_bessel_ longshore_bessel_down_(double x, int n) {
  if (x < 1e-9) return longshore_bessel_near_(x, n);
  const double most = n > x ? (double)n : x;
  int k = 2 * ((int)(most + longshore_sqrt(60.0 * most) + 24.0) / 2);
  double above = 0.0, here = 1e-300, norm = 0.0, even = 0.0, odd = 0.0;
  longshore_bessel_ found = {};
  for (; k >= 0; --k) {
    /* `here` is J_k without its factor. */
    const int half = k / 2;
    const double sign = half % 2 == 0 ? 1.0 : -1.0;
    if (k % 2 == 0) norm += k == 0 ? here : 2.0 * here;
    if (k % 2 == 0 && k > 0) even += sign * here / half;
    if (k % 2 == 1 && k > 1) odd += sign * here * k / (half * (half + 1.0));
    if (k == n) found.jn = here;
    if (k == 1) found.j1 = here;
    if (k == 0) found.j0 = here;
    const double below = k == 0 ? 0.0 : 2.0 * k / x * here - above;
    above = here;
    here = below;
    if (longshore_abs(here) > 1e150) {
      here *= 1e-150, above *= 1e-150, norm *= 1e-150, even *= 1e-150, odd *= 1e-150;
      found.jn *= 1e-150, found.j1 *= 1e-150;
    }
  }
  found.j0 /= norm, found.j1 /= norm, found.jn /= norm, even /= norm, odd /= norm;
  const double log = longshore_log(0.5 * x) + LONGSHORE_EULER_;
  found.y0 = (2.0 * log * found.j0 - 4.0 * even) / LONGSHORE_PI_;
  found.y1 = (2.0 * (log - 1.0) * found.j1 - 2.0 * found.j0 / x - 2.0 * odd) / LONGSHORE_PI_;
  return found;
}

/* J_n and Y_n for n = 0 or 1, and large arguments. */
LONGSHORE_BESSEL_ void longshore_bessel_far_(double x, int n, double *j, double *y) {
  const double square = 4.0 * n * n;
  double p = 1.0, q = 0.0, term = 1.0;
  for (int k = 1; k < 40; ++k) {
    const double next = term * (square - (2.0 * k - 1.0) * (2.0 * k - 1.0)) / (8.0 * k * x);
    if (longshore_abs(next) > longshore_abs(term) || longshore_abs(next) < 1e-18) break;
    term = next;
    const double signed_term = k / 2 % 2 == 0 ? term : -term;
    if (k % 2 == 0) p += signed_term;
    else q += signed_term;
  }
  double s, c;
  longshore_sincos(x, &s, &c);
  /* The cosine and the sine of the phase, each times a square root. */
  const double near = n == 0 ? c + s : s - c, across = n == 0 ? s - c : -s - c;
  const double scale = 1.0 / longshore_sqrt(LONGSHORE_PI_ * x);
  *j = scale * (p * near - q * across);
  *y = scale * (p * across + q * near);
}

LONGSHORE_BESSEL_ double longshore_j_(int n, double x) {
  const double size = longshore_abs(x), sign = n % 2 != 0 && (x < 0) != (n < 0) ? -1.0 : 1.0;
  n = n < 0 ? -n : n;
  if (longshore_isnan(x)) return x;
  if (longshore_isinf(x)) return 0.0;
  if (size == 0.0) return n == 0 ? 1.0 : 0.0;
  if (size < LONGSHORE_BESSEL_LARGE_ || n >= size) {
    const longshore_bessel_ found = longshore_bessel_down_(size, n);
    return sign * (n == 0 ? found.j0 : found.jn);
  }
  double before, here, none;
  longshore_bessel_far_(size, 0, &before, &none);
  if (n == 0) return before;
  longshore_bessel_far_(size, 1, &here, &none);
  for (int k = 1; k < n; ++k) {
    const double next = 2.0 * k / size * here - before;
    before = here;
    here = next;
  }
  return sign * here;
}
LONGSHORE_BESSEL_ double longshore_y_(int n, double x) {
  const double sign = n < 0 && n % 2 != 0 ? -1.0 : 1.0;
  n = n < 0 ? -n : n;
  if (longshore_isnan(x) || x < 0.0) return CUDART_NAN;
  if (x == 0.0) return sign * -CUDART_INF;
  if (longshore_isinf(x)) return 0.0;
  double before, here, none;
  if (x < LONGSHORE_BESSEL_LARGE_) {
    const longshore_bessel_ found = longshore_bessel_down_(x, 1);
    before = found.y0, here = found.y1;
  } else {
    longshore_bessel_far_(x, 0, &none, &before);
    longshore_bessel_far_(x, 1, &none, &here);
  }
  if (n == 0) return before;
  for (int k = 1; k < n && !longshore_isinf(here); ++k) {
    const double next = 2.0 * k / x * here - before;
    before = here;
    here = next;
  }
  return sign * here;
}

/* The modified function I_n for n = 0 or 1: its power series, or its asymptotic one (9.7.1). */
LONGSHORE_BESSEL_ double longshore_i_(int n, double x) {
  const double size = longshore_abs(x), sign = n == 1 && x < 0 ? -1.0 : 1.0;
  if (longshore_isnan(x) || longshore_isinf(x)) return n == 1 ? x : size;
  double sum = 1.0, term = 1.0;
  if (size < 30.0) {
    for (int k = 1; k < 100 && term > 1e-18 * sum; ++k) {
      term *= 0.25 * x * x / ((double)k * (k + n));
      sum += term;
    }
    return sign * (n == 1 ? 0.5 * size * sum : sum);
  }
  for (int k = 1; k < 60 && longshore_abs(term) > 1e-18; ++k) {
    term *= ((2.0 * k - 1.0) * (2.0 * k - 1.0) - 4.0 * n * n) / (8.0 * k * size);
    sum += term;
  }
  /* The half of the exponent does not overflow before the result does. */
  const double root = longshore_exp(0.5 * size);
  return sign * (root * (sum / longshore_sqrt(2.0 * LONGSHORE_PI_ * size)) * root);
}

#define LONGSHORE_BESSEL_OF_(name, value)                                                                             \
  LONGSHORE_CUDA_ double name(double x) { return value; }                                                             \
  LONGSHORE_CUDA_ float name##f(float x) { return (float)(value); }
LONGSHORE_BESSEL_OF_(j0, longshore_j_(0, x))
LONGSHORE_BESSEL_OF_(j1, longshore_j_(1, x))
LONGSHORE_BESSEL_OF_(y0, longshore_y_(0, x))
LONGSHORE_BESSEL_OF_(y1, longshore_y_(1, x))
LONGSHORE_BESSEL_OF_(cyl_bessel_i0, longshore_i_(0, x))
LONGSHORE_BESSEL_OF_(cyl_bessel_i1, longshore_i_(1, x))
LONGSHORE_CUDA_ double jn(int n, double x) { return longshore_j_(n, x); }
LONGSHORE_CUDA_ float jnf(int n, float x) { return (float)longshore_j_(n, (double)x); }
LONGSHORE_CUDA_ double yn(int n, double x) { return longshore_y_(n, x); }
LONGSHORE_CUDA_ float ynf(int n, float x) { return (float)longshore_y_(n, (double)x); }

#endif
