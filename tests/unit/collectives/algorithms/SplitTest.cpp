// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/Split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace hpu::collectives {
namespace {

TEST(Split, PartsFollowEachOtherAndAreNearlyEqual) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 2000; i++) {
    const int64_t count = static_cast<int64_t>(random() >> (1 + random() % 62));
    const int64_t parts = 1 + static_cast<int64_t>(random() % 300);
    int64_t at = 5, least = INT64_MAX, most = 0;
    for (int64_t k = 0; k < parts; k++) {
      const Span span = part({5, count}, parts, k);
      EXPECT_EQ(span.offset, at);
      ASSERT_GE(span.count, 0);
      at += span.count;
      if (k + 1 < parts) least = std::min(least, span.count);
      most = std::max(most, span.count);
      EXPECT_LE(span.count, largestPart(count, parts));
    }
    EXPECT_EQ(at, 5 + count);
    if (parts > 1) {
      EXPECT_LE(most - least, std::max<int64_t>(1, count / parts / 4));
    }
  }
}

TEST(Split, BoundariesOfLargePartsAreMultiplesOf64) {
  for (const int64_t count : {int64_t{8 * 512}, int64_t{100001}, int64_t{1} << 55})
    for (int k = 0; k < 8; k++) EXPECT_EQ(part({0, count}, 8, k).offset % 64, 0) << count;
}

TEST(Split, TaperedSlicesFollowEachOtherAndShrinkAtTheEnd) {
  std::mt19937_64 random(8);
  for (int i = 0; i < 2000; i++) {
    const int64_t count = static_cast<int64_t>(random() >> (8 + random() % 55));
    const auto slices = static_cast<int32_t>(1 + random() % 40);
    int64_t at = 3;
    for (int32_t k = 0; k < slices; k++) {
      const Span span = tapered({3, count}, slices, k);
      ASSERT_EQ(span.offset, at);
      ASSERT_GE(span.count, 0);
      EXPECT_LE(span.count, largestTapered(count, slices));
      at += span.count;
    }
    EXPECT_EQ(at, 3 + count);
  }
  const int64_t units[] = {8, 8, 4, 2, 1};
  for (int32_t k = 0; k < 5; k++) EXPECT_EQ(tapered({0, 23 << 10}, 5, k).count, units[k] << 10) << k;
}

TEST(Split, ARelayedShareEndsWithWhatGoesDirectly) {
  std::mt19937_64 random(9);
  for (int i = 0; i < 2000; i++) {
    const int64_t count = static_cast<int64_t>(random() >> (10 + random() % 53));
    const auto paths = static_cast<int64_t>(1 + random() % 31);
    const auto slices = static_cast<int32_t>(1 + random() % 128);
    const int64_t hop = static_cast<int64_t>(random() % 2000000);
    const int64_t share = relayedShare(count, paths, slices, hop);
    ASSERT_GE(share, 0);
    ASSERT_LE(share * paths, count);
    const int64_t direct = count - share * paths;
    if (share > 0) {
      // The alignment of each path's share goes directly, too.
      EXPECT_NEAR(static_cast<double>(direct), static_cast<double>(share / slices + hop),
                  static_cast<double>(66 * paths + 66));
    }
  }
}

TEST(Split, SliceChoicesKeepToTheirBounds) {
  EXPECT_EQ(sliceChoices(0, 1024, 4096, 64), std::vector<int32_t>{1});
  EXPECT_EQ(sliceChoices(4096, 1024, 1 << 20, 64), (std::vector<int32_t>{1, 2, 4}));
  EXPECT_EQ(sliceChoices(int64_t{1} << 30, 1 << 16, 1 << 20, 64), std::vector<int32_t>{64});
  EXPECT_EQ(sliceChoices(int64_t{1} << 20, 1 << 10, 1 << 30, 64), (std::vector<int32_t>{4, 8, 16, 32, 64}));
}

}  // namespace
}  // namespace hpu::collectives
