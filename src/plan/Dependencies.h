// SPDX-License-Identifier: Apache-2.0
// Which commands must be ordered, and the waits that order those of several queues: a pure library without MLIR.
// The one thing to know: queue q has signal q, counted up by each of its commands, so a wait for
// {q, k + 1} means "command k of queue q is done".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "recipe/CommandAccess.h"
#include "recipe/Recipe.h"

namespace hpu::plan {

/// Finds the commands that a command has to follow: those before it that touch the same bytes, one of the two writing.
class ConflictFinder {
 public:
  /// Commands are numbered in program order. Of what a command's predecessors follow themselves, not all is repeated.
  std::vector<uint32_t> add(uint32_t command, const std::vector<recipe::Access>& accesses);
  /// The same, appended to `before`.
  void add(uint32_t command, const std::vector<recipe::Access>& accesses, std::vector<uint32_t>& before);

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
    /// Appends to `before`, the same command perhaps more than once; what is there up to `first` is others'.
    void conflicts(const recipe::MemoryBox& box, std::vector<uint32_t>& before, size_t first) const;
    /// Forgets what a write to `box` by `command` covers, but for what `command` itself does.
    void dropCovered(const recipe::MemoryBox& box, uint32_t command);

   private:
    static constexpr unsigned kLevels = 65;
    /// Where a record begins and where it is, so that little is moved.
    struct Entry {
      uint64_t begin = 0;
      uint32_t record = 0;
    };
    /// Of spans of [2^(l-1), 2^l) bytes at level l, by where they begin.
    std::array<std::vector<Entry>, kLevels> levels_;
    uint64_t filled_ = 0;  ///< Bit l - 1: level l has had entries. No span is 0.
    std::vector<Record> records_;
    std::vector<uint32_t> unused_;  ///< Records that were dropped.
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

  uint32_t commands(unsigned queue) const { return static_cast<uint32_t>(clocks_[queue].size() / queues_); }

 private:
  /// What is known done at the end of the command that is the `count`th of its queue.
  const uint32_t* clock(unsigned queue, uint32_t count) const {
    return clocks_[queue].data() + size_t{count - 1} * queues_;
  }

  unsigned queues_;
  std::vector<std::vector<uint32_t>> clocks_;  ///< By queue: a clock for each command, one behind the other.
};

}  // namespace hpu::plan
