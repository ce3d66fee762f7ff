// SPDX-License-Identifier: Apache-2.0
#include "compiler/layout/Orders.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "compiler/dialect/hpu/HpuOps.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace hpu::layout {
namespace {

TEST(Orders, AreFoundAgainInTheStridesOfADenseTensor) {
  MLIRContext context;
  context.loadDialect<ir::HpuDialect>();
  OpBuilder builder(&context);
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    Order sizes, order = rowMajor(random() % 5 + 1);
    for (size_t d = 0; d < order.size(); ++d) sizes.push_back(random() % 4 + 1);
    std::shuffle(order.begin(), order.end(), random);
    // Strides by definition: the product of all sizes that vary faster.
    Order strides(sizes.size());
    int64_t stride = 1;
    for (size_t i = order.size(); i-- > 0; stride *= sizes[order[i]]) strides[order[i]] = stride;

    Order found = orderOfStrides(sizes, strides);
    ASSERT_TRUE(std::is_permutation(found.begin(), found.end(), order.begin(), order.end()));
    RankedTensorType type = ir::withOrder(RankedTensorType::get(sizes, builder.getF32Type()), found);
    SmallVector<int64_t> again = ir::denseStrides(type);
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (sizes[d] != 1)
        ASSERT_EQ(again[d], strides[d]) << "dim " << d;
      else
        ASSERT_EQ(found[d], static_cast<int64_t>(d)) << "a dim of size 1 moved";
    }
  }
}

TEST(Orders, KeepEqualStridesInLogicalOrder) {
  EXPECT_EQ(orderOfStrides({2, 3, 4}, {0, 0, 1}), (Order{2, 0, 1}));
  EXPECT_EQ(orderOfStrides({2, 3}, {1, 1}), (Order{0, 1}));
}

TEST(Orders, OfChannelsLastPutTheChannelsFastest) {
  EXPECT_EQ(orderOfStrides({2, 16, 5, 7}, {16 * 35, 1, 16 * 7, 16}), channelsLast());
}

}  // namespace
}  // namespace hpu::layout
