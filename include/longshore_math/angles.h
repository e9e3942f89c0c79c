/*
 * longshore_math/angles.h: sines, cosines and tangents of `double`. A part of longshore_math.h.
 */
#ifndef LONGSHORE_MATH_ANGLES_H
#define LONGSHORE_MATH_ANGLES_H
#pragma clang system_header

/*
 * Parts of `1 / pi`. A number x with exponents from `8 j + 1` to `8 j + 8` needs the bits from
 * weight `51 - 8 j` on: the products of others with x are even. Element `j` of the first table has
 * 24 bits from this weight, so that element `j + 3` has the next 24 bits, and so on. Element `j` of
 * the second table has the next 53 bits after 120 bits. All are multiplied by `2^200`, which keeps
 * them normal.
 */
LONGSHORE_TABLE_ double longshore_pi_parts_[143] = {
    0,
    0,
    0,
    0,
    0x1.4p+198,
    0x1.45cp+198,
    0x1.45f3p+198,
    0x1.7cc1bp+192,
    0x1.9836e4p+187,
    0x1.b7272p+176,
    0x1.c9c88p+170,
    0x1.c882a4p+162,
    0x1.054a78p+153,
    0x1.529fc2p+147,
    0x1.3f84e8p+138,
    0x1.c2757cp+131,
    0x1.d5f478p+121,
    0x1.7d1f52p+115,
    0x1.1f534cp+107,
    0x1.534ddcp+99,
    0x1.4ddc0cp+91,
    0x1.dc0db6p+83,
    0x1.b6c5p+70,
    0x1.b62958p+67,
    0x1.4acc9p+56,
    0x1.5993c4p+51,
    0x1.93c438p+43,
    0x1.c43904p+35,
    0x1.c820fp+24,
    0x1.041fe4p+19,
    0x1.fe516p+7,
    0x1.e5163ap+3,
    0x1.163abcp-5,
    0x1.d5ef5p-16,
    0x1.7bd778p-22,
    0x1.ebbc56p-29,
    0x1.bc561ap-37,
    0x1.586dc8p-47,
    0x1.b7246p-57,
    0x1.7246e2p-61,
    0x1.1b8e9p-71,
    0x1.c74848p-78,
    0x1.a424dcp-85,
    0x1.26e97p-96,
    0x1.ba5cp-102,
    0x1.2e0064p-109,
    0x1.9248p-127,
    0x1.924bb8p-127,
    0x1.25dd4p-134,
    0x1.dd4138p-142,
    0x1.413a3p-150,
    0x1.3a324p-158,
    0x1.1921cep-165,
    0x1.21cfep-173,
    0x1.cfe1dep-181,
    0x1.e1debp-189,
    0x1.deb1cap-197,
    0x1.639624p-206,
    0x1.cb129ap-213,
    0x1.129a72p-221,
    0x1.34e7dcp-230,
    0x1.cfba2p-239,
    0x1.ee8822p-245,
    0x1.1046bcp-254,
    0x1.1afa9p-264,
    0x1.5f52eap-269,
    0x1.52ebb4p-277,
    0x1.d7689p-286,
    0x1.b4484ep-293,
    0x1.213a6p-303,
    0x1.3a6718p-311,
    0x1.338e04p-318,
    0x1.c7026ap-325,
    0x1.026b44p-333,
    0x1.ad17d8p-343,
    0x1.45f7e4p-349,
    0x1.f7e412p-357,
    0x1.e41398p-365,
    0x1.3991cp-377,
    0x1.991d62p-381,
    0x1.1d6398p-389,
    0x1.639834p-397,
    0x1.983532p-405,
    0x1.a99cfp-416,
    0x1.339f48p-421,
    0x1.9f49c8p-429,
    0x1.49c844p-437,
    0x1.c845f8p-445,
    0x1.17e2e8p-455,
    0x1.f8bbdep-461,
    0x1.77bf24p-470,
    0x1.df9282p-477,
    0x1.9283bp-485,
    0x1.0763fcp-494,
    0x1.b1ff88p-501,
    0x1.ff897ep-509,
    0x1.897ffcp-517,
    0x1.7ffdep-525,
    0x1.fde058p-533,
    0x1.e0598p-541,
    0x1.6603f8p-551,
    0x1.80fef2p-557,
    0x1.fde5ep-566,
    0x1.e5e23p-574,
    0x1.e23168p-582,
    0x1.18b5ap-589,
    0x1.6b414cp-598,
    0x1.a0a6dp-605,
    0x1.4da3ecp-614,
    0x1.a3eda4p-622,
    0x1.f6d366p-629,
    0x1.a6cfd8p-638,
    0x1.67ecf2p-645,
    0x1.ecf27cp-653,
    0x1.e4f96p-662,
    0x1.f2c268p-671,
    0x1.6136e8p-678,
    0x1.36e9e8p-686,
    0x1.74f462p-693,
    0x1.e8c7ecp-702,
    0x1.8fd9ap-711,
    0x1.f669e4p-717,
    0x1.a797f8p-727,
    0x1.e5fea2p-733,
    0x1.fea2d6p-741,
    0x1.45aea4p-750,
    0x1.aea4f4p-758,
    0x1.527bacp-765,
    0x1.eeb1f8p-775,
    0x1.ac7ebep-781,
    0x1.faf978p-791,
    0x1.7cbe2cp-798,
    0x1.7c5ec8p-807,
    0x1.17b3dp-813,
    0x1.b3d072p-821,
    0x1.d0739ep-829,
    0x1.ce7dep-839,
    0x1.9f78a4p-845,
    0x1.78a528p-853,
    0x1.4a525cp-862,
    0x1.292ea6p-869,
    0x1.2ea6bep-877,
    0x1.4d7f68p-886,
};
LONGSHORE_TABLE_ double longshore_pi_rests_[128] = {
    0x1.c2757d1f534ddp+131, 0x1.d5f47d4d377p+121,   0x1.7d1f534ddc0dbp+115, 0x1.1f534ddc0db62p+107,
    0x1.534ddc0db6295p+99,  0x1.4ddc0db629599p+91,  0x1.dc0db6295993cp+83,  0x1.b6c52b327886p+70,
    0x1.b6295993c439p+67,   0x1.4acc9e21c8208p+56,  0x1.5993c439041fep+51,  0x1.93c439041fe51p+43,
    0x1.c439041fe5163p+35,  0x1.c820ff28b1d58p+24,  0x1.041fe5163abdep+19,  0x1.fe5163abdebbp+7,
    0x1.e5163abdebbc5p+3,   0x1.163abdebbc561p-5,   0x1.d5ef5de2b0db8p-16,  0x1.7bd778ac36e48p-22,
    0x1.ebbc561b7246ep-29,  0x1.bc561b7246e3ap-37,  0x1.586dc91b8e908p-47,  0x1.b7246e3a424dp-57,
    0x1.7246e3a424dd2p-61,  0x1.1b8e909374b8p-71,   0x1.c74849ba5c00cp-78,  0x1.a424dd2e00649p-85,
    0x1.26e970032497p-96,   0x1.ba5c00c925dd4p-102, 0x1.2e006492eea09p-109, 0x1.924bba82744p-127,
    0x1.924bba8274648p-127, 0x1.25dd413a32438p-134, 0x1.dd413a32439fcp-142, 0x1.413a32439fc3ap-150,
    0x1.3a32439fc3bd6p-158, 0x1.1921cfe1deb1cp-165, 0x1.21cfe1deb1cb1p-173, 0x1.cfe1deb1cb129p-181,
    0x1.e1deb1cb129a7p-189, 0x1.deb1cb129a73ep-197, 0x1.63962534e7ddp-206,  0x1.cb129a73ee882p-213,
    0x1.129a73ee88235p-221, 0x1.34e7dd1046beap-230, 0x1.cfba208d7d4b8p-239, 0x1.ee88235f52ebbp-245,
    0x1.1046bea5d7688p-254, 0x1.1afa975da242p-264,  0x1.5f52ebb4484e9p-269, 0x1.52ebb4484e99cp-277,
    0x1.d768909d338ep-286,  0x1.b4484e99c7026p-293, 0x1.213a671c09adp-303,  0x1.3a671c09ad17cp-311,
    0x1.338e04d68befcp-318, 0x1.c7026b45f7e41p-325, 0x1.026b45f7e4139p-333, 0x1.ad17df904e644p-343,
    0x1.45f7e413991d6p-349, 0x1.f7e413991d639p-357, 0x1.e413991d63983p-365, 0x1.3991d6398353p-377,
    0x1.991d639835339p-381, 0x1.1d639835339f4p-389, 0x1.639835339f49cp-397, 0x1.9835339f49c84p-405,
    0x1.a99cfa4e422f8p-416, 0x1.339f49c845f8bp-421, 0x1.9f49c845f8bbdp-429, 0x1.49c845f8bbdf9p-437,
    0x1.c845f8bbdf928p-445, 0x1.17e2ef7e4a0ecp-455, 0x1.f8bbdf9283b1fp-461, 0x1.77bf250763ffp-470,
    0x1.df9283b1ff897p-477, 0x1.9283b1ff897ffp-485, 0x1.0763ff12fffbcp-494, 0x1.b1ff897ffde05p-501,
    0x1.ff897ffde0598p-509, 0x1.897ffde05980fp-517, 0x1.7ffde05980fefp-525, 0x1.fde05980fef2fp-533,
    0x1.e05980fef2f11p-541, 0x1.6603fbcbc462cp-551, 0x1.80fef2f118b5ap-557, 0x1.fde5e2316b414p-566,
    0x1.e5e2316b414dap-574, 0x1.e2316b414da3ep-582, 0x1.18b5a0a6d1f6dp-589, 0x1.6b414da3eda6cp-598,
    0x1.a0a6d1f6d367ep-605, 0x1.4da3eda6cfd9ep-614, 0x1.a3eda6cfd9e4ep-622, 0x1.f6d367ecf27cbp-629,
    0x1.a6cfd9e4f9612p-638, 0x1.67ecf27cb09b7p-645, 0x1.ecf27cb09b74fp-653, 0x1.e4f96136e9e8cp-662,
    0x1.f2c26dd3d18fcp-671, 0x1.6136e9e8c7eccp-678, 0x1.36e9e8c7ecd3cp-686, 0x1.74f463f669e5fp-693,
    0x1.e8c7ecd3cbfd4p-702, 0x1.8fd9a797fa8b4p-711, 0x1.f669e5fea2d75p-717, 0x1.a797fa8b5d49cp-727,
    0x1.e5fea2d7527bap-733, 0x1.fea2d7527bac7p-741, 0x1.45aea4f758fd6p-750, 0x1.aea4f758fd7cap-758,
    0x1.527bac7ebe5f1p-765, 0x1.eeb1faf97c5ecp-775, 0x1.ac7ebe5f17b3dp-781, 0x1.faf97c5ecf41cp-791,
    0x1.7cbe2f67a0e72p-798, 0x1.7c5ecf41ce7dcp-807, 0x1.17b3d0739f78ap-813, 0x1.b3d0739f78a52p-821,
    0x1.d0739f78a5292p-829, 0x1.ce7de294a4ba8p-839, 0x1.9f78a5292ea6bp-845, 0x1.78a5292ea6bfbp-853,
    0x1.4a525d4d7f6bep-862, 0x1.292ea6bfb5fb1p-869, 0x1.2ea6bfb5fb11fp-877, 0x1.4d7f6bf623f1ap-886,
};

