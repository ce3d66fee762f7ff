// SPDX-License-Identifier: Apache-2.0
// What an opened device is, from the options and the target's description.
#pragma once

#include <string>

#include "hpu/device.h"
#include "hpu/status.h"

namespace hpu::driver {

/// Devices of one simulated node (a Gaudi server has eight).
inline constexpr int kDevicesPerNode = 8;

/// Fills in name, sizes and target: HBM is options.hbmBytes, else HPU_SIM_HBM_BYTES, else the
/// target's. Errors: kNotFound (index outside of the node); kInvalidArgument (sizes, a bad
/// setting).
StatusOr<DeviceInfo> deviceInfo(const std::string& driver, const DeviceOptions& options);

}  // namespace hpu::driver
