// SPDX-License-Identifier: Apache-2.0
// Trace: records what host threads and device engines did, for hpu-trace and the Perfetto viewer.
// The one thing to know: host time and device time are two clocks and stay two; the device tracks of two
// equal runs are the same bytes.
//
//   HPU_RETURN_IF_ERROR(hpu::trace::start());
//   ... launch and synchronize ...
//   HPU_RETURN_IF_ERROR(hpu::trace::stop("run.hputrace"));
#pragma once

#include <cstdint>
#include <string>

#include "hpu/status.h"

namespace hpu::trace {

enum class Level : uint8_t { kApi = 0, kNode = 1, kSlice = 2 };

struct Options {
  Level level = Level::kSlice;
  int64_t maxEvents = 1 << 22;  ///< Beyond it events are dropped, counted and reported.
};

/// Starts recording in this process. kFailedPrecondition when already recording.
HPU_API Status start(const Options& options = {});
/// Stops and writes the file: our own format, or Chrome JSON when the path ends in ".json", or Perfetto
/// protobuf when it ends in ".pftrace".
HPU_API Status stop(const std::string& path);
/// Stops and forgets.
HPU_API void cancel();
HPU_API bool active();

}  // namespace hpu::trace