/* An angle: `x` less a multiple of `pi / 2`. The multiple is `pi` times `steps`, without the
 * summand `LONGSHORE_ROUND_ / 2` of `steps`. */
struct longshore_angle_ {
  struct longshore_pair_ r;
  double steps;
};

/*
 * x is the sum of two numbers of 26 bits, so that their products with 24 bits are exact. The sums
 * of products with the same weight are exact, too, except where noted.
 */
LONGSHORE_OVERLOAD_ struct longshore_angle_ longshore_reduce_(double x) {
  LONGSHORE_EXACTLY_
  const uint64_t eighth = longshore_bits_(x) >> 55 & 255, row = eighth < 128 ? 0 : eighth - 128;
  const double *const part = longshore_pi_parts_ + row;
  const double scaled = x * 0x1p-200;
  const struct longshore_pair_ halves = longshore_halves_(scaled);
  const double h = halves.high, l = halves.low;
  const double round = 0x1.8p53, first = h * part[3], second = l * part[0];
  const double one = (first - ((first + second + round) - round)) + second;
  const double third = h * part[6], fourth = l * part[3];
  const double two = (third - ((third + fourth + round) - round)) + fourth;
  const double steps = one + two + LONGSHORE_ROUND_ * 0.5;
  const double top = (one - (steps - LONGSHORE_ROUND_ * 0.5)) + two;
  const struct longshore_pair_ three = longshore_sum_(h * part[9], l * part[6]);
  const struct longshore_pair_ four = longshore_sum_(h * part[12], l * part[9]);
  const double five = l * part[12] + scaled * longshore_pi_rests_[row];
  const struct longshore_pair_ a = longshore_sum_(top, three.high), b = longshore_sum_(a.high, four.high);
  const struct longshore_pair_ turns = longshore_fast_sum_(b.high, b.low + ((a.low + three.low) + (four.low + five)));
  struct longshore_angle_ angle = {longshore_product_of_constant_(turns.high, LONGSHORE_PI_, LONGSHORE_PI_REST_),
                                   steps};
  angle.r.low = angle.r.low + turns.low * LONGSHORE_PI_;
  return angle;
}
/* The same for pi * x. Numbers from 2^53 on are even. */
LONGSHORE_OVERLOAD_ struct longshore_angle_ longshore_reduce_turns_(double x) {
  LONGSHORE_EXACTLY_
  const double limited = longshore_if_(longshore_fabs_(x) >= 0x1p53, x - x, x);
  const double even =
      longshore_if_(longshore_fabs_(limited) >= 0x1p50, limited - 2 * longshore_rint_(limited * 0.5), limited);
  const double steps = even + LONGSHORE_ROUND_ * 0.5, turns = even - (steps - LONGSHORE_ROUND_ * 0.5);
  const struct longshore_angle_ angle = {longshore_product_of_constant_(turns, LONGSHORE_PI_, LONGSHORE_PI_REST_),
                                         steps};
  return angle;
}

