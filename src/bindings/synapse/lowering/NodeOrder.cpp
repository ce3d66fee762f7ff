// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/lowering/NodeOrder.h"

#include <functional>
#include <map>
#include <queue>
#include <set>

#include "base/Format.h"
#include "bindings/synapse/graph/SectionUse.h"
#include "bindings/synapse/lowering/Lowering.h"

namespace hpu::synapse {

namespace {

bool isBefore(const std::vector<std::set<size_t>>& next, size_t from, size_t to) {
  std::vector<bool> seen(next.size());
  std::vector<size_t> open{from};
  while (!open.empty()) {
    size_t n = open.back();
    open.pop_back();
    for (size_t follower : next[n]) {
      if (follower == to) return true;
      if (!seen[follower]) open.push_back(follower);
      seen[follower] = true;
    }
  }
  return false;
}

/// A node that reads what a section held before the graph comes before a later one that writes there. The order of
/// creation says so already, unless a node depends on one that was created after it.
void readFirst(const GraphDescription& graph, const std::map<int32_t, size_t>& producer,
               std::vector<std::set<size_t>>& next, std::vector<size_t>& waitsFor) {
  for (const SectionConflict& conflict : sectionConflicts(graph)) {
    if (conflict.firstWrites || producer.count(conflict.firstTensor)) continue;
    if (isBefore(next, conflict.second, conflict.first)) continue;
    if (next[conflict.first].insert(conflict.second).second) ++waitsFor[conflict.second];
  }
}

}  // namespace

StatusOr<std::vector<size_t>> orderNodes(const GraphDescription& graph) {
  const std::vector<NodeDescription>& nodes = graph.nodes;
  std::map<uint64_t, size_t> byId;
  std::map<int32_t, size_t> producer;
  for (size_t n = 0; n < nodes.size(); ++n) {
    byId[nodes[n].id] = n;
    for (const std::vector<int32_t>* list : {&nodes[n].inputs, &nodes[n].outputs})
      for (int32_t t : *list)
        if (t != kNoTensor && (t < 0 || static_cast<size_t>(t) >= graph.tensors.size()))
          return invalidArgument(strCat(NodeContext::title(nodes[n]), ": there is no tensor ", t));
    for (int32_t t : nodes[n].outputs) {
      if (t == kNoTensor) continue;
      auto [known, isNew] = producer.emplace(t, n);
      if (!isNew)
        return invalidArgument(strCat(NodeContext::title(nodes[n]), ": tensor '", graph.tensors[t].name,
                                      "' is written by ", NodeContext::title(nodes[known->second]), " already"));
    }
  }

  std::vector<std::set<size_t>> next(nodes.size());
  std::vector<size_t> waitsFor(nodes.size(), 0);
  bool isForward = true;  // Every node was created after those that it depends on.
  auto depend = [&](size_t from, size_t to) {
    if (from != to && next[from].insert(to).second) ++waitsFor[to];
    isForward &= from <= to;
  };
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (int32_t t : nodes[n].inputs)
      if (auto found = producer.find(t); t != kNoTensor && found != producer.end()) depend(found->second, n);
    for (uint64_t id : nodes[n].after) {
      auto found = byId.find(id);
      if (found == byId.end())
        return invalidArgument(
            strCat(NodeContext::title(nodes[n]), ": it depends on node #", id, ", which is not there"));
      if (found->second == n) return invalidArgument(strCat(NodeContext::title(nodes[n]), ": it depends on itself"));
      depend(found->second, n);
    }
  }

  if (!isForward) readFirst(graph, producer, next, waitsFor);

  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t n = 0; n < nodes.size(); ++n)
    if (waitsFor[n] == 0) ready.push(n);
  std::vector<size_t> order;
  while (!ready.empty()) {
    size_t n = ready.top();
    ready.pop();
    order.push_back(n);
    for (size_t follower : next[n])
      if (--waitsFor[follower] == 0) ready.push(follower);
  }
  if (order.size() == nodes.size()) return order;
  std::string names;
  for (size_t n = 0; n < nodes.size(); ++n)
    if (waitsFor[n] > 0) names += strCat(names.empty() ? "" : ", ", NodeContext::title(nodes[n]));
  return invalidArgument(strCat("the nodes depend on each other in a cycle: ", names));
}

}  // namespace hpu::synapse
