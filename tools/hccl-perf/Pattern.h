// SPDX-License-Identifier: Apache-2.0
// Pattern: inputs whose results are exact in any order of reduction, and the check of outputs
// against them. The one thing to know: everything repeats with a prime period, so that gigabytes
// are filled and compared at the speed of memory, and a block at a wrong place is still noticed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tools/hccl-perf/Workload.h"

namespace hpu::tools {

/// Not thread-safe.
class Pattern {
 public:
  /// `seed` shifts the values, so that what is left of an earlier run does not pass.
  Pattern(const Workload& work, int seed);

  /// Fills rank `rank`'s input with its contribution.
  void fillInput(int rank, std::byte* data) const;
  /// Elements of rank `rank`'s output that are not what the operation gives; 0 when the rank has no
  /// output.
  int64_t wrong(int rank, const std::byte* data) const;

 private:
  static constexpr int64_t kPeriod = 251;
  /// `count` elements of a table from index `start` on are at data.
  void fill(const std::vector<std::byte>& table, int64_t start, int64_t count, std::byte* data) const;
  int64_t differing(const std::vector<std::byte>& table, int64_t start, int64_t count, const std::byte* data) const;
  const Workload work_;
  const int64_t elementBytes_;
  std::vector<std::vector<std::byte>> contributions_;  ///< By rank: two periods of elements.
  std::vector<std::byte> reduced_;
};

}  // namespace hpu::tools
