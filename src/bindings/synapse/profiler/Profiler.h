// SPDX-License-Identifier: Apache-2.0
// Profiler: the recording that synProfilerStart begins and synProfilerStop ends.
// The one thing to know: the process has one recording: it begins with the first start of any device or of the
// host, ends with the last stop, and is kept until the next begins.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "bindings/synapse/api/Result.h"
#include "habanalabs/synapse_api.h"
#include "hpu/trace.h"

namespace hpu::synapse {

/// Any thread may call anything.
class Profiler {
 public:
  static Profiler& get();

  /// `device`: an index of hpu::Device; -1 with synTraceHost.
  Result start(synTraceType type, int32_t device);
  Result stop(synTraceType type, int32_t device);
  /// The last recording. Errors: synUnavailable (none), synResourceBadUsage (one is going on).
  Result recording(std::shared_ptr<const trace::Recording>* recording) const;
  /// Ends what is going on, and forgets it.
  void reset();

 private:
  Profiler();
  static void prepareFork();
  static void parentAfterFork();
  /// The child has recorded nothing.
  static void childAfterFork();
  mutable std::mutex mutex_;  // Guards both.
  std::set<std::pair<synTraceType, int32_t>> going_;
  std::shared_ptr<const trace::Recording> last_;
};

}  // namespace hpu::synapse
