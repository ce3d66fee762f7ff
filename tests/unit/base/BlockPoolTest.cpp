// SPDX-License-Identifier: Apache-2.0
#include "base/BlockPool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/HandedOver.h"

namespace hpu::base {
namespace {

using Blocks = std::vector<std::pair<unsigned char*, size_t>>;

/// Blocks of many sizes, each full of a value of its own.
Blocks takeSome(size_t count, size_t seed) {
  Blocks blocks;
  for (size_t i = 0; i < count; ++i) {
    const size_t bytes = (i * 37 + seed * 101) % (2 * kLargestPooledBlock);
    auto* block = static_cast<unsigned char*>(takeBlock(bytes));
    std::memset(block, static_cast<int>((i + seed) & 0xFF), bytes);
    blocks.emplace_back(block, bytes);
  }
  return blocks;
}
void checkAndGive(const Blocks& blocks, size_t seed) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    const auto& [block, bytes] = blocks[i];
    for (size_t b = 0; b < bytes; ++b) ASSERT_EQ(block[b], (i + seed) & 0xFF);
    giveBlock(block, bytes);
  }
}

TEST(BlockPool, BlocksAreApartAndAligned) {
  std::set<uintptr_t> starts;
  const Blocks blocks = takeSome(2000, 3);
  for (const auto& [block, bytes] : blocks) {
    const auto at = reinterpret_cast<uintptr_t>(block);
    EXPECT_EQ(at % alignof(std::max_align_t), 0u);
    EXPECT_TRUE(starts.insert(at).second);
  }
  checkAndGive(blocks, 3);
}

TEST(BlockPool, WhatOneThreadFreesAnotherOneGets) {
  // What is handed over at a time is more than threads keep for themselves.
  constexpr int kRounds = 50, kBlocks = 3000;
  std::atomic<int> turn{0};
  Blocks between;
  std::thread other([&] {
    for (int round = 0; round < kRounds; ++round) {
      while (turn.load(std::memory_order_acquire) != 2 * round + 1) std::this_thread::yield();
      checkAndGive(between, static_cast<size_t>(round));
      turn.store(2 * round + 2, std::memory_order_release);
    }
  });
  for (int round = 0; round < kRounds; ++round) {
    between = takeSome(kBlocks, static_cast<size_t>(round));
    turn.store(2 * round + 1, std::memory_order_release);
    while (turn.load(std::memory_order_acquire) != 2 * round + 2) std::this_thread::yield();
  }
  other.join();
}

TEST(BlockPool, ManyThreadsAtATime) {
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      for (size_t round = 0; round < 100; ++round) checkAndGive(takeSome(100 + 10 * t, round), round);
    });
  for (std::thread& thread : threads) thread.join();
}

/// An object of a thread that ends behind the pool's own part of it.
struct Late {
  ~Late() {
    for (auto& [block, bytes] : blocks) giveBlock(block, bytes);
    giveBlock(takeBlock(200), 200);
  }
  Blocks blocks;
};

TEST(BlockPool, ThreadsMayFreeWhileTheyEnd) {
  for (int i = 0; i < 10; ++i)
    std::thread([] {
      thread_local Late late;
      late.blocks = takeSome(500, 1);
      checkAndGive(takeSome(200, 2), 2);
    }).join();
}

TEST(BlockPool, AForkedChildGoesOn) {
  std::atomic<bool> ends{false};
  std::thread other([&] {
    for (size_t round = 0; !ends; ++round) checkAndGive(takeSome(300, round), round);
  });
  for (int i = 0; i < 50; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (size_t round = 0; round < 20; ++round) checkAndGive(takeSome(300, round), round);
      ::_exit(testing::Test::HasFailure() ? 1 : 0);
    }
    ASSERT_GT(child, 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  ends = true;
  other.join();
}

TEST(BlockPool, ListsUseIt) {
  HandedOverVector<int> list;
  for (int i = 0; i < 1000; ++i) list.push_back(i);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(list[static_cast<size_t>(i)], i);
}

}  // namespace
}  // namespace hpu::base