/* The sine and the cosine of an angle up to pi/4. */
LONGSHORE_OVERLOAD_ double longshore_sin_of_pair_(struct longshore_pair_ r) {
  LONGSHORE_EXACTLY_
  const double z = r.high * r.high;
  const double low = r.low - r.low * (0.5 * z);
  return r.high + (low + r.high * z *
                             LONGSHORE_P5_(z, -0x1.5555555555548p-3, 0x1.111111110f748p-7, -0x1.a01a019bede9ep-13,
                                           0x1.71de355a62745p-19, -0x1.ae5e503ade499p-26, 0x1.5d8cd8ffb5473p-33));
}
LONGSHORE_OVERLOAD_ double longshore_cos_of_pair_(struct longshore_pair_ r) {
  LONGSHORE_EXACTLY_
  const struct longshore_pair_ square = longshore_product_(r.high, r.high);
  const double z = square.high;
  const struct longshore_pair_ sum = longshore_fast_sum_(1, -0.5 * z);
  return sum.high +
         (sum.low + (z * z *
                         LONGSHORE_P5_(z, 0x1.555555555554bp-5, -0x1.6c16c16c15005p-10, 0x1.a01a019c8c678p-16,
                                       -0x1.27e4f7eee8b47p-22, 0x1.1ee9d99eb730ap-29, -0x1.8fa5375b3d0d9p-37) -
                     (r.high * r.low + 0.5 * square.low)));
}
/* The sine or the cosine, with the sign for a number of quadrants. */
#define LONGSHORE_SINE_(r, quadrants)                                                                                  \
  longshore_of_bits_(                                                                                                  \
      longshore_bits_(longshore_if_((quadrants) & 1, longshore_cos_of_pair_(r), longshore_sin_of_pair_(r))) ^          \
      ((quadrants) >> 1) << 63)

