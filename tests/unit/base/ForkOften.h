// SPDX-License-Identifier: Apache-2.0
// Forks of a process whose threads are busy: what a lock that nobody gives back in the child would stop.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

namespace hpu::base {

/// A sanitizer's own locks may be held for ever in a child of busy threads.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kMayForkWhenBusy = false;
#else
inline constexpr bool kMayForkWhenBusy = true;
#endif

/// Threads that do something again and again as long as this lives. What is made at its first use is made before: a
/// child of a process that is in the middle of that waits for it in vain.
class BusyThreads {
 public:
  explicit BusyThreads(const std::vector<std::function<void()>>& works) {
    for (const auto& work : works)
      threads_.emplace_back([this, work] {
        while (!stop_) work();
      });
  }
  ~BusyThreads() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

/// Forks `count` children, one after the other; each must end with `child()` == 0 within a minute.
template <typename Child>
void forkOften(int count, Child&& child) {
  for (int i = 0; i < count && !::testing::Test::HasFailure(); ++i) {
    pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      ::alarm(60);
      ::_exit(child());
    }
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_FALSE(WIFSIGNALED(status)) << "fork " << i << ": signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0) << "fork " << i;
  }
}

}  // namespace hpu::base
