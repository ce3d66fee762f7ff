// SPDX-License-Identifier: Apache-2.0
// Transcendental functions. The polynomials are minimax fits (Lawson's iteration in double
// precision) of our own; the stated errors are those of the whole f32 computation.
#include <cmath>

#include "compiler/kernels/VectorMath.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace hpu::kernels {
namespace {

constexpr double kLog2E = 1.4426950408889634;
// ln 2 in two parts: the first has few enough bits that n * kLn2High is exact for |n| <= 256.
constexpr double kLn2High = 0.693359375;
constexpr double kLn2Low = -2.1219444005469058e-4;
// ln of the largest f32, rounded down.
constexpr double kExpLargest = 88.722831726;

bool isWide(Value x) {
  return getElementTypeOrSelf(x.getType()).isF64();
}

}  // namespace

Value VectorMath::signBit(Value x) {
  return andI(bitcast(x, i32()), constantInt(shaped(x, i32()), 0x80000000));
}
Value VectorMath::keepZero(Value x, Value y) {
  return select(compare(Cmp::Eq, x, num(x, 0.0)), x, y);
}

Value VectorMath::horner(Value x, std::initializer_list<double> coefficients) {
  Value result;
  for (double c : llvm::reverse(llvm::ArrayRef<double>(coefficients.begin(), coefficients.size())))
    result = result ? fma(result, x, num(x, c)) : num(x, c);
  return result;
}

Value VectorMath::expRemainder(Value x, Value n) {
  return fma(n, num(x, -kLn2Low), fma(n, num(x, -kLn2High), x));
}

VectorMath::Reduced VectorMath::reduceExp(Value x) {
  Value n = roundEven(mul(x, num(x, kLog2E)));
  Value r = expRemainder(x, n);
  // n is up to 128, so 2^n may not be a number while 2^(n-1) is.
  Value exponent = add(toInt(n, i32()), constantInt(shaped(x, i32()), 126));
  return {r, bitcast(shl(exponent, 23), f32())};
}

// e^r = 1 + r + r^2 P(r) for |r| <= ln2 / 2.
Value VectorMath::expPolynomial(Value r) {
  Value p = horner(
      r, {0.49999992629312895, 0.16666508714586897, 0.041668528324418946, 0.00837013502481725, 0.0013811660057736468});
  return fma(fma(p, r, num(r, 1.0)), r, num(r, 1.0));
}

Value VectorMath::expAtLeastTiny(Value x) {
  if (isWide(x)) return wideExp(x);
  Value clamped = fastMax(num(x, -87.33), x);  // NaN passes: the second operand wins.
  Value n = roundEven(mul(clamped, num(x, kLog2E)));
  Value p = expPolynomial(expRemainder(clamped, n));
  // 2^n is added to the exponent of p.
  Value result = bitcast(add(bitcast(p, i32()), shl(toInt(n, i32()), 23)), f32());
  return select(compare(Cmp::Gt, x, num(x, kExpLargest)), num(x, INFINITY), result);
}

Value VectorMath::expOrZero(Value x) {
  if (isWide(x)) return wideExp(x);
  return select(compare(Cmp::Lt, x, num(x, -87.33)), num(x, 0.0), expAtLeastTiny(x));
}

Value VectorMath::exp(Value x) {
  if (isWide(x)) return wideExp(x);
  Value clamped = fastMax(num(x, -104.0), x);  // e^-104 rounds to 0. NaN passes: the second operand wins.
  Value n = roundEven(mul(clamped, num(x, kLog2E)));
  Value p = expPolynomial(expRemainder(clamped, n));
  // As above, but what is no normal number is computed 2^64 times too large first.
  Value tiny = compare(Cmp::Lt, x, num(x, -87.0)), power = toInt(n, i32());
  Value lifted = select(tiny, integer(power, 64), integer(power, 0));
  Value scaled = bitcast(add(bitcast(p, i32()), shl(add(power, lifted), 23)), f32());
  Value result = mul(scaled, select(tiny, num(x, 0x1p-64), num(x, 1.0)));
  return select(compare(Cmp::Gt, x, num(x, kExpLargest)), num(x, INFINITY), result);
}

