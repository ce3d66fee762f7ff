// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/recipe/ProgramCache.h"

#include <utility>

#include "base/Abandon.h"
#include "base/AtFork.h"

namespace hpu::synapse {

ProgramCache::ProgramCache() {
  static constexpr base::ForkHandlers kHandlers = {nullptr, nullptr, childAfterFork};
  base::atFork(base::ForkRank::kProgramCache, kHandlers);
}

void ProgramCache::childAfterFork() {
  ProgramCache& self = get();
  base::abandon(self.mutex_);
  base::abandon(self.entries_);
  base::abandon(self.kept_);
  base::abandon(self.sized_);
  base::abandon(self.refused_);
}

ProgramCache& ProgramCache::get() {
  static auto* cache = new ProgramCache;  // Entry points may run while the process ends.
  return *cache;
}

std::shared_ptr<Program> ProgramCache::find(const base::Hash128& key) {
  std::lock_guard lock(mutex_);
  auto at = entries_.find(key);
  if (at == entries_.end()) return nullptr;
  if (at->second.isKept) kept_.splice(kept_.begin(), kept_, at->second.kept);
  return at->second.program.lock();
}

void ProgramCache::insert(const base::Hash128& key, const std::shared_ptr<Program>& program, bool keep) {
  std::shared_ptr<Program> dropped;  // Ends after the lock.
  std::lock_guard lock(mutex_);
  if (entries_.size() >= kSweepAt)
    std::erase_if(entries_, [](const auto& entry) { return entry.second.program.expired(); });
  Entry& entry = entries_[key];
  entry.program = program;
  if (!keep) return;
  if (entry.isKept) {
    dropped = std::exchange(entry.kept->second, program);
    return;
  }
  kept_.emplace_front(key, program);
  entry.kept = kept_.begin();
  entry.isKept = true;
  if (kept_.size() > kMaxKept) {
    dropped = std::move(kept_.back().second);
    entries_.erase(kept_.back().first);
    kept_.pop_back();
  }
}

std::shared_ptr<SizedProgram> ProgramCache::findSized(const base::Hash128& key) {
  std::lock_guard lock(mutex_);
  auto at = sized_.find(key);
  return at == sized_.end() ? nullptr : at->second;
}

void ProgramCache::insertSized(const base::Hash128& key, std::shared_ptr<SizedProgram> sized) {
  decltype(sized_) dropped;  // Ends after the lock.
  std::lock_guard lock(mutex_);
  if (sized_.size() >= kSweepAt) dropped.swap(sized_);
  sized_.emplace(key, std::move(sized));
}

bool ProgramCache::isRefused(const base::Hash128& key) {
  std::lock_guard lock(mutex_);
  return refused_.count(key) != 0;
}

void ProgramCache::refuse(const base::Hash128& key) {
  std::lock_guard lock(mutex_);
  if (refused_.size() >= kSweepAt) refused_.clear();
  refused_.insert(key);
}

void ProgramCache::clear() {
  std::list<std::pair<base::Hash128, std::shared_ptr<Program>>> dropped;
  decltype(sized_) sized;
  std::lock_guard lock(mutex_);
  entries_.clear();
  refused_.clear();
  sized.swap(sized_);
  dropped.swap(kept_);
}

}  // namespace hpu::synapse
