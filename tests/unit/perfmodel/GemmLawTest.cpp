// SPDX-License-Identifier: Apache-2.0
// Laws that every estimate keeps to, over shapes from a vector product to a quadrillion operations: what a
// model that was fitted to a few points may get wrong elsewhere.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "perfmodel/EngineCost.h"

namespace hpu::perfmodel {
namespace {

constexpr Target kTargets[] = {Target::kGaudi1, Target::kGaudi2, Target::kGaudi3};

GemmShape gemm(int64_t m, int64_t n, int64_t k, ElementType type, int64_t batch = 1) {
  GemmShape s;
  s.batch = batch, s.m = m, s.n = n, s.k = k, s.type = type;
  return s;
}

Cost estimate(const arch::TargetDesc& target, const GemmShape& shape) {
  return gemmCost(target, target.clock(), shape, gemmBytes(shape));
}

std::string text(const arch::TargetDesc& target, const GemmShape& s) {
  return std::string(target.name) + " " + std::to_string(s.batch) + "x" + std::to_string(s.m) + "x" +
         std::to_string(s.k) + "x" + std::to_string(s.n) + " " + std::string(elementTypeName(s.type));
}

/// Calls visit(target, shape) for sizes of all magnitudes, on and off the array's grid.
template <typename Visit>
void forShapes(int count, Visit visit) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> exponent(0, 15);
  auto size = [&] {
    auto value = static_cast<int64_t>(std::exp2(exponent(random)));
    return random() % 3 ? value : int64_t{1} << static_cast<int>(exponent(random));
  };
  for (Target t : kTargets) {
    const arch::TargetDesc& target = arch::targetDesc(t);
    for (int i = 0; i < count; ++i)
      for (const arch::MmeTypeRate& rate : target.mmeTypes) {
        int64_t batch = random() % 4 ? 1 : static_cast<int64_t>(1 + random() % 40);
        visit(target, gemm(size(), size(), size(), rate.type, batch));
      }
  }
}

TEST(GemmLaw, IsNeverAboveThePeakNorBelowTheRoofline) {
  forShapes(2000, [](const arch::TargetDesc& target, const GemmShape& shape) {
    Cost cost = estimate(target, shape);
    double flops = gemmFlops(shape), ps = static_cast<double>(cost.alone);
    double peak = target.mmePeakTflops(target.clock(), shape.type);
    ASSERT_LE(flops / ps, peak) << text(target, shape);
    ASSERT_GE(ps, static_cast<double>(gemmBytes(shape).hbm) / target.hbmBytesPerNs * 1e3) << text(target, shape);
    Picoseconds sum = 0;
    for (Picoseconds term : cost.terms) {
      ASSERT_GE(term, 0) << text(target, shape);
      sum += term;
    }
    ASSERT_EQ(sum, cost.alone) << text(target, shape);
  });
}

TEST(GemmLaw, TimeGrowsWithEverySize) {
  forShapes(2000, [](const arch::TargetDesc& target, const GemmShape& shape) {
    Picoseconds time = estimate(target, shape).alone;
    for (int64_t GemmShape::* size : {&GemmShape::m, &GemmShape::n, &GemmShape::k, &GemmShape::batch})
      for (int64_t more : {int64_t{1}, int64_t{63}, shape.*size}) {
        GemmShape larger = shape;
        larger.*size += more;
        // Rounding to picoseconds and cycles aside.
        ASSERT_GE(estimate(target, larger).alone, time - 1000) << text(target, shape) << " -> " << text(target, larger);
      }
  });
}

TEST(GemmLaw, DoublingASizeCostsAtMostTwiceTheTime) {
  forShapes(1000, [](const arch::TargetDesc& target, const GemmShape& shape) {
    Picoseconds time = estimate(target, shape).alone;
    for (int64_t GemmShape::* size : {&GemmShape::m, &GemmShape::n, &GemmShape::k, &GemmShape::batch}) {
      GemmShape twice = shape;
      twice.*size *= 2;
      // A result that grows beyond a part of the array loses K splits: at most four of them at a step.
      bool mayLoseParts = (size == &GemmShape::m || size == &GemmShape::n) && shape.m < 512 && shape.n < 512;
      // Operands that fill more of the array's lines stall more.
      double most = (mayLoseParts ? 4.0 : 2.0) * (1 + target.mmeStreamStall);
      ASSERT_LE(static_cast<double>(estimate(target, twice).alone), most * static_cast<double>(time) + 2000)
          << text(target, shape) << " -> " << text(target, twice);
    }
  });
}

TEST(GemmLaw, LargeSquareProductsReachMostOfThePeak) {
  for (Target t : kTargets) {
    const arch::TargetDesc& target = arch::targetDesc(t);
    for (const arch::MmeTypeRate& rate : target.mmeTypes) {
      GemmShape shape = gemm(8192, 8192, 8192, rate.type);
      double tflops = gemmFlops(shape) / static_cast<double>(estimate(target, shape).alone);
      double sustained = target.mmePeakTflops(target.clock(), rate.type) * target.clock().mmeDerate;
      EXPECT_GT(tflops, 0.93 * sustained) << text(target, shape);
    }
  }
}

TEST(GemmLaw, AVectorTimesALargeMatrixRunsAtTheMemorysRate) {
  for (Target t : kTargets) {
    const arch::TargetDesc& target = arch::targetDesc(t);
    Cost cost = estimate(target, gemm(1, 32768, 8192, ElementType::kBF16));
    EXPECT_EQ(cost.bound, t == Target::kGaudi1 ? "mme" : "hbm") << target.name;
    double rate = static_cast<double>(cost.bytes.hbm) / static_cast<double>(cost.alone) * 1e3;
    EXPECT_GT(rate, 0.7 * target.hbmBytesPerNs * target.hbmEfficiency) << target.name;
  }
}

TEST(GemmLaw, NarrowTypesAreNotSlower) {
  for (Target t : {Target::kGaudi2, Target::kGaudi3}) {
    const arch::TargetDesc& target = arch::targetDesc(t);
    for (int64_t m : {1, 128, 1000, 8192})
      for (int64_t n : {64, 768, 8192})
        for (int64_t k : {64, 768, 8192}) {
          auto time = [&](ElementType type) { return estimate(target, gemm(m, n, k, type)).alone; };
          EXPECT_LE(time(ElementType::kBF16), time(ElementType::kF32));
          EXPECT_LE(time(ElementType::kBF16), time(ElementType::kF16));
          // 8-bit operands cannot use all arrangements, but their result is as wide.
          EXPECT_LE(static_cast<double>(time(ElementType::kF8E4M3)),
                    1.35 * static_cast<double>(time(ElementType::kBF16)))
              << text(target, gemm(m, n, k, ElementType::kF8E4M3));
        }
  }
}

TEST(GemmLaw, ASingleElementCostsALaunch) {
  for (Target t : kTargets) {
    const arch::TargetDesc& target = arch::targetDesc(t);
    double us = static_cast<double>(estimate(target, gemm(1, 1, 1, ElementType::kBF16)).alone) / 1e6;
    EXPECT_GT(us, 0.2) << target.name;
    EXPECT_LT(us, 2) << target.name;
  }
}

TEST(GemmLaw, ASlowerClockProfileIsSlower) {
  const arch::TargetDesc& target = arch::targetDesc(Target::kGaudi3);
  GemmShape shape = gemm(4096, 4096, 4096, ElementType::kBF16);
  auto time = [&](const char* clock) { return gemmCost(target, target.clock(clock), shape, {}); };
  Cost sustained = time("sustained"), shipping = time("shipping"), datasheet = time("datasheet");
  EXPECT_GT(sustained.alone, shipping.alone);
  EXPECT_GT(shipping.alone, datasheet.alone);
  EXPECT_EQ(sustained.alone - shipping.alone, sustained.terms[static_cast<size_t>(Term::kClock)]);
}

}  // namespace
}  // namespace hpu::perfmodel
