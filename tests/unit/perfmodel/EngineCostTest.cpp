// SPDX-License-Identifier: Apache-2.0
#include "perfmodel/EngineCost.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace hpu::perfmodel {
namespace {

constexpr Target kTargets[] = {Target::kGaudi1, Target::kGaudi2, Target::kGaudi3};

Picoseconds sum(const Cost& cost) {
  return std::accumulate(cost.terms.begin(), cost.terms.end(), Picoseconds{0});
}
Picoseconds term(const Cost& cost, Term t) {
  return cost.terms[static_cast<size_t>(t)];
}

TEST(EngineCost, TermsAddUpExactly) {
  std::mt19937_64 random(1);
  auto upTo = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n + 1)); };
  for (int i = 0; i < 20000; ++i) {
    const arch::TargetDesc& target = arch::targetDesc(kTargets[i % 3]);
    const arch::ClockProfile& clock = target.clocks[static_cast<size_t>(upTo(3))];
    Bytes bytes = {upTo(1 << (i % 28)), upTo(1 << (i % 25))};
    GemmShape shape;
    shape.batch = upTo(8), shape.m = upTo(5000), shape.n = upTo(3000), shape.k = upTo(6000);
    shape.type = i % 2 ? ElementType::kBF16 : ElementType::kF32;
    TpcWork work{upTo(1 << 22), 0.01 * static_cast<double>(upTo(9)), 0.01 * static_cast<double>(upTo(9)),
                 0.3 * static_cast<double>(upTo(9)), 0.1 * static_cast<double>(upTo(5))};
    for (const Cost& cost : {gemmCost(target, clock, shape, bytes), tpcCost(target, clock, work, bytes),
                             dmaCost(target, clock, bytes), hostCopyCost(target, bytes.hbm)}) {
      ASSERT_EQ(sum(cost), cost.alone);
      ASSERT_GE(cost.alone, cost.compute);
      ASSERT_EQ(cost.alone - cost.compute, term(cost, Term::kMemory));
      for (Picoseconds t : cost.terms) ASSERT_GE(t, 0);
    }
  }
}

TEST(EngineCost, TheBoundIsWhatTakesLongest) {
  const arch::TargetDesc& target = arch::targetDesc(Target::kGaudi2);
  GemmShape large;
  large.m = large.n = large.k = 4096;
  EXPECT_EQ(gemmCost(target, target.clock(), large, {1 << 20, 0}).bound, "mme");
  GemmShape vector = large;
  vector.m = 1;
  EXPECT_EQ(gemmCost(target, target.clock(), vector, {2 * 4096 * 4096, 0}).bound, "hbm");
  EXPECT_EQ(gemmCost(target, target.clock(), vector, {0, 1 << 30}).bound, "sram");
  EXPECT_EQ(dmaCost(target, target.clock(), {1 << 20, 1 << 20}).bound, "dma");
  EXPECT_EQ(hostCopyCost(target, 1 << 20).bound, "host");
}

TEST(EngineCost, AMatrixVectorProductRunsAtMemorySpeed) {
  // 4096 x 16384 bf16 weights through 2089 bytes a nanosecond.
  const arch::TargetDesc& target = arch::targetDesc(Target::kGaudi2);
  GemmShape s;
  s.m = 1, s.n = 16384, s.k = 4096;
  Cost cost = gemmCost(target, target.clock(), s, {2 * 4096 * 16384, 0});
  EXPECT_NEAR(static_cast<double>(cost.alone) / 1e6, 2.0 * 4096 * 16384 / (2457.6 * 0.85) / 1e3, 0.01);
}

TEST(EngineCost, TheClockDerateIsItsOwnTerm) {
  const arch::TargetDesc& target = arch::targetDesc(Target::kGaudi3);
  GemmShape s;
  s.m = s.n = s.k = 4096;
  Cost fast = gemmCost(target, target.clock("shipping"), s, {});
  Cost slow = gemmCost(target, target.clock("sustained"), s, {});
  EXPECT_EQ(term(fast, Term::kClock), 0);
  EXPECT_EQ(slow.alone - fast.alone, term(slow, Term::kClock));
  EXPECT_NEAR(static_cast<double>(fast.alone) / static_cast<double>(slow.alone), 0.81, 1e-6);
}

