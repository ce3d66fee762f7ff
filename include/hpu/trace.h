// SPDX-License-Identifier: Apache-2.0
// Trace: records what host threads and device engines did, for hpu-trace and the Perfetto viewer.
// The one thing to know: host time and device time are two clocks and stay two; the device tracks of two
// equal runs are the same bytes.
//
//   HPU_RETURN_IF_ERROR(hpu::trace::start());
//   ... launch and synchronize ...
//   HPU_RETURN_IF_ERROR(hpu::trace::stop("run.hputrace"));
//
// Without a change to the program: HPU_TRACE=run.hputrace in its environment, or 'hpu-trace record'.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hpu/status.h"

namespace hpu::trace {

/// How much of the device's work is recorded: launches and copies; operations; every slice of them.
enum class Level : uint8_t { kApi = 0, kNode = 1, kSlice = 2 };

struct Options {
  Level level = Level::kSlice;
  int64_t maxEvents = 1 << 22;  ///< Beyond it events are dropped, counted and reported.
  /// Write the .hputrace file while recording, so that a process that is killed leaves what it had recorded
  /// (all complete chunks are readable). Empty: everything stays in memory until stop.
  std::string streamTo;
  /// With streamTo: write after every launch too, so that a process that is killed loses little more than what
  /// it was doing. Costs a write a launch.
  bool eachLaunch = false;
};

/// Starts recording in this process (a process forked from it does not record). Errors:
/// kFailedPrecondition when already recording; kInvalidArgument for maxEvents < 1; kAlreadyExists
/// when another process is recording to `streamTo`; what opening it says.
HPU_API Status start(const Options& options, size_t optionsBytes);
inline Status start(const Options& options = {}) {
  return start(options, sizeof(Options));
}
/// Stops and writes the file: our own format, or Chrome JSON when the path ends in ".json", or Perfetto
/// protobuf when it ends in ".pftrace". With Options::streamTo the path may be empty or the same: the file is
/// then completed in place. Errors: kFailedPrecondition when not recording; when the file cannot be written,
/// recording goes on, so that another path can be tried.
HPU_API Status stop(const std::string& path);

/// The host clock of traces in nanoseconds.
HPU_API int64_t nowNs();
/// A named value of an event.
struct Argument {
  std::string key, text;
};
/// A span of the program's own, [startNs, endNs] on nowNs(): on the calling thread's track, or on one of the
/// program's own with that name. Nothing happens when not recording. Any thread.
HPU_API void addSpan(std::string_view name, int64_t startNs, int64_t endNs, const std::vector<Argument>& arguments = {},
                     std::string_view track = {});

/// One event of a recording, as plain data.
struct Event {
  enum class Kind : uint8_t { kSpan, kCounter };
  Kind kind = Kind::kSpan;
  int32_t device = -1;  ///< Whose device clock the times are on; -1: the host's.
  uint32_t track = 0;   ///< See TrackName.
  std::string name, category;
  int64_t startPs = 0, durationPs = 0;  ///< Picoseconds since the recording's start, or of the device clock.
  uint64_t launch = 0;                  ///< Of a device: counts the submitted work.
  uint32_t queue = 0;                   ///< Of a device: the stream's queue.
  std::string program;                  ///< Of a device: the recipe, when it is work of one.
  int64_t value = 0;                    ///< Of a counter.
  std::vector<Argument> arguments;
};
/// A thread of the host, or an engine or a queue of a device.
struct TrackName {
  int32_t device = -1;
  uint32_t track = 0;
  std::string process, name;  ///< "device 0 (gaudi2)", "mme".
};
/// A recording that was stopped without a file.
struct Recording {
  int64_t startNs = 0;  ///< On nowNs().
  int64_t dropped = 0;
  std::vector<uint8_t> bytes;  ///< As an .hputrace file has them.
};
/// Stops and keeps what was recorded in memory. Errors: kFailedPrecondition (not recording, or to a file).
HPU_API StatusOr<Recording> stop();
/// Writes the file that stop(path) would have written.
HPU_API Status save(const Recording& recording, const std::string& path);
/// The events, the host's and then each device's, and the tracks that they name. Errors: kDataLoss.
HPU_API StatusOr<std::vector<Event>> events(const Recording& recording);
HPU_API StatusOr<std::vector<TrackName>> trackNames(const Recording& recording);

/// Stops and forgets (a file begun by Options::streamTo stays as it is).
HPU_API void cancel();
HPU_API bool active();

}  // namespace hpu::trace
