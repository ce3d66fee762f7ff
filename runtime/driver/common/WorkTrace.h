// SPDX-License-Identifier: Apache-2.0
// traceWork: the records that resolved work leaves in the trace.
// The one thing to know: it is called under the clocks' lock, so records come in an order that only the work decides.
#pragma once

#include <string_view>

#include "hpu/device.h"
#include "runtime/driver/clock/TimedWork.h"

namespace hpu::driver {

/// Nothing when no recording is going on.
void traceWork(const DeviceInfo& device, std::string_view clockProfile, const ResolvedWork& work);

}  // namespace hpu::driver