Value VectorMath::expm1(Value x) {
  if (isWide(x)) return wideExpm1(x);
  // e^x - 1 = 2^n (q + 1) - 1 = 2^n q + (2^n - 1) with q = e^r - 1: nothing is lost near 0, where n
  // = 0.
  Value clamped = fastMax(num(x, -25.0), x);
  Reduced reduced = reduceExp(clamped);
  Value p = horner(reduced.r, {0.5000000069711167, 0.16666532835587994, 0.04166625047051639, 0.00836792312752875,
                               0.0013948766042126276});
  Value q = fma(mul(p, reduced.r), reduced.r, reduced.r);
  // Half of it, because 2^n may not be a number.
  Value half = fma(q, reduced.halfScale, sub(reduced.halfScale, num(x, 0.5)));
  return keepZero(x, add(half, half));
}

Value VectorMath::log(Value x) {
  if (isWide(x)) return wideLog(x);
  // x = m * 2^e with m in [sqrt(1/2), sqrt(2)); numbers below the normal range are scaled into it
  // first.
  Value tiny = compare(Cmp::Lt, x, num(x, 1.17549435e-38));
  Value scaled = select(tiny, mul(x, num(x, 8388608.0)), x);
  Value bits = bitcast(scaled, i32());
  Value shifted = sub(bits, integer(bits, 0x3f3504f3));  // Bits of sqrt(1/2).
  Value e = toFloat(shr(shifted, 23, true), f32(), true);
  e = add(e, select(tiny, num(x, -23.0), num(x, 0.0)));
  Value mantissa = add(andI(shifted, integer(bits, 0x007fffff)), integer(bits, 0x3f3504f3));
  Value f = sub(bitcast(mantissa, f32()), num(x, 1.0));
  // log(1 + f) = f - f^2 / 2 + f^3 P(f).
  Value p = horner(
      f, {0.33333309374626363, -0.24999985940681707, 0.20002306372866357, -0.16669340348227946, 0.14216972264146957,
          -0.12381705629654578, 0.11883732317016357, -0.11810678523589861, 0.0691533284549352});
  Value f2 = mul(f, f);
  Value y = mul(mul(f2, f), p);
  y = fma(e, num(x, kLn2Low), y);
  y = fma(f2, num(x, -0.5), y);
  Value result = fma(e, num(x, kLn2High), add(f, y));
  Value infinity = num(x, INFINITY);
  result = select(compare(Cmp::Eq, x, infinity), infinity, result);
  result = select(compare(Cmp::Eq, x, num(x, 0.0)), num(x, -INFINITY), result);
  result = select(compare(Cmp::Lt, x, num(x, 0.0)), num(x, NAN), result);
  return select(isNan(x), x, result);
}

Value VectorMath::tanh(Value x) {
  // tanh x = E / (E + 1) with E = (e^2x - 1) / 2; beyond 9.1 (f64: 19.1) it is 1 to the last bit.
  Value limit = num(x, isWide(x) ? 19.1 : 9.1);
  Value clamped = fastMin(limit, fastMax(neg(limit), x));
  if (isWide(x)) {
    Value em1 = expm1(add(clamped, clamped));
    return divF(em1, add(em1, num(x, 2.0)));  // expm1 keeps the sign of 0.
  }
  // As in expm1, of halves: 2x = n ln2 + 2h, and (e^2h - 1) / 2 = h + h^2 P(h). Nothing overflows.
  Value n = roundEven(mul(clamped, num(x, 2 * kLog2E)));
  Value h = fma(n, num(x, -kLn2Low / 2), fma(n, num(x, -kLn2High / 2), clamped));
  Value p = horner(h, {2 * 0.5000000069711167, 4 * 0.16666532835587994, 8 * 0.04166625047051639,
                       16 * 0.00836792312752875, 32 * 0.0013948766042126276});
  Value q = fma(mul(p, h), h, h);
  Value scale = bitcast(shl(add(toInt(n, i32()), constantInt(shaped(x, i32()), 127)), 23), f32());
  Value e = fma(q, scale, fma(scale, num(x, 0.5), num(x, -0.5)));
  return keepZero(x, divF(e, add(e, num(x, 1.0))));
}

