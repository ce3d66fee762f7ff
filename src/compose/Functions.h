// SPDX-License-Identifier: Apache-2.0
// Functions of each element that the hpu dialect has no op for, as formulas of those it has.
// The one thing to know: operands are f32 (callers convert); results are accurate to a few units of f32 where not said
// otherwise, and NaN, infinities and the ends of a domain give what the C library gives.
#pragma once

#include "compose/Emitter.h"

namespace hpu::compose {

/// Comparisons with a number.
Value isLess(Emitter& c, Value x, double bound);
Value isGreater(Emitter& c, Value x, double bound);
Value isEqual(Emitter& c, Value x, double number);
/// Both are where `condition` is, else 0.
Value orZero(Emitter& c, Value condition, Value x);

/// Towards zero.
Value truncated(Emitter& c, Value x);
Value oneMinus(Emitter& c, Value x);
Value tangent(Emitter& c, Value x);
Value arcSine(Emitter& c, Value x);
Value arcCosine(Emitter& c, Value x);
Value hyperbolicSine(Emitter& c, Value x);
Value hyperbolicCosine(Emitter& c, Value x);
Value inverseHyperbolicSine(Emitter& c, Value x);
Value inverseHyperbolicCosine(Emitter& c, Value x);
Value inverseHyperbolicTangent(Emitter& c, Value x);
/// The angle of the point (x, y), in (-pi, pi].
Value arcTangent2(Emitter& c, Value y, Value x);
/// NaN and both infinities as numbers.
Value nanToNumber(Emitter& c, Value x, double nan, double infinity, double minusInfinity);
/// Whether the sign bit is set, also of -0 and of NaN.
Value signBit(Emitter& c, Value x);

/// The logarithmic derivative of the gamma function, and the derivative of that.
Value digamma(Emitter& c, Value x);
Value trigamma(Emitter& c, Value x);
/// The modified Bessel function of order 0 or 1, times exp(-|x|) when scaled.
Value besselI(Emitter& c, Value x, int order, bool isScaled);

/// sum of coefficients[i] * x^i.
Value polynomial(Emitter& c, Value x, const std::vector<double>& coefficients);

/// base^exponent of integers, wrapped to their type; a negative exponent of anything but 1 and -1 gives 0.
Value integerPower(Emitter& c, Value base, Value exponent);

}  // namespace hpu::compose
