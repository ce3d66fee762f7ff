// SPDX-License-Identifier: Apache-2.0
#include "collectives/tuner/Tuner.h"

#include <unistd.h>

#include <algorithm>
#include <list>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/AtFork.h"
#include "base/FloatEnvironment.h"
#include "base/Hash.h"
#include "base/StatusMacros.h"
#include "collectives/scaleout/PlanClock.h"

namespace hpu::collectives {
namespace {

struct ProblemHash {
  size_t operator()(const Problem& p) const {
    int64_t fields[] = {
        static_cast<int64_t>(p.collective), p.ranks, p.count, p.root, p.destination, p.elementBytes, p.partialBytes};
    return base::hash64(fields, sizeof fields);
  }
};

}  // namespace

// Choices by problem. What is being made for one problem does not hold up another one.
class Tuner::Cache {
 public:
  using Result = StatusOr<std::shared_ptr<const Choice>>;

  template <typename Make>
  Result get(const Problem& problem, const Make& make) {
    std::shared_ptr<Entry> entry = find(problem);
    bool made = false;
    std::call_once(entry->once, [&] {
      StatusOr<Choice> choice = make();
      if (choice.ok())
        entry->result = std::make_shared<const Choice>(std::move(choice).value());
      else
        entry->result = choice.status();
      made = true;
    });
    if (made && entry->result.ok()) {
      std::lock_guard lock(mutex_);
      entry->kept = *entry->result;
      count();
      shrink(entry.get());
    }
    return entry->result;
  }

 private:
  // Together some 100 MB at most.
  static constexpr size_t kMostEntries = 4096, kMostSteps = size_t{1} << 19;
  struct Entry {
    Problem problem;
    std::once_flag once;
    Result result = internalError("a choice that was not made");
    // Guarded by mutex_.
    std::shared_ptr<const Choice> kept;  // When it is made.
    size_t steps = 0;
  };

  // Timers of plans among nodes grow when they are first asked for what they do not know.
  void count() {
    steps_ = 0;
    for (const std::shared_ptr<Entry>& entry : recent_) {
      if (!entry->kept) continue;
      entry->steps = std::max(entry->kept->schedule->steps.size(), entry->kept->timer->steps());
      steps_ += entry->steps;
    }
  }

  std::shared_ptr<Entry> find(const Problem& problem) {
    std::lock_guard lock(mutex_);
    if (auto known = byProblem_.find(problem); known != byProblem_.end()) {
      recent_.splice(recent_.begin(), recent_, known->second);
      return *known->second;
    }
    auto entry = std::make_shared<Entry>();
    entry->problem = problem;
    recent_.push_front(entry);
    byProblem_[problem] = recent_.begin();
    shrink(entry.get());
    return entry;
  }

  void shrink(const Entry* keep) {
    while (recent_.size() > 1 && (recent_.size() > kMostEntries || steps_ > kMostSteps)) {
      std::shared_ptr<Entry> last = recent_.back();
      if (last.get() == keep) return;
      steps_ -= last->steps;
      byProblem_.erase(last->problem);
      recent_.pop_back();
    }
  }

  std::mutex mutex_;  // Guards what follows; not what entries hold.
  std::list<std::shared_ptr<Entry>> recent_;
  std::unordered_map<Problem, std::list<std::shared_ptr<Entry>>::iterator, ProblemHash> byProblem_;
  size_t steps_ = 0;
};

std::shared_ptr<Tuner::Cache> Tuner::sharedCache(const LinkModel& links) {
  // Of models that live for ever. Never destroyed: communicators may be made by statics' destructors.
  // A forked child has its own: of its parent's, choices may be in the middle of being made.
  static auto& caches = *new std::map<std::pair<const LinkModel*, pid_t>, std::weak_ptr<Cache>>;
  std::lock_guard lock(base::processMutex());
  std::weak_ptr<Cache>& slot = caches[{&links, ::getpid()}];
  std::shared_ptr<Cache> cache = slot.lock();
  if (!cache) slot = cache = std::make_shared<Cache>();
  return cache;
}

Tuner::Tuner(const LinkModel& links, TunerTable table) : links_(links), table_(std::move(table)) {
  bool isPlain = table_.rules().empty() && &links == &linkModel(links.target);
  cache_ = isPlain ? sharedCache(links) : std::make_shared<Cache>();
}

Tuner::Tuner(std::shared_ptr<const Cluster> cluster, int32_t rank, TunerTable table)
    : cluster_(std::move(cluster)),
      rank_(rank),
      links_(cluster_->fabric.mesh),
      table_(std::move(table)),
      cache_(std::make_shared<Cache>()) {}

Tuner::~Tuner() = default;

StatusOr<std::shared_ptr<const Choice>> Tuner::choose(const Problem& problem) {
  // On threads of the program; ranks whose threads round differently must still choose alike.
  base::FloatScope floats;
  return cache_->get(problem, [&] {
    const TunerTable::Rule* rule = table_.match(problem, cluster_ != nullptr);
    return cluster_ ? makeChoice(problem, cluster_, rank_, rule) : makeChoice(problem, links_, rule);
  });
}

}  // namespace hpu::collectives