Value VectorMath::sigmoid(Value x) {
  Value one = num(x, 1.0);
  if (isWide(x)) return divF(one, add(one, wideExp(neg(x))));
  // e^-x as in expAtLeastTiny, with the signs in the constants: x = n ln2 + r, e^-x = 2^-n e^-r.
  Value clamped = fastMin(num(x, 87.33), x);  // NaN passes: the second operand wins.
  Value n = roundEven(mul(clamped, num(x, kLog2E)));
  Value r = expRemainder(clamped, n);
  Value p = horner(r, {0.49999992629312895, -0.16666508714586897, 0.041668528324418946, -0.00837013502481725,
                       0.0013811660057736468});
  p = fma(fma(p, r, num(r, -1.0)), r, one);
  Value e = bitcast(sub(bitcast(p, i32()), shl(toInt(n, i32()), 23)), f32());
  e = select(compare(Cmp::Lt, x, num(x, -kExpLargest)), num(x, INFINITY), e);
  return divF(one, add(one, e));
}

Value VectorMath::erfcExponent(Value t) {
  Value q = horner(t, {1.128379225730896, 0.6366168260574341, 0.10280562937259674, -0.019261660054326057,
                       3.386680327821523e-05, 0.0014942637644708157, -0.0005592784145846963, 0.000107354368083179,
                       -1.1005181477230508e-05, 4.741690418086364e-07});
  return neg(mul(t, q));
}

Value VectorMath::erf(Value x) {
  if (isWide(x)) return wideErf(x);
  Value t = fastMin(num(x, 5.0), abs(x));
  Value magnitude = neg(expm1(erfcExponent(t)));
  return bitcast(orI(bitcast(magnitude, i32()), signBit(x)), f32());
}

Value VectorMath::gelu(Value x) {
  if (isWide(x)) return wideGelu(x);
  // x / 2 * erfc(-x / sqrt 2), with erfc of the magnitude so that the negative tail keeps its
  // digits.
  // From t = 5 on the tail is less than 2e-12, and at 10 it has become 0, as a product with any x needs it.
  Value t = fastMin(num(x, 10.0), abs(mul(x, num(x, 0.70710678118654752))));
  Value tail = expOrZero(erfcExponent(t));
  Value erfc = select(compare(Cmp::Lt, x, num(x, 0.0)), tail, sub(num(x, 2.0), tail));
  return mul(mul(x, num(x, 0.5)), erfc);
}

Value VectorMath::geluTanh(Value x) {
  // x * sigmoid(2 u) equals x / 2 * (1 + tanh u).
  Value x2 = mul(x, x);
  Value u = mul(x, fma(x2, num(x, 2 * 0.7978845608028654 * 0.044715), num(x, 2 * 0.7978845608028654)));
  return mul(x, sigmoid(u));
}

Value VectorMath::log1p(Value x) {
  // log(u) + (x - (u - 1)) / u with u = 1 + x rounded: what the sum lost, to first order.
  Value one = num(x, 1.0), u = add(x, one);
  Value correction = divF(sub(x, sub(u, one)), u);
  Value finite = compare(Cmp::Lt, abs(correction), one);  // Not at -1 and infinity.
  return keepZero(x, add(log(u), select(finite, correction, num(x, 0.0))));
}

Value VectorMath::atan(Value x) {
  if (isWide(x)) return wideAtan(x);
  Value one = num(x, 1.0), magnitude = abs(x);
  Value large = compare(Cmp::Gt, magnitude, one);
  Value t = select(large, divF(one, magnitude), magnitude);
  // atan t = t + t^3 P(t^2) on [0, 1].
  Value z = mul(t, t);
  Value p = horner(
      z, {-0.33333299089145985, 0.19998548284250145, -0.1426424167312228, 0.10952185703287122, -0.084034500195477202,
          0.057957586647321722, -0.031177837381798031, 0.010914600385896381, -0.0017936203328264427});
  Value y = fma(mul(p, z), t, t);
  y = select(large, sub(num(x, 1.5707963267948966), y), y);
  return bitcast(orI(bitcast(y, i32()), signBit(x)), f32());
}

