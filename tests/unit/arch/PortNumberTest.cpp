// SPDX-License-Identifier: Apache-2.0
#include "arch/PortNumber.h"

#include <gtest/gtest.h>

#include <set>

#include "hpu/node.h"

namespace hpu::arch {
namespace {

TEST(PortNumber, IsOneForEachDirectionOfEachLink) {
  std::set<uint32_t> seen;
  for (int32_t link = 0; link < node::kLinks; ++link)
    for (bool send : {true, false}) {
      const uint32_t port = portNumber(link, send);
      EXPECT_TRUE(seen.insert(port).second);
      EXPECT_EQ(linkOfPort(port), static_cast<uint32_t>(link));
      EXPECT_EQ(isSendingPort(port), send);
    }
  EXPECT_EQ(*seen.rbegin(), 2u * node::kLinks - 1) << "without gaps: who keeps a table has one entry for each";
}

}  // namespace
}  // namespace hpu::arch
