// SPDX-License-Identifier: Apache-2.0
// The null driver: accepts everything, computes nothing, and orders, times and accounts like the
// simulated device.
// The one thing to know: copies to the host leave the host's bytes as they are.
#pragma once

#include <memory>

#include "runtime/driver/Driver.h"

namespace hpu::driver {

/// Errors: kInvalidArgument (a bad setting).
StatusOr<std::shared_ptr<DriverDevice>> openNullDevice(const DeviceOptions& options);

}  // namespace hpu::driver
