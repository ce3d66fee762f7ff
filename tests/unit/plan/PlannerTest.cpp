// SPDX-License-Identifier: Apache-2.0
// Properties of the memory planner over random live ranges, checked step by step and byte range by byte range.
#include "plan/Planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

namespace hpu::plan {
namespace {

constexpr int64_t kAlign = 256;

int64_t roundUp(int64_t bytes) {
  return (bytes + kAlign - 1) / kAlign * kAlign;
}

/// Live ranges as a network gives them (short ones, a few long ones), or quite arbitrary ones.
std::vector<Buffer> randomBuffers(std::mt19937& random, int count, bool chain) {
  auto between = [&](int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(random); };
  std::vector<Buffer> buffers;
  for (int i = 0; i < count; ++i) {
    int64_t begin = chain ? i : between(0, count);
    int64_t length = between(0, 9) == 0 ? between(0, count) : between(0, 3);
    // Few different sizes, so that gaps fit exactly at times; odd ones, so that alignment matters.
    int64_t bytes = between(0, 3) == 0 ? between(0, 5000) : kAlign * (1 << between(0, 4)) - between(0, 1);
    buffers.push_back({bytes, begin, begin + length});
  }
  return buffers;
}

bool aliveTogether(const Buffer& a, const Buffer& b) {
  for (int64_t step = a.begin; step <= a.end; ++step)
    if (b.begin <= step && step <= b.end) return true;
  return false;
}

int64_t bytesAliveAt(const std::vector<Buffer>& buffers, int64_t step) {
  int64_t bytes = 0;
  for (const Buffer& buffer : buffers)
    if (buffer.begin <= step && step <= buffer.end) bytes += roundUp(buffer.bytes);
  return bytes;
}

void forRandomPlans(const std::function<void(const std::vector<Buffer>&)>& check) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    int count = std::uniform_int_distribution<int>(1, 60)(random);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + std::to_string(count) + " buffers");
    check(randomBuffers(random, count, seed % 2 == 0));
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Planner, NeverSharesAByteBetweenBuffersThatAreAliveTogether) {
  int64_t shared = 0;
  forRandomPlans([&](const std::vector<Buffer>& buffers) {
    Placement plan = placeBuffers(buffers, kAlign);
    ASSERT_EQ(plan.offsets.size(), buffers.size());
    for (size_t a = 0; a < buffers.size(); ++a)
      for (size_t b = 0; b < a; ++b) {
        bool overlap = std::max(plan.offsets[a], plan.offsets[b]) <
                       std::min(plan.offsets[a] + buffers[a].bytes, plan.offsets[b] + buffers[b].bytes);
        shared += overlap;
        ASSERT_FALSE(overlap && aliveTogether(buffers[a], buffers[b])) << "buffers " << a << " and " << b;
      }
  });
  EXPECT_GT(shared, 1000) << "the plans reuse nothing, so the property says nothing";
}

TEST(Planner, AlignsEveryOffsetAndStaysBelowItsHighWaterMark) {
  forRandomPlans([](const std::vector<Buffer>& buffers) {
    Placement plan = placeBuffers(buffers, kAlign);
    int64_t top = 0;
    for (size_t i = 0; i < buffers.size(); ++i) {
      ASSERT_GE(plan.offsets[i], 0);
      ASSERT_EQ(plan.offsets[i] % kAlign, 0);
      top = std::max(top, plan.offsets[i] + roundUp(buffers[i].bytes));
    }
    ASSERT_EQ(plan.bytes, top);
  });
}

TEST(Planner, ReportsTheLargestLiveSetAndNeverGoesBelowIt) {
  forRandomPlans([](const std::vector<Buffer>& buffers) {
    Placement plan = placeBuffers(buffers, kAlign);
    int64_t most = 0;
    for (const Buffer& buffer : buffers) most = std::max(most, bytesAliveAt(buffers, buffer.begin));
    ASSERT_EQ(plan.largestLiveSet, most);
    ASSERT_GE(plan.bytes, plan.largestLiveSet);
  });
}

TEST(Planner, StaysNearTheLargestLiveSet) {
  int64_t bytes = 0, best = 0;
  forRandomPlans([&](const std::vector<Buffer>& buffers) {
    Placement plan = placeBuffers(buffers, kAlign);
    bytes += plan.bytes;
    best += plan.largestLiveSet;
  });
  EXPECT_LT(bytes, best * 1.01) << "over all random plans";
}

TEST(Planner, SearchesWhereTheFirstOrderIsNotGoodEnough) {
  int64_t searched = 0;
  forRandomPlans([&](const std::vector<Buffer>& buffers) {
    Placement plan = placeBuffers(buffers, kAlign);
    searched += plan.tries > 1;
    ASSERT_LE(plan.bytes, plan.largestLiveSet * 1.15 + kAlign);
  });
  EXPECT_GT(searched, 20);
}

TEST(Planner, GivesTheSamePlanForTheSameBuffers) {
  forRandomPlans([](const std::vector<Buffer>& buffers) {
    Placement first = placeBuffers(buffers, kAlign), second = placeBuffers(buffers, kAlign);
    ASSERT_EQ(first.offsets, second.offsets);
    ASSERT_EQ(first.bytes, second.bytes);
  });
}

TEST(Planner, PutsEveryBufferBehindTheOtherWithoutReuse) {
  forRandomPlans([](const std::vector<Buffer>& buffers) {
    Placement plan = placeBuffers(buffers, kAlign, /*reuse=*/false);
    int64_t next = 0;
    for (size_t i = 0; i < buffers.size(); ++i) {
      ASSERT_EQ(plan.offsets[i], next) << "buffer " << i;
      next += roundUp(buffers[i].bytes);
    }
    ASSERT_EQ(plan.bytes, next);
  });
}

TEST(Planner, FillsAGapWhenOneFitsExactly) {
  // Three at a time; the fourth fits where the second was, between two that are alive.
  std::vector<Buffer> buffers = {{1024, 0, 9}, {512, 0, 3}, {768, 0, 9}, {512, 4, 9}};
  Placement plan = placeBuffers(buffers, kAlign);
  EXPECT_EQ(plan.offsets[3], plan.offsets[1]);
  EXPECT_EQ(plan.bytes, 1024 + 512 + 768);
}

TEST(Planner, KeepsTheInputOfAStepApartFromItsOutput) {
  // The step that reads a buffer for the last time is the one that writes the next.
  Placement plan = placeBuffers({{256, 0, 1}, {256, 1, 2}, {256, 2, 3}}, kAlign);
  EXPECT_NE(plan.offsets[0], plan.offsets[1]);
  EXPECT_NE(plan.offsets[1], plan.offsets[2]);
  EXPECT_EQ(plan.offsets[0], plan.offsets[2]);
}

TEST(Planner, PlansNothingForNoBuffers) {
  Placement plan = placeBuffers({}, kAlign);
  EXPECT_TRUE(plan.offsets.empty());
  EXPECT_EQ(plan.bytes, 0);
  EXPECT_EQ(plan.largestLiveSet, 0);
}

}  // namespace
}  // namespace hpu::plan
