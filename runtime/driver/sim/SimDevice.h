// SPDX-License-Identifier: Apache-2.0
// The simulated HPU: it computes the real numbers in host memory and models device time.
// The one thing to know: the two clocks never mix; how fast the host computes changes no device
// time.
#pragma once

#include <memory>

#include "runtime/driver/Driver.h"

namespace hpu::driver {

/// Errors: kNotFound (index), kResourceExhausted (address space), kInvalidArgument (a bad setting).
StatusOr<std::shared_ptr<DriverDevice>> openSimDevice(const DeviceOptions& options);

}  // namespace hpu::driver
