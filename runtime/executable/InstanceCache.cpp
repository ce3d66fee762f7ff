// SPDX-License-Identifier: Apache-2.0
#include "runtime/executable/InstanceCache.h"

#include <algorithm>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "arch/TargetDesc.h"
#include "base/Cpus.h"
#include "base/Format.h"
#include "base/Settings.h"
#include "base/Spin.h"
#include "base/StatusMacros.h"
#include "recipe/Variants.h"
#include "runtime/device/DeviceState.h"
#include "runtime/trace/Recorder.h"

namespace hpu {
namespace {

uint64_t hashOf(const std::vector<Shape>& shapes) {
  constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio.
  uint64_t hash = shapes.size();
  for (const Shape& shape : shapes) {
    hash = (hash ^ shape.size()) * kFactor;
    for (int64_t size : shape) hash = ((hash >> 32) ^ hash ^ static_cast<uint64_t>(size)) * kFactor;
  }
  return hash;
}

/// With one CPU it would only keep the launch from running.
bool preparesAhead() {
  const auto wanted = settings::getBool(Setting::HPU_PREPARE_AHEAD);
  return base::allowedCpus() > 1 && wanted.ok() && *wanted;
}

/// Where sizes that go from `before` to `sizes`, and on in the same steps, come to the next bucket; null: nowhere.
std::optional<recipe::Sizes> nextBucket(const recipe::Sizes& before, const recipe::Sizes& sizes) {
  std::optional<int64_t> steps;
  for (size_t s = 0; s < sizes.size(); ++s) {
    const int64_t change = sizes[s] - before[s];
    if (change <= 0) continue;
    // From `before` on, to the first step beyond the end of its bucket.
    const int64_t own = (plan::bucketEnd(before[s]) - before[s]) / change + 1;
    steps = std::min(own, steps.value_or(own));
  }
  constexpr int64_t kFarAhead = 4096;  // Nearer to it is soon enough.
  if (!steps || *steps > kFarAhead) return std::nullopt;
  recipe::Sizes next = before;
  for (size_t s = 0; s < sizes.size(); ++s) next[s] += (sizes[s] - before[s]) * *steps;
  return next;
}

}  // namespace

StatusOr<recipe::Sizes> launchSizes(const recipe::Program& program, const std::vector<Shape>& inputs) {
  if (!inputs.empty()) return recipe::solveSizes(program, inputs);
  std::string names;
  for (const recipe::Symbol& symbol : program.dynamic->symbols) names += (names.empty() ? "" : ", ") + symbol.name;
  return invalidArgument(base::strCat("recipe '", program.name, "' has free dimensions (", names,
                                      "): a launch gives the shapes of its ", program.inputs.size(), " inputs"));
}

InstanceCache::InstanceCache(std::shared_ptr<DeviceState> device, std::shared_ptr<Instance> representative,
                             std::shared_ptr<const recipe::Program> program)
    : device_(std::move(device)),
      representative_(std::move(representative)),
      program_(program),
      looksAhead_(preparesAhead()),
      planned_(std::move(program), arch::targetDesc(program_->target)) {
  for (const recipe::Variant& variant : program_->variants)
    variants_.push_back(variant.program->dynamic
                            ? std::make_unique<plan::Instances>(variant.program, arch::targetDesc(program_->target))
                            : nullptr);
  first_.resize(variants_.size());
}

InstanceCache::~InstanceCache() {
  device_->background().drop(this);
}

/// With the mutex held.
std::shared_ptr<Instance> InstanceCache::find(uint64_t hash, const std::vector<Shape>& inputs) {
  for (Entry& entry : entries_)
    if (entry.hash == hash && entry.inputs == inputs) {
      // Who asks for it twice in a row, first for its workspace, uses it once.
      if (entry.lastUse != uses_) entry.isNew = false;
      entry.lastUse = ++uses_;
      return entry.instance;
    }
  return nullptr;
}

StatusOr<std::shared_ptr<Instance>> InstanceCache::make(const std::vector<Shape>& inputs) {
  HPU_ASSIGN(recipe::Sizes sizes, launchSizes(*program_, inputs));
  const std::optional<size_t> variant = recipe::variantFor(*program_, sizes);
  const auto& source = variant ? program_->variants[*variant].program : program_;
  const std::string name = "instantiate " + source->name;
  trace::HostScope scope(name);
  const auto& symbols = program_->dynamic->symbols;
  for (size_t s = 0; s < symbols.size(); ++s) scope.arg(symbols[s].name, sizes[s]);
  std::shared_ptr<const recipe::Program> program = source;
  if (!variant) {
    HPU_ASSIGN(program, planned_.get(sizes));
  } else if (source->dynamic) {  // The same inputs say their values to it (recipe::variantValues).
    HPU_ASSIGN(const recipe::Sizes own, recipe::solveSizes(*source, inputs));
    HPU_ASSIGN(program, variants_[*variant]->get(own));
  }
  // What instances share is the kernels and packed weights of their program; a variant has its own.
  std::shared_ptr<Instance> like = representative_;
  if (variant) {
    auto lock = base::lockSoon(mutex_);
    like = first_[*variant];
  }
  HPU_ASSIGN(auto instance, Instance::load(device_, std::move(program), std::move(sizes), like.get()));
  if (variant && !like && source->dynamic) {
    auto lock = base::lockSoon(mutex_);
    first_[*variant] = instance;
  }
  return instance;
}

StatusOr<std::shared_ptr<Instance>> InstanceCache::get(const std::vector<Shape>& inputs) {
  const uint64_t hash = hashOf(inputs);
  {
    auto lock = base::lockSoon(mutex_);
    if (auto known = find(hash, inputs)) return known;
  }
  HPU_ASSIGN(auto instance, make(inputs));
  if (looksAhead_) planAhead(inputs, instance->sizes());
  Entry dropped;  // Let go after the lock.
  std::lock_guard lock(mutex_);
  if (auto known = find(hash, inputs)) return known;  // Another thread was first.
  const auto wasHere = std::find(known_.begin(), known_.end(), hash);
  const bool isNew = wasHere == known_.end();
  if (!isNew) known_.erase(wasHere);
  const auto news = std::count_if(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.isNew; });
  if (isNew && static_cast<size_t>(news) == kMostNew) {
    dropped = takeOldest(true);
    if (known_.size() == kMostKnown) known_.pop_front();
    known_.push_back(dropped.hash);
  } else if (entries_.size() == kMost) {
    dropped = takeOldest(false);
  }
  entries_.push_back({hash, ++uses_, isNew, inputs, instance});
  return instance;
}

