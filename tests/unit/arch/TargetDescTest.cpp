// SPDX-License-Identifier: Apache-2.0
#include "arch/TargetDesc.h"

#include <gtest/gtest.h>

#include <set>

namespace hpu::arch {
namespace {

constexpr Target kTargets[] = {Target::kGaudi1, Target::kGaudi2, Target::kGaudi3};

// The right-hand sides are published peaks (white papers, Hot Chips 2024), not products of our
// constants.
TEST(TargetDesc, MatrixPeaksAreThePublishedOnes) {
  const TargetDesc& g1 = targetDesc(Target::kGaudi1);
  const TargetDesc& g2 = targetDesc(Target::kGaudi2);
  const TargetDesc& g3 = targetDesc(Target::kGaudi3);
  EXPECT_NEAR(g1.mmePeakTflops(g1.clock(), ElementType::kBF16), 58.98, 0.01);
  EXPECT_NEAR(g1.mmePeakTflops(g1.clock(), ElementType::kF32), 58.98 / 4, 0.01);
  EXPECT_NEAR(g2.mmePeakTflops(g2.clock(), ElementType::kBF16), 432.5, 0.1);
  EXPECT_NEAR(g2.mmePeakTflops(g2.clock(), ElementType::kF8E4M3), 865.1, 0.1);
  EXPECT_NEAR(g2.mmePeakTflops(g2.clock(), ElementType::kF32), 432.5 / 4, 0.1);
  EXPECT_NEAR(g3.mmePeakTflops(g3.clock("datasheet"), ElementType::kBF16), 1835, 0.5);
  EXPECT_NEAR(g3.mmePeakTflops(g3.clock("datasheet"), ElementType::kF8E4M3), 1835, 0.5);
  EXPECT_NEAR(g3.mmePeakTflops(g3.clock("datasheet"), ElementType::kF16), 459, 1);
  EXPECT_NEAR(g3.mmePeakTflops(g3.clock("datasheet"), ElementType::kF32), 229, 1);
  EXPECT_NEAR(g3.mmePeakTflops(g3.clock("shipping"), ElementType::kBF16), 1677, 1);
}

TEST(TargetDesc, VectorPeaksAreThePublishedOnes) {
  const TargetDesc& g2 = targetDesc(Target::kGaudi2);
  const TargetDesc& g3 = targetDesc(Target::kGaudi3);
  EXPECT_NEAR(g2.tpcPeakTflops(g2.clock(), ElementType::kBF16), 11.06, 0.01);
  EXPECT_NEAR(g3.tpcPeakTflops(g3.clock("datasheet"), ElementType::kBF16), 28.67, 0.01);
  EXPECT_NEAR(g3.tpcPeakTflops(g3.clock("datasheet"), ElementType::kF32), 14.3, 0.1);
}

TEST(TargetDesc, HbmRatesAreThoseOfThePlannerAndThePins) {
  constexpr double kGiB = 1.073741824;
  EXPECT_NEAR(targetDesc(Target::kGaudi2).hbmBytesPerNs, 2460, 10);
  EXPECT_NEAR(targetDesc(Target::kGaudi2).hbmBytesPerNs * 0.85 / kGiB, 1945, 2);
  EXPECT_NEAR(targetDesc(Target::kGaudi3).hbmBytesPerNs, 3690, 20);
  EXPECT_NEAR(targetDesc(Target::kGaudi3).hbmBytesPerNs * 0.85 / kGiB, 2918, 2);
  const TargetDesc& g1 = targetDesc(Target::kGaudi1);
  EXPECT_NEAR(g1.hbmBytesPerNs * g1.hbmEfficiency, 950, 1);
}

TEST(TargetDesc, EveryDescriptionIsComplete) {
  for (Target target : kTargets) {
    const TargetDesc& d = targetDesc(target);
    SCOPED_TRACE(d.name);
    EXPECT_EQ(d.target, target);
    EXPECT_EQ(d.name, targetName(target));
    EXPECT_GT(d.numTpcs, 0);
    EXPECT_GT(d.hbmBytes, d.sramBytes);
    EXPECT_GT(d.sramBytesPerNs, d.hbmBytesPerNs);
    EXPECT_EQ(d.numDmas == 0, d.dmaBytesPerNs == 0);
    EXPECT_GT(d.hostLinkBytesPerNs, 0);
    EXPECT_GE(d.cacheLineBytes, 128);
    EXPECT_EQ(d.mmeRate(ElementType::kF32).type, ElementType::kF32);
    EXPECT_EQ(d.mmeRate(ElementType::kI64).type, ElementType::kF32) << "unknown types are widened";
    std::set<std::string_view> names;
    for (const MmeGeometry& g : d.mmeGeometries) {
      EXPECT_TRUE(names.insert(g.name).second) << g.name;
      EXPECT_LE(g.width * g.height * g.batch * g.kSplit, d.mmeMacs()) << g.name;
      if (!g.concurrent()) {
        EXPECT_EQ(g.width * g.height, d.mmeMacs()) << g.name;
      }
    }
    for (std::string_view profile : {"datasheet", "shipping", "sustained", "measured"}) {
      ASSERT_TRUE(d.findClock(profile).ok());
      EXPECT_EQ(d.findClock(profile)->name, profile);
    }
    EXPECT_EQ(d.clock().name, d.findClock("")->name);
  }
}

TEST(TargetDesc, AnUnknownClockProfileIsAnErrorThatListsTheValidOnes) {
  StatusOr<ClockProfile> clock = targetDesc(Target::kGaudi3).findClock("turbo");
  ASSERT_FALSE(clock.ok());
  EXPECT_EQ(clock.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(clock.status().message().find("turbo"), std::string::npos);
  EXPECT_NE(clock.status().message().find("sustained, shipping, datasheet, measured"), std::string::npos);
}

}  // namespace
}  // namespace hpu::arch
