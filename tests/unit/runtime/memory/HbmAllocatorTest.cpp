// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/HbmAllocator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

namespace hpu {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kBase = 0x1000;

TEST(HbmAllocator, AlignsAddressesAndSizes) {
  HbmAllocator allocator(kBase + 1, 100000);
  uint64_t a = allocator.allocate(1, "a").value(), b = allocator.allocate(257, "b").value();
  EXPECT_EQ(a % HbmAllocator::kAlignment, 0u);
  EXPECT_EQ(b - a, 256u);
  EXPECT_EQ(allocator.info().usedBytes, 256 + 512);
  EXPECT_EQ(allocator.info().allocations, 2);
}

TEST(HbmAllocator, PicksTheSmallestHoleThatFits) {
  HbmAllocator allocator(kBase, 1 << 20);
  uint64_t big = allocator.allocate(8192, "").value();
  allocator.allocate(256, "").value();
  uint64_t small = allocator.allocate(1024, "").value();
  allocator.allocate(256, "").value();
  allocator.free(big);
  allocator.free(small);
  EXPECT_EQ(allocator.allocate(700, "").value(), small);
  EXPECT_EQ(allocator.allocate(8192, "").value(), big);
}

TEST(HbmAllocator, NeighboursCoalesceInAnyOrder) {
  HbmAllocator allocator(kBase, 4096);
  std::vector<uint64_t> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(allocator.allocate(256, "").value());
  EXPECT_FALSE(allocator.allocate(1, "").ok());
  for (int i : {1, 3, 2, 0, 15, 13, 14, 8, 7, 9, 4, 6, 5, 12, 10, 11}) EXPECT_EQ(allocator.free(blocks[i]), 256);
  ASSERT_EQ(allocator.freeBlocks().size(), 1u);
  EXPECT_EQ(allocator.freeBlocks()[0], (HbmAllocator::Block{kBase, 4096}));
  EXPECT_EQ(allocator.info().peakBytes, 4096);
}

TEST(HbmAllocator, OutOfMemoryNamesTheFiveLargestHoldersByLabel) {
  HbmAllocator allocator(kBase, 100 << 20);
  for (int i = 0; i < 4; ++i) allocator.allocate(i == 2 ? 13 << 20 : 9 << 20, "weights").value();
  for (int i = 1; i <= 6; ++i) allocator.allocate(i << 20, "t" + std::to_string(i)).value();
  Status status = allocator.allocate(64 << 20, "kv cache").status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("64 MiB for 'kv cache'"));
  EXPECT_THAT(status.message(), HasSubstr("39 MiB of 100 MiB free"));
  EXPECT_THAT(status.message(), HasSubstr("largest holders: weights 40 MiB in 4 (the largest 13 MiB at 0x1201000), "
                                          "t6 6 MiB, t5 5 MiB, t4 4 MiB, t3 3 MiB"));
  EXPECT_THAT(status.message(), ::testing::Not(HasSubstr("t2")));
  EXPECT_THAT(status.message(), ::testing::Not(HasSubstr("fragmentation")));
}

TEST(HbmAllocator, FragmentationIsNamed) {
  HbmAllocator allocator(kBase, 4096);
  std::vector<uint64_t> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(allocator.allocate(256, "").value());
  for (int i = 0; i < 16; i += 2) allocator.free(blocks[i]);
  Status status = allocator.allocate(512, "").status();
  EXPECT_THAT(status.message(), HasSubstr("largest free block has 256 B (fragmentation)"));
}

