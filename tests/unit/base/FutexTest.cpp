// SPDX-License-Identifier: Apache-2.0
#include "base/Futex.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <new>
#include <thread>

namespace hpu::base {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

TEST(Futex, AWaitEndsInTimeAndAtOnceWhenTheWordIsAnother) {
  std::atomic<uint32_t> word{7};
  const auto start = Clock::now();
  while (Clock::now() < start + milliseconds(30)) futexWait(word, 7, start + milliseconds(30));
  futexWait(word, 8, start + std::chrono::hours(1));
  futexWait(word, 7, Clock::time_point());  // The past, and before the clock began.
  futexWait(word, 7, Clock::time_point(milliseconds(-5)));
  EXPECT_LT(Clock::now() - start, std::chrono::minutes(1));
}

TEST(Futex, AWakeReachesThreadsAndOtherProcesses) {
  void* memory =
      ::mmap(nullptr, sizeof(std::atomic<uint32_t>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto& word = *::new (memory) std::atomic<uint32_t>(0);
  const auto until = Clock::now() + std::chrono::minutes(1);
  auto await = [&](uint32_t value) {
    while (word.load() != value && Clock::now() < until) futexWait(word, value - 1, until);
    return word.load() == value;
  };
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (!await(1)) ::_exit(1);
    word = 2;
    futexWake(word);
    ::_exit(0);
  }
  bool woken = false;
  std::thread thread([&] { woken = await(2); });
  std::this_thread::sleep_for(milliseconds(20));
  word = 1;
  futexWake(word);
  thread.join();
  EXPECT_TRUE(woken);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ::munmap(memory, sizeof word);
}

TEST(Futex, MonotonicTimeIsThatOfTheClock) {
  const timespec at = monotonicTime(Clock::time_point(std::chrono::nanoseconds(5'000'000'123)));
  EXPECT_EQ(at.tv_sec, 5);
  EXPECT_EQ(at.tv_nsec, 123);
  EXPECT_EQ(monotonicTime(Clock::time_point(milliseconds(-1))).tv_nsec, 0);
}

}  // namespace
}  // namespace hpu::base
