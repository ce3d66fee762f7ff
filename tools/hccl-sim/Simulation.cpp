// SPDX-License-Identifier: Apache-2.0
#include "tools/hccl-sim/Simulation.h"

#include <algorithm>
#include <chrono>

#include "base/Format.h"
#include "base/StatusMacros.h"

namespace hpu::tools {

using base::strCat;
using collectives::Fabric;
using collectives::Place;
using collectives::PlanTimerOptions;
using collectives::RankMap;

StatusOr<std::shared_ptr<const Site>> siteOf(Fabric fabric, int32_t nodes, int32_t ranksPerNode, std::string label) {
  std::vector<Place> places;
  for (int32_t node = 0; node < nodes; ++node) {
    const collectives::NodeException* exception = fabric.exceptionOf(node);
    int32_t taken = 0;
    for (int32_t device = 0; device < fabric.devicesPerNode; ++device) {
      if (ranksPerNode > 0 && taken == ranksPerNode) break;
      if (exception && !exception->devices.empty() &&
          std::find(exception->devices.begin(), exception->devices.end(), device) == exception->devices.end())
        continue;
      places.push_back({node, device});
      ++taken;
    }
    if (ranksPerNode > 0 && taken < ranksPerNode)
      return invalidArgument(strCat("--ranks-per-node ", ranksPerNode, ": node ", node, " of '", fabric.name, "' has ",
                                    taken, " devices"));
  }
  auto site = std::make_shared<Site>();
  HPU_ASSIGN(site->map, RankMap::create(fabric, std::move(places)));
  site->fabric = std::move(fabric);
  site->label = std::move(label);
  return std::shared_ptr<const Site>(std::move(site));
}

double SimResult::shareOfBound() const {
  return timePs > lastArrivalPs ? static_cast<double>(lowerBoundPs) / static_cast<double>(timePs - lastArrivalPs) : 0;
}

double SimResult::algbwGBps() const {
  return timePs > 0 ? static_cast<double>(work.bytes()) * 1e3 / static_cast<double>(timePs) : 0;
}

StatusOr<SimResult> simulate(const std::shared_ptr<const Site>& site, const Work& work, const SimOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  SimResult result;
  result.site = site;
  result.work = work;
  if (work.isMessages()) {
    result.plan = messagePlan(work, site->map);
    result.lowerBoundPs = messagesBoundPs(*result.plan, site->fabric);
    result.reason = "messages go directly: there is nothing to choose";
  } else {
    HPU_ASSIGN(collectives::PlanChoice choice,
               collectives::choosePlan(work.problem, site->map, site->fabric, options.algorithm));
    result.plan = std::move(choice.plan);
    result.lowerBoundPs = choice.lowerBoundPs;
    result.reason = std::move(choice.reason);
    result.candidates = std::move(choice.candidates);
  }
  result.algorithm = result.plan->algorithm();
  PlanTimerOptions timer;
  timer.fold = options.fold;
  timer.wantPorts = options.wantPorts;
  timer.spansOf = options.spansOf;
  const auto last = [](const std::vector<int64_t>& ends) {
    return static_cast<int32_t>(std::max_element(ends.begin(), ends.end()) - ends.begin());
  };
  HPU_ASSIGN(result.timing, collectives::timePlan(*result.plan, site->fabric, options.arrivalPs, timer));
  result.lastRank = last(result.timing.endPs);
  result.timePs = result.timing.endPs[static_cast<size_t>(result.lastRank)];
  for (int64_t arrival : options.arrivalPs) result.lastArrivalPs = std::max(result.lastArrivalPs, arrival);
  if (options.wantLastSpans &&
      std::find(timer.spansOf.begin(), timer.spansOf.end(), result.lastRank) == timer.spansOf.end()) {
    timer.spansOf.push_back(result.lastRank);
    HPU_ASSIGN(result.timing, collectives::timePlan(*result.plan, site->fabric, options.arrivalPs, timer));
  }
  result.wallMs = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace hpu::tools
