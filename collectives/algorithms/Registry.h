// SPDX-License-Identifier: Apache-2.0
// The algorithms: each makes schedules for some problems.
// The one thing to know: a new algorithm is one file and one line in Registry.cpp; the checker and
// the tests take every registered one through all problems that it accepts.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "collectives/schedule/Schedule.h"
#include "hpu/status.h"

namespace hpu::collectives {

/// How finely the tuner wants the data cut; algorithms round to what suits them.
struct AlgorithmOptions {
  int32_t slices = 1;
  /// What a link carries while a message is on its way (LinkModel::hopBytes). Algorithms of two
  /// hops send so much more over direct links, which would be idle at the end.
  int64_t hopBytes = 0;
};

struct Algorithm {
  std::string_view name;      ///< "mesh", "mesh-one-shot", "ring", "halving-doubling", "tree",
                              ///< "scatter-exchange", "relays" ...
  std::string_view sentence;  ///< What it does and when it is good, for people.
  bool (*accepts)(const Problem& problem);
  Schedule (*make)(const Problem& problem, const AlgorithmOptions& options);
  /// Slice counts worth trying for a problem, ascending; at least {1}.
  std::vector<int32_t> (*sliceChoices)(const Problem& problem);
};

const std::vector<Algorithm>& algorithms();
/// Errors: kNotFound, naming the algorithms that accept the problem.
StatusOr<const Algorithm*> findAlgorithm(std::string_view name, const Problem& problem);

}  // namespace hpu::collectives
