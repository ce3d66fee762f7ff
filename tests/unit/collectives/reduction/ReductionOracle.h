// SPDX-License-Identifier: Apache-2.0
// Reductions element by element, written from the contract: floats in double rounded to the
// accumulator after each operation, integers in 128 bits, small formats by their formula. Shares no
// arithmetic with collectives/reduction or src/numerics.
#pragma once

#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "../../numerics/Oracle.h"
#include "collectives/reduction/Reduction.h"
#include "numerics/ElementKinds.h"

namespace hpu::collectives::testing {

using numerics::testing::Format;
using numerics::testing::Oracle;

inline const Format* formatOf(ElementType type) {
  switch (type) {
    case ElementType::kBF16:
      return &numerics::testing::kBf16;
    case ElementType::kF16:
      return &numerics::testing::kF16;
    case ElementType::kF8E4M3:
      return &numerics::testing::kE4M3Fn;
    case ElementType::kF8E4M3Ieee:
      return &numerics::testing::kE4M3Ieee;
    case ElementType::kF8E5M2:
      return &numerics::testing::kE5M2;
    default:
      return nullptr;
  }
}
using numerics::isFloat;
inline bool isSigned(ElementType type) {
  return type == ElementType::kI8 || type == ElementType::kI32 || type == ElementType::kI64;
}

/// One element's bits, in the low bytes.
using Bits = uint64_t;

inline Bits loadBits(const std::byte* data, int64_t size, int64_t index) {
  Bits bits = 0;
  std::memcpy(&bits, data + size * index, static_cast<size_t>(size));
  return bits;
}

inline double decodeFloat(ElementType type, Bits bits) {
  if (type == ElementType::kF64) return std::bit_cast<double>(bits);
  if (type == ElementType::kF32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  const Format& f = *formatOf(type);
  const int signShift = f.exponentBits + f.mantissaBits;
  const auto code = static_cast<uint32_t>(bits & ((1u << signShift) - 1));
  double value = code <= f.maxFinite                   ? numerics::testing::valueOf(f, code)
                 : f.hasInfinity && code == f.infinity ? HUGE_VAL
                                                       : std::nan("");
  return bits >> signShift & 1 ? -value : value;
}

inline Bits encodeFloat(ElementType type, double value) {
  if (type == ElementType::kF64) {
    return std::isnan(value) ? 0x7ff8000000000000 : std::bit_cast<Bits>(value);
  }
  if (type == ElementType::kF32) {
    return std::isnan(value) ? 0x7fc00000 : std::bit_cast<uint32_t>(static_cast<float>(value));
  }
  const Format& f = *formatOf(type);
  static const Oracle oracles[] = {Oracle(numerics::testing::kBf16), Oracle(numerics::testing::kF16),
                                   Oracle(numerics::testing::kE4M3Fn), Oracle(numerics::testing::kE4M3Ieee),
                                   Oracle(numerics::testing::kE5M2)};
  const int which = type == ElementType::kBF16         ? 0
                    : type == ElementType::kF16        ? 1
                    : type == ElementType::kF8E4M3     ? 2
                    : type == ElementType::kF8E4M3Ieee ? 3
                                                       : 4;
  const uint32_t quiet = formatOf(type)->mantissaBits == 10 ? 0x7e00 : which == 0 ? 0x7fc0 : 0x7f;
  if (std::isnan(value)) return quiet;
  const Bits sign = std::signbit(value) ? Bits{1} << (f.exponentBits + f.mantissaBits) : 0;
  const uint32_t code = std::isinf(value) ? Oracle::kOverflow : oracles[which].round(std::fabs(value));
  if (code != Oracle::kOverflow) return sign | code;
  return f.hasInfinity ? sign | f.infinity : quiet;  // Every NaN is the positive one.
}

/// The value of a source at an index, before scaling.
inline Bits at(const Source& source, ElementType type, int64_t index) {
  const ElementType own = source.partial ? accumulatorType(type) : type;
  return loadBits(source.data, elementSize(own), index);
}

inline double roundTo(ElementType accumulator, double value) {
  return accumulator == ElementType::kF64 ? value : static_cast<float>(value);
}

inline double combineFloat(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::kProd:
      return a * b;
    case ReduceOp::kMin:
    case ReduceOp::kMax:
      if (std::isnan(a) || std::isnan(b)) return std::nan("");
      if (a == b) return (op == ReduceOp::kMin) == std::signbit(a) ? a : b;
      return (op == ReduceOp::kMin) == (a < b) ? a : b;
    default:
      return a + b;
  }
}

/// The expected bits of element `index` of the destination.
inline Bits expected(const Reduce& what, const std::vector<Source>& sources, int64_t index) {
  const ElementType accumulator = accumulatorType(what.type);
  if (isFloat(what.type)) {
    double acc = 0;
    for (size_t k = 0; k < sources.size(); ++k) {
      const ElementType own = sources[k].partial ? accumulator : what.type;
      double value = decodeFloat(own, at(sources[k], what.type, index));
      if (!sources[k].partial && sources[k].scale != 1) {
        value = roundTo(accumulator, value * roundTo(accumulator, sources[k].scale));
      }
      acc = k == 0 ? value : roundTo(accumulator, combineFloat(what.op, acc, value));
    }
    if (what.dstPartial) return encodeFloat(accumulator, acc);
    if (what.divisor != 1) acc = roundTo(accumulator, acc / what.divisor);
    return encodeFloat(what.type, acc);
  }
  const int64_t size = elementSize(what.type);
  const Bits mask = size == 8 ? ~Bits{0} : (Bits{1} << 8 * size) - 1;
  auto widen = [&](Bits bits) -> __int128 {
    if (isSigned(what.type) && bits >> (8 * size - 1) & 1) {
      return static_cast<__int128>(bits) - (static_cast<__int128>(mask) + 1);
    }
    return bits;
  };
  __int128 acc = 0;
  for (size_t k = 0; k < sources.size(); ++k) {
    const __int128 value = widen(at(sources[k], what.type, index));
    if (k == 0) {
      acc = value;
    } else if (what.op == ReduceOp::kMin) {
      acc = std::min(acc, value);
    } else if (what.op == ReduceOp::kMax) {
      acc = std::max(acc, value);
    } else {
      // 128 unsigned bits hold any product of two 64-bit values modulo 2^64.
      using U = unsigned __int128;
      const U full = what.op == ReduceOp::kProd ? static_cast<U>(acc) * static_cast<U>(value)
                                                : static_cast<U>(acc) + static_cast<U>(value);
      acc = widen(static_cast<Bits>(full) & mask);
    }
  }
  if (!what.dstPartial) acc /= what.divisor;
  return static_cast<Bits>(acc) & mask;
}

}  // namespace hpu::collectives::testing
