// SPDX-License-Identifier: Apache-2.0
// Which commands must be ordered, and the waits that order those of several queues: a pure library without MLIR.
// The one thing to know: queue q has signal q, counted up by each of its commands, so a wait for
// {q, k + 1} means "command k of queue q is done".
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "recipe/CommandAccess.h"
#include "recipe/Recipe.h"

namespace hpu::plan {

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
  /// Records by where they begin, those of similar spans together: of all records, only those are looked at that begin
  /// less than twice their own span ahead of a range, or in it. So a command costs what it conflicts with, however many
  /// others there are.
  class Records {
   public:
    void add(const recipe::MemoryBox& box, uint32_t command);
    void conflicts(const recipe::MemoryBox& box, std::vector<uint32_t>& before) const;
    /// Forgets what a write to `box` by `command` covers, but for what `command` itself does.
    void dropCovered(const recipe::MemoryBox& box, uint32_t command);

   private:
    static constexpr unsigned kLevels = 65;
    /// Of spans of [2^(l-1), 2^l) bytes at level l.
    std::array<std::multimap<uint64_t, Record>, kLevels> levels_;
  };
  /// Apart, since reads never follow reads: there may be thousands of a section with constants.
  struct Touched {
    Records reads, writes;
  };
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

}  // namespace hpu::plan
