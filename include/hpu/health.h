// SPDX-License-Identifier: Apache-2.0
// For who builds on devices what they do not do themselves (collectives, storage): telling a device's health hook.
// The one thing to know: the hook is called on the calling thread; call it without locks.
//
//   hpu::reportHealth(device, {hpu::HealthEvent::Kind::kRankLost, communicator, status});
#pragma once

#include "hpu/device.h"
#include "hpu/status.h"

namespace hpu {

/// Calls the hook of Device::setHealthHook, if there is one; events whose status is ok, and empty devices, are ignored.
HPU_API void reportHealth(const Device& device, const HealthEvent& event) noexcept;

}  // namespace hpu