Value VectorMath::erfInv(Value x) {
  if (isWide(x)) return wideErfInv(x);
  // x P(w) with w = -log(1 - x^2): polynomials of w, and of its root where w is large.
  Value one = num(x, 1.0);
  Value w = neg(log(mul(sub(one, x), add(one, x))));
  Value low = horner(sub(w, num(w, 2.5)),
                     {1.5014093592822164, 0.24664028615558459, -0.0041773867800025347, -0.001252741883364369,
                      0.00021834443855702802, -4.9633448662403552e-06, -3.4627045361265707e-06, 4.6616999822834959e-07,
                      2.3232626711333637e-08, -8.7910073734431826e-09});
  Value high =
      horner(sub(sqrt(w), num(w, 3.0)), {2.8329769899896626, 1.0016741828040538, 0.0094356224060164751,
                                         -0.0076253040424251878, 0.0057617987483047362, -0.0036601396047034399,
                                         0.0013002272329026843, 8.6110781351927956e-05, -0.00016543110920774762});
  Value y = mul(x, select(compare(Cmp::Lt, w, num(w, 5.0)), low, high));
  return select(compare(Cmp::Eq, abs(x), one), mul(x, num(x, INFINITY)), y);
}

Value VectorMath::lgamma(Value x) {
  if (isWide(x)) return wideLgamma(x);
  // Lanczos' series (g = 5, six terms) for x >= 1/2; reflection below.
  Value half = num(x, 0.5), one = num(x, 1.0);
  Value reflected = compare(Cmp::Lt, x, half);
  Value t = select(reflected, sub(one, x), x);
  Value series = num(x, 1.000000000190015);
  const double terms[] = {76.18009172947146,  -86.50532032941677,   24.01409824083091,
                          -1.231739572450155, 1.208650973866179e-3, -5.395239384953e-6};
  Value at = t;
  for (double term : terms) {
    series = add(series, divF(num(x, term), at));
    at = add(at, one);
  }
  // log(sqrt(2 pi) series) + (t - 1/2) log(t + 4.5) - (t + 4.5), for gamma(t).
  Value base = add(t, num(x, 4.5));
  Value y = add(fma(sub(t, half), log(base), neg(base)), log(mul(series, num(x, 2.5066282746310005))));
  y = select(compare(Cmp::Eq, t, num(x, INFINITY)), num(x, INFINITY), y);
  // gamma(x) gamma(1 - x) = pi / sin(pi x); the sine by x's distance from an integer, which is exact.
  Value distance = sub(x, roundEven(x));
  // Times 2^64 where the sine is pi times that and could be no normal number.
  Value tiny = compare(Cmp::Lt, abs(distance), num(x, 0x1p-100));
  Value scaled = select(tiny, mul(distance, num(x, 0x1p64)), distance);
  Value sine = abs(sin(mul(scaled, num(x, 3.14159265358979))));
  constexpr double kLogPi = 1.1447298858494002, kLogScale = 44.3614195558365;
  Value constant = select(tiny, num(x, kLogPi + kLogScale), num(x, kLogPi));
  Value below = sub(sub(constant, log(sine)), y);
  below = select(compare(Cmp::Eq, distance, num(x, 0.0)), num(x, INFINITY), below);
  below = select(compare(Cmp::Eq, x, num(x, -INFINITY)), num(x, INFINITY), below);
  return select(isNan(x), x, select(reflected, below, y));
}

Value VectorMath::softplus(Value x) {
  // max(x, 0) + log(1 + e^-|x|); log1p by log's polynomial would need more: e^-|x| <= 1 makes the
  // sum inexact only below 6e-8, where the result is e^-|x| itself.
  Value e = exp(neg(abs(x)));
  Value sum = add(e, num(x, 1.0));
  // log(sum) + (e - (sum - 1)) / sum corrects the rounding of sum.
  Value correction = divF(sub(e, sub(sum, num(x, 1.0))), sum);
  return add(max(x, num(x, 0.0)), add(log(sum), correction));
}

