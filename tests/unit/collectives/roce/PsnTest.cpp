// SPDX-License-Identifier: Apache-2.0
#include "collectives/roce/Psn.h"

#include <gtest/gtest.h>

namespace hpu::roce {
namespace {

TEST(Psn, WrapsAroundAt24Bits) {
  EXPECT_EQ(psnAdd(0xFFFFFF, 1), 0u);
  EXPECT_EQ(psnAdd(0, -1), 0xFFFFFFu);
  EXPECT_EQ(psnAdd(0xFFFFFE, 0x1000003), 1u);
  EXPECT_EQ(psnAdd(5, -0x1000000), 5u);
}

TEST(Psn, TheLaterOneIsTheOneLessThanHalfAWayAhead) {
  for (uint32_t from : {0u, 1u, 0x7FFFFFu, 0x800000u, 0xFFFFFFu}) {
    for (int32_t steps : {-0x800000, -0x7FFFFF, -1, 0, 1, 0x7FFFFF}) {
      const uint32_t to = psnAdd(from, steps);
      EXPECT_EQ(psnDistance(from, to), steps) << from;
      EXPECT_EQ(psnBefore(from, to), steps > 0) << from;
    }
  }
}

}  // namespace
}  // namespace hpu::roce
