// SPDX-License-Identifier: Apache-2.0
// Health: who is told that something is wrong with a device (Device::setHealthHook).
// The one thing to know: tell() runs the program's function, so it is called without locks.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "hpu/device.h"
#include "hpu/status.h"

namespace hpu {

/// Any thread may call anything.
class Health {
 public:
  void setHook(std::function<void(const HealthEvent&)> hook);
  /// What the hook throws goes no further. Without a hook it costs a load.
  void tell(HealthEvent::Kind kind, const std::string& source, const Status& status) const noexcept;

 private:
  using Hook = std::function<void(const HealthEvent&)>;
  std::atomic<bool> any_{false};
  mutable std::mutex mutex_;  // Guards the hook.
  std::shared_ptr<const Hook> hook_;
};

}  // namespace hpu
