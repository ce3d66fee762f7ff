// SPDX-License-Identifier: Apache-2.0
// choosePlan: which algorithm, cut into how many chunks, for a problem on a fabric; with the reason.
// The one thing to know: the choice depends on the problem, the map and the fabric alone, so every rank chooses alike.
// Candidates are priced in closed form (PlanAlgorithm::estimatePs), because making and timing the plans of many chunks
// costs more than a choice may; of the best estimates those that are cheap to time are timed, and the reason says which
// numbers are estimates ("about").
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collectives/scaleout/PlanTimer.h"
#include "collectives/scaleout/Program.h"

namespace hpu::collectives {

struct PlanCandidate {
  std::string algorithm;
  int32_t chunks = 1;
  int64_t predictedPs = 0;
  bool timed = false;  ///< By timePlan; else an estimate.
};

/// What a choice did: counts of that which takes its time and memory, the same on every machine.
struct ChoiceWork {
  int64_t estimates = 0;  ///< Candidates that were priced in closed form.
  int64_t plans = 0;      ///< Made.
  int64_t steps = 0;      ///< Written, of all programs that were asked for.
  int64_t peers = 0;      ///< Looked at to find ranks that are alike.
  int64_t simulated = 0;  ///< Steps whose times were found.
};

struct PlanChoice {
  std::unique_ptr<Plan> plan;
  int64_t predictedPs = 0, lowerBoundPs = 0;
  std::vector<int64_t> endPs;  ///< When the plan was timed: of timePlan, by rank, all ranks at 0. Else empty.
  /// Priced ones, the best first: ascending by time, where an estimate counts as a quarter more than it is when other
  /// algorithms were timed and its own was not. "hcl" is priced only when it is asked for.
  std::vector<PlanCandidate> candidates;
  std::string reason;  ///< "rails, 8 chunks: 3.6 ms; next rails-one-shot, 1 chunk: about 9 ms"
  ChoiceWork work;
};

/// `only`: the algorithm to take; empty: the fastest of all but "hcl". `chunks`, of that algorithm; 0: the best number.
/// Errors: kUnimplemented (nothing accepts the problem on that map), kNotFound (no such algorithm).
StatusOr<PlanChoice> choosePlan(const Problem& problem, const RankMap& map, const Fabric& fabric,
                                std::string_view only = {}, int32_t chunks = 0);

}  // namespace hpu::collectives