LONGSHORE_OVERLOAD_ double longshore_sin_(double x) {
  LONGSHORE_EXACTLY_
  const struct longshore_angle_ angle = longshore_reduce_(x);
  const uint64_t quadrants = longshore_bits_(angle.steps);
  const double y = LONGSHORE_SINE_(angle.r, quadrants);
  return longshore_if_(longshore_fabs_(x) < 0x1p-28, x, y);
}
LONGSHORE_OVERLOAD_ double longshore_cos_(double x) {
  LONGSHORE_EXACTLY_
  const struct longshore_angle_ angle = longshore_reduce_(x);
  const uint64_t quadrants = longshore_bits_(angle.steps) + 1;
  return LONGSHORE_SINE_(angle.r, quadrants);
}
LONGSHORE_OVERLOAD_ void longshore_sincos_(double x, double *sine, double *cosine) {
  *sine = longshore_sin_(x);
  *cosine = longshore_cos_(x);
}
LONGSHORE_OVERLOAD_ double longshore_tan_(double x) {
  LONGSHORE_EXACTLY_
  const struct longshore_angle_ angle = longshore_reduce_(x);
  const struct longshore_pair_ r = angle.r, z = longshore_product_(r.high, r.high);
  const double low = r.low - r.low * (0.5 * z.high);
  const struct longshore_pair_ sine = longshore_fast_sum_(
      r.high, low + r.high * z.high *
                        LONGSHORE_P5_(z.high, -0x1.5555555555548p-3, 0x1.111111110f748p-7, -0x1.a01a019bede9ep-13,
                                      0x1.71de355a62745p-19, -0x1.ae5e503ade499p-26, 0x1.5d8cd8ffb5473p-33));
  const struct longshore_pair_ sum = longshore_fast_sum_(1, -0.5 * z.high);
  const double rest = z.high * z.high *
                          LONGSHORE_P5_(z.high, 0x1.555555555554bp-5, -0x1.6c16c16c15005p-10, 0x1.a01a019c8c678p-16,
                                        -0x1.27e4f7eee8b47p-22, 0x1.1ee9d99eb730ap-29, -0x1.8fa5375b3d0d9p-37) -
                      (r.high * r.low + 0.5 * z.low);
  const struct longshore_pair_ cosine = longshore_fast_sum_(sum.high, sum.low + rest);
  const int is_odd = (longshore_bits_(angle.steps) & 1) != 0;
  const struct longshore_pair_ numerator = {longshore_if_(is_odd, -cosine.high, sine.high),
                                            longshore_if_(is_odd, -cosine.low, sine.low)};
  const struct longshore_pair_ divisor = {longshore_if_(is_odd, sine.high, cosine.high),
                                          longshore_if_(is_odd, sine.low, cosine.low)};
  const struct longshore_pair_ quotient = longshore_quotient_(numerator, divisor);
  const double y = quotient.high + quotient.low;
  return longshore_if_(longshore_fabs_(x) < 0x1p-28, x, y);
}

