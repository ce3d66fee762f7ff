// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/graph/SectionUse.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/Format.h"
#include "bindings/synapse/graph/DataTypes.h"

namespace hpu::synapse {
namespace {

using base::strCat;

struct Bytes {
  uint64_t begin = 0, end = 0;
};

/// A dimension of a tensor in memory.
struct Step {
  uint64_t stride = 0, size = 0;
  bool operator<(const Step& other) const { return stride < other.stride; }
};

/// The places of a tensor's elements: runs of `run` bytes, from `begin` on, one for each step of `outer`.
struct Layout {
  uint64_t begin = 0, run = 0;
  std::vector<Step> outer;
  uint64_t end() const {
    uint64_t last = begin + run;
    for (const Step& step : outer) last += step.stride * (step.size - 1);
    return last;
  }
};

/// None: it has no bytes, or sizes that are not known or beyond the address space.
std::optional<Layout> layoutOf(const TensorDescription& tensor) {
  const DataTypeInfo* type = findDataType(tensor.dataType);
  if (!type || tensor.maxSizes.empty()) return std::nullopt;
  constexpr uint64_t kMost = uint64_t{1} << 56;
  if (tensor.sectionOffset > kMost) return std::nullopt;
  const bool hasStrides =
      std::any_of(tensor.strides.begin(), tensor.strides.end(), [](uint64_t stride) { return stride != 0; });
  uint64_t elements = 1;
  for (uint64_t size : tensor.maxSizes) {
    if (size == 0 || size > kMost / elements) return std::nullopt;
    elements *= size;
  }
  Layout layout{tensor.sectionOffset, (elements * type->bits + 7) / 8, {}};
  if (!hasStrides || type->bits < 8) return layout;
  layout.run = type->bits / 8;
  uint64_t reach = 0;
  std::vector<Step> steps;
  for (size_t d = 0; d < tensor.maxSizes.size(); ++d) {
    const uint64_t stride = d < tensor.strides.size() ? tensor.strides[d] : 0, size = tensor.maxSizes[d];
    if (stride > kMost / size || (reach += stride * size) > kMost) return std::nullopt;
    if (size > 1 && stride > 0) steps.push_back({stride, size});
  }
  std::sort(steps.begin(), steps.end());
  for (const Step& step : steps) {
    if (layout.outer.empty() && step.stride <= layout.run)
      layout.run += step.stride * (step.size - 1);
    else
      layout.outer.push_back(step);
  }
  return layout;
}

/// Beyond so many runs tensors that may lie between each other's elements are not looked at closely, and pass.
constexpr uint64_t kMostRuns = 1 << 20;

/// The runs by their begin; none: too many.
std::optional<std::vector<Bytes>> runsOf(const Layout& layout) {
  uint64_t count = 1;
  for (const Step& step : layout.outer) {
    count *= std::min(step.size, kMostRuns + 1);
    if (count > kMostRuns) return std::nullopt;
  }
  std::vector<Bytes> runs{{layout.begin, layout.begin + layout.run}};
  runs.reserve(count);
  for (const Step& step : layout.outer) {
    const size_t known = runs.size();
    for (uint64_t i = 1; i < step.size; ++i)
      for (size_t k = 0; k < known; ++k)
        runs.push_back({runs[k].begin + i * step.stride, runs[k].end + i * step.stride});
  }
  std::sort(runs.begin(), runs.end(), [](const Bytes& a, const Bytes& b) { return a.begin < b.begin; });
  return runs;
}

/// The first bytes that both have.
std::optional<Bytes> firstShared(const Layout& a, const Layout& b) {
  Bytes outer{std::max(a.begin, b.begin), std::min(a.end(), b.end())};
  if (outer.begin >= outer.end) return std::nullopt;
  if (a.outer.empty() && b.outer.empty()) return outer;
  auto ofA = runsOf(a), ofB = runsOf(b);
  if (!ofA || !ofB) return std::nullopt;
  for (size_t i = 0, k = 0; i < ofA->size() && k < ofB->size();) {
    const Bytes &x = (*ofA)[i], &y = (*ofB)[k];
    if (x.begin < y.end && y.begin < x.end) return Bytes{std::max(x.begin, y.begin), std::min(x.end, y.end)};
    ++(x.end <= y.begin ? i : k);
  }
  return std::nullopt;
}

struct Use {
  size_t node = 0;
  int32_t tensor = kNoTensor;
  bool writes = false;
  const Layout* layout = nullptr;
};

SectionConflict conflictOf(const Use& a, const Use& b, const Bytes& bytes) {
  const Use &first = a.node < b.node ? a : b, &second = a.node < b.node ? b : a;
  return {first.node, second.node, first.tensor, second.tensor, first.writes, second.writes, bytes.begin, bytes.end};
}

/// Of one section.
void addConflicts(std::vector<Use>& uses, std::vector<SectionConflict>& conflicts) {
  if (std::none_of(uses.begin(), uses.end(), [](const Use& use) { return use.writes; })) return;
  std::stable_sort(uses.begin(), uses.end(),
                   [](const Use& a, const Use& b) { return a.layout->begin < b.layout->begin; });
  std::vector<const Use*> open;
  for (const Use& use : uses) {
    std::erase_if(open, [&](const Use* other) { return other->layout->end() <= use.layout->begin; });
    for (const Use* other : open) {
      if (other->node == use.node || (!other->writes && !use.writes)) continue;
      // One that reads what the other gives it comes after it.
      if (other->tensor == use.tensor) continue;
      if (auto shared = firstShared(*other->layout, *use.layout)) conflicts.push_back(conflictOf(*other, use, *shared));
    }
    open.push_back(&use);
  }
}

/// Who comes before whom, by dependencies alone.
class Dependencies {
 public:
  explicit Dependencies(const GraphDescription& graph) : next_(graph.nodes.size()) {
    std::map<uint64_t, size_t> byId;
    std::vector<size_t> producer(graph.tensors.size(), SIZE_MAX);
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      byId[graph.nodes[n].id] = n;
      for (int32_t t : graph.nodes[n].outputs)
        if (t != kNoTensor) producer[static_cast<size_t>(t)] = n;
    }
    auto add = [&](size_t from, size_t to) {
      if (from != to) next_[from].push_back(to);
      forward_ &= from <= to;
    };
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      for (int32_t t : graph.nodes[n].inputs)
        if (t != kNoTensor && producer[static_cast<size_t>(t)] != SIZE_MAX) add(producer[static_cast<size_t>(t)], n);
      for (uint64_t id : graph.nodes[n].after)
        if (auto found = byId.find(id); found != byId.end()) add(found->second, n);
    }
  }

