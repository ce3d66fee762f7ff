// SPDX-License-Identifier: Apache-2.0
#include "base/PerThread.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

namespace hpu::base {
namespace {

std::atomic<int> living{0};
struct Counted {
  Counted() { ++living; }
  ~Counted() { --living; }
  int value = 0;
};

TEST(PerThread, EachThreadHasOneUntilItEnds) {
  perThread<Counted>().value = 7;
  for (int round = 0; round < 20; ++round) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([i] {
        EXPECT_EQ(perThread<Counted>().value, 0);
        perThread<Counted>().value = i;
        std::this_thread::yield();
        EXPECT_EQ(perThread<Counted>().value, i);
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(living, 1);
  }
  EXPECT_EQ(perThread<Counted>().value, 7);
}

TEST(PerThread, ThereIsOneForWhoAsksAfterItsEnd) {
  static Counted* late = nullptr;
  int before = living;
  std::thread([] {
    struct Ask {
      ~Ask() { late = &perThread<Counted>(); }
    };
    thread_local Ask ask;  // Made before the object, so destroyed after it.
    (void)&ask;
    perThread<Counted>().value = 3;
  }).join();
  ASSERT_NE(late, nullptr);
  EXPECT_EQ(late->value, 0);
  EXPECT_EQ(living, before + 1);
  delete late;
}

TEST(PerThread, TheObjectsOfAParentsThreadsAreNoLeakInItsChild) {
#ifndef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "seen by LeakSanitizer";
#else
  struct Big {
    std::string text = std::string(1000, 'x');
  };
  std::mutex mutex;
  std::condition_variable changed;
  int ready = 0;
  bool stop = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      std::unique_lock lock(mutex);
      perThread<Big>().text += 'y';
      ++ready;
      changed.notify_all();
      changed.wait(lock, [&] { return stop; });
    });
  pid_t child = -1;
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return ready == 4; });
    child = ::fork();
    if (child == 0) ::_exit(__lsan_do_recoverable_leak_check());
    stop = true;
  }
  changed.notify_all();
  for (std::thread& thread : threads) thread.join();
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
#endif
}

}  // namespace
}  // namespace hpu::base
