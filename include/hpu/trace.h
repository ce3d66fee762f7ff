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

#include <cstdint>
#include <string>

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
/// kFailedPrecondition when already recording; kInvalidArgument for maxEvents < 1; what opening
/// `streamTo` says.
HPU_API Status start(const Options& options = {});
/// Stops and writes the file: our own format, or Chrome JSON when the path ends in ".json", or Perfetto
/// protobuf when it ends in ".pftrace". With Options::streamTo the path may be empty or the same: the file is
/// then completed in place. Errors: kFailedPrecondition when not recording; when the file cannot be written,
/// recording goes on, so that another path can be tried.
HPU_API Status stop(const std::string& path);
/// Stops and forgets (a file begun by Options::streamTo stays as it is).
HPU_API void cancel();
HPU_API bool active();

}  // namespace hpu::trace
