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

/// Nodes of so many ranks each, node by node.
inline RankMap sizesMap(const std::vector<int32_t>& sizes) {
  std::vector<Place> places;
  for (size_t n = 0; n < sizes.size(); n++)
    for (int32_t l = 0; l < sizes[n]; l++) places.push_back({static_cast<int32_t>(n), l});
  return RankMap::create(standardFabric(Target::kGaudi3, static_cast<int32_t>(sizes.size())), places).value();
}

inline std::string planName(const PlanAlgorithm& algorithm, const Problem& p, const RankMap& map, int32_t chunks) {
  std::string sizes;
  for (int32_t n = 0; n < map.nodes() && map.ranksPerNode() == 0; n++)
    sizes += base::strCat(n > 0 ? " + " : "", map.ranksOf(n).size());
  if (map.ranksPerNode() > 0) sizes = base::strCat(map.ranksPerNode());
  return base::strCat(std::string(algorithm.name), ", ", chunks, " chunks, ", map.nodes(), " nodes of ", sizes, ": ",
                      problemText(p), ", root ", p.root);
}

}  // namespace hpu::collectives