  bool isBefore(size_t from, size_t to) {
    if (forward_ && from >= to) return false;
    std::vector<bool>& after = after_[from];
    if (after.empty()) {
      after.resize(next_.size());
      std::vector<size_t> open{from};
      while (!open.empty()) {
        size_t n = open.back();
        open.pop_back();
        for (size_t follower : next_[n])
          if (!after[follower]) {
            after[follower] = true;
            open.push_back(follower);
          }
      }
    }
    return after[to];
  }

 private:
  std::vector<std::vector<size_t>> next_;
  bool forward_ = true;  ///< Every node was created after those that it depends on.
  std::map<size_t, std::vector<bool>> after_;
};

std::string textOf(const GraphDescription& graph, const SectionConflict& c) {
  auto title = [&](size_t node) {
    return strCat("node '", graph.nodes[node].name, "' (", graph.nodes[node].guid, ")");
  };
  auto use = [&](int32_t tensor, bool writes) {
    return strCat(writes ? "writes" : "reads", " tensor '", graph.tensors[static_cast<size_t>(tensor)].name, "'");
  };
  const uint32_t section = graph.tensors[static_cast<size_t>(c.firstTensor)].section;
  return strCat(title(c.first), " ", use(c.firstTensor, c.firstWrites), " and ", title(c.second), " ",
                use(c.secondTensor, c.secondWrites), ", both at bytes ", c.begin, " to ", c.end, " of section ",
                graph.sections[section].id,
                ", and neither depends on the other: give them an order (synNodeDependencySet, or a tensor of the one "
                "that the other reads) or places of their own");
}

}  // namespace

std::vector<SectionConflict> sectionConflicts(const GraphDescription& graph) {
  std::vector<SectionConflict> conflicts;
  if (graph.nodes.size() < 2 || graph.sections.empty()) return conflicts;
  std::vector<std::optional<Layout>> layouts(graph.tensors.size());
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    const TensorDescription& tensor = graph.tensors[t];
    if (tensor.section < graph.sections.size() && (tensor.type == kDataTensor || tensor.type == kDynamicDataTensor))
      layouts[t] = layoutOf(tensor);
  }
  std::vector<std::vector<Use>> bySection(graph.sections.size());
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    for (bool writes : {false, true})
      for (int32_t t : writes ? graph.nodes[n].outputs : graph.nodes[n].inputs) {
        if (t == kNoTensor || !layouts[static_cast<size_t>(t)]) continue;
        bySection[graph.tensors[static_cast<size_t>(t)].section].push_back(
            {n, t, writes, &*layouts[static_cast<size_t>(t)]});
      }
  for (std::vector<Use>& uses : bySection) addConflicts(uses, conflicts);
  return conflicts;
}

Status checkSectionOrder(const GraphDescription& graph) {
  std::vector<SectionConflict> conflicts = sectionConflicts(graph);
  if (conflicts.empty()) return okStatus();
  Dependencies order(graph);
  // Readers of what other nodes wrote before them: what they read is not what the launch began with.
  std::vector<std::vector<int32_t>> rewritten(graph.nodes.size());
  for (const SectionConflict& c : conflicts) {
    if (!c.firstWrites && c.secondWrites && order.isBefore(c.second, c.first))
      rewritten[c.first].push_back(c.firstTensor);
    if (c.firstWrites && !c.secondWrites && order.isBefore(c.first, c.second))
      rewritten[c.second].push_back(c.secondTensor);
  }
  std::vector<bool> isProduced(graph.tensors.size());
  for (const NodeDescription& node : graph.nodes)
    for (int32_t t : node.outputs)
      if (t != kNoTensor) isProduced[static_cast<size_t>(t)] = true;
  std::string lines;
  size_t count = 0;
  std::sort(conflicts.begin(), conflicts.end(), [](const SectionConflict& a, const SectionConflict& b) {
    return std::pair(a.first, a.second) < std::pair(b.first, b.second);
  });
  for (const SectionConflict& c : conflicts) {
    const auto& others = rewritten[c.first];
    bool readsFirst = !c.firstWrites && !isProduced[static_cast<size_t>(c.firstTensor)] &&
                      std::find(others.begin(), others.end(), c.firstTensor) == others.end();
    if (readsFirst || order.isBefore(c.first, c.second) || order.isBefore(c.second, c.first)) continue;
    constexpr size_t kMostLines = 16;
    if (++count <= kMostLines) lines += strCat(lines.empty() ? "" : "\n", textOf(graph, c));
    if (count == kMostLines + 1) lines += "\nand more of them";
  }
  return lines.empty() ? okStatus() : invalidArgument(lines);
}

}  // namespace hpu::synapse
