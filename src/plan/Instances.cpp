// SPDX-License-Identifier: Apache-2.0
// Instances of similar sizes (Instantiate.h).
#include <algorithm>
#include <bit>
#include <exception>
#include <optional>
#include <utility>

#include "base/StatusMacros.h"
#include "plan/InstancePlan.h"
#include "plan/Instantiate.h"

namespace hpu::plan {

using recipe::Program;

int64_t bucketEnd(int64_t size) {
  constexpr int64_t kSteps = 4;
  if (size <= kSteps) return size;
  // Steps of less than four save no device time that is worth a plan: a sequence that grows from nothing would wait for
  // one with every other token.
  const auto octave = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(size - 1)));
  const int64_t step = std::max(octave / kSteps, int64_t{4});
  return (size + step - 1) / step * step;
}

/// Instances that are not in use any more, for the next ones: to set the numbers of one is a fraction of what a copy
/// takes, and one of another plan has at least its memory.
struct Instances::Spares {
  static constexpr size_t kMost = 4;

  Spares() { spares.reserve(kMost + 1); }  // Giving one back cannot fail.

  std::unique_ptr<LikeInstance> take(const std::shared_ptr<const InstancePlan>& plan) {
    std::lock_guard lock(mutex);
    if (spares.empty()) return std::make_unique<LikeInstance>();
    auto best = std::find_if(spares.begin(), spares.end(), [&](const auto& spare) { return spare->plan == plan; });
    if (best == spares.end()) best = spares.begin();
    std::unique_ptr<LikeInstance> taken = std::move(*best);
    spares.erase(best);
    return taken;
  }
  void give(std::unique_ptr<LikeInstance> spare) {
    std::unique_ptr<LikeInstance> dropped;  // Destroyed after the lock is gone.
    std::lock_guard lock(mutex);
    spares.push_back(std::move(spare));
    if (spares.size() <= kMost) return;
    dropped = std::move(spares.front());
    spares.erase(spares.begin());
  }

  std::mutex mutex;
  std::vector<std::unique_ptr<LikeInstance>> spares;  // Guarded by mutex; given last last.
};

Instances::Instances(std::shared_ptr<const Program> program, const arch::TargetDesc& target)
    : program_(std::move(program)), target_(target), spares_(std::make_shared<Spares>()) {}
Instances::~Instances() = default;

Instances::Stats Instances::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

std::optional<std::shared_ptr<const InstancePlan>> Instances::find(const Sizes& key) {
  std::lock_guard lock(mutex_);
  return findLocked(key);
}

std::optional<std::shared_ptr<const InstancePlan>> Instances::findLocked(const Sizes& key) {
  for (auto it = plans_.begin(); it != plans_.end(); ++it) {
    if (it->first != key) continue;
    plans_.splice(plans_.begin(), plans_, it);
    return it->second;
  }
  return std::nullopt;
}

void Instances::keep(const Sizes& key, std::shared_ptr<const InstancePlan> plan) {
  std::lock_guard lock(mutex_);
  plans_.remove_if([&](const auto& known) { return known.first == key; });
  plans_.emplace_front(key, std::move(plan));
  if (plans_.size() > kMostPlans) plans_.pop_back();
}

/// Null when the commands of the plan's own instance do not serve these sizes, whatever the reason: what is wrong with
/// them is found by who makes the commands anew.
std::shared_ptr<const Program> Instances::instanceLike(const std::shared_ptr<const InstancePlan>& plan,
                                                       const Sizes& sizes) const {
  if (!plan->waits) return nullptr;
  std::shared_ptr<LikeInstance> like(spares_->take(plan).release(),
                                     [from = std::weak_ptr(spares_)](LikeInstance* unused) {
                                       std::unique_ptr<LikeInstance> owned(unused);
                                       if (const auto spares = from.lock()) spares->give(std::move(owned));
                                     });
  auto made = makeLike(plan, *program_, sizes, target_, *like);
  if (!made.ok() || !*made) return nullptr;
  const Program* program = &like->program;
  return {std::move(like), program};
}

/// Of the bucket.
Sizes Instances::endOf(const Sizes& sizes) const {
  Sizes end;
  for (size_t s = 0; s < sizes.size(); ++s)
    end.push_back(std::min(bucketEnd(sizes[s]), program_->dynamic->symbols[s].max));
  return end;
}

/// Null: there can be none, which is kept as well. A thread that comes second waits for the first.
std::shared_ptr<const InstancePlan> Instances::planFor(const Sizes& end) {
  {
    std::unique_lock lock(mutex_);
    planned_.wait(lock, [&] { return std::find(planning_.begin(), planning_.end(), end) == planning_.end(); });
    if (const auto known = findLocked(end)) return *known;
    planning_.push_back(end);
  }
  struct Done {
    ~Done() {
      {
        std::lock_guard lock(self.mutex_);
        self.planning_.erase(std::find(self.planning_.begin(), self.planning_.end(), end));
      }
      self.planned_.notify_all();
    }
    Instances& self;
    const Sizes& end;
  } done{*this, end};
  std::shared_ptr<const InstancePlan> plan;
  if (!makePlanned(*program_, end, target_, plan).ok()) plan = nullptr;
  keep(end, plan);
  std::lock_guard lock(mutex_);
  ++stats_.buckets;
  return plan;
}

void Instances::prepare(const Sizes& sizes) noexcept try {
  if (!program_->dynamic || !checkSizes(*program_, sizes).ok()) return;
  if (const Sizes end = endOf(sizes); !find(end)) planFor(end);
} catch (const std::exception&) {  // No memory, or more elements than a vector can have: the launch will say so.
}

StatusOr<std::shared_ptr<const Program>> Instances::get(const Sizes& sizes) {
  HPU_RETURN_IF_ERROR(checkSizes(*program_, sizes));
  if (!program_->dynamic) return program_;
  const Sizes end = endOf(sizes);
  // Sizes that the plan of their bucket does not serve have one of their own: a bucket may hold sizes of several
  // numbers of slices, and its end is no sizes where guards do not hold.
  for (const Sizes* key : {&sizes, static_cast<const Sizes*>(&end)}) {
    const auto known = find(*key);
    std::shared_ptr<const InstancePlan> plan = known.value_or(nullptr);
    if (!known && key == &end && end != sizes) plan = planFor(end);
    if (!plan) continue;
    if (auto like = instanceLike(plan, sizes)) {
      std::lock_guard lock(mutex_);
      ++stats_.reused;
      ++stats_.alike;
      return like;
    }
    auto made = makeFrom(*plan, *program_, sizes, target_);
    if (!made.ok()) return made.status().withContext(making(*program_, sizes));
    if (!*made) continue;
    std::lock_guard lock(mutex_);
    ++stats_.reused;
    return std::shared_ptr<const Program>(std::move(*made));
  }
  std::shared_ptr<const InstancePlan> own;
  auto made = makePlanned(*program_, sizes, target_, own);
  if (!made.ok()) return made.status().withContext(making(*program_, sizes));
  keep(sizes, own);
  std::lock_guard lock(mutex_);
  ++stats_.planned;
  return std::shared_ptr<const Program>(std::move(*made));
}

}  // namespace hpu::plan
