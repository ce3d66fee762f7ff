// SPDX-License-Identifier: Apache-2.0
#include "runtime/executable/SizeForecast.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace hpu {
namespace {

using Shapes = std::vector<Shape>;

/// Of a decoder: token ids, and a cache that ends in `past`.
Shapes step(int64_t past, int64_t seq = 1, int64_t batch = 1) {
  return {{batch, seq}, {batch, 4, past, 16}, {}};
}

TEST(SizeForecast, BelievesAStepThatCameThreeTimes) {
  SizeForecast forecast;
  EXPECT_EQ(forecast.next(step(0, 5)), std::nullopt);
  for (int64_t past : {5, 6, 7}) EXPECT_EQ(forecast.next(step(past)), std::nullopt) << past;
  for (int64_t past = 8; past < 100; ++past) EXPECT_EQ(forecast.next(step(past)), step(past + 1));
}

TEST(SizeForecast, KnowsTheStepOfTheNextSequence) {
  SizeForecast forecast;
  for (int64_t past = 10; past < 40; ++past) forecast.next(step(past));
  EXPECT_EQ(forecast.next(step(0, 7)), std::nullopt);
  EXPECT_EQ(forecast.next(step(7)), std::nullopt);
  EXPECT_EQ(forecast.next(step(8)), step(9));
}

TEST(SizeForecast, FollowsSequencesThatTakeTurns) {
  constexpr int64_t kSequences = 5;
  SizeForecast forecast;  // 16 launches: three and the one that is told of each of five sequences.
  for (int64_t past = 0; past < 30; ++past)
    for (int64_t sequence = 0; sequence < kSequences; ++sequence) {
      const int64_t own = 1000 * (sequence + 1) * (sequence + 1) + past * (sequence % 2 == 0 ? 1 : 3);
      const auto next = forecast.next(step(own));
      if (past >= 3) {
        EXPECT_EQ(next, step(own + (sequence % 2 == 0 ? 1 : 3))) << sequence << ", " << past;
      }
    }
  // Of equal steps, as many sequences as there are launches remembered.
  SizeForecast equal;
  for (int64_t past = 0; past < 4; ++past) equal.next(step(past));
  for (int64_t past = 0; past < 20; ++past)
    for (size_t sequence = 0; sequence < SizeForecast::kMost; ++sequence) {
      const int64_t own = 1000 + 100 * static_cast<int64_t>(sequence * sequence) + past;
      const auto next = equal.next(step(own));
      if (past > 0) {
        EXPECT_EQ(next, step(own + 1)) << "sequence " << sequence << ", " << past;
      }
    }
}

TEST(SizeForecast, SeesSizesThatShrinkOrChangeTogether) {
  SizeForecast forecast;
  for (int64_t i = 0; i < 3; ++i) forecast.next(step(100 - 2 * i, 10 + i));
  EXPECT_EQ(forecast.next(step(94, 13)), step(92, 14));
}

TEST(SizeForecast, FindsLittleInSizesAtRandom) {
  std::mt19937 random(3);
  SizeForecast forecast;
  int foreseen = 0;
  for (int i = 0; i < 20000; ++i) foreseen += forecast.next(step(random() % 512, random() % 64)).has_value();
  EXPECT_LT(foreseen, 200);
}

TEST(SizeForecast, SaysNothingThatIsNoSize) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  SizeForecast forecast;
  for (int64_t past : {6, 4, 2}) forecast.next({{past}});
  EXPECT_EQ(forecast.next({{0}}), std::nullopt);  // Below 0.
  for (int64_t past : {kMost - 3, kMost - 2, kMost - 1}) forecast.next({{past}});
  EXPECT_EQ(forecast.next({{kMost}}), std::nullopt);
  EXPECT_EQ(forecast.next({}), std::nullopt);
  EXPECT_EQ(forecast.next({{}, {}}), std::nullopt);
  // Extremes whose differences are no numbers.
  for (int64_t size : {kMost, int64_t{-5}, kMost, std::numeric_limits<int64_t>::min(), int64_t{0}})
    EXPECT_EQ(forecast.next({{size}}), std::nullopt);
}

TEST(SizeForecast, OtherRanksAreOtherLaunches) {
  SizeForecast forecast;
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(forecast.next({{i}}).has_value(), i == 3);
    forecast.next({{i, i}});
  }
}

}  // namespace
}  // namespace hpu
