// SPDX-License-Identifier: Apache-2.0
#include "collectives/reduction/Reduction.h"

#include <gtest/gtest.h>

#include <random>

#include "ReductionOracle.h"
#include "collectives/reduction/Kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hpu::collectives {
namespace {

using testing::Bits;
using testing::expected;
using testing::loadBits;

constexpr ElementType kTypes[] = {
    ElementType::kI8,     ElementType::kU8,         ElementType::kI32,   ElementType::kU32, ElementType::kI64,
    ElementType::kU64,    ElementType::kF16,        ElementType::kF32,   ElementType::kF64, ElementType::kBF16,
    ElementType::kF8E4M3, ElementType::kF8E4M3Ieee, ElementType::kF8E5M2};
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kAverage};

std::vector<base::CpuLevel> levels() {
  std::vector<base::CpuLevel> found;
  for (auto level : {base::CpuLevel::kBaseline, base::CpuLevel::kV3, base::CpuLevel::kV4}) {
    if (level <= base::detectCpuLevel()) found.push_back(level);
  }
  return found;
}

/// Random bits, every third element of moderate size, so that sums neither all overflow nor are all
/// NaN.
void fill(std::byte* data, ElementType type, int64_t count, std::mt19937_64& random) {
  const int64_t size = elementSize(type);
  for (int64_t i = 0; i < count; ++i) {
    Bits bits = random();
    if (testing::isFloat(type) && i % 3 != 0) {
      bits = testing::encodeFloat(type, static_cast<double>(static_cast<int>(bits % 4001) - 2000) / 256);
    }
    std::memcpy(data + i * size, &bits, static_cast<size_t>(size));
  }
}

/// Sources in memory of their own, each at an odd place.
struct Inputs {
  std::vector<std::vector<std::byte>> storage;
  std::vector<Source> sources;
  void add(ElementType type, int64_t count, std::mt19937_64& random, bool partial = false, double scale = 1,
           size_t shift = 0) {
    const ElementType own = partial ? accumulatorType(type) : type;
    storage.emplace_back(static_cast<size_t>(count * elementSize(own)) + shift);
    fill(storage.back().data() + shift, own, count, random);
    sources.push_back({storage.back().data() + shift, partial, scale});
  }
};

std::string describe(const Reduce& what, base::CpuLevel level, size_t sources) {
  return std::string(elementTypeName(what.type)) + " op " + std::to_string(static_cast<int>(what.op)) + " count " +
         std::to_string(what.count) + " " + std::to_string(sources) + " sources " +
         std::string(base::cpuLevelName(level));
}

/// Runs `what` into fresh memory between guards and compares every element and both guards.
void check(Reduce what, const std::vector<Source>& sources, size_t dstShift = 0) {
  const ElementType own = what.dstPartial ? accumulatorType(what.type) : what.type;
  const int64_t size = elementSize(own);
  for (base::CpuLevel level : levels()) {
    std::vector<std::byte> memory(static_cast<size_t>(what.count * size) + 256, std::byte{0xa5});
    const size_t start = 64 + dstShift;
    what.dst = memory.data() + start;
    reduceAt(level, what, sources.data(), static_cast<int64_t>(sources.size()));
    for (int64_t i = 0; i < what.count; ++i) {
      ASSERT_EQ(loadBits(what.dst, size, i), expected(what, sources, i))
          << describe(what, level, sources.size()) << " element " << i;
    }
    const size_t end = start + static_cast<size_t>(what.count * size);
    for (size_t i = 0; i < memory.size(); ++i) {
      if (i < start || i >= end) {
        ASSERT_EQ(memory[i], std::byte{0xa5}) << describe(what, level, sources.size()) << " wrote byte " << i;
      }
    }
  }
}

TEST(Reduction, EveryTypeAndOperationMatchesTheOracleOnEveryCpuLevel) {
  std::mt19937_64 random(1);
  for (ElementType type : kTypes) {
    for (ReduceOp op : kOps) {
      for (int ranks : {1, 2, 3, 8, 9}) {
        for (int64_t count : {1, 2, 7, 31, 64, 65, 255, 700, 1500}) {
          if (count > 700 && ranks > 3) continue;
          Inputs inputs;
          for (int k = 0; k < ranks; ++k) inputs.add(type, count, random);
          check({.type = type, .op = op, .count = count, .divisor = op == ReduceOp::kAverage ? ranks : 1},
                inputs.sources);
        }
      }
    }
  }
}

