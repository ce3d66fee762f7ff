// SPDX-License-Identifier: Apache-2.0
// Programs by the structure of their graph: equal graphs are compiled and loaded once.
// The one thing to know: programs of eager graphs are kept when no recipe uses them any more, the most recently
// used ones; others are found as long as some recipe has them.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "base/Hash.h"
#include "bindings/synapse/recipe/Program.h"

namespace hpu::synapse {

/// Any thread may call anything.
class ProgramCache {
 public:
  static ProgramCache& get();

  std::shared_ptr<Program> find(const base::Hash128& key);
  /// By a structure with its sizes: what is launched of the program that it shares with others; null where that is not
  /// known.
  std::shared_ptr<SizedProgram> findSized(const base::Hash128& key);
  void insertSized(const base::Hash128& key, std::shared_ptr<SizedProgram> sized);
  /// Structures for which there is no program that serves all sizes.
  bool isRefused(const base::Hash128& key);
  void refuse(const base::Hash128& key);
  void insert(const base::Hash128& key, const std::shared_ptr<Program>& program, bool keep);
  void clear();

 private:
  ProgramCache();
  /// In a forked child, whose parent's threads may be using programs: forgets them all without ending any.
  static void childAfterFork();
  struct HashOf {
    size_t operator()(const base::Hash128& key) const { return key.low; }
  };
  struct Entry {
    std::weak_ptr<Program> program;
    std::list<std::pair<base::Hash128, std::shared_ptr<Program>>>::iterator kept;
    bool isKept = false;
  };
  static constexpr size_t kMaxKept = 1024;
  static constexpr size_t kSweepAt = 4096;  ///< Entries at which those without a program go.

  std::mutex mutex_;  // Guards all.
  std::unordered_map<base::Hash128, std::shared_ptr<SizedProgram>, HashOf> sized_;
  std::unordered_set<base::Hash128, HashOf> refused_;
  std::unordered_map<base::Hash128, Entry, HashOf> entries_;
  std::list<std::pair<base::Hash128, std::shared_ptr<Program>>> kept_;  ///< The most recently used first.
};

}  // namespace hpu::synapse
