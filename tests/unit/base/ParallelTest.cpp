// SPDX-License-Identifier: Apache-2.0
#include "base/Parallel.h"

#include <gtest/gtest.h>
#include <immintrin.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace hpu::base {
namespace {

TEST(Parallel, CoversEveryIterationOnce) {
  for (int64_t n : {0, 1, 7, 64, 1000, 100003}) {
    for (int64_t grain : {0, 1, 8, 1000}) {
      std::vector<int> hits(n, 0);
      parallelFor(n, grain, [&](int64_t begin, int64_t end) {
        ASSERT_LT(begin, end);
        for (int64_t i = begin; i < end; ++i) ++hits[i];
      });
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(hits[i], 1) << n << " " << grain << " " << i;
    }
  }
}

TEST(ParallelDeathTest, MoreThreadsThanASystemHasAreNotAskedFor) {
  // In a program of its own: the setting is read once.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto ask = [] {
    setenv("HPU_NUM_THREADS", "5000000000", 1);
    exit(numThreads() == 1024 ? 0 : 1);
  };
  EXPECT_EXIT(ask(), ::testing::ExitedWithCode(0), "");
}

TEST(Parallel, WritesOfTheBodyAreVisibleToTheCaller) {
  // Plain (not atomic) data: ThreadSanitizer checks the ordering that parallelFor promises.
  std::vector<int64_t> data(5000);
  for (int round = 0; round < 20; ++round) {
    for (auto& x : data) x = round;
    parallelFor(5000, 10, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) data[i] += i;
    });
    for (int64_t i = 0; i < 5000; ++i) ASSERT_EQ(data[i], round + i);
  }
}

/// Runs a body on the caller and on at least one more thread, where there is one.
template <typename Body>
bool onSeveralThreads(Body body) {
  if (numThreads() < 2) return false;
  std::atomic<int> arrived{0};
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  parallelFor(2, 1, [&](int64_t, int64_t) {
    ++arrived;
    while (arrived < 2 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    body();
  });
  return true;
}

TEST(Parallel, EveryChunkRunsInTheCallersFloatingPointEnvironment) {
  const unsigned saved = _mm_getcsr();
  // Also when the loop before it was another's.
  for (unsigned control : {0x1f80u, 0x1f80u | 0x8040u | 0x4000u, 0x1f80u | 0x2000u, 0x1f80u}) {
    _mm_setcsr(control);
    std::mutex mutex;
    std::vector<unsigned> seen;
    const bool several = onSeveralThreads([&] {
      std::lock_guard lock(mutex);
      seen.push_back(_mm_getcsr() & ~0x3fu);
    });
    _mm_setcsr(saved);
    if (!several) GTEST_SKIP() << "one thread";
    for (unsigned each : seen) EXPECT_EQ(each, control);
  }
}

TEST(Parallel, WorkersTakeNoSignalsOfTheProgram) {
  std::mutex mutex;
  int workers = 0, open = 0;
  const std::thread::id self = std::this_thread::get_id();
  const bool several = onSeveralThreads([&] {
    sigset_t mask;
    ::pthread_sigmask(SIG_BLOCK, nullptr, &mask);
    std::lock_guard lock(mutex);
    if (std::this_thread::get_id() == self) return;
    ++workers;
    open += !sigismember(&mask, SIGUSR1) || !sigismember(&mask, SIGINT);
  });
  if (!several || workers == 0) GTEST_SKIP() << "one thread";
  EXPECT_EQ(open, 0);
  sigset_t mask;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  EXPECT_FALSE(sigismember(&mask, SIGUSR1)) << "the caller keeps its own";
}

TEST(Parallel, SmallLoopsStayOnTheCaller) {
  std::thread::id self = std::this_thread::get_id(), seen;
  parallelFor(8, 8, [&](int64_t begin, int64_t end) {
    EXPECT_EQ(begin, 0);
    EXPECT_EQ(end, 8);
    seen = std::this_thread::get_id();
  });
  EXPECT_EQ(seen, self);
}

TEST(Parallel, LimitBoundsTheThreadsAndNests) {
  int before = numThreads();
  EXPECT_GE(before, 1);
  {
    ThreadLimit two(2);
    EXPECT_EQ(numThreads(), 2);
    std::mutex mutex;
    std::set<std::thread::id> threads;
    std::set<int> indices;
    parallelFor(64, 1, [&](int64_t, int64_t) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
      indices.insert(threadIndex());
      EXPECT_EQ(numThreads(), 2);
    });
    EXPECT_LE(threads.size(), 2u);
    for (int index : indices) EXPECT_TRUE(index == 0 || index == 1);
    {
      ThreadLimit one(1);
      EXPECT_EQ(numThreads(), 1);
      ThreadLimit unchanged(0);
      EXPECT_EQ(numThreads(), 1);
    }
    EXPECT_EQ(numThreads(), 2);
  }
  EXPECT_EQ(numThreads(), before);
}

TEST(Parallel, WaitingForAnInnerLoopRunsNoOuterIteration) {
  ThreadLimit two(2);
  static thread_local bool inside = false;
  std::atomic<int> reentered{0}, total{0};
  parallelFor(40, 1, [&](int64_t begin, int64_t end) {
    if (inside) ++reentered;
    inside = true;
    parallelFor(50, 1, [&](int64_t b, int64_t e) { total += static_cast<int>((e - b) * (end - begin)); });
    inside = false;
  });
  EXPECT_EQ(reentered, 0);
  EXPECT_EQ(total, 40 * 50);
}

TEST(Parallel, ManyThreadsMayCallAtOnce) {
  std::vector<std::thread> callers;
  std::atomic<int64_t> sum{0};
  for (int t = 0; t < 4; ++t)
    callers.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        std::vector<int64_t> parts(256, 0);
        parallelFor(256, 4, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) parts[i] = i;
        });
        for (int64_t part : parts) sum += part;
      }
    });
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(sum, 4 * 20 * (255 * 256 / 2));
}

}  // namespace
}  // namespace hpu::base
