// SPDX-License-Identifier: Apache-2.0
// Report: hccl-perf's lines: nccl-tests' columns with device time beside wall time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collectives/schedule/Schedule.h"
#include "tools/common/Cli.h"
#include "tools/common/Json.h"
#include "tools/common/Table.h"
#include "tools/hccl-perf/RankRun.h"
#include "tools/hccl-perf/Workload.h"

namespace hpu::tools {

/// What the tuner says of a workload; times of 0 mean that there is nothing to say.
struct Expected {
  double predictedUs = 0, boundUs = 0;
  std::string algorithm, reason;
  std::shared_ptr<const collectives::Schedule> schedule;  ///< Null for messages.
};

/// nccl-tests' columns in `width` columns of the terminal (0: any number). `measured` has wall times (else only
/// modelled ones).
TableLines reportTable(bool measured, int width);
/// A row of that table.
std::vector<std::string> reportRow(const Workload& work, bool inPlace, const Measurement& result,
                                   const Expected& expected, bool measured);
/// The keys of results[].
Json lineJson(const Workload& work, bool inPlace, const Measurement& result, const Expected& expected, bool measured);

/// Of all lines: nccl-tests' closing line.
class Averages {
 public:
  void add(const Workload& work, const Measurement& result);
  /// The line, of wall times when `measured`, and the keys of both.
  void report(Tool& tool, bool measured) const;

 private:
  double wall_ = 0, device_ = 0;  ///< Sums of bus bandwidths.
  int64_t lines_ = 0;
};

}  // namespace hpu::tools
