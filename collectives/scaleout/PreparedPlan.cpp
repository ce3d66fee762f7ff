// SPDX-License-Identifier: Apache-2.0
#include "collectives/scaleout/PreparedPlan.h"

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "collectives/scaleout/PlanSimulator.h"

namespace hpu::collectives {

using base::strCat;

Status PreparedPlan::check(const Plan& plan, const Fabric& fabric) {
  const RankMap& map = plan.map();
  const int32_t ranks = map.ranks();
  if (ranks != plan.problem().ranks)
    return invalidArgument(strCat("the map has ", ranks, " ranks, the problem ", plan.problem().ranks));
  for (int32_t r = 0; r < ranks; ++r) {
    const Place place = map.place(r);
    if (place.node < 0 || place.node >= fabric.nodes || place.device < 0 || place.device >= fabric.devicesPerNode)
      return invalidArgument(strCat("the map is of another fabric: rank ", r, " is on device ", place.device,
                                    " of node ", place.node, ", and '", fabric.name, "' has ", fabric.nodes,
                                    " nodes of ", fabric.devicesPerNode));
  }
  return Status();
}

StatusOr<PreparedPlan> PreparedPlan::create(const Plan& plan, const Fabric& fabric) {
  HPU_RETURN_IF_ERROR(check(plan, fabric));
  const RankMap& map = plan.map();
  const int32_t ranks = map.ranks();
  std::vector<int32_t> first(plan.roles(), -1);  // Rank of each role.
  for (int32_t r = 0; r < ranks; ++r) {
    const int32_t role = plan.roleOf(r);
    if (role < 0 || role >= plan.roles())
      return internalError(strCat("plan '", plan.algorithm(), "': rank ", r, " has role ", role, " of ", plan.roles()));
    if (first[role] < 0) first[role] = r;
  }
  PreparedPlan prepared;
  prepared.plan_ = &plan;
  prepared.fabric_ = &fabric;
  prepared.roles_.resize(first.size());
  for (size_t role = 0; role < first.size(); ++role) {
    if (first[role] < 0) continue;
    HPU_ASSIGN(prepared.roles_[role], RoleSteps::create(plan, first[role]));
  }
  prepared.ports_ = RankPorts::create(fabric, map);
  return prepared;
}

StatusOr<RankClasses> PreparedPlan::classes(std::span<const int64_t> arrivalPs, const LinkState& links,
                                            bool fold) const {
  const auto ranks = static_cast<size_t>(plan_->map().ranks());
  if (!arrivalPs.empty() && arrivalPs.size() != ranks)
    return invalidArgument(strCat(arrivalPs.size(), " arrivals were given for ", ranks, " ranks"));
  for (size_t r = 0; r < arrivalPs.size(); ++r)
    if (arrivalPs[r] < 0)
      return invalidArgument(strCat("rank ", r, " arrives at ", arrivalPs[r], " ps, before the beginning"));
  if (!links.devices.empty()) return invalidArgument("ranks that share devices are not timed among nodes");
  if (!links.freePs.empty() && links.freePs.size() != ranks * ranks)
    return invalidArgument(
        strCat(links.freePs.size(), " links' times were given for ", ranks, " ranks: one for each pair of them"));
  for (const std::vector<int64_t>& rails : links.railFreePs)
    if (!rails.empty() && rails.size() != ranks)
      return invalidArgument(strCat(rails.size(), " rails' times were given for ", ranks, " ranks"));
  if (!fold) return RankClasses::unfolded(ports_, static_cast<int32_t>(ranks));
  return RankClasses::folded(*plan_, *fabric_, ports_, roles_, arrivalPs, links);
}

StatusOr<PlanTiming> PreparedPlan::time(std::span<const int64_t> arrivalPs, const LinkState& links,
                                        const PlanTimerOptions& options) const {
  HPU_ASSIGN(const RankClasses ranks, classes(arrivalPs, links, options.fold));
  return time(ranks, arrivalPs, links, options);
}

StatusOr<PlanTiming> PreparedPlan::time(const RankClasses& classes, std::span<const int64_t> arrivalPs,
                                        const LinkState& links, const PlanTimerOptions& options) const {
  PlanSimulator simulator(*fabric_, options);
  HPU_RETURN_IF_ERROR(simulator.add(*plan_, roles_, classes, ports_, arrivalPs, links));
  HPU_RETURN_IF_ERROR(simulator.run());
  return simulator.timing(0);
}

int64_t PreparedPlan::steps() const {
  int64_t steps = 0;
  for (const RoleSteps& role : roles_) steps += role.size();
  return steps;
}

}  // namespace hpu::collectives
