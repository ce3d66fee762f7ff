// SPDX-License-Identifier: Apache-2.0
// What an opened device is, from the options and the target's description.
#pragma once

#include <string>

#include "hpu/device.h"
#include "hpu/status.h"

namespace hpu::driver {

/// Fills in name, slot, sizes and target of device `index`: HBM is options.hbmBytes, else
/// HPU_SIM_HBM_BYTES, else the target's. Errors: kInvalidArgument (sizes, a bad setting).
StatusOr<DeviceInfo> deviceInfo(const std::string& driver, const DeviceOptions& options, int index);

}  // namespace hpu::driver