TEST(Reduction, PartialAndScaledSourcesMixWithPlainOnes) {
  std::mt19937_64 random(2);
  for (ElementType type : kTypes) {
    for (ReduceOp op : kOps) {
      for (bool dstPartial : {false, true}) {
        Inputs inputs;
        const double scale = testing::isFloat(type) ? 0.3 : 1;
        inputs.add(type, 333, random, /*partial=*/true);
        inputs.add(type, 333, random, false, scale);
        inputs.add(type, 333, random);
        inputs.add(type, 333, random, /*partial=*/true);
        inputs.add(type, 333, random, false, -scale * (testing::isFloat(type) ? 7 : -1));
        check({.type = type, .op = op, .count = 333, .dstPartial = dstPartial, .divisor = 3}, inputs.sources);
      }
    }
  }
}

TEST(Reduction, AnyAlignmentOfSourcesAndDestinationAlsoAroundTheCaches) {
  std::mt19937_64 random(3);
  for (ElementType type :
       {ElementType::kF32, ElementType::kBF16, ElementType::kI8, ElementType::kF64, ElementType::kF8E5M2}) {
    for (size_t shift = 0; shift < 66; shift += shift < 9 ? 1 : 7) {
      Inputs inputs;
      inputs.add(type, 1023, random, false, 1, shift % 5);
      inputs.add(type, 1023, random, false, 1, shift);
      for (bool stream : {false, true}) {
        check({.type = type, .count = 1023, .stream = stream}, inputs.sources, shift);
      }
    }
  }
}

TEST(Reduction, TheDestinationMayBeOneOfTheSources) {
  std::mt19937_64 random(4);
  for (ElementType type : kTypes) {
    for (size_t which : {0u, 1u, 2u}) {
      for (bool stream : {false, true}) {
        for (base::CpuLevel level : levels()) {
          Inputs inputs;
          for (int k = 0; k < 3; ++k) inputs.add(type, 777, random, false, 1, 1);
          Reduce what{.type = type, .op = ReduceOp::kSum, .count = 777, .stream = stream};
          std::vector<Bits> want;
          for (int64_t i = 0; i < 777; ++i) want.push_back(expected(what, inputs.sources, i));
          what.dst = const_cast<std::byte*>(inputs.sources[which].data);
          reduceAt(level, what, inputs.sources.data(), 3);
          for (int64_t i = 0; i < 777; ++i) {
            ASSERT_EQ(loadBits(what.dst, elementSize(type), i), want[static_cast<size_t>(i)])
                << describe(what, level, 3) << " element " << i;
          }
        }
      }
    }
  }
}

TEST(Reduction, MoreSourcesThanOnePassTakesAreStillCombinedInOrder) {
  std::mt19937_64 random(5);
  for (ElementType type : {ElementType::kF32, ElementType::kBF16, ElementType::kI32, ElementType::kF8E4M3}) {
    for (int ranks : {63, 64, 65, 127, 130}) {
      Inputs inputs;
      for (int k = 0; k < ranks; ++k) inputs.add(type, 600, random);
      for (bool dstPartial : {false, true}) {
        check({.type = type, .op = ReduceOp::kAverage, .count = 600, .dstPartial = dstPartial, .divisor = ranks},
              inputs.sources);
      }
    }
  }
}

template <typename T>
std::vector<T> reduceValues(ElementType type, ReduceOp op, std::vector<std::vector<T>> inputs, int divisor = 1) {
  std::vector<Source> sources;
  for (const auto& input : inputs) sources.push_back({reinterpret_cast<const std::byte*>(input.data())});
  std::vector<T> out(inputs[0].size());
  reduce({.type = type,
          .op = op,
          .count = static_cast<int64_t>(out.size()),
          .dst = reinterpret_cast<std::byte*>(out.data()),
          .divisor = divisor},
         sources);
  return out;
}

TEST(Reduction, NanInfinityAndZerosGoByTheContract) {
  const float nan = std::bit_cast<float>(0xffc12345u), inf = HUGE_VALF;
  auto bits = [](float value) { return std::bit_cast<uint32_t>(value); };
  auto sum =
      reduceValues<float>(ElementType::kF32, ReduceOp::kSum, {{nan, inf, inf, -0.0f, 1}, {1, -inf, 1, -0.0f, nan}});
  EXPECT_EQ(bits(sum[0]), 0x7fc00000u);
  EXPECT_EQ(bits(sum[1]), 0x7fc00000u);
  EXPECT_EQ(sum[2], inf);
  EXPECT_EQ(bits(sum[3]), 0x80000000u);
  EXPECT_EQ(bits(sum[4]), 0x7fc00000u);
  for (auto [op, zero] : {std::pair(ReduceOp::kMin, 0x80000000u), std::pair(ReduceOp::kMax, 0u)}) {
    auto out = reduceValues<float>(ElementType::kF32, op, {{0.0f, -0.0f, nan, 1}, {-0.0f, 0.0f, 1, nan}});
    EXPECT_EQ(bits(out[0]), zero);
    EXPECT_EQ(bits(out[1]), zero);
    EXPECT_EQ(bits(out[2]), 0x7fc00000u);
    EXPECT_EQ(bits(out[3]), 0x7fc00000u);
  }
  // Half the least bf16 denormal twice makes one; the greatest bf16 twice is infinity.
  auto small = reduceValues<uint16_t>(ElementType::kBF16, ReduceOp::kSum, {{0x0001, 0x7f7f}, {0x0001, 0x7f7f}});
  EXPECT_EQ(small[0], 0x0002);
  EXPECT_EQ(small[1], 0x7f80);
}

