// SPDX-License-Identifier: Apache-2.0
// A trace in memory: what the reader gives and the exporters, the tool and tests work on.
// The one thing to know: strings are ids into TraceData::strings, which view into the file's bytes;
// the ids of all events, programs and launches are in range once read() has returned.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "perfmodel/EngineCost.h"
#include "runtime/trace/Recorder.h"

namespace hpu::trace {

using perfmodel::Picoseconds;
using Terms = std::array<Picoseconds, perfmodel::kNumTerms>;
using StringId = uint32_t;

struct HostArg {
  StringId key = 0;
  bool isText = false;
  int64_t value = 0;  ///< A StringId when isText.
};

/// Times in nanoseconds since the session's start.
struct HostEvent {
  StringId name = 0, category = 0;
  int64_t start = 0, end = 0;
  uint32_t firstArg = 0, numArgs = 0;  ///< In HostThread::args.
};

struct CounterSample {
  StringId name = 0;
  int64_t time = 0;  ///< Nanoseconds since the session's start, or device picoseconds.
  int64_t value = 0;
};

struct ClockEdgeEvent {
  uint32_t device = 0;
  uint64_t launch = 0;
  ClockEdge edge = ClockEdge::kSubmit;
  int64_t hostTime = 0;
  Picoseconds deviceTime = 0;
};

struct HostThread {
  uint32_t index = 0;
  uint32_t process = 0;  ///< In TraceData::processes.
  int64_t tid = 0;
  StringId name = 0;
  std::vector<HostEvent> events;  ///< In the order in which they ended.
  std::vector<HostArg> args;
  std::vector<CounterSample> counters;
  std::vector<ClockEdgeEvent> edges;
};

struct TracedNode {
  StringId name = 0, op = 0;
};
struct TracedOp {
  uint8_t engine = 0;
  StringId name = 0;
  std::vector<TracedNode> nodes;
};
/// A command of a program and what it costs alone.
struct TracedCommand {
  uint32_t op = 0;
  uint32_t queue = 0;
  uint32_t bundle = 0;  ///< Index + 1; 0: none.
  uint32_t slice = 0;
  perfmodel::Bytes bytes;
  Terms terms{};
  Picoseconds alone = 0;  ///< Sum of terms.
};
struct TracedProgram {
  StringId name = 0;
  std::vector<TracedOp> ops;
  std::vector<StringId> bundles;
  std::vector<uint8_t> queueEngines;
  std::vector<TracedCommand> commands;  ///< Queue by queue.
};

struct LaunchEvent {
  uint64_t launch = 0;
  uint32_t queue = 0;
  StringId queueName = 0, label = 0;
  uint32_t program = 0;  ///< Index + 1; 0: none.
  Picoseconds start = 0, end = 0;
};
struct CommandEvent {
  uint32_t launch = 0;   ///< Index into TracedDevice::launches.
  uint32_t command = 0;  ///< Index into the program's commands.
  Picoseconds ready = 0, start = 0, end = 0;
};
struct SpanEvent {
  Track track = Track::kDma;
  uint32_t queue = 0;
  StringId queueName = 0;
  uint64_t launch = 0;
  StringId name = 0, category = 0;
  uint32_t program = 0;  ///< Index + 1; 0: not of a program.
  uint32_t op = 0;
  Picoseconds ready = 0, start = 0, end = 0;
  perfmodel::Bytes bytes;
  Terms terms{};
};

struct TracedDevice {
  uint32_t index = 0;
  uint32_t process = 0;     ///< In TraceData::processes.
  uint32_t indexThere = 0;  ///< What that process called it; differs in merged traces only.
  Target target = Target::kGaudi2;
  StringId name = 0, clockProfile = 0;
  std::vector<TracedProgram> programs;
  std::vector<LaunchEvent> launches;
  std::vector<CommandEvent> commands;
  std::vector<SpanEvent> spans;
  std::vector<SpanEvent> details;  ///< Of the network's track.
  std::vector<CounterSample> counters;

  const TracedProgram& programOf(const CommandEvent& e) const { return programs[launches[e.launch].program - 1]; }
  const TracedCommand& commandOf(const CommandEvent& e) const { return programOf(e).commands[e.command]; }
  const TracedOp& opOf(const CommandEvent& e) const { return programOf(e).ops[commandOf(e).op]; }
  Track trackOf(const CommandEvent& e) const {
    return static_cast<Track>(programOf(e).queueEngines[commandOf(e).queue]);
  }
  /// The command's own terms, its waiting as sync and the memories' contention as memory: the sum
  /// is end - ready.
  Terms termsOf(const CommandEvent& e) const;
};

/// The process that recorded. A merged trace has several; host times of all count from TraceData::startNs.
struct TracedProcess {
  uint64_t pid = 0;
  std::string_view producer, name;
  std::string_view host;  ///< The boot id: equal ones share the host clock. Empty: not known.
  Level level = Level::kSlice;
  int64_t dropped = 0;
  bool stopped = false;
  int64_t startNs = 0, endNs = 0;  ///< Since TraceData::startNs.
  int64_t clockNs = 0;             ///< Its start on its own machine's host clock.
  int64_t wallNs = 0;              ///< The wall clock at its start, since 1970. 0: not known.
};

struct TraceData {
  std::vector<std::string_view> strings;  ///< [0] is "".
  std::string_view producer;
  uint64_t pid = 0;
  Level level = Level::kSlice;
  int64_t maxEvents = 0;
  int64_t startNs = 0;  ///< Of the session, on the host clock; host times below count from it.
  int64_t endNs = 0;
  bool stopped = false;         ///< The recording (each process's) was ended properly.
  int64_t dropped = 0;          ///< Events that found no room; when not stopped, at least so many are missing.
  uint64_t truncatedBytes = 0;  ///< At the end of the file: an incomplete chunk.
  uint64_t fileBytes = 0, chunks = 0;

  std::vector<TracedProcess> processes;  ///< At least one.
  std::vector<HostThread> threads;
  std::vector<TracedDevice> devices;
  const uint8_t* bytes = nullptr;     ///< The whole file.
  std::shared_ptr<const void> owner;  ///< Keeps the file's bytes alive.

  std::string_view text(StringId id) const { return strings[id]; }
  int64_t numEvents() const;
};

}  // namespace hpu::trace
