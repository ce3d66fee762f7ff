// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/profiler/Profiler.h"

#include "base/AtFork.h"

namespace hpu::synapse {

Profiler::Profiler() {
  static constexpr base::ForkHandlers kHandlers = {prepareFork, parentAfterFork, childAfterFork};
  base::atFork(base::ForkRank::kProfiler, kHandlers);
}

void Profiler::prepareFork() {
  get().mutex_.lock();
}

void Profiler::parentAfterFork() {
  get().mutex_.unlock();
}

void Profiler::childAfterFork() {
  get().going_.clear();
  get().last_ = nullptr;
  get().mutex_.unlock();
}

Profiler& Profiler::get() {
  static auto* profiler = new Profiler;
  return *profiler;
}

Result Profiler::start(synTraceType type, int32_t device) {
  std::lock_guard lock(mutex_);
  if (going_.count({type, device})) return {synResourceBadUsage, "this trace is being recorded already"};
  if (going_.empty()) {
    // Refused when somebody else records: HPU_TRACE, or the program by the C++ API.
    if (Status status = trace::start(); !status.ok()) return status;
    last_ = nullptr;
  }
  going_.insert({type, device});
  return {};
}

Result Profiler::stop(synTraceType type, int32_t device) {
  std::lock_guard lock(mutex_);
  if (!going_.count({type, device}))
    return {synResourceBadUsage,
            "this trace is not being recorded; call synProfilerStart with the same type and "
            "device first"};
  if (going_.size() > 1) {
    going_.erase({type, device});
    return {};
  }
  StatusOr<trace::Recording> recording = trace::stop();
  going_.clear();
  if (!recording.ok()) return recording.status();
  last_ = std::make_shared<const trace::Recording>(std::move(*recording));
  return {};
}

Result Profiler::recording(std::shared_ptr<const trace::Recording>* recording) const {
  std::lock_guard lock(mutex_);
  if (!going_.empty()) return {synResourceBadUsage, "a trace is being recorded; call synProfilerStop first"};
  if (!last_) return {synUnavailable, "nothing was recorded; call synProfilerStart and synProfilerStop first"};
  *recording = last_;
  return {};
}

void Profiler::reset() {
  std::lock_guard lock(mutex_);
  if (!going_.empty()) trace::cancel();
  going_.clear();
  last_ = nullptr;
}

}  // namespace hpu::synapse
