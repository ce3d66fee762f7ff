// SPDX-License-Identifier: Apache-2.0
// What the two viewer formats draw, independent of their syntax: device slices with all their
// details. The one thing to know: commands and spans come in one order, the one of the file.
#pragma once

#include <algorithm>
#include <compare>
#include <string>
#include <vector>

#include "runtime/trace/TraceData.h"

namespace hpu::trace {

/// One slice on an engine track.
struct EngineSlice {
  Track track = Track::kMme;
  StringId name = 0, category = 0, program = 0, bundle = 0;
  const std::vector<TracedNode>* nodes = nullptr;  ///< Null: not of a program.
  uint64_t launch = 0;
  uint32_t queue = 0, slice = 0;
  Picoseconds ready = 0, start = 0, end = 0;
  perfmodel::Bytes bytes;
  Terms terms{};
};

inline EngineSlice sliceOf(const TracedDevice& device, const CommandEvent& e) {
  const TracedProgram& program = device.programOf(e);
  const TracedCommand& command = device.commandOf(e);
  const TracedOp& op = device.opOf(e);
  EngineSlice s;
  s.track = device.trackOf(e);
  s.name = op.name;
  s.program = program.name;
  s.bundle = command.bundle ? program.bundles[command.bundle - 1] : 0;
  s.nodes = &op.nodes;
  s.launch = device.launches[e.launch].launch;
  s.queue = device.launches[e.launch].queue;
  s.slice = command.slice;
  s.ready = e.ready, s.start = e.start, s.end = e.end;
  s.bytes = command.bytes;
  s.terms = device.termsOf(e);
  return s;
}

inline EngineSlice sliceOf(const TracedDevice& device, const SpanEvent& e) {
  EngineSlice s;
  s.track = e.track;
  s.name = e.name;
  s.category = e.category;
  if (e.program) {
    s.program = device.programs[e.program - 1].name;
    s.nodes = &device.programs[e.program - 1].ops[e.op].nodes;
  }
  s.launch = e.launch;
  s.queue = e.queue;
  s.ready = e.ready, s.start = e.start, s.end = e.end;
  s.bytes = e.bytes;
  s.terms = e.terms;
  return s;
}

/// Calls visit(EngineSlice) for all commands and spans of the device, by start and then end; with
/// `details` also for what spans consist of.
template <typename Visit>
void forEachSlice(const TracedDevice& device, Visit&& visit, bool details = false) {
  struct Key {
    Picoseconds start, end;
    uint64_t index;
    auto operator<=>(const Key&) const = default;
  };
  std::vector<Key> order;
  order.reserve(device.commands.size() + device.spans.size());
  for (const CommandEvent& e : device.commands) order.push_back({e.start, e.end, order.size()});
  for (const SpanEvent& e : device.spans) order.push_back({e.start, e.end, order.size()});
  if (details)
    for (const SpanEvent& e : device.details) order.push_back({e.start, e.end, order.size()});
  std::sort(order.begin(), order.end());
  const size_t commands = device.commands.size(), spans = device.spans.size();
  for (const Key& key : order) {
    if (key.index < commands)
      visit(sliceOf(device, device.commands[key.index]));
    else if (key.index < commands + spans)
      visit(sliceOf(device, device.spans[key.index - commands]));
    else
      visit(sliceOf(device, device.details[key.index - commands - spans]));
  }
}

/// Slices of the network may overlap, and viewers nest what overlaps in one row: gives each the
/// first row of its track that is free. Slices of engines are always in row 0.
class TrackRows {
 public:
  static constexpr size_t kMaxRows = 45;  ///< What finds none is drawn in the last one.
  /// For slices in the order of forEachSlice.
  size_t rowOf(const EngineSlice& slice) {
    if (slice.track != Track::kNic && slice.track != Track::kNetwork) return 0;
    std::vector<Picoseconds>& ends = ends_[slice.track == Track::kNic ? 0 : 1];
    size_t row = 0;
    while (row < ends.size() && ends[row] > slice.start && row + 1 < kMaxRows) ++row;
    if (row == ends.size()) ends.push_back(slice.end);
    ends[row] = slice.end;
    return row;
  }

 private:
  std::vector<Picoseconds> ends_[2];
};

/// "nic", "nic 2".
inline std::string rowName(Track track, size_t row) {
  return std::string(trackName(track)) + (row > 0 ? " " + std::to_string(row + 1) : "");
}

/// "conv1, bn1": the names of the model's nodes that a slice comes from.
inline std::string nodeNames(const TraceData& trace, const std::vector<TracedNode>* nodes) {
  std::string names;
  for (size_t i = 0; nodes && i < nodes->size(); ++i) {
    if (i) names += ", ";
    names += trace.text((*nodes)[i].name);
  }
  return names;
}

/// "hpu-run 1234": a process of a merged trace.
inline std::string processTitle(const TracedProcess& process) {
  return (process.name.empty() ? "process" : std::string(process.name)) + " " + std::to_string(process.pid);
}

/// "host (wall clock)"; of a merged trace with its process before it.
inline std::string hostTitle(const TraceData& trace, size_t process) {
  std::string owner = trace.processes.size() > 1 ? processTitle(trace.processes[process]) + ", " : std::string();
  return owner + "host (wall clock)";
}

/// "device 0 (gaudi2)"; of a merged trace also whose it is: ", device 0 of hpu-run 1234".
inline std::string deviceTitle(const TraceData& trace, const TracedDevice& device) {
  return "device " + std::to_string(device.index) + " (" + std::string(targetName(device.target)) +
         (trace.text(device.clockProfile).empty() ? "" : ", " + std::string(trace.text(device.clockProfile))) + ")" +
         (trace.processes.size() > 1
              ? ", device " + std::to_string(device.indexThere) + " of " + processTitle(trace.processes[device.process])
              : "");
}

}  // namespace hpu::trace
