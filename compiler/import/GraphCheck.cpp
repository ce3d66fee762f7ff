// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/GraphCheck.h"

#include <deque>
#include <set>
#include <unordered_map>

#include "base/Format.h"

namespace hpu::importer {
namespace {

using base::strCat;

Issue graphIssue(std::string reason) {
  return {Issue::Kind::kInvalid, "", "", "", std::move(reason)};
}

Issue nodeIssue(const NodeDef& node, std::string reason) {
  return {Issue::Kind::kInvalid, node.name, node.op, "", std::move(reason)};
}

constexpr size_t kGraphInput = SIZE_MAX;

/// What defines each name: a node's index, or kGraphInput for inputs and initializers.
using Producers = std::unordered_map<std::string, size_t>;

Producers findProducers(const GraphDef& graph, GraphFaults& faults) {
  Producers producers;
  auto twice = [&](const std::string& name, Issue issue) {
    faults.lost.insert(name);
    faults.issues.push_back(std::move(issue));
  };
  for (const ValueInfo& input : graph.inputs)
    if (!producers.emplace(input.name, kGraphInput).second)
      twice(input.name,
            graphIssue(strCat("the graph input '", input.name, "' is defined twice; export the model again")));
  std::set<std::string> initializers;
  for (const TensorData& tensor : graph.initializers) {
    if (!initializers.insert(tensor.name).second)
      twice(tensor.name,
            graphIssue(strCat("the initializer '", tensor.name, "' is defined twice; export the model again")));
    producers.emplace(tensor.name, kGraphInput);  // An input of this name is the initializer's older form.
  }
  for (const RefusedInitializer& refused : graph.refused) producers.emplace(refused.name, kGraphInput);
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    for (const std::string& output : graph.nodes[i].outputs)
      if (!output.empty() && !producers.emplace(output, i).second)
        twice(output, nodeIssue(graph.nodes[i], strCat("defines '", output,
                                                       "', which is defined already; export the "
                                                       "model again")));
  return producers;
}

/// One cycle among the nodes that could not be ordered: "a -> b -> a".
std::string describeCycle(const GraphDef& graph, const Producers& producers, const std::vector<bool>& done) {
  size_t at = 0;
  while (done[at]) ++at;
  std::vector<size_t> path;
  std::vector<bool> seen(graph.nodes.size(), false);
  while (!seen[at]) {
    seen[at] = true;
    path.push_back(at);
    // A node that is left over waits for another one that is.
    for (const std::string& input : graph.nodes[at].inputs) {
      auto producer = producers.find(input);
      if (producer == producers.end() || producer->second == kGraphInput || done[producer->second]) continue;
      at = producer->second;
      break;
    }
  }
  size_t first = 0;
  while (path[first] != at) ++first;
  std::string text;
  for (size_t i = path.size(); i-- > first;) text += graph.nodes[path[i]].name + " -> ";
  return text + graph.nodes[path.back()].name;
}

void sortNodes(GraphDef& graph, const Producers& producers, GraphFaults& faults) {
  size_t count = graph.nodes.size();
  std::vector<size_t> waiting(count, 0);
  std::vector<std::vector<size_t>> users(count);
  for (size_t i = 0; i < count; ++i) {
    for (const std::string& input : graph.nodes[i].inputs) {
      auto producer = producers.find(input);
      if (producer == producers.end() || producer->second == kGraphInput) continue;
      ++waiting[i];
      users[producer->second].push_back(i);
    }
  }
  // The smallest index first keeps the file's order where it is one already.
  std::set<size_t> ready;
  for (size_t i = 0; i < count; ++i)
    if (waiting[i] == 0) ready.insert(i);
  std::vector<size_t> order;
  std::vector<bool> done(count, false);
  while (!ready.empty()) {
    size_t i = *ready.begin();
    ready.erase(ready.begin());
    order.push_back(i);
    done[i] = true;
    for (size_t user : users[i])
      if (--waiting[user] == 0) ready.insert(user);
  }
  if (order.size() != count) {
    faults.issues.push_back(
        graphIssue("the nodes form a cycle: " + describeCycle(graph, producers, done) + "; export the model again"));
    for (size_t i = 0; i < count; ++i) {
      if (done[i]) continue;
      order.push_back(i);
      faults.lost.insert(graph.nodes[i].outputs.begin(), graph.nodes[i].outputs.end());
    }
  }
  std::vector<NodeDef> sorted;
  sorted.reserve(count);
  for (size_t i : order) sorted.push_back(std::move(graph.nodes[i]));
  graph.nodes = std::move(sorted);
}

void checkInputs(const GraphDef& graph, GraphFaults& faults) {
  constexpr int64_t kLargest = int64_t{1} << 40;
  for (const ValueInfo& input : graph.inputs) {
    int64_t count = 1;
    std::string shape;
    auto impossible = [&](std::string reason) {
      faults.lost.insert(input.name);
      faults.issues.push_back(graphIssue(std::move(reason)));
    };
    for (const DimSpec& dim : input.shape)
      shape += strCat(shape.empty() ? "" : "x", dim.size == kDynamic ? std::string("?") : std::to_string(dim.size));
    for (const DimSpec& dim : input.shape) {
      if (dim.size == kDynamic) continue;
      if (dim.size < 0)
        impossible(strCat("the input '", input.name, "' has a dimension of ", dim.size,
                          "; export the model again, or name it free with dim_param"));
      else if (__builtin_mul_overflow(count, std::max<int64_t>(dim.size, 1), &count) || count > kLargest)
        count = kLargest + 1;
    }
    if (count > kLargest)
      impossible(strCat("the input '", input.name, "' (", shape,
                        ") has more than 2^40 elements; export the model "
                        "with its real sizes"));
  }
}

}  // namespace

GraphFaults checkGraph(OnnxModel& model) {
  GraphFaults faults;
  GraphDef& graph = model.graph;
  checkInputs(graph, faults);
  Producers producers = findProducers(graph, faults);
  for (const NodeDef& node : graph.nodes)
    for (const std::string& input : node.inputs) {
      if (input.empty() || producers.count(input)) continue;
      faults.lost.insert(input);
      faults.issues.push_back(
          nodeIssue(node, strCat("reads '", input, "', which nothing defines; export the model again")));
    }
  if (graph.outputs.empty()) faults.issues.push_back(graphIssue("the graph has no output; export the model again"));
  std::set<std::string> outputs;
  for (const ValueInfo& output : graph.outputs) {
    if (!producers.count(output.name))
      faults.issues.push_back(graphIssue(strCat("the graph output '", output.name,
                                                "' is not defined by any node; export the "
                                                "model again")));
    if (!outputs.insert(output.name).second)
      faults.issues.push_back(graphIssue(strCat("the graph output '", output.name,
                                                "' is listed twice; export the model "
                                                "again, each output once (two names may stand for one value)")));
  }
  sortNodes(graph, producers, faults);
  return faults;
}

}  // namespace hpu::importer