TEST(Reduction, SixteenBitSumsRoundOnceAtTheEnd) {
  // 256 + 8 x 0.5: every single step would round back to 256 in bf16 (spacing 2).
  std::vector<std::vector<uint16_t>> inputs{{0x4380}};
  for (int k = 0; k < 8; ++k) inputs.push_back({0x3f00});
  EXPECT_EQ(reduceValues<uint16_t>(ElementType::kBF16, ReduceOp::kSum, inputs)[0], 0x4382);  // 260
}

TEST(Reduction, IntegersWrapAndAveragesTruncate) {
  EXPECT_EQ(reduceValues<int8_t>(ElementType::kI8, ReduceOp::kSum, {{127, -128}, {1, -1}}),
            (std::vector<int8_t>{-128, 127}));
  EXPECT_EQ(reduceValues<int32_t>(ElementType::kI32, ReduceOp::kAverage, {{-7, 7}, {0, 0}}, 2),
            (std::vector<int32_t>{-3, 3}));
  EXPECT_EQ(reduceValues<int64_t>(ElementType::kI64, ReduceOp::kProd, {{INT64_MIN}, {-1}}),
            (std::vector<int64_t>{INT64_MIN}));
}

#if defined(__x86_64__)
TEST(Reduction, TheCallersRoundingAndFlushModesPlayNoPart) {
  std::mt19937_64 random(6);
  for (ElementType type :
       {ElementType::kF32, ElementType::kF64, ElementType::kF16, ElementType::kBF16, ElementType::kF8E4M3}) {
    Inputs inputs;
    for (int k = 0; k < 4; ++k) inputs.add(type, 900, random, false, 0.7);
    std::vector<std::byte> want(900 * 8), got(900 * 8);
    Reduce what{.type = type, .op = ReduceOp::kAverage, .count = 900, .dst = want.data(), .divisor = 7};
    reduce(what, inputs.sources);
    const unsigned saved = _mm_getcsr();
    const unsigned strange = 0xff80;  // Round towards zero, flush to zero, denormals are zero.
    _mm_setcsr(strange | 0x40);
    what.dst = got.data();
    reduce(what, inputs.sources);
    const unsigned after = _mm_getcsr();
    _mm_setcsr(saved);
    EXPECT_EQ(want, got) << elementTypeName(type);
    EXPECT_EQ(after, strange | 0x40u);
  }
}
#endif

TEST(Reduction, AccumulatorsAreF32ForNarrowFloatsOnly) {
  for (ElementType type : kTypes) {
    EXPECT_TRUE(canReduce(type));
    EXPECT_EQ(accumulatorType(type), testing::formatOf(type) ? ElementType::kF32 : type);
  }
  for (ElementType type : {ElementType::kInvalid, ElementType::kI16, ElementType::kU16, ElementType::kBool}) {
    EXPECT_FALSE(canReduce(type));
  }
}

TEST(CopyBytes, MovesAllBytesAndNoOthers) {
  std::mt19937_64 random(7);
  std::vector<std::byte> src(5000);
  for (auto& byte : src) byte = static_cast<std::byte>(random());
  for (bool stream : {false, true}) {
    for (size_t shift : {0u, 1u, 33u, 64u}) {
      for (size_t bytes : {0u, 1u, 63u, 64u, 255u, 256u, 257u, 1000u, 4500u}) {
        std::vector<std::byte> dst(5200, std::byte{0xa5});
        copyBytes(dst.data() + shift, src.data() + 3, static_cast<int64_t>(bytes), stream);
        std::vector<std::byte> want(5200, std::byte{0xa5});
        std::copy_n(src.begin() + 3, bytes, want.begin() + static_cast<int64_t>(shift));
        ASSERT_EQ(dst, want) << bytes << " bytes at " << shift;
      }
    }
  }
}

}  // namespace
}  // namespace hpu::collectives
