// SPDX-License-Identifier: Apache-2.0
#include "collectives/scaleout/Choose.h"

#include <algorithm>
#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"

namespace hpu::collectives {
namespace {

using base::strCat;

std::string candidateText(const PlanCandidate& c) {
  return strCat(c.algorithm, ", ", c.chunks,
                c.chunks == 1 ? " chunk: " : " chunks: ", base::formatNs(c.predictedPs / 1000));
}

}  // namespace

StatusOr<PlanChoice> choosePlan(const Problem& problem, const RankMap& map, const Fabric& fabric,
                                std::string_view only) {
  PlanChoice choice;
  std::vector<std::pair<PlanCandidate, const PlanAlgorithm*>> priced;
  const auto price = [&](const PlanAlgorithm& algorithm) {
    for (const int32_t chunks : algorithm.chunkChoices(problem, map, fabric))
      priced.push_back(
          {{std::string(algorithm.name), chunks, algorithm.estimatePs(problem, map, fabric, chunks)}, &algorithm});
  };
  if (!only.empty()) {
    HPU_ASSIGN(const PlanAlgorithm* const algorithm, findPlanAlgorithm(only, problem, map));
    price(*algorithm);
  } else {
    for (const PlanAlgorithm& algorithm : planAlgorithms())
      if (algorithm.name != "hcl" && algorithm.accepts(problem, map)) price(algorithm);
    if (priced.empty())
      return unimplemented(
          strCat("no algorithm for ", problemText(problem), " on ", map.ranks(), " ranks of ", map.nodes(), " nodes"));
  }
  // Of equal ones the first by registration, then the one of fewer chunks.
  std::stable_sort(priced.begin(), priced.end(),
                   [](const auto& a, const auto& b) { return a.first.predictedPs < b.first.predictedPs; });
  for (const auto& [candidate, algorithm] : priced) choice.candidates.push_back(candidate);
  const PlanCandidate& first = choice.candidates.front();
  choice.plan = priced.front().second->make(problem, map, {first.chunks});
  choice.predictedPs = first.predictedPs;
  choice.lowerBoundPs = lowerBoundPs(problem, map, fabric);
  choice.reason = candidateText(first);
  for (const PlanCandidate& other : choice.candidates)
    if (other.algorithm != first.algorithm) {
      choice.reason += strCat("; next ", candidateText(other));
      break;
    }
  return choice;
}

}  // namespace hpu::collectives
