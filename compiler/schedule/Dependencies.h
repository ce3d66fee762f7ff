// SPDX-License-Identifier: Apache-2.0
// Which commands must be ordered, and the waits that order those of several queues: a pure library without MLIR.
// The one thing to know: queue q has signal q, counted up by each of its commands, so a wait for
// {q, k + 1} means "command k of queue q is done".
#pragma once

#include <cstdint>
#include <vector>

#include "recipe/CommandAccess.h"
#include "recipe/Recipe.h"

namespace hpu::schedule {

/// Finds the commands that a command has to follow: those before it that touch the same bytes, one of the two writing.
class ConflictFinder {
 public:
  /// Commands are numbered in program order. Of what a command's predecessors follow themselves, not all is repeated.
  std::vector<uint32_t> add(uint32_t command, const std::vector<recipe::Access>& accesses);

 private:
  struct Record {
    recipe::MemoryBox box;
    uint32_t command;
  };
  using Records = std::vector<Record>;
  /// Apart, since reads never follow reads: there may be thousands of a section with constants.
  struct Touched {
    Records reads, writes;
  };
  static void conflicts(const Records& records, const recipe::MemoryBox& box, std::vector<uint32_t>& before);
  static void dropCovered(Records& records, const recipe::MemoryBox& box, uint32_t command);
  void remember(uint32_t command, const recipe::Access& access);

  std::vector<Touched> touched_;  ///< By section.
};

/// How many commands of each queue are done.
using Clock = std::vector<uint32_t>;

class WaitPlacer {
 public:
  explicit WaitPlacer(unsigned queues) : queues_(queues), clocks_(queues) {}

  /// Appends a command to `queue` and returns the waits after which `needed` is done; none that the queue's order or
  /// another wait implies.
  std::vector<recipe::Wait> issue(unsigned queue, const Clock& needed);

  uint32_t commands(unsigned queue) const { return static_cast<uint32_t>(clocks_[queue].size()); }

 private:
  unsigned queues_;
  std::vector<std::vector<Clock>> clocks_;  ///< By queue and command: what is known done at its end.
};

}  // namespace hpu::schedule