/* Zeros are exact: a sine that is zero has the sign of x, a cosine that is zero is positive. */
LONGSHORE_OVERLOAD_ double longshore_sinpi_(double x) {
  LONGSHORE_EXACTLY_
  const struct longshore_angle_ angle = longshore_reduce_turns_(x);
  const uint64_t quadrants = longshore_bits_(angle.steps);
  const double y = LONGSHORE_SINE_(angle.r, quadrants);
  const double tiny = x * 0x1p200 * LONGSHORE_PI_ * 0x1p-200;
  return longshore_if_(y == 0, longshore_copysign_(0, x), longshore_if_(longshore_fabs_(x) < 0x1p-900, tiny, y));
}
LONGSHORE_OVERLOAD_ double longshore_cospi_(double x) {
  LONGSHORE_EXACTLY_
  const struct longshore_angle_ angle = longshore_reduce_turns_(x);
  const uint64_t quadrants = longshore_bits_(angle.steps) + 1;
  const double y = LONGSHORE_SINE_(angle.r, quadrants);
  return longshore_if_(y == 0, 0, y);
}
LONGSHORE_OVERLOAD_ void longshore_sincospi_(double x, double *sine, double *cosine) {
  *sine = longshore_sinpi_(x);
  *cosine = longshore_cospi_(x);
}

/* ---- Error functions and gamma functions ----------------------------------------------------- */

