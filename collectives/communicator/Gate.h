// SPDX-License-Identifier: Apache-2.0
// Gate: operations of a communicator begin in the order in which they were enqueued, whichever
// stream comes to its turn first: messages between two ranks are matched by their order.
#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <list>
#include <memory>
#include <mutex>

namespace hpu::collectives {

/// Any thread may call.
class Gate {
 public:
  struct Entry {
    uint64_t order = 0;           ///< From 0, all of them.
    std::function<void()> begin;  ///< Must not throw.
    std::shared_ptr<const void> keep;
  };
  /// One entry, made when the operation is: to arrive needs no memory.
  using Place = std::list<Entry>;

  /// The entry has its turn: its `begin` is called when all earlier ones have begun; by this thread
  /// or another one that is at it, one at a time, without locks.
  void arrive(Place place) {
    std::unique_lock lock(mutex_);
    auto at = waiting_.end();
    while (at != waiting_.begin() && std::prev(at)->order > place.front().order) --at;
    waiting_.splice(at, place);
    if (open_) return;
    open_ = true;
    while (!waiting_.empty() && waiting_.front().order == next_) {
      Place now;
      now.splice(now.begin(), waiting_, waiting_.begin());
      ++next_;
      lock.unlock();
      now.front().begin();
      now.clear();
      lock.lock();
    }
    open_ = false;
  }

 private:
  std::mutex mutex_;  // Guards all.
  Place waiting_;     // By order.
  uint64_t next_ = 0;
  bool open_ = false;  ///< A thread is beginning operations.
};

}  // namespace hpu::collectives
