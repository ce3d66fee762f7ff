// SPDX-License-Identifier: Apache-2.0
// Spread: keeps the threads of ranks that wait for each other apart.
// The one thing to know: schedulers draw threads that wake each other onto one core and leave the
// others idle. A rank that finds more peers on its core than on another one moves there, now and
// then, one rank at a time; where it may run stays as it was.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <utility>

#include "collectives/transport/shm/Segment.h"

namespace hpu::collectives::shm {

/// Of one rank. Any thread may call.
class Spread {
 public:
  Spread(std::shared_ptr<Segment> segment, int rank) : segment_(std::move(segment)), rank_(rank) {}
  /// The calling thread works for its rank here: says where, and moves it maybe. True: no peer
  /// was last seen on its core.
  bool settle();

 private:
  using Clock = std::chrono::steady_clock;
  const std::shared_ptr<Segment> segment_;
  const int rank_;
  std::mutex mutex_;  // Guards the rest; nobody waits for it.
  Clock::time_point next_;
  Clock::duration pause_{};
};

}  // namespace hpu::collectives::shm