/* erf(a) for a up to 1/2, as a pair. */
LONGSHORE_OVERLOAD_ struct longshore_pair_ longshore_erf_of_small_(double a) {
  LONGSHORE_EXACTLY_
  const double z = a * a, rest = a * z *
                                 LONGSHORE_P8_(z, -0x1.812746b0379e6p-2, 0x1.ce2f21a042a70p-4, -0x1.b82ce31278466p-6,
                                               0x1.565bcd086c383p-8, -0x1.c02db17541813p-11, 0x1.f9a27ce0962a4p-14,
                                               -0x1.f4b692903c199p-17, 0x1.b721100f4a92ap-20, -0x1.37a25393ffc8dp-23);
  const double slope_rest = LONGSHORE_TWO_OVER_ROOT_PI_REST_;
  struct longshore_pair_ y = longshore_product_of_constant_(a, LONGSHORE_TWO_OVER_ROOT_PI_, slope_rest);
  y.low = y.low + rest;
  return y;
}
/* Other values of erf(a) are 1 - 2^(-a R(a)), for a polynomial R. */
LONGSHORE_OVERLOAD_ double longshore_erf_(double x) {
  LONGSHORE_EXACTLY_
  double a = longshore_fabs_(x);
  a = longshore_if_(a > 5.95, 5.95, a);
  const double p =
      LONGSHORE_P25_(a, 0x1.a0be83d8d032dp+0, 0x1.d63ed74995897p-1, 0x1.2fa7eecb2bea7p-3, -0x1.c4242d09dfd6fp-6,
                     -0x1.3c76ea31215d3p-12, 0x1.40bf50f791289p-9, -0x1.be5ca283f3859p-11, 0x1.3911bd929885dp-15,
                     0x1.866bebcb9e2adp-14, -0x1.6881084de5effp-15, 0x1.54957d59714ddp-18, 0x1.040583d640c05p-18,
                     -0x1.3214a4176d78fp-19, 0x1.31c89a621207fp-22, 0x1.6ab4eb6039714p-22, -0x1.307d4b909fd93p-22,
                     0x1.196807f7cbf67p-23, -0x1.76eab114b9e27p-25, 0x1.80c14a2157211p-27, -0x1.35d892232dd67p-29,
                     0x1.86a5224fa222fp-32, -0x1.7ae839f9a355ap-35, 0x1.115bc8334e34dp-38, -0x1.14659fe5fa099p-42,
                     0x1.5d74ea35e492fp-47, -0x1.9f940483fcaa5p-53);
  const struct longshore_pair_ t = longshore_product_of_constant_(-a * p, LONGSHORE_LN_2_, LONGSHORE_LN_2_REST_);
  const double y = -longshore_expm1_(t.high);
  const double tiny = a * 0x1p200 * LONGSHORE_TWO_OVER_ROOT_PI_ * 0x1p-200;
  const struct longshore_pair_ small = longshore_erf_of_small_(a);
  return longshore_copysign_(longshore_if_(a < 0x1p-900, tiny, longshore_if_(a < 0.5, small.high + small.low, y)), x);
}
/* erfc(a) is exp(-a^2) w Q(t), for w = 1 / (a + 7/2), t = (a - 7/2) w and a polynomial Q. */
LONGSHORE_OVERLOAD_ double longshore_erfc_(double x) {
  LONGSHORE_EXACTLY_
  double a = longshore_fabs_(x);
  a = longshore_if_(a > 27.5, 27.5, a);
  const double w = 1 / (a + 3.5), t = (a - 3.5) * w;
  const struct longshore_pair_ square = longshore_product_(-a, a);
  LONGSHORE_SPLIT_LOGARITHM_(square.high, square.low, r, steps);
  const double factor =
      longshore_exp_of_pair_(r) *
      (w * LONGSHORE_P22_(t, 0x1.1649466cd0bf1p+0, -0x1.e02749166d56ep-1, 0x1.6362dd2801968p-1, -0x1.bdb3c1808b3b7p-2,
                          0x1.ce500ceb5b46fp-3, -0x1.7a232e1d20ef1p-4, 0x1.b27b27485b997p-6, -0x1.a06c1ea83421fp-9,
                          -0x1.5630df01ff851p-10, 0x1.769ed235edc82p-11, -0x1.60d7af06c7ab2p-15, -0x1.39a3544b7497cp-14,
                          0x1.38d81c74a4c88p-16, 0x1.e6262cdccc73bp-18, -0x1.c7337005019a8p-19, -0x1.ab752edadbf3ap-21,
                          0x1.2731b2adc4201p-21, 0x1.f0937e558f6bap-24, -0x1.64c88e08f275cp-24, -0x1.6bfc2d0b25ccap-26,
                          0x1.35aeed6cc292dp-27, 0x1.a5875356eec3dp-29, -0x1.434a9a71daa3fp-34));
  const double y = longshore_scale_(factor, steps);
  const struct longshore_pair_ small = longshore_erf_of_small_(x), near = longshore_fast_sum_(1, -small.high);
  return longshore_if_(a < 0.5, near.high + (near.low - small.low), longshore_if_(x < 0, 2 - y, y));
}

