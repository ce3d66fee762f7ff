// SPDX-License-Identifier: Apache-2.0
#include "collectives/scaleout/Plans.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/Format.h"
#include "collectives/algorithms/Algorithms.h"

namespace hpu::collectives {
namespace {

class WrittenPlan : public Plan {
 public:
  explicit WrittenPlan(PlanSpec spec) : spec_(std::move(spec)) {}
  const Problem& problem() const override { return spec_.problem; }
  const RankMap& map() const override { return *spec_.map; }
  std::string_view algorithm() const override { return spec_.algorithm; }
  int32_t chunks() const override { return spec_.chunks; }
  int32_t roles() const override { return spec_.roles; }
  int32_t roleOf(int32_t rank) const override { return spec_.roleOf ? spec_.roleOf(rank) : 0; }
  Program program(int32_t rank) const override {
    ProgramBuilder builder(spec_.problem, *spec_.map, rank, spec_.grid);
    spec_.write(builder);
    return builder.finish();
  }

 private:
  PlanSpec spec_;
};

/// What is left to do when nothing moves between ranks.
void writeTrivial(ProgramBuilder& b) {
  const Problem& p = b.problem();
  if (p.count == 0 || p.collective == Collective::kBarrier) return;
  const Part from = b.input(0, 1, p.count), to = b.output(0, 1, p.count);
  if (p.collective == Collective::kPointToPoint) {
    if (b.rank() == p.root) b.copy(to, from);
  } else if (isReducing(p.collective)) {
    b.reduce(to, {from.of(0)});  // Not a copy: contributions may be scaled.
  } else {
    b.copy(to, from);
  }
}

}  // namespace

std::unique_ptr<Plan> makePlan(PlanSpec spec) {
  if (isTrivial(spec.problem)) {
    spec.grid = CellGrid{spec.problem.count, {0, spec.problem.count}};
    spec.chunks = 1;
    const Problem& p = spec.problem;
    if (p.collective == Collective::kPointToPoint && p.ranks > 1 && p.count > 0) {
      spec.roles = 2;
      spec.roleOf = [root = p.root](int32_t rank) { return rank == root ? 1 : 0; };
    } else {
      spec.roles = 1;
      spec.roleOf = nullptr;
    }
    spec.write = writeTrivial;
  }
  return std::make_unique<WrittenPlan>(std::move(spec));
}

bool isUniform(const Problem& problem, const RankMap& map) {
  return wellFormed(problem) && problem.ranks == map.ranks() && map.nodes() >= 2 && map.ranksPerNode() > 0;
}

bool isNodeMajor(const RankMap& map) {
  int32_t next = 0;
  for (int32_t n = 0; n < map.nodes(); n++)
    for (const int32_t rank : map.ranksOf(n))
      if (rank != next++) return false;
  return true;
}

bool isTrivial(const Problem& problem) {
  if (problem.ranks == 1) return true;
  if (problem.collective == Collective::kBarrier) return false;
  return problem.count == 0 || (problem.collective == Collective::kPointToPoint && problem.root == problem.destination);
}

std::vector<int64_t> cutByWeights(int64_t count, const std::vector<int32_t>& weights) {
  int64_t all = 0, before = 0;
  for (const int32_t weight : weights) all += weight;
  std::vector<int64_t> boundaries{0};
  for (const int32_t weight : weights) {
    before += weight;
    boundaries.push_back(before == all ? count : part({0, count}, all, before).offset);
  }
  return boundaries;
}

int64_t largestPiece(const std::vector<int64_t>& boundaries) {
  int64_t largest = 0;
  for (size_t i = 0; i + 1 < boundaries.size(); i++) largest = std::max(largest, boundaries[i + 1] - boundaries[i]);
  return largest;
}

std::vector<int32_t> rampedWeights(int32_t chunks) {
  static constexpr int32_t kRamp[] = {1, 1, 1, 2, 2, 3, 4, 5, 6};
  std::vector<int32_t> weights;
  for (int32_t i = 0; i < chunks; i++) weights.push_back(kRamp[std::min({i, chunks - 1 - i, 8})]);
  return weights;
}

std::vector<int32_t> taperedWeights(int32_t chunks) {
  std::vector<int32_t> weights;
  for (int32_t i = 0; i < chunks; i++) weights.push_back(1 << std::min(3, chunks - 1 - i));
  return weights;
}

// --- The registry ---

const std::vector<PlanAlgorithm>& planAlgorithms() {
  static const std::vector<PlanAlgorithm> all = {
      kRails, kRailsOneShot, kRailsTree, kRailsUneven, kPairwise, kHcl,
  };
  return all;
}

StatusOr<const PlanAlgorithm*> findPlanAlgorithm(std::string_view name, const Problem& problem, const RankMap& map) {
  std::string accepting;
  const PlanAlgorithm* known = nullptr;
  for (const PlanAlgorithm& algorithm : planAlgorithms()) {
    const bool accepts = algorithm.accepts(problem, map);
    if (algorithm.name == name) {
      if (accepts) return &algorithm;
      known = &algorithm;
    }
    if (accepts) accepting += base::strCat(accepting.empty() ? "" : ", ", algorithm.name);
  }
  const std::string what =
      known ? base::strCat("algorithm '", name, "' cannot do ") : base::strCat("no algorithm '", name, "' for ");
  return notFound(base::strCat(what, problemText(problem), " on ", map.nodes(), map.nodes() == 1 ? " node" : " nodes",
                               accepting.empty() ? "; none can" : base::strCat("; there are: ", accepting)));
}

}  // namespace hpu::collectives
