// SPDX-License-Identifier: Apache-2.0
#include "numerics/Convert.h"

#include <gtest/gtest.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cstring>

#include "Oracle.h"
#include "numerics/ConvertKernels.h"

namespace hpu::numerics {
namespace {

using testing::denseSample;
using testing::Oracle;

constexpr Fp8Format kFp8[] = {Fp8Format::kE4M3Fn, Fp8Format::kE4M3Ieee, Fp8Format::kE5M2};
constexpr Overflow kOverflows[] = {Overflow::kIeee, Overflow::kSaturate};

/// The levels that this CPU can run.
std::vector<base::CpuLevel> levels() {
  std::vector<base::CpuLevel> found;
  for (auto level : {base::CpuLevel::kBaseline, base::CpuLevel::kV3, base::CpuLevel::kV4}) {
    if (level <= base::detectCpuLevel()) found.push_back(level);
  }
  return found;
}

std::vector<float> sampleValues() {
  std::vector<float> values = denseSample(2'000'003);
  for (const testing::Format& format :
       {testing::kBf16, testing::kF16, testing::kE4M3Fn, testing::kE4M3Ieee, testing::kE5M2}) {
    std::vector<float> more = Oracle(format).boundaries();
    values.insert(values.end(), more.begin(), more.end());
  }
  return values;
}

template <typename From, typename To>
void expectSame(const std::vector<From>& src, auto bulk, auto one) {
  std::vector<To> dst(src.size());
  bulk(src.data(), dst.data(), src.size());
  for (size_t i = 0; i < src.size(); ++i) {
    To expected = one(src[i]);
    ASSERT_EQ(std::memcmp(&dst[i], &expected, sizeof(To)), 0) << "element " << i;
  }
}

template <typename Code>
std::vector<Code> allCodes() {
  std::vector<Code> codes(size_t{1} << (8 * sizeof(Code)));
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<Code>(i);
  return codes;
}

void expectAllSame(const ConvertKernels& k, const std::vector<float>& values) {
  auto halves = allCodes<uint16_t>();
  auto bytes = allCodes<uint8_t>();
  expectSame<uint16_t, float>(halves, k.bf16ToF32, [](uint16_t c) { return bf16ToF32(c); });
  expectSame<uint16_t, float>(halves, k.f16ToF32, [](uint16_t c) { return f16ToF32(c); });
  expectSame<float, uint16_t>(values, k.f32ToBf16, [](float v) { return f32ToBf16(v); });
  expectSame<float, uint16_t>(values, k.f32ToF16, [](float v) { return f32ToF16(v); });
  for (Fp8Format format : kFp8) {
    expectSame<uint8_t, float>(
        bytes, [&](const uint8_t* s, float* d, size_t n) { k.fp8ToF32(format, s, d, n); },
        [&](uint8_t c) { return fp8ToF32(format, c); });
    for (Overflow overflow : kOverflows) {
      expectSame<float, uint8_t>(
          values, [&](const float* s, uint8_t* d, size_t n) { k.f32ToFp8(format, s, d, n, overflow); },
          [&](float v) { return f32ToFp8(format, v, overflow); });
    }
  }
}

TEST(Convert, EveryCpuLevelGivesTheScalarBits) {
  std::vector<float> values = sampleValues();
  for (base::CpuLevel level : levels()) {
    SCOPED_TRACE(base::cpuLevelName(level));
    expectAllSame(convertKernels(level), values);
  }
}

#if defined(__x86_64__)
TEST(Convert, TheCallersRoundingModeAndFlushToZeroChangeNothing) {
  std::vector<float> values = sampleValues();
  const unsigned saved = _mm_getcsr();
  for (base::CpuLevel level : levels()) {
    SCOPED_TRACE(base::cpuLevelName(level));
    _mm_setcsr(saved | 0x8040 | 0x4000);  // FTZ, DAZ, round up.
    expectAllSame(convertKernels(level), values);
    _mm_setcsr(saved);
  }
}
#endif

TEST(Convert, EveryLengthAndAlignmentConvertsExactlyItsElements) {
  for (base::CpuLevel level : levels()) {
    const ConvertKernels& k = convertKernels(level);
    for (size_t count = 0; count <= 70; ++count) {
      std::vector<float> src(count + 1);
      for (size_t i = 0; i <= count; ++i) src[i] = static_cast<float>(i) * 0.37f - 9;
      std::vector<uint8_t> raw(2 * count + 3, 0xab);
      auto* halves = reinterpret_cast<uint16_t*>(raw.data());  // A vector's memory is aligned for it.
      k.f32ToBf16(src.data() + 1, halves, count);
      std::vector<float> back(count + 1, -1.0f);
      k.bf16ToF32(halves, back.data() + 1, count);
      EXPECT_EQ(back[0], -1.0f);
      for (size_t i = 0; i < count; ++i) ASSERT_EQ(back[i + 1], bf16ToF32(f32ToBf16(src[i + 1])));
      for (size_t i = 2 * count; i < raw.size(); ++i) ASSERT_EQ(raw[i], 0xab);
      std::vector<uint8_t> bytes(count + 2, 0xab);
      k.f32ToFp8(Fp8Format::kE5M2, src.data(), bytes.data() + 1, count, Overflow::kIeee);
      EXPECT_EQ(bytes.front(), 0xab);
      EXPECT_EQ(bytes.back(), 0xab);
      for (size_t i = 0; i < count; ++i) {
        ASSERT_EQ(bytes[i + 1], f32ToFp8(Fp8Format::kE5M2, src[i], Overflow::kIeee));
      }
    }
  }
}

TEST(Convert, TheChosenKernelsAreThoseOfThisCpu) {
  std::vector<float> values = {1.0f, -2.5f, 65504.0f, 1e-7f, 3.1415927f};
  std::vector<uint16_t> half(values.size()), expected(values.size());
  f32ToF16(values.data(), half.data(), values.size());
  convertKernels(base::CpuLevel::kBaseline).f32ToF16(values.data(), expected.data(), values.size());
  EXPECT_EQ(half, expected);
}

}  // namespace
}  // namespace hpu::numerics
