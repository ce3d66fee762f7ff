// SPDX-License-Identifier: Apache-2.0
// Simulation: one operation of one size on one fabric, priced. Times are those of our model.
// The one thing to know: timePs is from time 0 (when the first ranks arrive) to when the last rank is done.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectives/scaleout/Choose.h"
#include "collectives/scaleout/PlanTimer.h"
#include "tools/hccl-sim/Operation.h"

namespace hpu::tools {

/// Where an operation runs: a fabric with ranks on it. Shared, as plans refer to the map.
struct Site {
  collectives::Fabric fabric;
  collectives::RankMap map;
  std::string label;  ///< Of a what-if: "before", "oversubscription=2"; else empty.
};
/// The first `nodes` nodes of a fabric, with so many devices each (0: all that are there). Errors: kInvalidArgument.
StatusOr<std::shared_ptr<const Site>> siteOf(collectives::Fabric fabric, int32_t nodes, int32_t ranksPerNode,
                                             std::string label);

struct SimOptions {
  std::string algorithm;  ///< Empty: the best.
  std::vector<int64_t> arrivalPs;
  bool fold = true, wantPorts = false;
  std::vector<int32_t> spansOf;
  /// Spans of the rank that is done last too.
  bool wantLastSpans = false;
};

struct SimResult {
  std::shared_ptr<const Site> site;
  Work work;
  std::shared_ptr<const collectives::Plan> plan;  ///< Null where the algorithm does not do this operation.
  std::string algorithm, reason;
  std::vector<collectives::PlanCandidate> candidates;
  int64_t timePs = 0, lowerBoundPs = 0;
  int64_t lastArrivalPs = 0;
  int32_t lastRank = 0;  ///< The one that is done last.
  collectives::PlanTiming timing;
  double wallMs = 0;  ///< Of choosing and pricing, on the host.

  double timeUs() const { return static_cast<double>(timePs) / 1e6; }
  double boundUs() const { return static_cast<double>(lowerBoundPs) / 1e6; }
  /// Of the time since the last rank arrived.
  double shareOfBound() const;
  double algbwGBps() const;
  double busbwGBps() const { return algbwGBps() * work.busFactor(); }
};

/// Errors: those of choosePlan and timePlan.
StatusOr<SimResult> simulate(const std::shared_ptr<const Site>& site, const Work& work, const SimOptions& options);

}  // namespace hpu::tools
