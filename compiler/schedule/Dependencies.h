// SPDX-License-Identifier: Apache-2.0
// Decides which waits order commands of several queues: a pure library without MLIR.
// The one thing to know: queue q has signal q, counted up by each of its commands, so a wait for
// {q, k + 1} means "command k of queue q is done".
#pragma once

#include <cstdint>
#include <vector>

#include "recipe/Recipe.h"

namespace hpu::schedule {

/// Bytes of a section that a command touches.
struct Access {
  uint32_t section = 0;
  int64_t from = 0, to = 0;
  bool write = false;
};

class DependencyTracker {
 public:
  explicit DependencyTracker(unsigned queues);

  /// Appends a command to `queue` and returns the waits that order it behind every earlier command whose
  /// access conflicts (read-after-write, write-after-read, write-after-write) and that nothing orders yet.
  std::vector<recipe::Wait> issue(unsigned queue, const std::vector<Access>& accesses);

  uint32_t commands(unsigned queue) const { return clocks_[queue].size(); }

 private:
  struct Record {
    int64_t from, to;
    unsigned queue;
    uint32_t count;  ///< Commands of the queue that are done when this one is.
    bool write;
  };
  using Clock = std::vector<uint32_t>;

  void remember(const Access& access, unsigned queue, uint32_t count);

  unsigned queues_;
  std::vector<std::vector<Clock>> clocks_;    ///< By queue and command: what is known done at its end.
  std::vector<std::vector<Record>> records_;  ///< By section.
};

}  // namespace hpu::schedule
