// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/clock/EngineTimeline.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace hpu::driver {
namespace {

TEST(EngineTimeline, TakesTheFirstGapThatFits) {
  EngineTimeline engine;
  EXPECT_EQ(engine.reserve(0, 10), 0);
  EXPECT_EQ(engine.reserve(20, 10), 20);
  EXPECT_EQ(engine.reserve(0, 11), 30);
  EXPECT_EQ(engine.reserve(0, 10), 10);
  EXPECT_EQ(engine.spans(), (std::vector<TimeSpan>{{0, 41}}));
  EXPECT_EQ(engine.lastEnd(), 41);
}

TEST(EngineTimeline, WorkWithoutDurationTakesNothingButWaitsForTheEngine) {
  EngineTimeline engine;
  engine.reserve(10, 10);
  EXPECT_EQ(engine.reserve(5, 0), 5);
  EXPECT_EQ(engine.reserve(10, 0), 10);
  EXPECT_EQ(engine.reserve(15, 0), 20);
  EXPECT_EQ(engine.reserve(20, 0), 20);
  EXPECT_EQ(engine.spans().size(), 1u);
}

TEST(EngineTimeline, AppendShiftsAndMerges) {
  EngineTimeline engine;
  engine.reserve(0, 100);
  std::vector<TimeSpan> spans = {{0, 10}, {20, 30}};
  engine.append(spans, 100);
  EXPECT_EQ(engine.spans(), (std::vector<TimeSpan>{{0, 110}, {120, 130}}));
}

TEST(EngineTimeline, ForgetsTheOldestGapsAndNothingElse) {
  EngineTimeline engine(16);
  for (int i = 0; i < 100; ++i) engine.reserve(i * 10, 5);
  EXPECT_LE(engine.spans().size(), 16u);
  EXPECT_GT(engine.floor(), 0);
  EXPECT_EQ(engine.lastEnd(), 995);
  // An old gap is gone, a recent one is not.
  EXPECT_GE(engine.reserve(0, 5), engine.floor());
  EXPECT_EQ(engine.reserve(985, 5), 985);
}

/// Against a plain array of picoseconds.
TEST(EngineTimeline, AgreesWithBruteForce) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    EngineTimeline engine;
    std::vector<bool> taken(4000, false);
    for (int step = 0; step < 150; ++step) {
      auto ready = static_cast<Picoseconds>(random() % 600);
      auto duration = static_cast<Picoseconds>(1 + random() % 12);
      Picoseconds expected = ready;
      auto fits = [&](Picoseconds start) {
        for (Picoseconds t = start; t < start + duration; ++t)
          if (taken[t]) return false;
        return true;
      };
      while (!fits(expected)) ++expected;
      ASSERT_EQ(engine.reserve(ready, duration), expected) << "seed " << seed << " step " << step;
      for (Picoseconds t = expected; t < expected + duration; ++t) taken[t] = true;
    }
    for (size_t i = 1; i < engine.spans().size(); ++i) ASSERT_LT(engine.spans()[i - 1].end, engine.spans()[i].start);
  }
}

}  // namespace
}  // namespace hpu::driver
