// SPDX-License-Identifier: Apache-2.0
// Conversions to and from fp8 in kernels: bit by bit what src/numerics gives with saturation, which its own
// tests compare with an independent formulation.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "KernelHarness.h"
#include "numerics/SmallFloat.h"

namespace hpu::kernels::test {
namespace {

constexpr ElementType F32 = ElementType::kF32;
constexpr numerics::Fp8Format kFormats[] = {numerics::Fp8Format::kE4M3Fn, numerics::Fp8Format::kE4M3Ieee,
                                            numerics::Fp8Format::kE5M2};

std::string mlirName(numerics::Fp8Format format) {
  if (format == numerics::Fp8Format::kE5M2) return "f8E5M2";
  return format == numerics::Fp8Format::kE4M3Fn ? "f8E4M3FN" : "f8E4M3";
}

/// Every code's value, every midpoint, their neighbours, and bit patterns from all over, NaN among them.
std::vector<float> difficultValues(numerics::Fp8Format format) {
  std::vector<float> values;
  auto around = [&](float value) {
    for (float x : {value, std::nextafter(value, 0.0f), std::nextafter(value, INFINITY)}) {
      values.push_back(x);
      values.push_back(-x);
    }
  };
  float before = 0;
  for (int code = 0; code < 128; ++code) {
    const float value = numerics::fp8ToF32(format, static_cast<uint8_t>(code));
    if (!std::isfinite(value)) continue;
    around(value);
    around((before + value) / 2);
    before = value;
  }
  around(before * 1.03f);
  for (uint32_t bits = 0x12345; bits < 0xff000000u; bits += 0x00f3aa51u) values.push_back(std::bit_cast<float>(bits));
  for (float x : {INFINITY, -INFINITY, 3.4e38f, -3.4e38f, 1e-45f, 0.0f, -0.0f, NAN}) values.push_back(x);
  return values;
}

TEST(Fp8, StoresTheCodesOfNumerics) {
  for (numerics::Fp8Format format : kFormats) {
    std::vector<float> values = difficultValues(format);
    auto count = static_cast<int64_t>(values.size());
    Tensor x = Tensor::dense(F32, {count});
    for (int64_t i = 0; i < count; ++i) x.set({i}, values[static_cast<size_t>(i)]);
    check("%r = hpu.cast %0 {to = " + mlirName(format) + "} : ($0) -> $out0\nhpu.yield %r : $out0", {x},
          {Tensor::dense(numerics::elementTypeOf(format), {count})},
          [&](int, const Index& i) {
            return numerics::f32ToFp8(format, values[static_cast<size_t>(i[0])], numerics::Overflow::kSaturate);
          },
          {0, 0});
  }
}

TEST(Fp8, LoadsTheValuesOfNumerics) {
  for (numerics::Fp8Format format : kFormats) {
    Tensor x = Tensor::dense(numerics::elementTypeOf(format), {256});
    auto value = [&](int64_t code) { return numerics::fp8ToF32(format, static_cast<uint8_t>(code)); };
    for (int64_t code = 0; code < 256; ++code)
      x.set({code}, std::isfinite(value(code)) ? static_cast<double>(code) : 0.0);
    check("%r = hpu.cast %0 {to = f32} : ($0) -> $out0\nhpu.yield %r : $out0", {x}, {Tensor::dense(F32, {256})},
          [&](int, const Index& i) { return std::isfinite(value(i[0])) ? value(i[0]) : 0.0; }, {0, 0});
    check("%n = hpu.is_nan %0 : ($0) -> $out0\nhpu.yield %n : $out0", {[&] {
            Tensor codes = Tensor::dense(numerics::elementTypeOf(format), {256});
            for (int64_t code = 0; code < 256; ++code) codes.set({code}, static_cast<double>(code));
            return codes;
          }()},
          {Tensor::dense(ElementType::kBool, {256})},
          [&](int, const Index& i) { return std::isnan(value(i[0])) ? 1.0 : 0.0; }, {0, 0});
  }
}

TEST(Fp8, ACastRoundsInsideOfAKernel) {
  Tensor x = Tensor::dense(F32, {2, 77}).random(5, -300, 300);
  check(
      "%h = hpu.cast %0 {to = f8E4M3} : ($0) -> tensor<2x77xf8E4M3>\n"
      "%r = hpu.cast %h {to = f32} : (tensor<2x77xf8E4M3>) -> $out0\nhpu.yield %r : $out0",
      {x}, {Tensor::dense(F32, {2, 77})},
      [&](int, const Index& i) {
        constexpr auto kFormat = numerics::Fp8Format::kE4M3Ieee;
        return numerics::fp8ToF32(
            kFormat, numerics::f32ToFp8(kFormat, static_cast<float>(x.at(i)), numerics::Overflow::kSaturate));
      },
      {0, 0});
}

}  // namespace
}  // namespace hpu::kernels::test
