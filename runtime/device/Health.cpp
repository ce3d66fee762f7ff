// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/Health.h"

#include <utility>

#include "base/ProgramCall.h"
#include "hpu/health.h"
#include "runtime/device/DeviceState.h"
#include "runtime/driver/Callback.h"

namespace hpu {

void Health::setHook(std::function<void(const HealthEvent&)> hook) {
  auto now = hook ? std::make_shared<const Hook>(std::move(hook)) : nullptr;
  std::lock_guard lock(mutex_);
  any_.store(now != nullptr, std::memory_order_relaxed);
  hook_.swap(now);  // The one before is destroyed after the lock.
}

void Health::tell(HealthEvent::Kind kind, const std::string& source, const Status& status) const noexcept {
  if (status.ok() || !any_.load(std::memory_order_relaxed)) return;
  base::callProgramOrLog("the health hook", [&] {
    std::shared_ptr<const Hook> hook;
    {
      std::lock_guard lock(mutex_);
      hook = hook_;
    }
    if (!hook) return;
    CallbackScope scope(Callback::kHealthHook);
    (*hook)({kind, source, status});
    hook.reset();
  });
}

void reportHealth(const Device& device, const HealthEvent& event) noexcept {
  if (device.valid() && device.state()->checkProcess().ok())
    device.state()->health().tell(event.kind, event.source, event.status);
}

}  // namespace hpu
