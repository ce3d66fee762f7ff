// SPDX-License-Identifier: Apache-2.0
// Transcendental functions of f64. Series and fits are our own but for log's, atan's, sin's and cos's polynomials,
// whose coefficients are the textbook ones (odd minimax polynomials of the reduced arguments), and lgamma's (Lanczos, g
// = 607/128).
#include <cmath>

#include "compiler/kernels/VectorMath.h"

using namespace mlir;

namespace hpu::kernels {
namespace {

constexpr double kLog2E = 1.4426950408889634;
// ln 2 in two parts: the first has few enough bits that n * kLn2High is exact for |n| <= 2048.
constexpr double kLn2High = 6.93147180369123816490e-01;
constexpr double kLn2Low = 1.90821492927058770002e-10;
/// Of the bits of an f64: those of sqrt(1/2), and the mantissa.
constexpr int64_t kRootHalf = 0x3fe6a09e667f3bcd, kMantissa = (int64_t{1} << 52) - 1;
constexpr double kLeastNormal = 0x1p-1022;

}  // namespace

/// 2^n for whole n within [-1022, 1023], as f64.
static Value powerOfTwo(VectorMath& m, Value n) {
  Value exponent = m.add(m.toInt(n, m.i64()), m.constantInt(m.shaped(n, m.i64()), 1023));
  return m.bitcast(m.shl(exponent, 52), m.f64());
}

VectorMath::WideReduced VectorMath::wideReduceExp(Value x) {
  Value n = roundEven(mul(x, num(x, kLog2E)));
  Value r = fma(n, num(x, -kLn2Low), fma(n, num(x, -kLn2High), x));
  return {n, r};
}

/// e^r - 1 for |r| <= ln 2 / 2: Taylor's series, whose next term is below 2^-57 of it.
Value VectorMath::wideExpm1Polynomial(Value r) {
  Value p = horner(r, {1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880,
                       1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800, 1.0 / 87178291200});
  return fma(mul(p, r), r, r);
}

Value VectorMath::wideExp(Value x) {
  // e^-746 rounds to 0, e^710 is no number. NaN passes: the second operand wins.
  Value clamped = fastMin(num(x, 710.0), fastMax(num(x, -746.0), x));
  WideReduced reduced = wideReduceExp(clamped);
  Value p = add(wideExpm1Polynomial(reduced.r), num(x, 1.0));
  // 2^n in two factors, each a normal number.
  Value half = floor(mul(reduced.n, num(x, 0.5)));
  return mul(mul(p, powerOfTwo(*this, half)), powerOfTwo(*this, sub(reduced.n, half)));
}

Value VectorMath::wideExpm1(Value x) {
  Value clamped = fastMin(num(x, 710.0), fastMax(num(x, -50.0), x));
  WideReduced reduced = wideReduceExp(clamped);
  Value q = wideExpm1Polynomial(reduced.r);
  // 2^n q + (2^n - 1); half of it, because 2^n may not be a number.
  Value halfScale = powerOfTwo(*this, sub(reduced.n, num(x, 1.0)));
  Value half = fma(q, halfScale, sub(halfScale, num(x, 0.5)));
  return keepZero(x, add(half, half));
}

VectorMath::WideParts VectorMath::widePartsOf(Value x) {
  // x = m * 2^e with m in [sqrt(1/2), sqrt(2)); numbers below the normal range are scaled into it first.
  Value tiny = compare(Cmp::Lt, x, num(x, kLeastNormal));
  Value bits = bitcast(select(tiny, mul(x, num(x, 0x1p54)), x), i64());
  Value shifted = sub(bits, integer(bits, kRootHalf));
  Value e = toFloat(shr(shifted, 52, true), f64(), true);
  e = add(e, select(tiny, num(x, -54.0), num(x, 0.0)));
  Value mantissa = add(andI(shifted, integer(bits, kMantissa)), integer(bits, kRootHalf));
  return {bitcast(mantissa, f64()), e};
}

/// With s = f / (2 + f): log(1 + f) = 2 s + s R(s^2), for m = 1 + f as above.
static Value logRest(VectorMath& m, Value z) {
  constexpr double kTerms[] = {1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01,
                               2.222219843214978396e-01, 2.857142874366239149e-01, 3.999999999940941908e-01,
                               6.666666666666735130e-01};
  Value r = m.num(z, kTerms[0]);
  for (double term : llvm::ArrayRef(kTerms).drop_front()) r = m.fma(r, z, m.num(z, term));
  return m.mul(r, z);
}

Value VectorMath::wideLog(Value x) {
  WideParts parts = widePartsOf(x);
  Value f = sub(parts.mantissa, num(x, 1.0));
  Value s = divF(f, add(f, num(x, 2.0)));
  Value half = mul(mul(f, f), num(x, 0.5)), rest = logRest(*this, mul(s, s));
  // f - (f^2 / 2 - s (f^2 / 2 + R)), and e ln 2.
  Value low = fma(s, add(half, rest), mul(parts.exponent, num(x, kLn2Low)));
  Value result = fma(parts.exponent, num(x, kLn2High), sub(f, sub(half, low)));
  result = select(compare(Cmp::Eq, x, num(x, INFINITY)), num(x, INFINITY), result);
  result = select(compare(Cmp::Eq, x, num(x, 0.0)), num(x, -INFINITY), result);
  result = select(compare(Cmp::Lt, x, num(x, 0.0)), num(x, NAN), result);
  return select(isNan(x), x, result);
}

Value VectorMath::wideErfcExponent(Value t) {
  // erfc(t) = exp(-t (t + h(t))): a fit of h in (t - 2) / (t + 2), which is good to 6, where erfc is 2e-17.
  Value inside = fastMin(num(t, 6.0), t);
  Value u = divF(sub(inside, num(t, 2.0)), add(inside, num(t, 2.0)));
  Value y = mul(add(u, num(t, 0.25)), num(t, 1 / 0.75));
  Value h =
      horner(y, {0.8095336293057748,      -0.36582656770483396,    -0.04647207745152751,    0.0013210897176223365,
                 2.9455081356587596e-05,  -0.0013320525134508931,  -0.0007031461807550825,  -0.00017984705809667934,
                 -4.051476239132268e-05,  -2.787066427209982e-05,  -2.129401910039867e-05,  -1.1226880606196084e-05,
                 -4.747510106459514e-06,  -2.103695488425463e-06,  -1.1341308191134983e-06, -6.451078831108574e-07,
                 -3.5053556386288534e-07, -2.0137947891278116e-07, -1.0554551718479185e-07, -1.6997253982559074e-08,
                 -8.652254496080843e-09,  -6.163656444805276e-08,  -3.470963474521272e-08,  3.930294634090436e-08,
                 2.2436232670445802e-08,  -2.9578984293796294e-08, -1.679978208402509e-08,  1.073696162296056e-08,
                 6.106804122286889e-09,   -2.319757911282131e-09,  -1.316343885925199e-09});
  return neg(mul(t, add(t, h)));
}

/// x's sign with the magnitude of y.
static Value copySign(VectorMath& m, Value magnitude, Value x) {
  Value bits = m.bitcast(x, m.i64());
  Value sign = m.andI(bits, m.integer(bits, INT64_MIN));
  return m.bitcast(m.orI(m.bitcast(magnitude, m.i64()), sign), m.f64());
}

Value VectorMath::wideErf(Value x) {
  Value t = fastMin(num(x, 6.0), abs(x));
  return copySign(*this, abs(wideExpm1(wideErfcExponent(t))), x);
}

Value VectorMath::wideErfInv(Value x) {
  // Winitzki's approximation, which is good to two or three digits, and Halley's steps, each of which trebles them.
  // What is missing of a is taken from erfc where erf is close to 1.
  Value one = num(x, 1.0), a = abs(x), rest = sub(one, a);
  Value l = wideLog(mul(rest, add(one, a)));
  Value b = fma(l, num(x, 0.5), num(x, 2 / (M_PI * 0.147))), c = mul(l, num(x, -1 / 0.147));
  Value y = sqrt(divF(c, add(sqrt(fma(b, b, c)), b)));
  Value isLarge = compare(Cmp::Gt, a, num(x, 0.5));
  for (int step = 0; step < 3; ++step) {
    Value exponent = wideErfcExponent(y);
    Value missing = select(isLarge, sub(wideExp(exponent), rest), add(a, wideExpm1(exponent)));
    Value newton = mul(mul(missing, wideExp(mul(y, y))), num(x, 0.88622692545275801));
    y = add(y, divF(newton, sub(one, mul(y, newton))));
  }
  y = select(compare(Cmp::Eq, a, one), num(x, INFINITY), y);
  return copySign(*this, select(compare(Cmp::Le, a, one), y, num(x, NAN)), x);
}

Value VectorMath::wideGelu(Value x) {
  Value t = fastMin(num(x, 40.0), abs(mul(x, num(x, 0.70710678118654752))));
  Value tail = wideExp(wideErfcExponent(t));
  Value erfc = select(compare(Cmp::Lt, x, num(x, 0.0)), tail, sub(num(x, 2.0), tail));
  return mul(mul(x, num(x, 0.5)), erfc);
}

Value VectorMath::wideAtan(Value x) {
  // Of 1 / |x| beyond 1, and of (t - 1) / (t + 1) beyond tan(pi / 8).
  Value one = num(x, 1.0), magnitude = abs(x), large = compare(Cmp::Gt, magnitude, one);
  Value t = select(large, divF(one, magnitude), magnitude);
  Value middle = compare(Cmp::Gt, t, num(x, 0.41421356237309503));
  t = select(middle, divF(sub(t, one), add(t, one)), t);
  Value z = mul(t, t);
  Value p = horner(z, {3.33333333333329318027e-01, -1.99999999998764832476e-01, 1.42857142725034663711e-01,
                       -1.11111104054623557880e-01, 9.09088713343650656196e-02, -7.69187620504482999495e-02,
                       6.66107313738753120669e-02, -5.83357013379057348645e-02, 4.97687799461593236017e-02,
                       -3.65315727442169155270e-02, 1.62858201153657823623e-02});
  Value y = fma(neg(mul(p, z)), t, t);
  y = select(middle, add(num(x, 0.78539816339744831), y), y);
  y = select(large, sub(num(x, 1.5707963267948966), y), y);
  return select(isNan(x), x, copySign(*this, y, x));
}

VectorMath::Quarters VectorMath::quartersOfLarge(Value x) {
  // The bits of 2 / pi behind the point, after a word of zeros (computed by Machin's formula).
  constexpr uint64_t kTwoOverPi[] = {0,
                                     0xa2f9836e4e441529,
                                     0xfc2757d1f534ddc0,
                                     0xdb6295993c439041,
                                     0xfe5163abdebbc561,
                                     0xb7246e3a424dd2e0,
                                     0x06492eea09d1921c,
                                     0xfe1deb1cb129a73e,
                                     0xe88235f52ebb4484,
                                     0xe99c7026b45f7e41,
                                     0x3991d639835339f4,
                                     0x9c845f8bbdf9283b,
                                     0x1ff897ffde05980f,
                                     0xef2f118b5a0a6d1f,
                                     0x6d367ecf27cb09b7,
                                     0x4f463f669e5fea2d,
                                     0x7527bac7ebe5f17b,
                                     0x3d0739f78a5292ea,
                                     0x6bfb5fb11f8d5d08,
                                     0x56033046fc7b6bab};
  // |x| = m * 2^e. Bits of 2 / pi that m * 2^e makes multiples of 4 are left out: what is left begins with the bit e -
  // 2, counted from the point, which is bit e + 62 of the table.
  Value bits = bitcast(abs(x), i64());
  Value exponent = shr(bits, 52, false);
  Value m = orI(andI(bits, integer(bits, (int64_t{1} << 52) - 1)), integer(bits, int64_t{1} << 52));
  Value first = sub(max(exponent, integer(bits, kLargeExponent)), integer(bits, 1075 - 62));
  Value word = shr(first, 6, false), shift = andI(first, integer(bits, 63));
  // Four words from there on: each bit of the word's number moves the table by as many words, or not.
  SmallVector<Value> window;
  for (uint64_t each : kTwoOverPi) window.push_back(integer(bits, static_cast<int64_t>(each)));
  size_t needed = 3 + 32;
  for (size_t step : {16, 8, 4, 2, 1}) {
    needed -= step;
    Value moves = compare(Cmp::Ne, andI(word, integer(bits, static_cast<int64_t>(step))), integer(bits, 0));
    SmallVector<Value> next;
    for (size_t i = 0; i < std::min(needed, window.size()); ++i)
      next.push_back(i + step < window.size() ? select(moves, window[i + step], window[i]) : window[i]);
    window = std::move(next);
  }
  Value rest = sub(integer(bits, 63), shift);
  Value g[3];
  for (size_t i = 0; i < 3; ++i) g[i] = orI(shl(window[i], shift), shr(shr(window[i + 1], 1, false), rest, false));
  // m * g modulo 2^192 without the lowest word: an error below 2^-125 of a quarter.
  Value mask = integer(bits, 0xffffffff);
  Value mLow = andI(m, mask), mHigh = shr(m, 32, false);
  auto times = [&](Value word, Value* low) {
    Value wordLow = andI(word, mask), wordHigh = shr(word, 32, false);
    Value t = mul(mLow, wordLow);
    Value u = add(mul(mHigh, wordLow), shr(t, 32, false));
    Value v = add(mul(mLow, wordHigh), andI(u, mask));
    if (low) *low = orI(shl(v, 32), andI(t, mask));
    return add(add(mul(mHigh, wordHigh), shr(u, 32, false)), shr(v, 32, false));
  };
  Value middle;
  Value carried = times(g[1], &middle), lower = add(middle, times(g[2], nullptr));
  Value carry = select(compare(Cmp::Lt, lower, middle, false), integer(bits, 1), integer(bits, 0));
  Value upper = add(add(mul(m, g[0]), carried), carry);
  // The two highest bits are whole quarters, after rounding; what is left is a fraction of one, with a sign.
  Value n = shr(add(upper, integer(bits, int64_t{1} << 61)), 62, false);
  upper = sub(upper, shl(n, 62));
  // In three parts that are exact: 42 bits of it each.
  Value high = toFloat(shr(upper, 20, true), f64(), true);
  Value low = toFloat(orI(shl(andI(upper, integer(bits, (1 << 20) - 1)), 22), shr(lower, 42, false)), f64(), true);
  Value lowest = toFloat(andI(lower, integer(bits, (int64_t{1} << 42) - 1)), f64(), true);
  high = mul(high, num(x, 0x1p-42)), low = mul(low, num(x, 0x1p-84));
  Value sum = add(high, low);
  Value missing = fma(lowest, num(x, 0x1p-126), sub(low, sub(sum, high)));
  constexpr double kQuarter = 1.57079632679489655800e+00, kQuarterRest = 6.12323399573676603587e-17;
  Value r = fma(sum, num(x, kQuarter), fma(sum, num(x, kQuarterRest), mul(missing, num(x, kQuarter))));
  Value isNegative = compare(Cmp::Lt, x, num(x, 0.0));
  return {select(isNegative, neg(r), r), select(isNegative, sub(integer(bits, 0), n), n)};
}

Value VectorMath::wideSinOrCos(Value x, bool cosine) {
  // x - n pi / 2 with pi / 2 in four parts. The products are exact where n has no more than 20 bits beyond what a part
  // leaves free; multiply-adds keep the error below 2^-53 up to 2^30.
  Value n = roundEven(mul(x, num(x, 0.63661977236758138)));
  Value r = x;
  for (double part :
       {1.57079632673412561417e+00, 6.07710050630396597660e-11, 2.02226624871116645580e-21, 8.47842766036889956997e-32})
    r = fma(n, num(x, -part), r);
  const Quarters large = quartersOfLarge(x);
  Value isLarge = compare(Cmp::Ge, abs(x), num(x, std::ldexp(1.0, kLargeExponent - 1023)));
  r = select(isLarge, large.r, r);
  Value quadrant = select(isLarge, large.n, toIntSaturating(n, i64(), true));
  if (cosine) quadrant = add(quadrant, integer(quadrant, 1));
  Value z = mul(r, r);
  Value sine = fma(mul(r, z),
                   horner(z, {-1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04,
                              2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10}),
                   r);
  Value cosinePoly =
      fma(mul(z, z),
          horner(z, {4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05,
                     -2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11}),
          fma(z, num(z, -0.5), num(z, 1.0)));
  Value odd = compare(Cmp::Ne, andI(quadrant, integer(quadrant, 1)), integer(quadrant, 0));
  Value magnitude = select(odd, cosinePoly, sine);
  Value flip = compare(Cmp::Ne, andI(quadrant, integer(quadrant, 2)), integer(quadrant, 0));
  Value result = select(flip, neg(magnitude), magnitude);
  result = select(compare(Cmp::Lt, abs(x), num(x, INFINITY)), result, num(x, NAN));
  return cosine ? result : keepZero(x, result);
}

Value VectorMath::wideLgamma(Value x) {
  // As of f32: Lanczos' series for x >= 1/2, reflection below.
  Value half = num(x, 0.5), one = num(x, 1.0);
  Value reflected = compare(Cmp::Lt, x, half);
  Value t = select(reflected, sub(one, x), x);
  Value series = num(x, 0.99999999999999709182);
  const double terms[] = {57.156235665862923517,     -59.597960355475491248,    14.136097974741747174,
                          -0.49191381609762019978,   .33994649984811888699e-4,  .46523628927048575665e-4,
                          -.98374475304879564677e-4, .15808870322491248884e-3,  -.21026444172410488319e-3,
                          .21743961811521264320e-3,  -.16431810653676389022e-3, .84418223983852743293e-4,
                          -.26190838401581408670e-4, .36899182659531622704e-5};
  Value at = t;
  for (double term : terms) {
    series = add(series, divF(num(x, term), at));
    at = add(at, one);
  }
  // For gamma(t): log(sqrt(2 pi) series) + (t - 1/2) log(b) - b with b = t + g - 1/2.
  Value base = add(t, num(x, 607.0 / 128 - 0.5));
  Value y = add(fma(sub(t, half), wideLog(base), neg(base)), wideLog(mul(series, num(x, 2.5066282746310005))));
  y = select(compare(Cmp::Eq, t, num(x, INFINITY)), num(x, INFINITY), y);
  Value distance = sub(x, roundEven(x));
  Value sine = abs(wideSinOrCos(mul(distance, num(x, 3.14159265358979312)), false));
  Value below = sub(sub(num(x, 1.1447298858494002), wideLog(sine)), y);
  below = select(compare(Cmp::Eq, distance, num(x, 0.0)), num(x, INFINITY), below);
  below = select(compare(Cmp::Eq, x, num(x, -INFINITY)), num(x, INFINITY), below);
  return select(isNan(x), x, select(reflected, below, y));
}

Value VectorMath::widePow(Value x, Value y) {
  Value one = num(x, 1.0), zero = num(x, 0.0), magnitude = abs(x);
  // log |x| as a sum of two numbers: s = f / (2 + f) with what its division left, and the rest of the series, which is
  // small beside it.
  WideParts parts = widePartsOf(magnitude);
  Value f = sub(parts.mantissa, one), below = add(f, num(x, 2.0));
  Value s = divF(f, below);
  // 2 + f is rounded, too.
  Value lost = sub(f, sub(below, num(x, 2.0)));
  Value left = divF(sub(fma(neg(s), below, f), mul(s, lost)), below);
  Value z = mul(s, s);
  Value rest = add(mul(s, logRest(*this, z)), add(left, left));
  Value twice = add(s, s), e = parts.exponent;
  // e ln 2 + 2 s: the larger one first, and what the sum has rounded away.
  Value whole = mul(e, num(x, kLn2High)), high = add(whole, twice);
  Value carried = sub(high, whole), error = add(sub(whole, sub(high, carried)), sub(twice, carried));
  Value low = add(fma(e, num(x, kLn2Low), error), rest);
  Value log = add(high, low);
  low = add(sub(high, log), low);
  // y log |x|, likewise.
  Value t = mul(y, log), tLow = fma(y, low, fma(y, log, neg(t)));
  Value isBounded = compare(Cmp::Lt, abs(t), num(x, 1000.0));
  Value bounded = fastMin(num(x, 1000.0), fastMax(num(x, -1000.0), t));
  Value result = wideExp(bounded);
  result = select(isBounded, fma(result, select(isBounded, tLow, zero), result), result);
  result = select(compare(Cmp::Eq, abs(result), num(x, INFINITY)), num(x, INFINITY), result);
  result = select(compare(Cmp::Gt, bounded, num(x, 709.782712893384)), num(x, INFINITY), result);
  // Of 0 and infinities by the sign of y alone.
  Value isLarge = compare(Cmp::Eq, magnitude, num(x, INFINITY)), isNone = compare(Cmp::Eq, magnitude, zero);
  Value grows = select(compare(Cmp::Gt, y, zero), isLarge, isNone);
  result = select(orI(isLarge, isNone), select(grows, num(x, INFINITY), zero), result);
  // |x|^+-inf.
  Value isInfinite = compare(Cmp::Eq, abs(y), num(y, INFINITY));
  Value above = compare(Cmp::Gt, magnitude, one), isUp = compare(Cmp::Gt, y, zero);
  Value diverges = select(isUp, above, compare(Cmp::Lt, magnitude, one));
  result = select(isInfinite, select(diverges, num(x, INFINITY), zero), result);
  // A negative base: the sign of odd integers, NaN for what is no integer.
  Value yIsInteger = compare(Cmp::Eq, trunc(y), y), halfY = mul(y, num(y, 0.5));
  Value yIsOdd = andI(yIsInteger, compare(Cmp::Ne, trunc(halfY), halfY));
  Value bits = bitcast(x, i64());
  result = select(andI(compare(Cmp::Lt, bits, integer(bits, 0)), yIsOdd), neg(result), result);
  Value negative = andI(compare(Cmp::Lt, x, zero), compare(Cmp::Ne, magnitude, num(x, INFINITY)));
  result = select(andI(negative, compare(Cmp::Ne, trunc(y), y)), num(x, NAN), result);
  result = select(orI(isNan(x), isNan(y)), num(x, NAN), result);
  Value isOne = orI(compare(Cmp::Eq, x, one), compare(Cmp::Eq, y, zero));
  return select(orI(isOne, andI(compare(Cmp::Eq, magnitude, one), isInfinite)), one, result);
}

Value VectorMath::wideFmod(Value x, Value y) {
  // 52 bits of the quotient at a time. What is left is an exact double each time: a multiple of the last bits of x or y
  // that has no more bits than they have. It may be negative, as a quotient is rounded up, too.
  constexpr int kDigits = 41;  // Of quotients below 2^2098.
  Value r = abs(x), b = abs(y), infinity = num(x, INFINITY);
  Value lifted = mul(b, num(b, 0x1p1000));
  for (int digit = 0; digit < kDigits; ++digit) {
    Value q = divF(r, b), isBeyond = compare(Cmp::Eq, abs(q), infinity);
    Value divisor = select(isBeyond, lifted, b);
    q = trunc(digit < kDigits / 2 ? select(isBeyond, divF(r, lifted), q) : q);
    r = fma(neg(q), divisor, r);
  }
  r = select(compare(Cmp::Lt, r, num(x, 0.0)), add(r, b), r);
  Value result = copySign(*this, r, x);
  Value finite = compare(Cmp::Lt, abs(x), num(x, INFINITY));
  Value big = andI(finite, compare(Cmp::Eq, b, num(y, INFINITY)));
  Value none = orI(orI(isNan(x), isNan(y)), compare(Cmp::Eq, b, num(y, 0.0)));
  none = orI(none, compare(Cmp::Eq, abs(x), num(x, INFINITY)));
  return select(big, x, select(none, num(x, NAN), result));
}

}  // namespace hpu::kernels
