// SPDX-License-Identifier: Apache-2.0
// Analysis: what a trace says, as numbers: engine use, overlap, idle causes, lost time, top
// operations, advice. The one thing to know: device sums are integer picoseconds and add up;
// percentages are made when printing.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/OptionNames.h"
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
  Picoseconds moved = 0;                  ///< Of busy: data on links, which compute nothing.
  Terms terms{};
  uint64_t hbmBytes = 0, sramBytes = 0;

  void add(trace::Track track, Picoseconds busyTime, const Terms& terms, const perfmodel::Bytes& bytes);
  void add(const WorkSum& other);
  /// What most of the time goes to: "compute", "transfer" (of links), "memory", "overhead" or "sync".
  std::string_view boundBy() const;
  /// The largest term that is not ideal time, or kIdeal when there is none.
  perfmodel::Term mainLoss() const;
};

struct TopRow {
  std::string name, engine, node, nodeOp;
  bool fused =
      false;  ///< Of units of several nodes (of several kinds, by kind): a unit has one time, and no node a share.
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
  std::string notRecorded;  ///< As workNotRecorded(): what follows then lacks the engines' work.
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

/// Why the engines' work is not in the trace, as a sentence; empty when it is (of that device; < 0: of all).
std::string workNotRecorded(const TraceData& trace, int64_t device = -1);
/// The same as an error of a verb that has nothing to say then.
Status requireWork(const TraceData& trace, int64_t device);
/// An error when the trace has no device of that index (< 0: all devices).
Status checkDevice(const TraceData& trace, int64_t device);
/// `device` < 0: all devices.
Analysis analyse(const TraceData& trace, int64_t device = -1);
/// The names of a unit's nodes, or their kinds (each once), joined with '+'.
std::string unitName(const TraceData& trace, const std::vector<trace::TracedNode>& nodes);
std::string unitKind(const TraceData& trace, const std::vector<trace::TracedNode>& nodes);

/// Rows by busy time, the longest first. By node and by kind, a fused unit is one row with all of its names: no trace
/// says which part of a unit's time is whose.
std::vector<TopRow> topRows(const TraceData& trace, GroupBy groupBy, int64_t device = -1);
/// What to do about it, in the reader's words: one sentence each, the most promising first, with the numbers that it
/// rests on.
std::vector<std::string> advise(const TraceData& trace, const Analysis& analysis,
                                base::Reader reader = base::Reader::kCommandLine);

}  // namespace hpu::tools
