// SPDX-License-Identifier: Apache-2.0
// The choice for a rank of a cluster: that of collectives/scaleout, with the rank's own steps. Nothing is simulated
// beside what choosePlan does: that an operation of 1 GiB on 128 nodes was timed may wait until it has run.
#include <algorithm>
#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "collectives/scaleout/Choose.h"
#include "collectives/scaleout/PlanClock.h"
#include "collectives/tuner/Tuner.h"

namespace hpu::collectives {

using base::strCat;

namespace {

/// By the rule: its algorithm, in its chunks or the best of the algorithm's.
StatusOr<PlanChoice> chooseBy(const TunerTable::Rule& rule, const Problem& problem, const Cluster& cluster) {
  StatusOr<const PlanAlgorithm*> algorithm = findPlanAlgorithm(rule.algorithm, problem, cluster.map);
  if (!algorithm.ok())
    return invalidArgument(strCat(rule.file, ":", rule.line, ": ", algorithm.status().message(),
                                  "; narrow the rule to what the algorithm can do"));
  return choosePlan(problem, cluster.map, cluster.fabric, rule.algorithm, rule.slices);
}

}  // namespace

StatusOr<Choice> makeChoice(const Problem& problem, std::shared_ptr<const Cluster> cluster, int32_t rank,
                            const TunerTable::Rule* rule) {
  HPU_ASSIGN(PlanChoice planned,
             rule ? chooseBy(*rule, problem, *cluster) : choosePlan(problem, cluster->map, cluster->fabric));
  const std::shared_ptr<const Plan> plan = std::move(planned.plan);
  Choice choice;
  choice.amongNodes = true;
  choice.predictedPs = planned.predictedPs;
  choice.estimated = planned.endPs.empty();
  choice.lowerBoundPs = planned.lowerBoundPs;
  Program program = plan->program(rank);
  HPU_ASSIGN(choice.timer, makePlanClock(plan, cluster, {std::move(planned.endPs), rank, &program}));
  choice.schedule = std::make_shared<const Schedule>(scheduleOf(*plan, rank, std::move(program)));
  choice.work = planned.work;
  choice.work.steps += static_cast<int64_t>(choice.schedule->steps.size());

  const Candidate chosen{std::string(plan->algorithm()), plan->chunks(), choice.predictedPs, choice.estimated};
  choice.reason = candidateText(chosen, true);
  for (const PlanCandidate& c : planned.candidates)
    choice.candidates.push_back({c.algorithm, c.chunks, c.predictedPs, !c.timed});
  if (rule) {
    choice.reason += strCat(" (rule at ", rule->file, ":", rule->line, ")");
    return choice;
  }
  for (const Candidate& c : choice.candidates) {
    if (c.algorithm == chosen.algorithm) continue;
    choice.reason += "; next " + candidateText(c, true);
    break;
  }
  return choice;
}

}  // namespace hpu::collectives
