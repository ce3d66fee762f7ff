// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/sim/Faults.h"

#include "base/StatusMacros.h"
#include "runtime/driver/WorkVisitor.h"

namespace hpu::driver {
namespace {

bool readsMemory(const Work& work) {
  return visitWork(
      work, [](const CopyToHost&) { return true; }, [](const CopyOnDevice&) { return true; },
      [](const CopyMany& copies) { return copies.direction != CopyDirection::kToDevice; },
      [](const Launch&) { return true; }, [](const auto&) { return false; });
}

}  // namespace

void Faults::inject(node::Fault fault, int count) {
  counts_[static_cast<size_t>(fault)] += static_cast<uint64_t>(count);
  switch (fault) {
    case node::Fault::kUncorrectedEcc:
      uncorrected_ += count;
      break;
    case node::Fault::kEndlessCommand:
      endless_ += count;
      break;
    case node::Fault::kFatalEvent:
      fatal_ = true;
      break;
    case node::Fault::kLostHeartbeat:
      silent_ = true;
      break;
    case node::Fault::kCorrectedEcc:
    case node::Fault::kNonFatalEvent:
    case node::Fault::kThermal:
      break;
  }
}

bool Faults::takeOne(std::atomic<int64_t>& pending) {
  int64_t left = pending.load(std::memory_order_relaxed);
  while (left > 0)
    if (pending.compare_exchange_weak(left, left - 1)) return true;
  return false;
}

Status Faults::checkRunning() const {
  if (!fatal_.load(std::memory_order_relaxed)) return okStatus();
  return unavailable("the device has failed (a fatal event was injected); reset it (Device::reset)");
}

Status Faults::check(const Work& work) {
  HPU_RETURN_IF_ERROR(checkRunning());
  if (uncorrected_.load(std::memory_order_relaxed) > 0 && readsMemory(work) && takeOne(uncorrected_))
    return dataLoss("an uncorrected ECC error in device memory (injected); what was read is lost");
  return okStatus();
}

bool Faults::takeEndless() {
  return takeOne(endless_);
}

void Faults::reset() {
  uncorrected_ = 0;
  endless_ = 0;
  fatal_ = false;
  silent_ = false;
}

void Faults::report(node::DeviceStatus& status) const {
  for (int i = 0; i < node::kNumFaults; ++i) status.faults[i] = counts_[i];
  status.lost = fatal_ || silent_;
}

}  // namespace hpu::driver
