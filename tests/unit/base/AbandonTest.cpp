// SPDX-License-Identifier: Apache-2.0
#include "base/Abandon.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

namespace hpu::base {
namespace {

struct Counted {
  explicit Counted(int* ended) : ended(ended) {}
  Counted(const Counted&) = delete;
  ~Counted() { ++*ended; }
  int* ended;
};

TEST(Abandon, TheObjectIsANewOneAndWhatItHeldStays) {
  int ended = 0;
  std::vector<std::unique_ptr<Counted>> list;
  list.push_back(std::make_unique<Counted>(&ended));
  const Counted* held = list[0].get();
  abandon(list);
  EXPECT_TRUE(list.empty());
  list.push_back(std::make_unique<Counted>(&ended));
  list.clear();
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(held->ended, &ended);
}

TEST(Abandon, ThreadsAndLocksThatAreHeld) {
  std::mutex lock;
  std::shared_mutex shared;
  lock.lock();
  shared.lock();
  abandon(lock);
  abandon(shared);
  EXPECT_TRUE(lock.try_lock());
  EXPECT_TRUE(shared.try_lock());
  lock.unlock();
  shared.unlock();

  std::thread thread([] {});
  std::thread::native_handle_type handle = thread.native_handle();
  abandon(thread);  // To destroy or to overwrite it would end the program.
  EXPECT_FALSE(thread.joinable());
  EXPECT_EQ(::pthread_join(handle, nullptr), 0);
}

TEST(Abandon, WhatWasHeldIsNoLeak) {
#ifndef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "seen by LeakSanitizer";
#else
  static std::map<int, std::string>* object = new std::map<int, std::string>;
  for (int i = 0; i < 1000; ++i) object->emplace(i, std::string(1000, 'x'));
  abandon(*object);
  EXPECT_EQ(__lsan_do_recoverable_leak_check(), 0);
#endif
}

}  // namespace
}  // namespace hpu::base
