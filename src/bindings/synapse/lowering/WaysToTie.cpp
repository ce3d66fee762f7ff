// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/lowering/WaysToTie.h"

#include <algorithm>
#include <functional>

namespace hpu::synapse {
namespace {

/// Whether they are the same dimension of two operands.
bool areAligned(const Shapes& inputs, uint64_t one, uint64_t other) {
  for (const Dims& a : inputs)
    for (const Dims& b : inputs)
      for (size_t d = 0; d < std::min(a.size(), b.size()); ++d)
        if (&a != &b && a[d] == one && b[d] == other) return true;
  return false;
}

}  // namespace

void uniteFirsts(std::vector<size_t>& firsts, size_t i, size_t j) {
  const size_t keep = std::min(firsts[i], firsts[j]), drop = std::max(firsts[i], firsts[j]);
  for (size_t& first : firsts)
    if (first == drop) first = keep;
}

std::vector<std::vector<size_t>> waysToTie(const std::vector<FreePlace>& places, const std::vector<size_t>& firsts,
                                           const std::vector<size_t>& present, const Shapes& inputs,
                                           const std::vector<int64_t>& numbers) {
  struct Way {
    std::vector<size_t> firsts;
    size_t joined = 0;
    int64_t aligned = 0;
  };
  std::vector<Way> ways;
  std::vector<std::vector<bool>> isAligned(present.size(), std::vector<bool>(present.size(), false));
  for (size_t i = 0; i < present.size(); ++i)
    for (size_t j = 0; j < present.size(); ++j)
      isAligned[i][j] =
          areAligned(inputs, static_cast<uint64_t>(numbers[present[i]]), static_cast<uint64_t>(numbers[present[j]]));
  auto add = [&](const std::vector<size_t>& blocks) {
    Way way{firsts};
    for (size_t i = 0; i < present.size(); ++i)
      for (size_t j = 0; j < i; ++j) {
        if (blocks[i] != blocks[j]) continue;
        if (places[present[i]].largest != places[present[j]].largest) return;
        way.aligned += isAligned[i][j] ? 1 : -1;
        way.joined += way.firsts[present[i]] != way.firsts[present[j]];
        uniteFirsts(way.firsts, present[i], present[j]);
      }
    if (way.joined != 0) ways.push_back(std::move(way));
  };
  std::vector<size_t> blocks(present.size(), 0);
  if (present.size() > kMostTiedInAllWays) {
    for (const bool aligned : {true, false}) {
      for (size_t i = 0; i < present.size(); ++i) {
        blocks[i] = i;
        for (size_t j = i; j-- > 0;)
          if (places[present[i]].largest == places[present[j]].largest && (!aligned || isAligned[i][j]))
            blocks[i] = blocks[j];
      }
      add(blocks);
    }
  } else {
    std::function<void(size_t, size_t)> fill = [&](size_t i, size_t used) {
      if (i == present.size()) return add(blocks);
      for (blocks[i] = 0; blocks[i] <= used; ++blocks[i]) fill(i + 1, std::max(used, blocks[i] + 1));
    };
    if (present.size() > 1) fill(1, 1);
  }
  std::stable_sort(ways.begin(), ways.end(), [](const Way& a, const Way& b) {
    return a.joined != b.joined ? a.joined < b.joined : a.aligned > b.aligned;
  });
  std::vector<std::vector<size_t>> result;
  for (Way& way : ways) result.push_back(std::move(way.firsts));
  return result;
}

}  // namespace hpu::synapse
