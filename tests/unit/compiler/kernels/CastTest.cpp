// SPDX-License-Identifier: Apache-2.0
// Integers at the ends of their ranges, kernels and interpreter alike: casts between all types, positions of extremes,
// limits, means.
#include <cmath>
#include <cstring>

#include "KernelHarness.h"
#include "gtest/gtest.h"

namespace hpu::kernels::test {
namespace {

constexpr ElementType F32 = ElementType::kF32, BF16 = ElementType::kBF16, F16 = ElementType::kF16,
                      I64 = ElementType::kI64, I32 = ElementType::kI32, I16 = ElementType::kI16, I8 = ElementType::kI8,
                      U64 = ElementType::kU64, U32 = ElementType::kU32, U16 = ElementType::kU16, U8 = ElementType::kU8,
                      Bool = ElementType::kBool;
constexpr ElementType kIntegers[] = {I8, U8, I16, U16, I32, U32, I64, U64};

bool isFloating(ElementType type) {
  return type == F32 || type == BF16 || type == F16;
}
bool isSigned(ElementType type) {
  return type == I8 || type == I16 || type == I32 || type == I64;
}
int bitsOf(ElementType type) {
  return static_cast<int>(elementSize(type)) * 8;
}
double least(ElementType type) {
  return isSigned(type) ? -std::ldexp(1.0, bitsOf(type) - 1) : 0;
}
/// One above the largest number.
double beyond(ElementType type) {
  return std::ldexp(1.0, bitsOf(type) - (isSigned(type) ? 1 : 0));
}

/// In the text of an op: u8 is ui8, bool is i1.
std::string nameOf(ElementType type) {
  std::string name(elementTypeName(type));
  return type == Bool ? "i1" : name[0] == 'u' ? "ui" + name.substr(1) : name;
}

/// Element i of a dense integer vector.
__int128 integerAt(const std::vector<uint8_t>& bytes, ElementType type, int64_t i) {
  const int64_t size = elementSize(type);
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + i * size, static_cast<size_t>(size));
  if (!isSigned(type)) return bits;
  const int unused = 64 - bitsOf(type);
  return static_cast<int64_t>(bits << unused) >> unused;
}

/// What the type makes of an integer: the lowest bits.
double wrapped(__int128 value, ElementType type) {
  auto bits = static_cast<uint64_t>(value);
  const int unused = 64 - bitsOf(type);
  if (isSigned(type)) return static_cast<double>(static_cast<int64_t>(bits << unused) >> unused);
  return static_cast<double>(bits << unused >> unused);
}

/// Small numbers, and those around every type's ends.
Tensor extremes(ElementType type) {
  std::vector<double> values = {0, 1, -1, 2, 3, 0.5, -0.5, 1.9, -1.9, 100, -100};
  for (ElementType end : kIntegers)
    for (double v : {least(end), beyond(end)})
      for (double step : {0.0, 1.0, -1.0, 0.5, -0.5, v * 0x1p-24, -v * 0x1p-24, v * 0x1p-9, v * 0.5})
        values.push_back(v + step);
  if (isFloating(type)) values.insert(values.end(), {INFINITY, -INFINITY, NAN, 1e30, -1e30, 1e-40});
  Tensor x = Tensor::dense(type, {static_cast<int64_t>(values.size())});
  x.fill([&](const Index& i) { return values[static_cast<size_t>(i[0])]; });
  return x;
}

TEST(Cast, AtTheEndsOfAllTypesSaturatesFloatsAndWrapsIntegers) {
  std::vector<ElementType> types(std::begin(kIntegers), std::end(kIntegers));
  types.insert(types.end(), {F32, BF16, F16, Bool});
  for (ElementType from : types) {
    if (from == Bool) continue;
    Tensor x = extremes(from);
    const std::vector<uint8_t> bytes = x.contents();
    for (ElementType to : types) {
      SCOPED_TRACE(nameOf(from) + " to " + nameOf(to));
      // Beyond 2^24 an integer becomes a bf16 by way of f32 in a kernel: one rounding more.
      Tolerance tolerance = {to == BF16 && !isFloating(from) ? 0.004 : 0, 0};
      checkBoth(
          "%r = hpu.cast %0 {to = " + nameOf(to) + "} : ($0) -> $out0\nhpu.yield %r : $out0", {x},
          {Tensor::dense(to, x.sizes)},
          [&](int, const Index& i) {
            double v = x.at(i);
            if (to == Bool) return static_cast<double>(v != 0);
            if (isFloating(to) && isFloating(from)) return v;
            if (isFloating(to)) return static_cast<double>(static_cast<float>(integerAt(bytes, from, i[0])));
            if (!isFloating(from)) return wrapped(integerAt(bytes, from, i[0]), to);
            return std::trunc(v);  // Stored, it saturates.
          },
          tolerance);
    }
  }
}

TEST(Cast, ThePositionOfTheLargestIsTheFirstOneAndNanComesBeforeAll) {
  for (ElementType type : {I8, U8, I16, U16, I32, U32, I64, U64, F32, BF16}) {
    for (int64_t axis : {0, 1}) {
      const double low = isFloating(type) ? -INFINITY : least(type), high = isFloating(type) ? INFINITY : beyond(type);
      Tensor x = Tensor::dense(type, {70, 70});
      x.fill([&](const Index& i) {
        int64_t row = axis == 1 ? i[0] : i[1], at = axis == 1 ? i[1] : i[0];
        if (row == 0) return low;  // The least everywhere.
        if (row == 1) return at == 40 || at == 66 ? low + 3 : low;
        if (row == 2) return at == 5 || at == 69 ? high : low;
        if (row == 3 && isFloating(type)) return at == 33 || at == 50 ? double{NAN} : high;
        return static_cast<double>((at * 37 + row * 11) % 61);
      });
      checkBoth("%r = hpu.arg_max %0 {axis = " + std::to_string(axis) +
                    " : i64, keepdims = false} : ($0) -> $out0\nhpu.yield %r : $out0",
                {x}, {Tensor::dense(I64, {70})}, [&](int, const Index& r) {
                  int64_t best = 0;
                  auto at = [&](int64_t i) { return axis == 1 ? x.at({r[0], i}) : x.at({i, r[0]}); };
                  for (int64_t i = 1; i < 70; ++i)
                    if (at(i) > at(best) || (std::isnan(at(i)) && !std::isnan(at(best)))) best = i;
                  return static_cast<double>(best);
                });
    }
  }
}

TEST(Cast, LimitsOfIntegersMayLieOutsideOfTheirType) {
  struct Limits {
    double low, high;
  };
  for (ElementType type : kIntegers) {
    Tensor x = extremes(type);
    for (auto [low, high] : {Limits{-1e30, 1e30}, Limits{-3, 5}, Limits{0.5, 2.5}, Limits{100, 1e18}, Limits{-5, -4}}) {
      char text[128];
      std::snprintf(text, sizeof text, "{min = %.17e : f64, max = %.17e : f64}", low, high);
      const double top = beyond(type) > 0x1p53 ? beyond(type) : beyond(type) - 1;
      const double from = std::min(std::max(std::ceil(low), least(type)), top),
                   to = std::min(std::max(std::floor(high), least(type)), top);
      checkBoth("%r = hpu.clip %0 " + std::string(text) + " : ($0) -> $out0\nhpu.yield %r : $out0", {x},
                {Tensor::dense(type, x.sizes)},
                [&](int, const Index& i) { return std::min(std::max(x.at(i), from), to); });
    }
  }
}

TEST(Cast, TheMeanOfIntegersIsInTheirTypeAlthoughTheirSumIsNot) {
  for (ElementType type : {I32, U32, I8}) {
    Tensor x = Tensor::dense(type, {4, 90});
    const double top = beyond(type) - 1;
    x.fill([&](const Index& i) { return i[0] == 0 ? top : i[0] == 1 ? least(type) : i[1] % 2 ? top : top - 4; });
    checkBoth("%r = hpu.reduce_mean %0 {axes = array<i64: 1>, keepdims = false} : ($0) -> $out0\nhpu.yield %r : $out0",
              {x}, {Tensor::dense(type, {4})},
              [&](int, const Index& i) { return i[0] == 0   ? top
                                                : i[0] == 1 ? least(type)
                                                            : top - 2; }, {0, 0});
  }
}

}  // namespace
}  // namespace hpu::kernels::test
