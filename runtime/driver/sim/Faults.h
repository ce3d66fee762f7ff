// SPDX-License-Identifier: Apache-2.0
// Faults: what was injected into a simulated device, and what it does to the work that comes.
// The one thing to know: an injected fault hits work that begins after it; a reset of the device
// ends every fault, and the counts stay.
#pragma once

#include <atomic>
#include <cstdint>

#include "hpu/node.h"
#include "hpu/status.h"
#include "runtime/driver/Driver.h"

namespace hpu::driver {

/// Any thread may call anything. Work that meets no fault pays for two loads.
class Faults {
 public:
  void inject(node::Fault fault, int count);
  /// What the work fails with before it does anything. Takes one uncorrected error when the work
  /// reads device memory.
  Status check(const Work& work);
  /// What work that runs fails with when it comes to a place where it may end.
  Status checkRunning() const;
  /// True when the launch is not to end.
  bool takeEndless();
  /// The device was reset.
  void reset();
  /// Fills in the counts and `lost`.
  void report(node::DeviceStatus& status) const;

 private:
  static bool takeOne(std::atomic<int64_t>& pending);
  std::atomic<uint64_t> counts_[node::kNumFaults] = {};
  std::atomic<int64_t> uncorrected_{0}, endless_{0};  ///< Injected and not met yet.
  std::atomic<bool> fatal_{false}, silent_{false};
};

}  // namespace hpu::driver
