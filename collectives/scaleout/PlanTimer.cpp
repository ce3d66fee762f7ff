// SPDX-License-Identifier: Apache-2.0
#include "collectives/scaleout/PlanTimer.h"

#include "base/Format.h"
#include "collectives/scaleout/PlanSimulator.h"

namespace hpu::collectives {

using base::strCat;

namespace {

// What of an operation does not depend on how it is simulated.
struct Prepared {
  std::vector<RoleSteps> roles;
  RankPorts ports;
  RankClasses classes;
};

Status prepare(const Plan& plan, const Fabric& fabric, std::span<const int64_t> arrivalPs, bool fold,
               Prepared& result) {
  const RankMap& map = plan.map();
  const int32_t ranks = map.ranks();
  if (ranks != plan.problem().ranks)
    return invalidArgument(strCat("the map has ", ranks, " ranks, the problem ", plan.problem().ranks));
  if (!arrivalPs.empty() && arrivalPs.size() != static_cast<size_t>(ranks))
    return invalidArgument(strCat(arrivalPs.size(), " arrivals were given for ", ranks, " ranks"));
  for (int32_t r = 0; r < ranks; ++r) {
    const Place place = map.place(r);
    if (place.node < 0 || place.node >= fabric.nodes || place.device < 0 || place.device >= fabric.devicesPerNode)
      return invalidArgument(strCat("the map is of another fabric: rank ", r, " is on device ", place.device,
                                    " of node ", place.node, ", and '", fabric.name, "' has ", fabric.nodes,
                                    " nodes of ", fabric.devicesPerNode));
    if (!arrivalPs.empty() && arrivalPs[r] < 0)
      return invalidArgument(strCat("rank ", r, " arrives at ", arrivalPs[r], " ps, before the beginning"));
  }
  std::vector<int32_t> first(plan.roles(), -1);  // Rank of each role.
  for (int32_t r = 0; r < ranks; ++r) {
    const int32_t role = plan.roleOf(r);
    if (role < 0 || role >= plan.roles())
      return internalError(strCat("plan '", plan.algorithm(), "': rank ", r, " has role ", role, " of ", plan.roles()));
    if (first[role] < 0) first[role] = r;
  }
  result.roles.resize(first.size());
  for (size_t role = 0; role < first.size(); ++role) {
    if (first[role] < 0) continue;
    StatusOr<RoleSteps> steps = RoleSteps::create(plan, first[role]);
    if (!steps.ok()) return steps.status();
    result.roles[role] = std::move(*steps);
  }
  result.ports = RankPorts::create(fabric, map);
  if (!fold) {
    result.classes = RankClasses::unfolded(result.ports, ranks);
    return Status();
  }
  StatusOr<RankClasses> classes = RankClasses::folded(plan, fabric, result.ports, result.roles, arrivalPs);
  if (!classes.ok()) return classes.status();
  result.classes = std::move(*classes);
  return Status();
}

}  // namespace

std::string portText(const Fabric& fabric, const PortUse& port) {
  const int32_t slots = fabric.devicesPerNode;
  switch (port.kind) {
    case PortUse::Kind::kMeshLink:
      return strCat("node ", port.node, ", link of device ", port.index / slots, " to device ", port.index % slots);
    case PortUse::Kind::kRailOut:
      return strCat("node ", port.node, ", rail ", port.index, " out");
    case PortUse::Kind::kRailIn:
      return strCat("node ", port.node, ", rail ", port.index, " in");
    case PortUse::Kind::kUplink:
      return strCat("leaf ", port.node, ", uplinks of rail ", port.index);
    case PortUse::Kind::kDownlink:
      return strCat("leaf ", port.node, ", downlinks of rail ", port.index);
    case PortUse::Kind::kEngine:
      return strCat("node ", port.node, ", engine of device ", port.index);
  }
  return "";
}

StatusOr<PlanTiming> timePlan(const Plan& plan, const Fabric& fabric, std::span<const int64_t> arrivalPs,
                              const PlanTimerOptions& options) {
  Prepared prepared;
  if (Status status = prepare(plan, fabric, arrivalPs, options.fold, prepared); !status.ok()) return status;
  PlanSimulator simulator(fabric, options);
  if (Status status = simulator.add(plan, prepared.roles, prepared.classes, prepared.ports, arrivalPs); !status.ok())
    return status;
  if (Status status = simulator.run(); !status.ok()) return status;
  return simulator.timing(0);
}

StatusOr<std::vector<PlanTiming>> timePlans(std::span<const TimedOperation> operations, const Fabric& fabric,
                                            const PlanTimerOptions& options) {
  const bool fold = options.fold && operations.size() == 1;
  std::vector<Prepared> prepared(operations.size());
  PlanSimulator simulator(fabric, options);
  for (size_t i = 0; i < operations.size(); ++i) {
    const TimedOperation& one = operations[i];
    if (one.plan == nullptr) return invalidArgument(strCat("operation ", i, " has no plan"));
    if (Status status = prepare(*one.plan, fabric, one.arrivalPs, fold, prepared[i]); !status.ok()) return status;
    if (Status status =
            simulator.add(*one.plan, prepared[i].roles, prepared[i].classes, prepared[i].ports, one.arrivalPs);
        !status.ok())
      return status;
  }
  if (Status status = simulator.run(); !status.ok()) return status;
  std::vector<PlanTiming> timings;
  for (size_t i = 0; i < operations.size(); ++i) timings.push_back(simulator.timing(i));
  return timings;
}

}  // namespace hpu::collectives
