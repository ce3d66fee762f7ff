// SPDX-License-Identifier: Apache-2.0
// Gate: operations of a communicator begin in the order in which they were enqueued, whichever
// stream comes to its turn first: messages between two ranks are matched by their order.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

namespace hpu::collectives {

/// Any thread may call.
class Gate {
 public:
  /// Number `order` (from 0) has its turn: `begin` is called when all earlier ones have begun; by
  /// this thread or another one that is at it, one at a time, without locks.
  void arrive(uint64_t order, std::function<void()> begin) {
    std::unique_lock lock(mutex_);
    waiting_[order] = std::move(begin);
    if (open_) return;
    open_ = true;
    for (auto it = waiting_.find(next_); it != waiting_.end(); it = waiting_.find(next_)) {
      std::function<void()> now = std::move(it->second);
      waiting_.erase(it);
      ++next_;
      lock.unlock();
      now();
      now = nullptr;
      lock.lock();
    }
    open_ = false;
  }

 private:
  std::mutex mutex_;  // Guards all.
  std::map<uint64_t, std::function<void()>> waiting_;
  uint64_t next_ = 0;
  bool open_ = false;  ///< A thread is beginning operations.
};

}  // namespace hpu::collectives
