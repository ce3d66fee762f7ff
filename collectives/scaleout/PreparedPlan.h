// SPDX-License-Identifier: Apache-2.0
// PreparedPlan: what of timing a plan does not depend on when the ranks arrive: programs of roles, ports of ranks.
// The one thing to know: it refers to the plan and the fabric; any thread may time it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/scaleout/PlanTimer.h"
#include "collectives/scaleout/RankClasses.h"
#include "collectives/scaleout/RoleSteps.h"

namespace hpu::collectives {

class PreparedPlan {
 public:
  /// Whether the plan's map is of the problem and the fabric, without writing a program. Errors: kInvalidArgument.
  static Status check(const Plan& plan, const Fabric& fabric);
  /// Writes a program of each role. Errors: as timePlan, but for arrivals and links.
  static StatusOr<PreparedPlan> create(const Plan& plan, const Fabric& fabric);
  /// Errors: as timePlan.
  StatusOr<PlanTiming> time(std::span<const int64_t> arrivalPs, const LinkState& links,
                            const PlanTimerOptions& options) const;
  /// The same in two parts, for a caller who looks at how many are simulated.
  StatusOr<PlanTiming> time(const RankClasses& classes, std::span<const int64_t> arrivalPs, const LinkState& links,
                            const PlanTimerOptions& options) const;
  StatusOr<RankClasses> classes(std::span<const int64_t> arrivalPs, const LinkState& links, bool fold) const;

  const Plan& plan() const { return *plan_; }
  const Fabric& fabric() const { return *fabric_; }
  std::span<const RoleSteps> roles() const { return roles_; }
  const RankPorts& ports() const { return ports_; }
  /// Of all roles.
  int64_t steps() const;

 private:
  const Plan* plan_ = nullptr;
  const Fabric* fabric_ = nullptr;
  std::vector<RoleSteps> roles_;
  RankPorts ports_;
};

}  // namespace hpu::collectives
