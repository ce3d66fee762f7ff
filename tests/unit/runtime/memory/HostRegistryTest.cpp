// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/HostRegistry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace hpu {
namespace {

TEST(HostRegistry, AllocatedMemoryIsWholePagesAndZero) {
  HostRegistry registry;
  HostMemory memory = registry.allocate(10000, "x").value();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data) % 4096, 0u);
  std::vector<char> zero(10000, 0);
  EXPECT_EQ(std::memcmp(memory.data, zero.data(), 10000), 0);
  EXPECT_TRUE(registry.free(memory.data).ok());
}

TEST(HostRegistry, MemoryInUseLivesOnAfterItsFree) {
  HostRegistry registry;
  HostMemory memory = registry.allocate(4096, "").value();
  auto use = registry.use(memory.data, 4096, "copy").value();
  ASSERT_TRUE(use);
  ASSERT_TRUE(registry.free(memory.data).ok());
  std::memset(memory.data, 1, 4096);  // Still there (a fault otherwise).
  EXPECT_EQ(registry.find(memory.data).status().code(), StatusCode::kNotFound);
}

TEST(HostRegistry, MappedMemoryIsUnmappedWhenNobodyUsesIt) {
  HostRegistry registry;
  std::vector<char> mine(1000);
  ASSERT_TRUE(registry.map(mine.data(), 1000, "mine").ok());
  auto use = registry.use(mine.data() + 500, 10, "copy").value();
  EXPECT_EQ(registry.unmap(mine.data()).code(), StatusCode::kFailedPrecondition);
  use.reset();
  EXPECT_TRUE(registry.unmap(mine.data()).ok());
}

TEST(HostRegistry, OverlapsAreRefusedAndNeighboursAreNot) {
  HostRegistry registry;
  std::vector<char> mine(3000);
  ASSERT_TRUE(registry.map(mine.data() + 1000, 1000, "").ok());
  EXPECT_EQ(registry.map(mine.data(), 1001, "").code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(registry.map(mine.data() + 1999, 1, "").code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(registry.map(mine.data(), 3000, "").code(), StatusCode::kAlreadyExists);
  EXPECT_TRUE(registry.map(mine.data(), 1000, "").ok());
  EXPECT_TRUE(registry.map(mine.data() + 2000, 1000, "").ok());
  EXPECT_EQ(registry.map(mine.data(), INT64_MAX, "").code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(registry.map(reinterpret_cast<void*>(UINTPTR_MAX - 10), 100, "").code(), StatusCode::kInvalidArgument);
}

TEST(HostRegistry, RangesThatAreNotMemoryOfTheProcessAreRefused) {
  HostRegistry registry;
  std::vector<char> mine(3000);
  const std::pair<void*, int64_t> wrong[] = {{reinterpret_cast<void*>(4096), INT64_MAX},
                                             {reinterpret_cast<void*>(4096), 1},
                                             {mine.data(), INT64_MAX},
                                             {mine.data(), int64_t{1} << 47}};
  for (auto [data, bytes] : wrong) {
    Status status = registry.map(data, bytes, "");
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << bytes;
    EXPECT_THAT(status.message(), ::testing::HasSubstr("not all memory of this process")) << bytes;
  }
  EXPECT_TRUE(registry.map(mine.data(), 3000, "").ok()) << "nothing of them is left";
}

TEST(HostRegistry, WhatIsNotKnownIsNobodys) {
  HostRegistry registry;
  int local = 0;
  EXPECT_FALSE(registry.use(&local, 4, "copy").value());
  HostMemory memory = registry.allocate(100, "").value();
  EXPECT_FALSE(registry.use(&local, 4, "copy").value());
  EXPECT_EQ(registry.use(memory.data, 101, "copy").status().code(), StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace hpu
