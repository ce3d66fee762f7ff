// SPDX-License-Identifier: Apache-2.0
#include "numerics/SmallFloat.h"

#include <gtest/gtest.h>

#include "Oracle.h"

namespace hpu::numerics {
namespace {

using testing::denseSample;
using testing::Format;
using testing::Oracle;
using testing::valueOf;

uint32_t bitsOf(float value) {
  return std::bit_cast<uint32_t>(value);
}
bool isNanBits(uint32_t bits) {
  return (bits & 0x7fffffff) > 0x7f800000;
}

/// Every code decodes to the formula's value, its infinity or a NaN, with its sign.
void checkDecode(const Format& f, auto decode) {
  const uint32_t sign = 1u << (f.exponentBits + f.mantissaBits);
  for (uint32_t code = 0; code < sign; ++code) {
    float plus = decode(code), minus = decode(code | sign);
    if (code <= f.maxFinite) {
      ASSERT_EQ(static_cast<double>(plus), valueOf(f, code)) << code;
    } else if (f.hasInfinity && code == f.infinity) {
      ASSERT_EQ(plus, INFINITY) << code;
    } else {
      ASSERT_TRUE(isNanBits(bitsOf(plus))) << code;
    }
    ASSERT_EQ(bitsOf(minus), bitsOf(plus) | 0x80000000) << code;
  }
}

void checkEncode(const Format& f, auto encode, bool saturate) {
  const Oracle oracle(f);
  const uint32_t sign = 1u << (f.exponentBits + f.mantissaBits);
  std::vector<float> values = oracle.boundaries();
  std::vector<float> sample = denseSample(3'000'017);
  values.insert(values.end(), sample.begin(), sample.end());
  for (float value : values) {
    uint32_t code = encode(value);
    ASSERT_EQ((code & sign) != 0, std::signbit(value)) << value;
    code &= sign - 1;
    if (std::isnan(value)) {
      ASSERT_GT(code, f.hasInfinity ? f.infinity : f.maxFinite) << std::hex << bitsOf(value);
      continue;
    }
    uint32_t expected = std::isinf(value) ? Oracle::kOverflow : oracle.round(std::fabs(double{value}));
    if (expected == Oracle::kOverflow) {
      expected = saturate ? f.maxFinite : f.hasInfinity ? f.infinity : f.maxFinite + 1;
    }
    ASSERT_EQ(code, expected) << value << " = 0x" << std::hex << bitsOf(value);
  }
}

constexpr std::pair<Fp8Format, Format> kFp8[] = {{Fp8Format::kE4M3Fn, testing::kE4M3Fn},
                                                 {Fp8Format::kE4M3Ieee, testing::kE4M3Ieee},
                                                 {Fp8Format::kE5M2, testing::kE5M2}};

TEST(Bf16, EveryCodeDecodesToItsValue) {
  checkDecode(testing::kBf16, [](uint32_t c) { return bf16ToF32(static_cast<uint16_t>(c)); });
}
TEST(Bf16, EncodesToTheNearestTiesToEven) {
  checkEncode(testing::kBf16, [](float v) { return uint32_t{f32ToBf16(v)}; }, false);
}
TEST(Fp16, EveryCodeDecodesToItsValue) {
  checkDecode(testing::kF16, [](uint32_t c) { return f16ToF32(static_cast<uint16_t>(c)); });
}
TEST(Fp16, EncodesToTheNearestTiesToEven) {
  checkEncode(testing::kF16, [](float v) { return uint32_t{f32ToF16(v)}; }, false);
}
TEST(Fp8, EveryCodeDecodesToItsValue) {
  for (auto [format, parameters] : kFp8) {
    checkDecode(parameters, [f = format](uint32_t c) { return fp8ToF32(f, static_cast<uint8_t>(c)); });
  }
}
TEST(Fp8, EncodesToTheNearestTiesToEven) {
  for (auto [format, parameters] : kFp8) {
    for (Overflow overflow : {Overflow::kIeee, Overflow::kSaturate}) {
      checkEncode(
          parameters, [&, f = format](float v) { return uint32_t{f32ToFp8(f, v, overflow)}; },
          overflow == Overflow::kSaturate);
    }
  }
}

TEST(SmallFloat, EveryFiniteCodeSurvivesTheWayToF32AndBack) {
  for (uint32_t c = 0; c < 0x10000; ++c) {
    auto code = static_cast<uint16_t>(c);
    if (!std::isnan(bf16ToF32(code))) {
      ASSERT_EQ(f32ToBf16(bf16ToF32(code)), code);
    }
    if (!std::isnan(f16ToF32(code))) {
      ASSERT_EQ(f32ToF16(f16ToF32(code)), code);
    }
  }
  for (auto [format, parameters] : kFp8) {
    for (uint32_t c = 0; c < 0x100; ++c) {
      auto code = static_cast<uint8_t>(c);
      float value = fp8ToF32(format, code);
      if (!std::isnan(value)) {
        ASSERT_EQ(f32ToFp8(format, value, Overflow::kIeee), code);
      }
    }
  }
}

TEST(SmallFloat, NansStayNansWithTheirSignAndUpperPayload) {
  // The quiet bit is set, so that a payload in the bits that are cut off does not become infinity.
  EXPECT_EQ(f32ToBf16(std::bit_cast<float>(0x7f800001u)), 0x7fc0);
  EXPECT_EQ(f32ToBf16(std::bit_cast<float>(0xffa50000u)), 0xffe5);
  EXPECT_EQ(f32ToF16(std::bit_cast<float>(0x7f800001u)), 0x7e00);
  EXPECT_EQ(f32ToF16(std::bit_cast<float>(0xff802000u)), 0xfe01);
  EXPECT_EQ(bitsOf(f16ToF32(0xfc01)), 0xffc02000u);
  for (auto [format, parameters] : kFp8) {
    EXPECT_EQ(f32ToFp8(format, std::bit_cast<float>(0x7f800001u), Overflow::kSaturate), 0x7f);
    EXPECT_EQ(f32ToFp8(format, std::bit_cast<float>(0xffc00000u), Overflow::kIeee), 0xff);
  }
}

TEST(Fp8, HasTheRangesOfItsSpecifications) {
  // OCP 8-bit Floating Point Specification 1.0, table 1; Gaudi 2's E4M3 reaches 240.
  EXPECT_EQ(fp8ToF32(Fp8Format::kE4M3Fn, 0x7e), 448.0f);
  EXPECT_EQ(fp8ToF32(Fp8Format::kE4M3Fn, 0x01), 0x1p-9f);
  EXPECT_EQ(fp8ToF32(Fp8Format::kE4M3Ieee, 0x77), 240.0f);
  EXPECT_EQ(fp8ToF32(Fp8Format::kE4M3Ieee, 0x01), 0x1p-9f);
  EXPECT_EQ(fp8ToF32(Fp8Format::kE5M2, 0x7b), 57344.0f);
  EXPECT_EQ(fp8ToF32(Fp8Format::kE5M2, 0x01), 0x1p-16f);
  EXPECT_EQ(f32ToFp8(Fp8Format::kE4M3Fn, 464.0f, Overflow::kIeee), 0x7e);  // A tie, to even.
  EXPECT_EQ(f32ToFp8(Fp8Format::kE4M3Fn, 465.0f, Overflow::kIeee), 0x7f);
  EXPECT_EQ(f32ToFp8(Fp8Format::kE4M3Fn, -1e9f, Overflow::kSaturate), 0xfe);
  EXPECT_EQ(f32ToFp8(Fp8Format::kE4M3Ieee, 248.0f, Overflow::kIeee), 0x78);
  EXPECT_EQ(f32ToFp8(Fp8Format::kE5M2, INFINITY, Overflow::kSaturate), 0x7b);
  EXPECT_EQ(f32ToFp8(Fp8Format::kE5M2, INFINITY, Overflow::kIeee), 0x7c);
}

TEST(Fp8, TheRangeOfE4M3FollowsTheTarget) {
  EXPECT_EQ(e4m3Format(Target::kGaudi2), Fp8Format::kE4M3Ieee);
  EXPECT_EQ(e4m3Format(Target::kGaudi3), Fp8Format::kE4M3Fn);
}

}  // namespace
}  // namespace hpu::numerics
