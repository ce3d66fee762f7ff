// SPDX-License-Identifier: Apache-2.0
#include "collectives/scaleout/PlanTimer.h"

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "collectives/scaleout/PlanSimulator.h"
#include "collectives/scaleout/PreparedPlan.h"

namespace hpu::collectives {

using base::strCat;

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
                              const PlanTimerOptions& options, const LinkState& links) {
  HPU_ASSIGN(const PreparedPlan prepared, PreparedPlan::create(plan, fabric));
  return prepared.time(arrivalPs, links, options);
}

StatusOr<std::vector<PlanTiming>> timePlans(std::span<const TimedOperation> operations, const Fabric& fabric,
                                            const PlanTimerOptions& options) {
  const bool fold = options.fold && operations.size() == 1;
  std::vector<PreparedPlan> prepared(operations.size());
  std::vector<RankClasses> classes(operations.size());
  PlanSimulator simulator(fabric, options);
  for (size_t i = 0; i < operations.size(); ++i) {
    const TimedOperation& one = operations[i];
    if (one.plan == nullptr) return invalidArgument(strCat("operation ", i, " has no plan"));
    HPU_ASSIGN(prepared[i], PreparedPlan::create(*one.plan, fabric));
    HPU_ASSIGN(classes[i], prepared[i].classes(one.arrivalPs, one.links, fold));
    HPU_RETURN_IF_ERROR(
        simulator.add(*one.plan, prepared[i].roles(), classes[i], prepared[i].ports(), one.arrivalPs, one.links));
  }
  HPU_RETURN_IF_ERROR(simulator.run());
  std::vector<PlanTiming> timings;
  for (size_t i = 0; i < operations.size(); ++i) timings.push_back(simulator.timing(i));
  return timings;
}

}  // namespace hpu::collectives
