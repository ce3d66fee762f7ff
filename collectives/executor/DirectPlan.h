// SPDX-License-Identifier: Apache-2.0
// DirectPlan: the result of a collective as flows from memories to memories, cut into parts that
// any rank may do in any order.
// The one thing to know: a part reads all that it needs of a block before it writes that block, and
// no two parts touch the same output, so it is right in place as well.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/schedule/Schedule.h"

namespace hpu::collectives {

/// `count` elements of one rank's input, or (kAllRanks) the reduction of all ranks' in rank order,
/// to the output of one rank or of all.
struct Flow {
  static constexpr int32_t kAllRanks = -1;
  int32_t from = kAllRanks, to = kAllRanks;
  int64_t input = 0, output = 0;  ///< Elements into the buffers.
};

struct DirectPlan {
  std::vector<Flow> flows;
  int64_t count = 0;         ///< Elements of each flow.
  int64_t partElements = 1;  ///< Of a part; the last one of a flow may have fewer.
  /// One of both is 1 (0: nothing is to be done): large flows are cut, small ones go together.
  int64_t partsOfFlow = 0, flowsOfPart = 1;
  int32_t ranks = 1;
  int64_t traffic = 0;  ///< Bytes that are read and written.

  int64_t parts() const {
    const auto all = static_cast<int64_t>(flows.size());
    return partsOfFlow * ((all + flowsOfPart - 1) / flowsOfPart);
  }
  /// The parts of a rank's share: [firstPart(rank), firstPart(rank + 1)).
  int64_t firstPart(int rank) const { return parts() * rank / ranks; }
  struct Part {
    std::span<const Flow> flows;
    int64_t offset = 0, count = 0;  ///< Elements of each flow.
  };
  Part part(int64_t index) const;
};

/// Depends on the problem alone: it is the same on all ranks.
DirectPlan directPlan(const Problem& problem);

}  // namespace hpu::collectives
