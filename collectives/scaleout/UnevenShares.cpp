// SPDX-License-Identifier: Apache-2.0
#include "collectives/scaleout/UnevenShares.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "collectives/algorithms/Algorithms.h"

namespace hpu::collectives {
namespace {

bool isLess(const std::pair<int64_t, int64_t>& a, const std::pair<int64_t, int64_t>& b) {
  return a.first * b.second < b.first * a.second;
}

}  // namespace

bool isUneven(const Problem& problem, const RankMap& map) {
  return wellFormed(problem) && problem.ranks == map.ranks() && map.nodes() >= 2 && map.ranksPerNode() == 0;
}

void Fractions::add(int64_t numerator, int64_t denominator) {
  const int64_t divisor = std::gcd(numerator, denominator);
  const std::pair one{numerator / divisor, denominator / divisor};
  const auto at = std::lower_bound(all_.begin(), all_.end(), one, isLess);
  if (at == all_.end() || *at != one) all_.insert(at, one);
}

void Fractions::addParts(int64_t parts) {
  for (int64_t i = 1; i < parts; i++) add(i, parts);
}

int32_t Fractions::at(int64_t numerator, int64_t denominator) const {
  const std::pair one{numerator, denominator};
  return static_cast<int32_t>(std::lower_bound(all_.begin(), all_.end(), one, isLess) - all_.begin());
}

std::vector<int64_t> Fractions::cut(int64_t count) const {
  // Atoms begin at multiples of 64 elements where that does not make them too different.
  int64_t align = 64;
  while (align > 1 && count / atoms() / align < 16) align /= 2;
  std::vector<int64_t> boundaries;
  for (const auto& [numerator, denominator] : all_) {
    const int64_t at = count / denominator * numerator + count % denominator * numerator / denominator;
    boundaries.push_back(at / align * align);
  }
  boundaries.back() = count;
  return boundaries;
}

std::vector<int64_t> nodeSizes(const RankMap& map) {
  std::vector<int64_t> sizes;
  for (int32_t n = 0; n < map.nodes(); n++) sizes.push_back(static_cast<int64_t>(map.ranksOf(n).size()));
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

Fractions sharesOfNodes(const RankMap& map) {
  Fractions fractions;
  for (const int64_t size : nodeSizes(map)) fractions.addParts(size);
  return fractions;
}

Fractions sharesOfBlocks(const RankMap& map) {
  Fractions fractions;
  const std::vector<int64_t> sizes = nodeSizes(map);
  for (const int64_t a : sizes)
    for (const int64_t b : sizes) fractions.addParts(a / std::gcd(a, b));
  return fractions;
}

UnevenShares UnevenShares::create(const RankMap& map, const std::vector<int64_t>& chunk, std::vector<int32_t> weights,
                                  const std::function<void(Fractions&)>& more) {
  UnevenShares shares;
  shares.map = &map;
  shares.weights = std::move(weights);
  shares.nodes = map.nodes();
  shares.fractions = sharesOfNodes(map);
  if (more) more(shares.fractions);
  shares.atoms = shares.fractions.atoms();
  const std::vector<int64_t> sizes = nodeSizes(map);
  shares.splits_.resize(static_cast<size_t>(sizes.back()) + 1);
  for (const int64_t size : sizes) {
    Split& split = shares.splits_[static_cast<size_t>(size)];
    for (int64_t i = 0; i <= size; i++) split.first.push_back(shares.fractions.at(i, size));
    for (int64_t i = 0; i < size; i++)
      split.owner.resize(static_cast<size_t>(split.first[static_cast<size_t>(i) + 1]), static_cast<int32_t>(i));
  }
  shares.chunks = static_cast<int64_t>(chunk.size()) - 1;
  shares.cells.blockElements = chunk.back();
  for (size_t c = 0; c + 1 < chunk.size(); c++) {
    const std::vector<int64_t> atoms = shares.fractions.cut(chunk[c + 1] - chunk[c]);
    for (size_t a = 0; a + 1 < atoms.size(); a++) {
      const std::vector<int64_t> pieces = cutByWeights(atoms[a + 1] - atoms[a], shares.weights);
      for (size_t n = 1; n < pieces.size(); n++) shares.cells.boundaries.push_back(chunk[c] + atoms[a] + pieces[n]);
    }
  }
  return shares;
}

std::vector<int32_t> allReduceWeights(const RankMap& map) {
  const int32_t nodes = map.nodes(), ranks = map.ranks();
  auto least = static_cast<int32_t>(map.ranksOf(0).size());
  for (int32_t n = 1; n < nodes; n++) least = std::min(least, static_cast<int32_t>(map.ranksOf(n).size()));
  std::vector<int32_t> weights;
  for (int32_t n = 0; n < nodes; n++) {
    const auto size = static_cast<int32_t>(map.ranksOf(n).size());
    if (nodes == 2)
      weights.push_back(size);  // Each rail carries as much, whoever sums.
    else if (int64_t{2} * (nodes - 1) * least >= ranks)
      // All rails are busy for 2 (N - 1) / ranks of the data: the rest after a node's own part of it is for its sums.
      weights.push_back(2 * (nodes - 1) * size - ranks);
    else
      weights.push_back(size - least);  // The smallest are busy with their own part alone.
  }
  int32_t divisor = 0;
  for (const int32_t weight : weights) divisor = std::gcd(divisor, weight);
  for (int32_t& weight : weights) weight /= std::max(divisor, 1);
  return weights;
}

}  // namespace hpu::collectives
