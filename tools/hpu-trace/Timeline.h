// SPDX-License-Identifier: Apache-2.0
// Timeline: a device's engines over a window of its clock, cut into columns.
// The one thing to know: sums are integer picoseconds of the window, so the columns of a lane add up
// to its busy time there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/trace/TraceData.h"

namespace hpu::tools {

using trace::Picoseconds;

struct TimelineWindow {
  Picoseconds from = 0, to = 0;  ///< [from, to), not empty.
  int columns = 100;             ///< At most; fewer when there are fewer picoseconds.
};

/// One operation on one engine, as far as it lies in the window.
struct TimelineOp {
  trace::StringId name = 0;
  trace::Track track = trace::Track::kMme;
  const std::vector<trace::TracedNode>* nodes = nullptr;  ///< Null: not of a program.
  Picoseconds busy = 0;
  int64_t slices = 0;
};

struct TimelineCell {
  Picoseconds busy = 0;
  Picoseconds waiting = 0;  ///< The engine's next slice waited for a signal or a memory.
  int op = -1;              ///< Of Timeline::ops, the one with most of the busy time.
};

struct TimelineLane {
  trace::Track track = trace::Track::kMme;
  std::vector<TimelineCell> cells;
  Picoseconds busy = 0, waiting = 0;
  int64_t slices = 0;
};

struct Timeline {
  TimelineWindow window;
  Picoseconds column = 1;           ///< Length of one; the last may reach beyond the window.
  std::vector<TimelineLane> lanes;  ///< Engines that the target has or that were used.
  std::vector<TimelineOp> ops;      ///< By busy time, the longest first.
  /// Per column: the launch that began last of those that run in it, as index + 1; 0: none.
  std::vector<uint32_t> launches;
};

/// From the first to the end of the last thing that the device did; empty when it did nothing.
TimelineWindow wholeDevice(const trace::TracedDevice& device);
Timeline timelineOf(const trace::TracedDevice& device, const TimelineWindow& window);

/// One character a column. A to Z: at least half of it is busy, most of that with the operation of
/// that place in `ops` (of which the first `letters` have one); a to z: less than half; '#' and '+':
/// an operation without a letter; '-': waiting; '.': a launch runs, the engine has nothing to do.
std::string drawLane(const Timeline& timeline, const TimelineLane& lane, int letters);
/// '=' and '~' by turns for the launches that run.
std::string drawLaunches(const Timeline& timeline);

}  // namespace hpu::tools
