// SPDX-License-Identifier: Apache-2.0
// Reads a .hputrace file into a TraceData.
// The one thing to know: the input may be anything; a file that ends in the middle of a chunk (its
// process was killed) is read up to there, everything else that is wrong is an error that names the
// chunk and the offset.
#pragma once

#include <memory>
#include <string>

#include "hpu/status.h"
#include "runtime/trace/TraceData.h"

namespace hpu::trace {

/// Errors: as opening the file; kInvalidArgument (not a trace), kFailedPrecondition (of a newer
/// OpenHPU), kDataLoss.
StatusOr<TraceData> readTraceFile(const std::string& path);
/// `owner` keeps the bytes alive; `where` names the source in errors.
StatusOr<TraceData> readTrace(const uint8_t* data, size_t bytes, std::shared_ptr<const void> owner,
                              const std::string& where);

}  // namespace hpu::trace
