// SPDX-License-Identifier: Apache-2.0
// PlanClock: what an operation among nodes costs in device time, asked often: OperationTimer over a plan.
// The one thing to know: every rank that asks with the same arrivals and ports gets the same picosecond, that of
// timePlan; and making a clock simulates nothing. The first question whose answer is not known yet writes the programs
// of all roles and simulates the plan: for large data on many nodes that takes longer than a choice may
// (docs/scaleout.md).
//
//   auto cluster = std::make_shared<const Cluster>(Cluster{fabric, map});
//   HPU_ASSIGN(PlanChoice choice, choosePlan(problem, cluster->map, cluster->fabric));
//   HPU_ASSIGN(auto timer, makePlanClock(std::move(choice.plan), cluster, {choice.endPs}));
//   timer->endPs(arrivals, links, ends);  // scheduleOf(*plan, rank) is what a rank does.
#pragma once

#include <memory>

#include "collectives/scaleout/PlanTimer.h"
#include "collectives/scaleout/Program.h"
#include "collectives/schedule/Timing.h"

namespace hpu::collectives {

/// Where the ranks of a communicator of several nodes are, and on which network.
struct Cluster {
  Fabric fabric;
  RankMap map;  ///< Of the communicator's ranks.
};

/// What the caller knows of a plan already; all of it may be left out.
struct PlanKnown {
  /// By rank: its end by timePlan when all arrive at 0 (PlanChoice::endPs).
  std::vector<int64_t> endPs;
  /// The program of `rank`, read by makePlanClock alone: use(rank) does not write it once more.
  int32_t rank = -1;
  const Program* program = nullptr;
};

/// `plan` is of the cluster's map. What is not known is found when it is asked for: times by timePlan, RankUse from the
/// programs of the rank and of those of other roles with which it shares a rail. RankUse has of the rail what all of
/// them take, under their peers, because each of their devices has to know; its leastPs is the rank's end in
/// `known.endPs`, without that what its engine is busy for. A plan that timePlan cannot time is an operation that takes
/// lowerBoundPs, with one warning in the log. Errors: kInvalidArgument (a map of another fabric; ranks and ends that
/// differ in number).
StatusOr<std::shared_ptr<const OperationTimer>> makePlanClock(std::shared_ptr<const Plan> plan,
                                                              std::shared_ptr<const Cluster> cluster,
                                                              const PlanKnown& known = {});

}  // namespace hpu::collectives
