// SPDX-License-Identifier: Apache-2.0
// Analysis: what a trace says, as numbers: engine use, overlap, idle causes, lost time, top
// operations, advice. The one thing to know: device sums are integer picoseconds and add up;
// percentages are made when printing.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/trace/TraceData.h"

namespace hpu::tools {

using trace::kNumTracks;
using trace::Picoseconds;
using trace::Terms;
using trace::TraceData;

/// Sums over slices that belong together.
struct WorkSum {
  int64_t count = 0;
  Picoseconds busy = 0, sync = 0;         ///< Running, and waiting before or between.
  Picoseconds shortest = 0, longest = 0;  ///< Busy time of one slice.
  Terms terms{};
  uint64_t hbmBytes = 0, sramBytes = 0;

  void add(Picoseconds busyTime, const Terms& terms, const perfmodel::Bytes& bytes);
  void add(const WorkSum& other);
  /// What most of the time goes to: "compute", "memory", "overhead" or "sync".
  std::string_view boundBy() const;
  /// The largest term that is not ideal time, or kIdeal when there is none.
  perfmodel::Term mainLoss() const;
};

struct TopRow {
  std::string name, engine, node, nodeOp;
  WorkSum work;
};

enum class GroupBy : uint8_t { kOperation, kNode, kKind, kEngine, kBundle };
/// "operation", "node", ... in the order of GroupBy; an unknown name is kOperation.
const std::vector<std::string>& groupByNames();
GroupBy parseGroupBy(const std::string& name);

struct HostRow {
  std::string name, category;
  int64_t count = 0, selfNs = 0, totalNs = 0;
};

struct Analysis {
  // Host.
  int64_t hostNs = 0;  ///< From the first to the end of the last host event.
  size_t hostThreads = 0;
  std::vector<HostRow> host;  ///< By self time.

  // Device. Several devices add up; deviceTime is that of the longest.
  size_t devices = 0;
  int64_t launches = 0;
  Picoseconds deviceTime = 0, deviceTimeSum = 0;
  std::array<WorkSum, kNumTracks> engines;
  std::array<bool, kNumTracks> present{};  ///< The targets have the engine, or it was used.
  /// Time in which exactly the engines of the mask's bits ran (bit = Track); [0] is idle.
  std::array<Picoseconds, 1 << kNumTracks> together{};
  Picoseconds idleInLaunch = 0, idleOutside = 0;
  WorkSum all;
  Picoseconds attributed = 0;  ///< Busy time with a source node or a named runtime cause.

  Picoseconds overlap(trace::Track a, trace::Track b) const;
  Picoseconds exposed(trace::Track a) const { return together[size_t{1} << static_cast<size_t>(a)]; }
  double attributedFraction() const;
};

/// An error when the trace has no device of that index (< 0: all devices).
Status checkDevice(const TraceData& trace, int64_t device);
/// `device` < 0: all devices.
Analysis analyse(const TraceData& trace, int64_t device = -1);
/// Rows by busy time, the longest first.
std::vector<TopRow> topRows(const TraceData& trace, GroupBy groupBy, int64_t device = -1);
/// What to do about it: one sentence each, the most promising first, with the numbers that it rests
/// on.
std::vector<std::string> advise(const TraceData& trace, const Analysis& analysis);

}  // namespace hpu::tools
