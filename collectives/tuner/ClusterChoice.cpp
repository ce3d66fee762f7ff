// SPDX-License-Identifier: Apache-2.0
// The choice for a rank of a cluster: that of collectives/scaleout, with the rank's own steps and the time of all.
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
  if (rule.slices == 0) return choosePlan(problem, cluster.map, cluster.fabric, rule.algorithm);
  PlanChoice choice;
  choice.plan = (*algorithm)->make(problem, cluster.map, {rule.slices});
  choice.lowerBoundPs = lowerBoundPs(problem, cluster.map, cluster.fabric);
  return choice;
}

}  // namespace

StatusOr<Choice> makeChoice(const Problem& problem, std::shared_ptr<const Cluster> cluster, int32_t rank,
                            const TunerTable::Rule* rule) {
  HPU_ASSIGN(PlanChoice planned,
             rule ? chooseBy(*rule, problem, *cluster) : choosePlan(problem, cluster->map, cluster->fabric));
  const std::shared_ptr<const Plan> plan = std::move(planned.plan);
  Choice choice;
  choice.amongNodes = true;
  HPU_ASSIGN(choice.timer, makePlanClock(plan, cluster));
  choice.predictedPs = choice.timer->predictPs();
  choice.lowerBoundPs = planned.lowerBoundPs;
  choice.schedule = std::make_shared<const Schedule>(scheduleOf(*plan, rank));

  const Candidate chosen{std::string(plan->algorithm()), plan->chunks(), choice.predictedPs};
  choice.reason = candidateText(chosen, true);
  for (const PlanCandidate& c : planned.candidates)
    choice.candidates.push_back({c.algorithm, c.chunks, c.predictedPs, !c.timed});
  if (choice.candidates.empty()) choice.candidates.push_back(chosen);
  if (rule) {
    choice.reason += strCat(" (rule at ", rule->file, ":", rule->line, ")");
    return choice;
  }
  // What an estimate has decided is said to be: the others are compared with it, and not with the time.
  const Candidate& first = choice.candidates.front();
  if (first.estimated)
    choice.reason += strCat(", chosen by the estimate of ", base::formatNs((first.predictedPs + 500) / 1000));
  for (const Candidate& c : choice.candidates) {
    if (c.algorithm == first.algorithm) continue;
    choice.reason += "; next " + candidateText(c, true);
    break;
  }
  return choice;
}

}  // namespace hpu::collectives
