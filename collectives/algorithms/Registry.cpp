// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/Registry.h"

#include <string>

#include "collectives/algorithms/Algorithms.h"

namespace hpu::collectives {

const std::vector<Algorithm>& algorithms() {
  static const std::vector<Algorithm> all{kMesh, kMeshOneShot,     kRing,   kHalvingDoubling,
                                          kTree, kScatterExchange, kDirect, kRelays};
  return all;
}

StatusOr<const Algorithm*> findAlgorithm(std::string_view name, const Problem& problem) {
  std::string others;
  for (const Algorithm& algorithm : algorithms()) {
    if (!algorithm.accepts(problem)) continue;
    if (algorithm.name == name) return &algorithm;
    others += (others.empty() ? "" : ", ") + std::string(algorithm.name);
  }
  return Status(StatusCode::kNotFound, "no algorithm '" + std::string(name) + "' for " +
                                           std::string(collectiveName(problem.collective)) + " on " +
                                           std::to_string(problem.ranks) +
                                           " ranks; there are: " + (others.empty() ? "none" : others));
}

bool wellFormed(const Problem& problem) {
  if (problem.ranks < 1 || problem.count < 0 || problem.elementBytes < 1 || problem.elementBytes > 64 ||
      problem.partialBytes < 1 || problem.partialBytes > 64)
    return false;
  if (problem.root < 0 || problem.root >= problem.ranks || problem.destination < 0 ||
      problem.destination >= problem.ranks)
    return false;
  // All of everybody's elements, and their bytes, can be counted.
  return problem.count <= INT64_MAX / 64 / problem.ranks / problem.ranks;
}

}  // namespace hpu::collectives