/* For a > 0: the logarithm of the gamma function of `a` is a pair less the logarithm of `product`,
 * which is `1` from `8` on. For `a < 8` it comes from the value of `a + 8`. From `2^900` on, the
 * pair is multiplied by `2^-200`. */
struct longshore_gamma_ {
  struct longshore_pair_ log, product;
};
LONGSHORE_OVERLOAD_ struct longshore_gamma_ longshore_gamma_of_(double a) {
  LONGSHORE_EXACTLY_
  const int is_small = a < 8;
  const double scale = longshore_if_(a > 0x1p900, 0x1p-200, 1);
  const struct longshore_pair_ w = longshore_sum_(a, longshore_if_(is_small, 8.0, 0));
  const double r = 1 / w.high, z = r * r;
  struct longshore_parts_ parts = longshore_split_pair_(w.high, w.low);
  const struct longshore_pair_ log = longshore_fine_log_pair_(parts);
  const struct longshore_pair_ less = longshore_sum_((w.high - 0.5) * scale, w.low);
  const struct longshore_pair_ main = longshore_pair_product_(less, log);
  const struct longshore_pair_ difference = longshore_sum_(main.high, -w.high * scale);
  const struct longshore_pair_ sum = longshore_sum_(difference.high, LONGSHORE_HALF_LN_2PI_);
  const double tail =
      r * LONGSHORE_P6_(z, 0x1.5555555555555p-4, -0x1.6c16c16c149e6p-9, 0x1.a01a017dc870dp-11, -0x1.38134d496690ap-11,
                        0x1.b92c316ca8adbp-11, -0x1.ef8d3368b8f5bp-10, 0x1.4bfe89b51fcbep-8);
  struct longshore_gamma_ gamma;
  gamma.log = longshore_fast_sum_(
      sum.high, sum.low + (difference.low + (main.low - w.low + (tail + LONGSHORE_HALF_LN_2PI_REST_))));
  /* a (a + 1) ... (a + 7) */
  const double limited = longshore_if_(is_small, a, 1);
  const struct longshore_pair_ seven = longshore_sum_(limited, 7), one = {limited, 0};
  const struct longshore_pair_ y = longshore_pair_product_(one, seven);
  struct longshore_pair_ six = longshore_sum_(y.high, 6), ten = longshore_sum_(y.high, 10);
  struct longshore_pair_ twelve = longshore_sum_(y.high, 12);
  six.low = six.low + y.low;
  ten.low = ten.low + y.low;
  twelve.low = twelve.low + y.low;
  const struct longshore_pair_ product =
      longshore_pair_product_(longshore_pair_product_(y, six), longshore_pair_product_(ten, twelve));
  gamma.product.high = longshore_if_(is_small, product.high, 1);
  gamma.product.low = longshore_if_(is_small, product.low, 0);
  return gamma;
}
/* The absolute value of sin(pi * a). */
LONGSHORE_OVERLOAD_ double longshore_abs_sinpi_(double a) { return longshore_fabs_(longshore_sinpi_(a)); }