Value VectorMath::sinOrCos(Value x, bool cosine) {
  return isWide(x) ? wideSinOrCos(x, cosine) : inPairs([&] { return narrowSinOrCos(x, cosine); });
}
Value VectorMath::narrowSinOrCos(Value x, bool cosine) {
  // |x| / (2 pi) modulo 1, in double precision. 1 / (2 pi) is cut into numbers of 28 bits, so that each product with x
  // is exact, and of each product the whole turns are dropped, exactly as well: up to the largest f32 nothing is lost.
  constexpr double kWhole[] = {0x1.45f3070000000p-3, -0x1.1b1bbec000000p-30, 0x1.29fc274000000p-58,
                               0x1.7d1f534000000p-86, 0x1.bb81b70000000p-115};
  constexpr double kRest[] = {-0x1.d6a66c4000000p-142, 0x1.0e41080000000p-172};  // Products less than 2^-12.
  Value wide = abs(extendF(x, b_.getF64Type()));
  SmallVector<Value> turns;
  for (double part : kWhole) {
    Value product = mul(wide, num(wide, part));
    turns.push_back(sub(product, roundEven(product)));
  }
  Value sum = turns[0];
  for (Value turn : llvm::drop_begin(turns)) sum = add(sum, turn);
  Value quarters = roundEven(mul(sum, num(sum, 4.0)));
  // The sum once more, from the quarter on, so that what cancels has not been rounded.
  Value remainder = fma(quarters, num(wide, -0.25), turns[0]);
  for (Value turn : llvm::drop_begin(turns)) remainder = add(remainder, turn);
  for (double part : kRest) remainder = fma(wide, num(wide, part), remainder);
  Value r = truncateF(mul(remainder, num(wide, 6.283185307179586)), f32());
  // A quarter modulo 4, from the other end for cosine.
  Value quadrant = toInt(truncateF(quarters, f32()), i32());
  if (cosine) quadrant = add(quadrant, integer(quadrant, 1));
  Value s = mul(r, r);
  Value sine =
      fma(mul(r, s),
          horner(s, {-0.16666666639557662, 0.008333329143898175, -0.0001983925662956943, 2.7175644215183745e-06}), r);
  Value cosinePoly =
      fma(mul(s, s),
          horner(s, {0.04166666661920421, -0.001388888343842526, 2.4799436408499877e-05, -2.720330377572089e-07}),
          fma(s, num(s, -0.5), num(s, 1.0)));
  Value odd = compare(Cmp::Ne, andI(quadrant, integer(quadrant, 1)), integer(quadrant, 0));
  Value magnitude = select(odd, cosinePoly, sine);
  Value flip = shl(andI(quadrant, integer(quadrant, 2)), 30);
  if (!cosine) flip = xorI(flip, signBit(x));
  return bitcast(xorI(bitcast(magnitude, i32()), flip), f32());
}
Value VectorMath::sin(Value x) {
  return sinOrCos(x, false);
}
Value VectorMath::cos(Value x) {
  return sinOrCos(x, true);
}