TEST(HbmAllocator, ImpossibleSizesAndUnknownAddresses) {
  HbmAllocator allocator(kBase, 4096);
  EXPECT_EQ(allocator.allocate(0, "").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(allocator.allocate(-5, "").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(allocator.allocate(INT64_MAX, "").status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(allocator.free(kBase), 0);
  uint64_t a = allocator.allocate(10, "").value();
  EXPECT_EQ(allocator.free(a), 256);
  EXPECT_EQ(allocator.free(a), 0);
  HbmAllocator none(kBase, 100);
  EXPECT_EQ(none.info().totalBytes, 0);
  EXPECT_FALSE(none.allocate(1, "").ok());
}

TEST(HbmAllocator, RequestedAddressesAreCutOutOfFreeBlocks) {
  HbmAllocator allocator(kBase, 1 << 20);
  EXPECT_EQ(allocator.allocateAt(kBase + 0x4000, 1000, "mid").value(), kBase + 0x4000);
  EXPECT_EQ(allocator.freeBlocks(),
            (std::vector<HbmAllocator::Block>{{kBase, 0x4000}, {kBase + 0x4400, (1 << 20) - 0x4400}}));
  EXPECT_EQ(allocator.allocateAt(kBase, 0x4000, "front").value(), kBase);
  EXPECT_EQ(allocator.allocateAt(kBase + (1 << 20) - 256, 256, "back").value(), kBase + (1 << 20) - 256);
  for (uint64_t at : {kBase + 0x3f00, kBase + 0x4000, kBase + 0x4300})
    EXPECT_EQ(allocator.allocateAt(at, 512, "").status().code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(allocator.allocateAt(kBase + 0x4300, 512, "").status().message(),
              HasSubstr("held by 'mid', 1000 bytes at 0x5000"));
  EXPECT_EQ(allocator.allocateAt(kBase + 1, 1, "").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(allocator.allocateAt(kBase, 0, "").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(allocator.allocateAt(0, 256, "").status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(allocator.allocateAt(kBase + (1 << 20), 256, "").status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(allocator.allocateAt(kBase + (1 << 20) - 256, 257, "").status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(allocator.allocateAt(kBase, INT64_MAX, "").status().code(), StatusCode::kOutOfRange);
}

TEST(HbmAllocator, HoldersAreByLabelWithTheirPeaks) {
  HbmAllocator allocator(kBase, 1 << 20);
  uint64_t a = allocator.allocate(1000, "weights").value();
  allocator.allocate(500, "weights").value();
  allocator.allocate(5000, "batch").value();
  allocator.free(a);
  std::vector<MemoryHolder> holders = allocator.holders();
  ASSERT_EQ(holders.size(), 2u);
  EXPECT_EQ(holders[0].label, "batch");
  EXPECT_EQ(holders[1].label, "weights");
  EXPECT_EQ(holders[1].bytes, 512);
  EXPECT_EQ(holders[1].peakBytes, 1024 + 512);
  EXPECT_EQ(holders[1].allocations, 1);
}

TEST(HbmAllocator, LabelsThatHoldNothingDoNotPileUp) {
  HbmAllocator allocator(kBase, 1 << 20);
  for (int i = 0; i < 10000; ++i) allocator.free(allocator.allocate(256, "step " + std::to_string(i)).value());
  EXPECT_LE(allocator.holders().size(), HbmAllocator::kIdleLabels + 1);
}

/// Random allocations and frees: blocks never overlap, the sums hold, free neighbours are merged,
/// and an allocation fails only when no hole is large enough.
TEST(HbmAllocator, HoldsItsInvariantsUnderRandomUse) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const int64_t total = 1 << 20;
    HbmAllocator allocator(kBase, total);
    std::map<uint64_t, int64_t> live;
    int64_t used = 0, peak = 0;
    for (int step = 0; step < 2000; ++step) {
      if (live.empty() || random() % 5 < 3) {
        int64_t bytes = 1 + random() % (random() % 10 ? 5000 : 200000);
        int64_t rounded = (bytes + 255) / 256 * 256;
        StatusOr<uint64_t> address = uint64_t{0};
        if (random() % 8 == 0) {
          // Where it is asked for, exactly when nobody has a part of it.
          uint64_t wanted = kBase + random() % 4096 * 256;
          bool fits = wanted + static_cast<uint64_t>(rounded) <= kBase + total;
          bool taken = false;
          for (auto& [other, size] : live)
            taken |= other < wanted + static_cast<uint64_t>(rounded) && wanted < other + static_cast<uint64_t>(size);
          address = allocator.allocateAt(wanted, bytes, "x");
          ASSERT_EQ(address.ok(), fits && !taken);
          if (address.ok()) {
            ASSERT_EQ(*address, wanted);
          }
        } else {
          int64_t largest = allocator.info().largestFreeBytes;
          address = allocator.allocate(bytes, step % 3 ? "x" : "y");
          ASSERT_EQ(address.ok(), rounded <= largest);
        }
        if (address.ok()) {
          ASSERT_TRUE(live.emplace(*address, rounded).second);
          used += rounded;
          peak = std::max(peak, used);
        }
      } else {
        auto victim = std::next(live.begin(), random() % live.size());
        ASSERT_EQ(allocator.free(victim->first), victim->second);
        used -= victim->second;
        live.erase(victim);
      }
      MemoryInfo info = allocator.info();
      ASSERT_EQ(info.usedBytes, used);
      ASSERT_EQ(info.peakBytes, peak);
      ASSERT_EQ(info.allocations, static_cast<int64_t>(live.size()));
      ASSERT_EQ(info.freeBlocks, static_cast<int64_t>(allocator.freeBlocks().size()));
      if (step % 50) continue;
      int64_t held = 0, allocations = 0;
      for (const MemoryHolder& holder : allocator.holders()) {
        held += holder.bytes;
        allocations += holder.allocations;
        ASSERT_LE(holder.bytes, holder.peakBytes);
      }
      ASSERT_EQ(held, used);
      ASSERT_EQ(allocations, info.allocations);
      // Free and held blocks tile the range.
      std::map<uint64_t, std::pair<int64_t, bool>> all;
      for (auto& [address, bytes] : live) all[address] = {bytes, false};
      for (auto& block : allocator.freeBlocks()) all[block.address] = {block.bytes, true};
      uint64_t next = kBase;
      bool previousFree = false;
      for (auto& [address, block] : all) {
        ASSERT_EQ(address, next);
        ASSERT_FALSE(previousFree && block.second);
        previousFree = block.second;
        next += static_cast<uint64_t>(block.first);
      }
      ASSERT_EQ(next, kBase + total);
    }
  }
}

}  // namespace
}  // namespace hpu