/// Behind the making of an instance. A variant has buckets of its own, which come as they come.
void InstanceCache::planAhead(const std::vector<Shape>& inputs, const recipe::Sizes& sizes) {
  bool isMine = false, isAdded = false;
  try {
    recipe::Sizes ahead;
    {
      auto lock = base::lockSoon(mutex_);
      const auto following = forecast_.next(inputs);
      if (!following || isPlanning_) return;
      const auto then = recipe::solveSizes(*program_, *following);
      const auto next = then.ok() ? nextBucket(sizes, *then) : std::nullopt;
      if (!next || std::find(ahead_.begin(), ahead_.end(), *next) != ahead_.end()) return;
      if (recipe::variantFor(*program_, *next)) return;
      ahead_.push_back(*next);
      if (ahead_.size() > kMostAhead) ahead_.pop_front();
      ahead = *next;
      isPlanning_ = isMine = true;
    }
    isAdded = device_->background().add(this, [this, ahead = std::move(ahead), name = "plan ahead " + program_->name] {
      {
        trace::HostScope scope(name);
        for (size_t s = 0; s < ahead.size(); ++s) scope.arg(program_->dynamic->symbols[s].name, ahead[s]);
        planned_.prepare(ahead);
      }
      auto lock = base::lockSoon(mutex_);
      isPlanning_ = false;
    });
  } catch (const std::bad_alloc&) {  // The launch needs nothing of it.
  }
  if (!isMine || isAdded) return;
  auto lock = base::lockSoon(mutex_);
  isPlanning_ = false;
}

/// With the mutex held: that used longest ago, of the new ones or of all.
InstanceCache::Entry InstanceCache::takeOldest(bool isNew) {
  auto oldest = entries_.end();
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry)
    if ((entry->isNew || !isNew) && (oldest == entries_.end() || entry->lastUse < oldest->lastUse)) oldest = entry;
  Entry taken = std::exchange(*oldest, std::move(entries_.back()));
  entries_.pop_back();
  return taken;
}

}  // namespace hpu