Value VectorMath::pow(Value x, Value y) {
  return isWide(x) ? widePow(x, y) : inPairs([&] { return narrowPow(x, y); });
}
Value VectorMath::narrowPow(Value x, Value y) {
  Type f64 = b_.getF64Type();
  Value one = num(x, 1.0), zero = num(x, 0.0);
  Value magnitude = abs(x);
  // log2 |x| in double precision: m in [sqrt(1/2), sqrt(2)), log m = 2 atanh((m - 1) / (m + 1)).
  Value tiny = compare(Cmp::Lt, magnitude, num(x, 1.17549435e-38));
  Value scaled = select(tiny, mul(magnitude, num(x, 8388608.0)), magnitude);
  Value bits = bitcast(scaled, i32());
  Value shifted = sub(bits, integer(bits, 0x3f3504f3));
  Value e = add(toFloat(shr(shifted, 23, true), f32(), true), select(tiny, num(x, -23.0), zero));
  Value mantissa = add(andI(shifted, integer(bits, 0x007fffff)), integer(bits, 0x3f3504f3));
  Value m = extendF(bitcast(mantissa, f32()), f64);
  Value s = divF(sub(m, num(m, 1.0)), add(m, num(m, 1.0)));
  Value s2 = mul(s, s);
  // 2 / ln 2 / (2k + 1), k = 0 .. 6.
  Value series = horner(s2, {2.8853900817779268, 0.96179669392597560, 0.57707801635558535, 0.41219858311113239,
                             0.32059889797532520, 0.26230818925253880, 0.22195308321368668});
  Value log2 = fma(s, series, extendF(e, f64));
  log2 = select(compare(Cmp::Eq, magnitude, zero), num(log2, -INFINITY), log2);
  log2 = select(compare(Cmp::Eq, magnitude, num(x, INFINITY)), num(log2, INFINITY), log2);
  Value t = mul(log2, extendF(y, f64));
  t = fastMin(num(t, 200.0), fastMax(num(t, -200.0), t));
  Value n = roundEven(t);
  Value fraction = truncateF(sub(t, n), f32());
  Value p = horner(fraction, {1.000000000554186, 0.6931472057371925, 0.24022646890473098, 0.05550328777087365,
                              0.009618488974591721, 0.0013399931179590187, 0.00015345807288260488});
  // 2^n in two factors, each a normal number.
  Value exponent = toInt(truncateF(n, f32()), i32());
  Value half = shr(exponent, 1, true);
  auto power = [&](Value k) { return bitcast(shl(add(k, integer(k, 127)), 23), f32()); };
  Value result = mul(mul(p, power(half)), power(sub(exponent, half)));
  // A negative base: the sign of odd integers, NaN for what is no integer.
  Value yIsInteger = compare(Cmp::Eq, trunc(y), y);
  Value halfY = mul(y, num(y, 0.5));
  Value yIsOdd = andI(yIsInteger, compare(Cmp::Ne, trunc(halfY), halfY));
  Value xSign = compare(Cmp::Lt, bitcast(x, i32()), constantInt(shaped(x, i32()), 0));
  result = select(andI(xSign, yIsOdd), neg(result), result);
  Value negative = andI(compare(Cmp::Lt, x, zero), compare(Cmp::Ne, magnitude, num(x, INFINITY)));
  Value noInteger = compare(Cmp::Ne, trunc(y), y);
  result = select(andI(negative, noInteger), num(x, NAN), result);
  result = select(orI(isNan(x), isNan(y)), num(x, NAN), result);
  Value isOne = orI(compare(Cmp::Eq, x, one), compare(Cmp::Eq, y, zero));
  // (-1)^+-inf is 1 as well.
  Value unitAtInfinity = andI(compare(Cmp::Eq, magnitude, one), compare(Cmp::Eq, abs(y), num(y, INFINITY)));
  return select(orI(isOne, unitAtInfinity), one, result);
}

Value VectorMath::fmod(Value x, Value y) {
  return isWide(x) ? wideFmod(x, y) : inPairs([&] { return narrowFmod(x, y); });
}
Value VectorMath::narrowFmod(Value x, Value y) {
  // Long division in double precision, 48 bits of the quotient at a time: |x / y| is less than 2^277. Each remainder is
  // an exact double, since it is a multiple of the last bits of x or y and has no more bits than they have.
  constexpr int kDigitBits = 48, kDigits = 6;
  Type f64 = b_.getF64Type();
  Value r = abs(extendF(x, f64)), b = abs(extendF(y, f64));
  Value inverse = divF(num(b, 1.0), b);
  for (int digit = kDigits; digit-- > 0;) {
    Value divisor = mul(b, num(b, std::ldexp(1.0, digit * kDigitBits)));
    Value q = floor(mul(r, mul(inverse, num(b, std::ldexp(1.0, -digit * kDigitBits)))));
    r = fma(neg(q), divisor, r);
    // The digit may be one too large or too small.
    r = select(compare(Cmp::Lt, r, num(r, 0.0)), add(r, divisor), r);
    r = select(compare(Cmp::Ge, r, divisor), sub(r, divisor), r);
  }
  Value result = bitcast(orI(bitcast(truncateF(r, f32()), i32()), signBit(x)), f32());
  Value finite = compare(Cmp::Lt, abs(x), num(x, INFINITY));
  Value big = andI(finite, compare(Cmp::Eq, abs(y), num(y, INFINITY)));
  return select(big, x, result);
}

}  // namespace hpu::kernels
