// SPDX-License-Identifier: Apache-2.0
// PlanClock: what an operation among nodes costs in device time, asked often: OperationTimer over a plan.
// The one thing to know: every rank that asks with the same arrivals and ports gets the same picosecond, that of
// timePlan.
//
//   auto cluster = std::make_shared<const Cluster>(Cluster{fabric, map});
//   std::shared_ptr<const Plan> plan = choosePlan(problem, cluster->map, cluster->fabric)->plan;
//   HPU_ASSIGN(auto timer, makePlanClock(plan, cluster));
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

/// `plan` is of the cluster's map. Times it once, all ranks at 0: what predictPs() says. RankUse has of a rank's rail
/// what all ranks that share it take, under their peers, because each of their devices has to know. Errors: as
/// timePlan.
StatusOr<std::shared_ptr<const OperationTimer>> makePlanClock(std::shared_ptr<const Plan> plan,
                                                              std::shared_ptr<const Cluster> cluster);

}  // namespace hpu::collectives
