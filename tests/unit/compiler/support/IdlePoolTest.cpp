// SPDX-License-Identifier: Apache-2.0
#include "compiler/support/IdlePool.h"

#include <gtest/gtest.h>

namespace hpu::support {
namespace {

TEST(IdlePool, HandsOnWhatIsNotWorn) {
  struct Counted {
    int uses = 0;
    bool isWorn() const { return uses >= 2; }
  };
  using Pool = IdlePool<Counted>;
  ++Pool::take()->uses;
  {
    Pool::Lease second = Pool::take(), other = Pool::take();
    EXPECT_EQ(second->uses, 1);  // The first one's.
    EXPECT_EQ(other->uses, 0);   // That one has a user.
    ++second->uses;
    other->uses = 5;
  }
  EXPECT_EQ(Pool::take()->uses, 0);  // Both are worn.
}

}  // namespace
}  // namespace hpu::support
