// SPDX-License-Identifier: Apache-2.0
// Problems and maps that the tests of plans share.
#pragma once

#include <string>
#include <vector>

#include "base/Format.h"
#include "collectives/scaleout/Program.h"

namespace hpu::collectives {

inline Problem scaleProblem(Collective collective, int ranks, int64_t count, int root = 0) {
  Problem p;
  p.collective = collective;
  p.ranks = ranks;
  p.count = count;
  p.root = root;
  p.destination = (root + 1) % ranks;
  return p;
}

/// `locals` ranks at each of `nodes` nodes, node by node.
inline RankMap gridMap(int32_t nodes, int32_t locals) {
  std::vector<Place> places;
  for (int32_t n = 0; n < nodes; n++)
    for (int32_t l = 0; l < locals; l++) places.push_back({n, l});
  return RankMap::create(standardFabric(Target::kGaudi3, nodes), places).value();
}

inline std::string planName(const PlanAlgorithm& algorithm, const Problem& p, const RankMap& map, int32_t chunks) {
  return base::strCat(std::string(algorithm.name), ", ", chunks, " chunks, ", map.nodes(), " nodes of ",
                      map.ranksPerNode(), ": ", problemText(p), ", root ", p.root);
}

}  // namespace hpu::collectives