LONGSHORE_OVERLOAD_ double longshore_tgamma_(double x) {
  LONGSHORE_EXACTLY_
  double a = longshore_fabs_(x);
  a = longshore_if_(a > 200, 200, a);
  const struct longshore_gamma_ gamma = longshore_gamma_of_(a);
  const int is_negative = x < 0;
  const double log = longshore_if_(is_negative, -gamma.log.high, gamma.log.high);
  LONGSHORE_SPLIT_LOGARITHM_(log, longshore_if_(is_negative, -gamma.log.low, gamma.log.low), r, steps);
  const double power = longshore_exp_of_pair_(r), sine = longshore_abs_sinpi_(x);
  const struct longshore_pair_ product = gamma.product;
  const struct longshore_pair_ numerator = longshore_product_(power, longshore_if_(is_negative, LONGSHORE_PI_, 1));
  const double divisor = longshore_if_(is_negative, a * sine, product.high);
  const double factor = longshore_if_(is_negative, product.high + product.low, 1);
  const double quotient = numerator.high / divisor;
  const double y = longshore_scale_(quotient * factor, steps);
  const double whole = longshore_trunc_(x);
  const int is_odd = longshore_trunc_(whole * 0.5) * 2 != whole;
  const double signed_y = longshore_if_(is_negative, longshore_if_(is_odd, y, -y), y);
  const int has_no_value = is_negative & (whole == x);
  return longshore_if_(
      a < 0x1p-60, 1 / x,
      longshore_if_(has_no_value, __builtin_nan(""), longshore_if_(x >= 200, __builtin_inf(), signed_y)));
}
LONGSHORE_OVERLOAD_ double longshore_lgamma_(double x) {
  LONGSHORE_EXACTLY_
  const double a = longshore_fabs_(x);
  struct longshore_gamma_ gamma = longshore_gamma_of_(a);
  const int is_negative = x < 0;
  const double sine = longshore_abs_sinpi_(a);
  /* Near zero it is `100 ln(2) - log(2^100 a)`. */
  const int is_tiny = a < 0x1p-60, is_reflected = is_negative & !is_tiny;
  gamma.log.high = longshore_if_(is_tiny, 100 * LONGSHORE_LN_2_, gamma.log.high);
  gamma.log.low = longshore_if_(is_tiny, 0, gamma.log.low);
  struct longshore_pair_ rest = gamma.product;
  rest.high = longshore_if_(is_tiny, a * 0x1p100, longshore_if_(is_negative, a * (sine / rest.high), rest.high));
  rest.low = longshore_if_(is_tiny | is_negative, 0, rest.low);
  const struct longshore_pair_ log = longshore_fine_log_pair_(longshore_split_pair_(rest.high, rest.low));
  const struct longshore_pair_ sum = longshore_sum_(longshore_if_(is_reflected, LONGSHORE_LN_PI_, gamma.log.high),
                                                    longshore_if_(is_reflected, -gamma.log.high, -log.high));
  const double positive = sum.high + (sum.low + (gamma.log.low - log.low)), large = positive * 0x1p200;
  const double negative = sum.high - log.high + (sum.low - gamma.log.low - log.low);
  /* Near the zeros 1 and 2, where adding 0 makes a zero positive. */
  const int is_one = longshore_fabs_(x - 1) < 0x1p-5, is_two = longshore_fabs_(x - 2) < 0x1p-5;
  const double t = longshore_if_(is_one, x - 1, x - 2);
  const double near_one =
      t * LONGSHORE_P9_(t, -0x1.2788cfc6fb619p-1, 0x1.a51a6625307d3p-1, -0x1.9a4d55beab245p-2, 0x1.151322ac7d7c3p-2,
                        -0x1.a8b9c17ced546p-3, 0x1.5b40cb1222b72p-3, -0x1.27038859c6c6bp-3, 0x1.010b1f4dfe099p-3,
                        -0x1.c8ef982721cfdp-4, 0x1.9ad790abea222p-4) +
      0;
  const double near_two =
      t * LONGSHORE_P9_(t, 0x1.b0ee6072093cep-2, 0x1.4a34cc4a60fa6p-2, -0x1.13e001a557606p-4, 0x1.51322ac7d8483p-6,
                        -0x1.e404fc219893bp-8, 0x1.7add6eadbf2a6p-9, -0x1.38ac5a8f9742ap-10, 0x1.0b36ae0dbf4f0p-11,
                        -0x1.d438343c48690p-13, 0x1.a15d77c2e1180p-14) +
      0;
  const double y =
      longshore_if_(is_one, near_one,
                    longshore_if_(is_two, near_two,
                                  longshore_if_(is_reflected, negative, longshore_if_(a > 0x1p900, large, positive))));
  const int is_pole = (x == 0) | (is_negative & (longshore_trunc_(x) == x)) | (a == __builtin_inf());
  return longshore_if_(is_pole, __builtin_inf(), y);
}

#endif
