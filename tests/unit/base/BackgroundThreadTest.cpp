// SPDX-License-Identifier: Apache-2.0
#include "base/BackgroundThread.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace hpu::base {
namespace {

TEST(BackgroundThread, RunsJobsInOrder) {
  std::vector<int> order;
  std::promise<void> last;
  BackgroundThread thread("hpu-test");
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(thread.add(&order, [&, i] { order.push_back(i); }));
  ASSERT_TRUE(thread.add(&order, [&] { last.set_value(); }));
  ASSERT_EQ(last.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
  ASSERT_EQ(order.size(), 40u);
  for (int i = 0; i < 40; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(BackgroundThread, DropWaitsForTheJobThatRunsAndForgetsTheOthersOfItsOwner) {
  BackgroundThread thread("hpu-test");
  int own = 0, other = 0;
  std::promise<void> begun, otherDone;
  std::atomic<bool> ended{false};
  auto held = std::make_shared<int>();
  std::weak_ptr<int> isHeld = held;
  thread.add(&own, [&, held = std::move(held)] {
    begun.set_value();
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    ended = true;
  });
  thread.add(&own, [] { ADD_FAILURE() << "it was dropped"; });
  thread.add(&other, [&] { otherDone.set_value(); });
  begun.get_future().wait();
  thread.drop(&own);
  EXPECT_TRUE(ended);
  EXPECT_TRUE(isHeld.expired());  // What a job holds is gone with it.
  EXPECT_EQ(otherDone.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
  thread.drop(&other);
  thread.drop(this);
}

TEST(BackgroundThread, EndsWithJobsThatWait) {
  std::promise<void> begun;
  {
    BackgroundThread thread("hpu-test");
    thread.add(&thread, [&] {
      begun.set_value();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    });
    begun.get_future().wait();
    for (int i = 0; i < 1000; ++i) thread.add(&thread, [] { ADD_FAILURE() << "there is no time for it"; });
  }
}

TEST(BackgroundThread, OfAParentTakesNoJobs) {
  BackgroundThread thread("hpu-test");
  thread.add(&thread, [] {});
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(thread.add(&thread, [] {}) ? 1 : 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(BackgroundThread, ManyThreadsAddAndDrop) {
  BackgroundThread thread("hpu-test");
  std::atomic<int> ran{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        auto owner = std::make_unique<int>(i);
        thread.add(owner.get(), [&ran, own = owner.get()] { ran += *own >= 0; });
        if (i % 3 == 0) std::this_thread::yield();
        thread.drop(owner.get());  // Behind it, no job may look at the owner.
      }
    });
  for (std::thread& one : threads) one.join();
  EXPECT_LE(ran, 800);
}

}  // namespace
}  // namespace hpu::base
