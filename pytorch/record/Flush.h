// SPDX-License-Identifier: Apache-2.0
// Running what was recorded; without aten, for those who wait for streams.
#pragma once

#include <c10/core/Device.h>

#include "hpu_torch/api.h"

namespace hpu_torch {

/// Runs what is pending on a device (-1: on all). `why` is counted. Throws what goes wrong in compilation or launch.
HPU_TORCH_API void flush(c10::DeviceIndex device, const char* why);

}  // namespace hpu_torch
