// SPDX-License-Identifier: Apache-2.0
// Every algorithm and number of chunks is estimated; the best estimates are then timed where that is cheap: where
// programs are short and few ranks have to be simulated.
#include "collectives/scaleout/Choose.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "collectives/scaleout/PreparedPlan.h"

namespace hpu::collectives {
namespace {

using base::strCat;

// Of estimates within this factor of the best one the first few are timed: estimates are off by less.
constexpr double kWorthTiming = 1.6;
constexpr size_t kMostTimed = 4;
// An estimate of an algorithm that could not be timed has to be better than another's time by this factor.
constexpr double kDoubt = 1.25;
// What a choice may spend on timing, together some milliseconds: half a microsecond for a step of a program, a fifth
// for one that is simulated and for a peer of a rank that may have to be told apart from others.
constexpr int64_t kMostSteps = 6'000, kMostSimulated = 36'000, kMostPeers = 16'000;
// Nodes of different sizes have no ranks that are alike: some ten milliseconds.
constexpr int64_t kUneven = 4;

struct Priced {
  PlanCandidate candidate;
  const PlanAlgorithm* algorithm = nullptr;
  double doubt = 1;
  // When it was timed.
  std::unique_ptr<Plan> plan;
  std::vector<int64_t> endPs;
  double doubtedPs() const { return doubt * static_cast<double>(candidate.predictedPs); }
};

class Timer {
 public:
  Timer(const Problem& problem, const RankMap& map, const Fabric& fabric, ChoiceWork& work)
      : problem_(problem), map_(map), fabric_(fabric), work_(work) {
    if (map.ranksPerNode() > 0) return;
    for (int64_t* left : {&stepsLeft_, &simulatedLeft_, &peersLeft_}) *left *= kUneven;
  }

  /// Makes the plan and finds when it ends; or leaves both, when finding out costs too much.
  void time(Priced& priced) {
    const int32_t chunks = priced.candidate.chunks;
    const Size& probe = sizeOf(*priced.algorithm, chunks);
    const int64_t steps = probe.steps * ((chunks + probe.chunks - 1) / probe.chunks) * probe.roles;
    // Where all nodes are alike those of one tell all.
    const bool alike = map_.ranksPerNode() > 0 && probe.roles <= map_.ranksPerNode() && fabric_.exceptions.empty() &&
                       fabric_.nodesPerLeaf <= 0;
    const int64_t peers = probe.peers * (alike ? map_.ranksPerNode() : map_.ranks());
    if (steps > stepsLeft_ || peers > peersLeft_) return;
    stepsLeft_ -= steps;
    peersLeft_ -= peers;
    std::unique_ptr<Plan> plan = priced.algorithm->make(problem_, map_, {chunks});
    ++work_.plans;
    const StatusOr<PreparedPlan> prepared = PreparedPlan::create(*plan, fabric_);
    if (!prepared.ok()) return;
    work_.steps += prepared->steps();
    work_.peers += peers;
    const StatusOr<RankClasses> classes = prepared->classes({}, {}, true);
    if (!classes.ok()) return;
    int64_t simulated = 0;
    for (const RankClasses::Class& one : classes->classes)
      simulated += prepared->roles()[static_cast<size_t>(plan->roleOf(one.rank))].size();
    if (simulated > simulatedLeft_) return;
    simulatedLeft_ -= simulated;
    work_.simulated += simulated;
    StatusOr<PlanTiming> timing = prepared->time(*classes, {}, {}, {});
    if (!timing.ok()) return;
    priced.plan = std::move(plan);
    priced.endPs = std::move(timing->endPs);
    priced.candidate.predictedPs = *std::max_element(priced.endPs.begin(), priced.endPs.end());
    priced.candidate.timed = true;
  }

 private:
  /// Of a plan of few chunks, which others have as many times as they have its chunks.
  struct Size {
    int64_t chunks = 1, steps = 0, peers = 0, roles = 1;
  };
  const Problem& problem_;
  const RankMap& map_;
  const Fabric& fabric_;
  ChoiceWork& work_;
  int64_t stepsLeft_ = kMostSteps, simulatedLeft_ = kMostSimulated, peersLeft_ = kMostPeers;
  std::map<std::pair<const PlanAlgorithm*, bool>, Size> sizes_;

