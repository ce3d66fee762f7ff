// SPDX-License-Identifier: Apache-2.0
// Strides of the largest sizes: which tensors get them, and which.
#include "bindings/synapse/graph/DynamicStrides.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hpu::synapse {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Sizes = std::vector<uint64_t>;

constexpr uint32_t kF32 = 4, kBf16 = 2;

TensorDescription strided(Sizes most, Sizes least, uint32_t type = kF32, std::vector<uint8_t> permutation = {},
                          Sizes given = {}, uint32_t section = 0, uint32_t kind = 0) {
  GraphDescription graph;
  graph.sections = {{0, 0, true, false, false}, {1, 0, false, false, false}};
  TensorDescription& tensor = graph.tensors.emplace_back();
  tensor.maxSizes = std::move(most);
  tensor.minSizes = std::move(least);
  tensor.dataType = type;
  tensor.permutation = std::move(permutation);
  tensor.strides = std::move(given);
  tensor.section = section;
  tensor.type = kind;
  strideByLargest(graph);
  return graph.tensors[0];
}

TEST(DynamicStrides, AreThoseOfTheLargestSizes) {
  EXPECT_THAT(strided({8, 4, 3}, {1, 4, 3}).strides, ElementsAre(4, 32, 128));
  EXPECT_THAT(strided({8, 4, 3}, {8, 1, 3}, kBf16).strides, ElementsAre(2, 16, 64));
  EXPECT_THAT(strided({8, 4, 3}, {0, 0, 0}).strides, ElementsAre(4, 32, 128));
  EXPECT_THAT(strided({8, 4, 3}, {1, 4, 3}, kF32, {}, {}, 0, 3).strides, ElementsAre(4, 32, 128));
}

TEST(DynamicStrides, AreNotNeededWhereDenseIsTheSame) {
  EXPECT_THAT(strided({8, 4}, {8, 1}).strides, IsEmpty()) << "the slowest alone";
  EXPECT_THAT(strided({8}, {1}).strides, IsEmpty());
  EXPECT_THAT(strided({8, 1}, {2, 1}).strides, IsEmpty()) << "behind it there is one row";
  EXPECT_THAT(strided({8, 4}, {8, 4}).strides, IsEmpty()) << "nothing changes";
}

TEST(DynamicStrides, FollowAMemoryOrder) {
  TensorDescription tensor = strided({8, 4, 3}, {8, 4, 1}, kF32, {2, 0, 1});
  EXPECT_THAT(tensor.strides, ElementsAre(12, 96, 4));
  EXPECT_THAT(tensor.permutation, IsEmpty());
  tensor = strided({8, 4, 3}, {8, 1, 3}, kF32, {2, 0, 1});
  EXPECT_THAT(tensor.strides, IsEmpty()) << "the slowest in memory";
  EXPECT_THAT(tensor.permutation, ElementsAre(2, 0, 1));
}

TEST(DynamicStrides, LeaveOthersAsTheyAre) {
  EXPECT_THAT(strided({8, 4}, {1, 4}, kF32, {}, {4, 64}).strides, ElementsAre(4, 64)) << "given ones";
  EXPECT_THAT(strided({8, 4}, {1, 4}, kF32, {}, {}, 1).strides, IsEmpty()) << "the workspace's";
  EXPECT_THAT(strided({8, 4}, {1, 4}, kF32, {}, {}, kNoSection).strides, IsEmpty());
  EXPECT_THAT(strided({8, 4}, {1, 4}, kF32, {}, {}, 0, 1).strides, IsEmpty()) << "shape tensors";
  EXPECT_THAT(strided({8, 4}, {1, 4}, 0).strides, IsEmpty());
  EXPECT_THAT(strided({uint64_t{1} << 40, uint64_t{1} << 40}, {1, 1}).strides, IsEmpty());
  EXPECT_THAT(strided({8, 4}, {1, 4}, kF32, {1, 1}).strides, IsEmpty()) << "no order";
}

}  // namespace
}  // namespace hpu::synapse
