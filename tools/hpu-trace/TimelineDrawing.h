// SPDX-License-Identifier: Apache-2.0
// timelineSvg: the timelines of devices as a picture: a row an engine, every slice a box, a colour an operation.
// The one thing to know: only device times are drawn, from the window's begin on, so the picture of a launch is the
// same in every run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/trace/TraceData.h"
#include "tools/hpu-trace/Timeline.h"

namespace hpu::tools {

struct DeviceTimeline {
  const trace::TracedDevice* device = nullptr;
  Timeline timeline;
};

/// The first `limit` operations of each device (at most 12) have a colour and a line in the legend.
std::string timelineSvg(const trace::TraceData& trace, const std::vector<DeviceTimeline>& devices, int64_t limit);

}  // namespace hpu::tools