  /// Plans of one chunk have forms of their own.
  const Size& sizeOf(const PlanAlgorithm& algorithm, int32_t chunks) {
    auto [it, isNew] = sizes_.try_emplace({&algorithm, chunks > 1});
    Size& size = it->second;
    if (!isNew) return size;
    const std::unique_ptr<Plan> plan = algorithm.make(problem_, map_, {std::min(chunks, 2)});
    const Program program = plan->program(0);
    ++work_.plans;
    work_.steps += static_cast<int64_t>(program.steps.size());
    size = {std::max(plan->chunks(), 1), static_cast<int64_t>(program.steps.size()),
            static_cast<int64_t>(program.peers.size()), plan->roles()};
    return size;
  }
};

std::string candidateText(const PlanCandidate& c) {
  return strCat(c.algorithm, ", ", c.chunks, c.chunks == 1 ? " chunk: " : " chunks: ", c.timed ? "" : "about ",
                base::formatNs(c.predictedPs / 1000));
}

}  // namespace

StatusOr<PlanChoice> choosePlan(const Problem& problem, const RankMap& map, const Fabric& fabric, std::string_view only,
                                int32_t chunks) {
  PlanChoice choice;
  std::vector<Priced> priced;
  const auto price = [&](const PlanAlgorithm& algorithm) {
    const std::vector<int32_t> choices =
        chunks > 0 ? std::vector<int32_t>{chunks} : algorithm.chunkChoices(problem, map, fabric);
    for (const int32_t each : choices) {
      Priced& one = priced.emplace_back();
      one.candidate = {std::string(algorithm.name), each, algorithm.estimatePs(problem, map, fabric, each)};
      one.algorithm = &algorithm;
    }
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
  const auto sort = [&] {
    std::stable_sort(priced.begin(), priced.end(),
                     [](const Priced& a, const Priced& b) { return a.doubtedPs() < b.doubtedPs(); });
  };
  sort();
  choice.work.estimates = static_cast<int64_t>(priced.size());
  Timer timer(problem, map, fabric, choice.work);
  const auto most = static_cast<int64_t>(kWorthTiming * static_cast<double>(priced.front().candidate.predictedPs));
  // The best of each algorithm, and then others.
  std::vector<size_t> order;
  const auto isFirst = [&](size_t i) {
    return std::none_of(priced.begin(), priced.begin() + static_cast<std::ptrdiff_t>(i),
                        [&](const Priced& one) { return one.algorithm == priced[i].algorithm; });
  };
  for (const bool first : {true, false})
    for (size_t i = 0; i < priced.size(); ++i)
      if (isFirst(i) == first && priced[i].candidate.predictedPs <= most) order.push_back(i);
  if (map.ranksPerNode() > 0) std::sort(order.begin(), order.end());
  for (size_t at = 0; at < std::min(order.size(), kMostTimed); ++at) timer.time(priced[order[at]]);
  const auto isTimed = [](const Priced& one) { return one.candidate.timed; };
  if (std::any_of(priced.begin(), priced.end(), isTimed))
    for (Priced& one : priced)
      // Among nodes of different sizes pairwise is estimated as slower than it is: as if all went by the rails.
      if ((map.ranksPerNode() > 0 || one.algorithm->name != "pairwise") &&
          std::none_of(priced.begin(), priced.end(),
                       [&](const Priced& other) { return isTimed(other) && other.algorithm == one.algorithm; }))
        one.doubt = kDoubt;
  sort();
  choice.plan = std::move(priced.front().plan);
  choice.endPs = std::move(priced.front().endPs);
  if (!choice.plan) {
    choice.plan = priced.front().algorithm->make(problem, map, {priced.front().candidate.chunks});
    ++choice.work.plans;
  }
  // What was asked for may be more than there are pieces.
  if (chunks > 0) priced.front().candidate.chunks = choice.plan->chunks();
  for (Priced& one : priced) choice.candidates.push_back(std::move(one.candidate));
  const PlanCandidate& first = choice.candidates.front();
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
