// SPDX-License-Identifier: Apache-2.0
// Which arrangement of the array a GEMM gets, and how full it is. The expected values are those of
// the vendor's published planner tests.
#include <gtest/gtest.h>

#include "perfmodel/EngineCost.h"

namespace hpu::perfmodel {
namespace {

GemmShape gemm(int64_t m, int64_t n, int64_t k, ElementType type = ElementType::kBF16, int64_t batch = 1) {
  GemmShape s;
  s.batch = batch, s.m = m, s.n = n, s.k = k, s.type = type;
  return s;
}

const arch::MmeGeometry& geometry(const arch::TargetDesc& target, std::string_view name) {
  for (const arch::MmeGeometry& g : target.mmeGeometries)
    if (g.name == name) return g;
  ADD_FAILURE() << "no arrangement " << name;
  return target.mmeGeometries.front();
}

std::string_view chosen(Target target, const GemmShape& shape) {
  return gemmPlan(arch::targetDesc(target), shape).geometry->name;
}

/// Multiply-accumulates over what the steps could do, without fill: as the vendor's tests define
/// it.
double stepUtilization(const arch::TargetDesc& target, const GemmShape& shape, std::string_view name) {
  GemmPlan plan;
  EXPECT_TRUE(gemmPlanFor(target, shape, geometry(target, name), plan));
  return plan.idealCycles / ((plan.steps + plan.constrainedSteps) * plan.kCycles);
}

TEST(GemmPlan, Gaudi2PicksTheArrangementThatFitsTheOutput) {
  constexpr int64_t k = 64 * 9;
  EXPECT_EQ(chosen(Target::kGaudi2, gemm(1024, 128, k)), "4xh");
  EXPECT_EQ(chosen(Target::kGaudi2, gemm(512, 256, k)), "2xh");
  EXPECT_EQ(chosen(Target::kGaudi2, gemm(256, 512, k)), "2xw");
  EXPECT_EQ(chosen(Target::kGaudi2, gemm(128, 1024, k)), "4xw");
  EXPECT_EQ(chosen(Target::kGaudi2, gemm(2048, 2048, k)), "2xh");
  EXPECT_EQ(chosen(Target::kGaudi2, gemm(2048, 2112, k)), "4xh");
  EXPECT_EQ(chosen(Target::kGaudi2, gemm(2112, 2048, k)), "4xw");
}

TEST(GemmPlan, Gaudi2AsymmetricArrangementsPayForSharedPorts) {
  const arch::TargetDesc& target = arch::targetDesc(Target::kGaudi2);
  EXPECT_DOUBLE_EQ(stepUtilization(target, gemm(1536, 1024, 4096), "4xw"), 12.0 / 13.0);
  EXPECT_DOUBLE_EQ(stepUtilization(target, gemm(1024, 128, 256), "4xh"), 0.5);
}

TEST(GemmPlan, Gaudi3EdgesCostTheUnusedPart) {
  const arch::TargetDesc& target = arch::targetDesc(Target::kGaudi3);
  EXPECT_DOUBLE_EQ(stepUtilization(target, gemm(1024, 1024, 4096), "2xw"), 1.0);
  EXPECT_DOUBLE_EQ(stepUtilization(target, gemm(1000, 1000, 4096), "2xw"), 125.0 * 125.0 / (128.0 * 128.0));
  EXPECT_DOUBLE_EQ(stepUtilization(target, gemm(1024, 1025, 4096), "2xw"), 1025.0 / 2048.0);
}

TEST(GemmPlan, SmallKCostsTheRollUp) {
  const arch::TargetDesc& target = arch::targetDesc(Target::kGaudi1);
  GemmPlan k32 = gemmPlan(target, gemm(8192, 1024, 32)), k64 = gemmPlan(target, gemm(8192, 1024, 64));
  EXPECT_DOUBLE_EQ(k32.computeCycles, k64.computeCycles);
  EXPECT_NEAR(k64.utilization(), 64.0 / 170.0, 1e-9);  // Of a step: roll-up and fill.
}

TEST(GemmPlan, SmallBatchedGemmsShareTheArray) {
  const arch::TargetDesc& g2 = arch::targetDesc(Target::kGaudi2);
  GemmShape shape = gemm(64, 64, 2048, ElementType::kBF16, 64);
  GemmPlan shared = gemmPlan(g2, shape), alone;
  ASSERT_TRUE(gemmPlanFor(g2, shape, geometry(g2, "2xh"), alone));
  EXPECT_EQ(shared.geometry->batch, 8);
  EXPECT_DOUBLE_EQ(shared.computeCycles * 8, alone.computeCycles);
  EXPECT_EQ(gemmPlan(arch::targetDesc(Target::kGaudi3), shape).geometry->batch, 16);
  // Gaudi 1 gives each of its two engines a GEMM.
  GemmShape small = gemm(64, 128, 512, ElementType::kBF16, 16);
  EXPECT_EQ(gemmPlan(arch::targetDesc(Target::kGaudi1), small).geometry->batch, 2);
}

TEST(GemmPlan, ASmallOutputWithALongKSplitsK) {
  GemmPlan plan = gemmPlan(arch::targetDesc(Target::kGaudi2), gemm(128, 128, 65536));
  EXPECT_EQ(plan.geometry->kSplit, 4);
  GemmPlan large = gemmPlan(arch::targetDesc(Target::kGaudi2), gemm(4096, 4096, 65536));
  EXPECT_EQ(large.geometry->kSplit, 1);
}

TEST(GemmPlan, EightBitOperandsDoNotUseTheCorners) {
  GemmPlan plan = gemmPlan(arch::targetDesc(Target::kGaudi2), gemm(64, 64, 4096, ElementType::kF8E4M3, 64));
  EXPECT_FALSE(plan.geometry->wideTypesOnly);
}

TEST(GemmPlan, IdealCyclesAreALowerBoundForEveryArrangement) {
  for (Target t : {Target::kGaudi1, Target::kGaudi2, Target::kGaudi3}) {
    const arch::TargetDesc& target = arch::targetDesc(t);
    for (ElementType type : {ElementType::kBF16, ElementType::kF32, ElementType::kF8E4M3})
      for (int64_t m : {1, 63, 64, 129, 4096})
        for (int64_t n : {1, 128, 1025})
          for (int64_t k : {1, 127, 4096})
            for (int64_t batch : {1, 3, 16})
              for (const arch::MmeGeometry& g : target.mmeGeometries) {
                GemmPlan plan;
                if (!gemmPlanFor(target, gemm(m, n, k, type, batch), g, plan)) continue;
                ASSERT_GE(plan.steps * plan.kCycles, plan.idealCycles - 1e-6)
                    << target.name << " " << g.name << " " << m << "x" << n << "x" << k << " x" << batch;
              }
  }
}

}  // namespace
}  // namespace hpu::perfmodel
