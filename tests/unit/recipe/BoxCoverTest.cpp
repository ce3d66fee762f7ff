// SPDX-License-Identifier: Apache-2.0
#include "recipe/BoxCover.h"

#include <gtest/gtest.h>

#include <random>

namespace hpu::recipe {
namespace {

Box box(std::vector<int64_t> lo, std::vector<int64_t> hi) {
  Box b;
  std::copy(lo.begin(), lo.end(), b.lo.begin());
  std::copy(hi.begin(), hi.end(), b.hi.begin());
  return b;
}

/// Counts how often each point of a small 3-D space is covered.
Cover bruteForce(const std::vector<int64_t>& space, const std::vector<Box>& boxes, auto&& firstBad) {
  Cover cover = Cover::kExact;
  for (int64_t x = 0; x < space[0]; ++x) {
    for (int64_t y = 0; y < space[1]; ++y) {
      for (int64_t z = 0; z < space[2]; ++z) {
        int count = 0;
        for (const Box& b : boxes) {
          count += x >= b.lo[0] && x < b.hi[0] && y >= b.lo[1] && y < b.hi[1] && z >= b.lo[2] && z < b.hi[2];
        }
        if (count == 1) continue;
        if (cover == Cover::kExact) {
          cover = count == 0 ? Cover::kGap : Cover::kOverlap;
          firstBad({x, y, z});
        }
      }
    }
  }
  return cover;
}

TEST(BoxCover, OneBoxOverTheWholeSpaceIsExact) {
  std::vector<int64_t> space = {4, 5};
  EXPECT_EQ(checkCover(space, {box({0, 0}, {4, 5})}).cover, Cover::kExact);
}

TEST(BoxCover, NoBoxLeavesAGapAtTheOrigin) {
  std::vector<int64_t> space = {4, 5};
  CoverResult result = checkCover(space, {});
  EXPECT_EQ(result.cover, Cover::kGap);
  EXPECT_EQ(result.point[0], 0);
}

TEST(BoxCover, ASpaceOfRankZeroIsOnePoint) {
  EXPECT_EQ(checkCover({}, {Box{}}).cover, Cover::kExact);
  EXPECT_EQ(checkCover({}, {}).cover, Cover::kGap);
  EXPECT_EQ(checkCover({}, {Box{}, Box{}}).cover, Cover::kOverlap);
}

TEST(BoxCover, AGapAndAnOverlapOfEqualVolumeAreNotMistakenForExact) {
  std::vector<int64_t> space = {4, 4};
  CoverResult result = checkCover(space, {box({0, 0}, {2, 4}), box({2, 0}, {4, 2}), box({2, 0}, {4, 2})});
  EXPECT_EQ(result.cover, Cover::kOverlap);
}

TEST(BoxCover, APinwheelThatNoStraightCutDividesIsExact) {
  std::vector<int64_t> space = {3, 3};
  EXPECT_EQ(checkCover(space, {box({0, 0}, {1, 2}), box({0, 2}, {2, 3}), box({2, 1}, {3, 3}), box({1, 0}, {3, 1}),
                               box({1, 1}, {2, 2})})
                .cover,
            Cover::kExact);
}

TEST(BoxCover, AgreesWithCountingEveryPointOfRandomDivisions) {
  std::mt19937 random(7);
  auto pick = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  int counts[3] = {0, 0, 0};
  for (int trial = 0; trial < 3000; ++trial) {
    std::vector<int64_t> space = {1 + pick(5), 1 + pick(5), 1 + pick(5)};
    std::vector<Box> boxes = {box({0, 0, 0}, space)};
    for (int64_t cuts = pick(6); cuts > 0; --cuts) {  // Split boxes at random places: still exact.
      size_t which = static_cast<size_t>(pick(static_cast<int64_t>(boxes.size())));
      size_t dim = static_cast<size_t>(pick(3));
      int64_t extent = boxes[which].hi[dim] - boxes[which].lo[dim];
      if (extent < 2) continue;
      int64_t at = boxes[which].lo[dim] + 1 + pick(extent - 1);
      Box upper = boxes[which];
      upper.lo[dim] = boxes[which].hi[dim] = at;
      boxes.push_back(upper);
    }
    if (pick(2)) {  // Break it: move one face, drop one box or add one.
      size_t which = static_cast<size_t>(pick(static_cast<int64_t>(boxes.size())));
      int64_t how = pick(3);
      size_t dim = static_cast<size_t>(pick(3));
      if (how == 0) boxes.erase(boxes.begin() + static_cast<ptrdiff_t>(which));
      if (how == 1) boxes.push_back(boxes[which]);
      if (how == 2) {
        boxes[which].lo[dim] = pick(boxes[which].hi[dim]);
      }
    }
    std::array<int64_t, 3> bad{};
    Cover expected = bruteForce(space, boxes, [&](std::array<int64_t, 3> p) { bad = p; });
    CoverResult result = checkCover(space, boxes);
    ASSERT_EQ(result.cover, expected) << "trial " << trial;
    if (expected != Cover::kExact) {
      for (size_t d = 0; d < 3; ++d) ASSERT_EQ(result.point[d], bad[d]) << "trial " << trial;
    }
    ++counts[static_cast<int>(expected)];
  }
  for (int count : counts) EXPECT_GT(count, 200);  // Each outcome was really tried.
}

TEST(BoxCover, ManyTilesOfAnEightDimensionalSpaceAreExactAndOneShortTileIsFound) {
  // 4096 tiles that split six dimensions: corners of neighbours cancel, so terms do not grow.
  std::vector<int64_t> space = {8, 8, 8, 8, 8, 8, 3, 3};
  std::vector<Box> boxes;
  for (int i = 0; i < 4096; ++i) {
    std::vector<int64_t> lo(8, 0), hi = space;
    for (size_t d = 0; d < 6; ++d) {
      lo[d] = (i >> (2 * d) & 3) * 2;
      hi[d] = lo[d] + 2;
    }
    boxes.push_back(box(lo, hi));
  }
  EXPECT_EQ(checkCover(space, boxes).cover, Cover::kExact);
  boxes[1234].hi[3] -= 1;
  EXPECT_EQ(checkCover(space, boxes).cover, Cover::kGap);
}

}  // namespace
}  // namespace hpu::recipe
