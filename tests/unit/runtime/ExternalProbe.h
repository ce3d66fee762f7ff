// SPDX-License-Identifier: Apache-2.0
// ExternalProbe: external work that counts what the runtime does with it and ends when told.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "hpu/external_work.h"

namespace hpu::testing {

/// Any thread may call anything; the functions are set before the work is enqueued.
class ExternalProbe : public ExternalWork {
 public:
  explicit ExternalProbe(std::string name = "external") : name_(std::move(name)) {}

  std::function<void(ExternalTurn&)> onStart;
  std::function<void(std::shared_ptr<ExternalTurn>)> onStartShared;  ///< Keeps the turn itself.
  std::function<void(std::chrono::steady_clock::time_point)> onHelp;
  std::function<void(const Status&)> onCancel;
  std::function<void(const ExternalWork&, int64_t)> onBehind;
  std::function<void()> onSkipped;
  bool keepTurn = true, inEnqueue = false;
  std::atomic<int> starts{0}, skips{0}, cancels{0}, helps{0};
  std::atomic<uint64_t> steps{0};
  bool grows = false;  ///< More can be added, and it is complete when it is sealed.
  std::atomic<int> additions{0}, seals{0};

  std::string name() const override { return name_; }
  void behind(const ExternalWork& before, int64_t earliestPs) override {
    if (onBehind) onBehind(before, earliestPs);
  }
  bool startsInEnqueue() const override { return inEnqueue; }
  void start(std::shared_ptr<ExternalTurn> turn) override {
    ++starts;
    if (onStartShared) return onStartShared(std::move(turn));
    if (onStart) onStart(*turn);
    std::lock_guard lock(mutex_);
    if (keepTurn) turn_ = std::move(turn);
    started_.notify_all();
  }
  void skipped(const Status& why) override {
    if (onSkipped) onSkipped();
    std::lock_guard lock(mutex_);
    why_ = why;
    ++skips;
  }
  void cancel(const Status& why) override {
    ++cancels;
    if (onCancel) onCancel(why);
  }
  void help(std::chrono::steady_clock::time_point until) override {
    ++helps;
    if (onHelp) onHelp(until);
  }
  uint64_t progress() const override { return steps; }
  bool extendable() const override { return grows; }
  bool extended() override {
    ++additions;
    return true;
  }
  void sealed() override {
    ++seals;
    if (auto turn = this->turn()) turn->complete(okStatus(), turn->arrivalPs());
  }

  /// False when it was not started within a minute.
  bool awaitStart() {
    std::unique_lock lock(mutex_);
    return started_.wait_for(lock, std::chrono::minutes(1), [&] { return turn_ != nullptr; });
  }
  std::shared_ptr<ExternalTurn> turn() const {
    std::lock_guard lock(mutex_);
    return turn_;
  }
  void complete(Status status, int64_t endPs) { turn()->complete(std::move(status), endPs); }
  Status why() const {
    std::lock_guard lock(mutex_);
    return why_;
  }

 private:
  const std::string name_;
  mutable std::mutex mutex_;
  std::condition_variable started_;
  std::shared_ptr<ExternalTurn> turn_;
  Status why_;
};

}  // namespace hpu::testing