// STREAM kernels on 24 TPCs: rates saturate HBM with about half of the TPCs (arXiv 2501.00210), so
// with all of them the kernels are bound by HBM, and in registers by their issue slots.
TEST(EngineCost, StreamKernelsAreBoundByMemoryOnAllTpcsOfGaudi2) {
  const arch::TargetDesc& target = arch::targetDesc(Target::kGaudi2);
  constexpr int64_t elements = 1 << 26;  // bf16: 128 a vector
  TpcWork add{elements, 2.0 / 128, 1.0 / 128, 1.0 / 128, 0};
  Cost cost = tpcCost(target, target.clock(), add, {3 * 2 * elements, 0});
  EXPECT_EQ(cost.bound, "hbm");
  double gflops = static_cast<double>(elements) / (static_cast<double>(cost.alone) / 1000.0);
  EXPECT_NEAR(gflops, 340, 15);  // Measured about 330.
  double saturation = static_cast<double>(cost.compute) / static_cast<double>(cost.alone) * 24;
  EXPECT_GT(saturation, 9);
  EXPECT_LT(saturation, 15);
}

TEST(EngineCost, TpcWorkIsDealtOutInWholeVectors) {
  const arch::TargetDesc& target = arch::targetDesc(Target::kGaudi2);
  TpcWork one{64, 1.0 / 64, 1.0 / 64, 100.0 / 64, 0};
  TpcWork full = one, more = one;
  full.points = 64 * 24;
  more.points = 64 * 25;
  Cost a = tpcCost(target, target.clock(), one, {}), b = tpcCost(target, target.clock(), full, {});
  Cost c = tpcCost(target, target.clock(), more, {});
  EXPECT_EQ(a.alone, b.alone) << "24 vectors take as long as one";
  EXPECT_GT(c.alone, b.alone + 99 * 1000 / 2);
  EXPECT_GT(term(c, Term::kEdgeQuantisation), 0);
}

TEST(EngineCost, CopiesOnATargetWithoutDmaRunOnTheTpcs) {
  const arch::TargetDesc& target = arch::targetDesc(Target::kGaudi3);
  Cost cost = dmaCost(target, target.clock(), {0, 2 << 20});
  EXPECT_EQ(cost.bound, "tpc");
  EXPECT_GT(cost.compute, 0);
}

TEST(EngineCost, AFillMovesItsBytesInOneDirectionOnly) {
  const arch::TargetDesc& target = arch::targetDesc(Target::kGaudi2);
  Cost copy = dmaCost(target, target.clock(), {0, 2 << 20}),
       fill = dmaCost(target, target.clock(), {0, 1 << 20}, 1 << 20);
  EXPECT_EQ(copy.compute, fill.compute);
}

TEST(EngineCost, EmptyWorkCostsOnlyItsLaunch) {
  const arch::TargetDesc& target = arch::targetDesc(Target::kGaudi2);
  Cost gemm = gemmCost(target, target.clock(), {}, {});
  EXPECT_EQ(gemm.alone, term(gemm, Term::kOverhead));
  EXPECT_NEAR(static_cast<double>(gemm.alone), static_cast<double>(target.mmeLaunchCycles) / 1.65 * 1000, 1);
  Cost tpc = tpcCost(target, target.clock(), {}, {});
  EXPECT_EQ(tpc.alone, term(tpc, Term::kOverhead));
}

TEST(EngineCost, HostileSizesStayInRange) {
  const arch::TargetDesc& target = arch::targetDesc(Target::kGaudi1);
  GemmShape s;
  s.batch = s.m = s.n = s.k = INT64_MAX / 2;
  Cost cost = gemmCost(target, target.clock(), s, {INT64_MAX, INT64_MAX});
  EXPECT_GT(cost.alone, 0);
  EXPECT_EQ(sum(cost), cost.alone);
  EXPECT_EQ(sum(tpcCost(target, target.clock(), {INT64_MAX, 1e300, 1e300, 1e300, 1}, {-5, -5})),
            tpcCost(target, target.clock(), {INT64_MAX, 1e300, 1e300, 1e300, 1}, {-5, -5}).alone);
}

}  // namespace
}  // namespace hpu::perfmodel
