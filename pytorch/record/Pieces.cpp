// SPDX-License-Identifier: Apache-2.0
#include "pytorch/record/Pieces.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pytorch/device/Memory.h"
#include "pytorch/device/Runtime.h"
#include "pytorch/record/Programs.h"

namespace hpu_torch {
namespace {

class Pieces {
 public:
  explicit Pieces(const RunGraph& run) : run_(run) {}

  void halve(Pending& graph) {
    const size_t middle = graph.nodes.size() / 2;
    shareMemory(graph, middle);
    for (auto [begin, end] : {std::pair(size_t{0}, middle), std::pair(middle, graph.nodes.size())}) {
      Pending part = partOf(graph, begin, end);
      if (part.isEmpty()) continue;
      const hpu::Status status = run_(part);
      if (status.ok()) continue;
      if (part.nodes.size() > 1)
        halve(part);
      else
        fail(part, status);
    }
  }

  /// Throws when an op could not be compiled.
  void finish() const {
    if (failure_.ok()) return;
    std::string what = "compiling " + failed_;
    const int64_t others = undefined_ - 1;
    what += others > 0 ? " (its results, and those of " + std::to_string(others) +
                             (others > 1 ? " other ops" : " other op") + " that could not be compiled or depend on it"
                       : " (its results";
    raise(failure_, what + ", are undefined; all else that was recorded with it has run)");
  }

 private:
  /// Which slots a range of nodes uses.
  static std::vector<bool> usesOf(const Pending& graph, size_t begin, size_t end) {
    std::vector<bool> uses(graph.slots.size());
    for (size_t n = begin; n < end; ++n)
      for (const auto* places : {&graph.nodes[n].operands, &graph.nodes[n].results})
        for (const Place& place : *places)
          if (place.storage >= 0) uses[static_cast<size_t>(place.storage)] = true;
    return uses;
  }

  static void shareMemory(Pending& graph, size_t middle) {
    const std::vector<bool> before = usesOf(graph, 0, middle), after = usesOf(graph, middle, graph.nodes.size());
    for (size_t s = 0; s < graph.slots.size(); ++s) {
      Pending::Slot& slot = graph.slots[s];
      if (slot.kept || !before[s] || !after[s]) continue;
      slot.kept =
          c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), static_cast<int64_t>(slot.bytes),
                                                allocator()->allocate(slot.bytes), allocator(), /*resizable=*/false);
    }
  }

  /// A range of nodes without those that read what is undefined.
  Pending partOf(const Pending& graph, size_t begin, size_t end) {
    Pending part;
    part.stream = graph.stream;
    part.isCaptured = graph.isCaptured;
    std::vector<int> placeOf(graph.slots.size(), -1);
    std::vector<bool> isUndefined(graph.slots.size());
    for (size_t s = 0; s < graph.slots.size(); ++s) isUndefined[s] = lost_.count(graph.slots[s].kept) > 0;
    for (size_t n = begin; n < end; ++n) {
      Node node = graph.nodes[n];
      if (std::any_of(node.operands.begin(), node.operands.end(),
                      [&](const Place& place) { return isUndefined[static_cast<size_t>(place.storage)]; })) {
        ++undefined_;
        forEachWritten(node, [&](int storage) {
          isUndefined[static_cast<size_t>(storage)] = true;
          if (const auto& kept = graph.slots[static_cast<size_t>(storage)].kept) lost_.insert(kept);
        });
        continue;
      }
      for (auto* places : {&node.operands, &node.results})
        for (Place& place : *places) {
          if (place.storage < 0) continue;
          int& own = placeOf[static_cast<size_t>(place.storage)];
          if (own < 0) {
            own = static_cast<int>(part.slots.size());
            part.slots.push_back(graph.slots[static_cast<size_t>(place.storage)]);
            part.slots.back().isWritten = false;
          }
          place.storage = own;
        }
      part.add(std::move(node), graph.numbers[n]);
    }
    return part;
  }

  template <typename Function>
  static void forEachWritten(const Node& node, const Function& function) {
    for (const Place& place : node.results)
      if (place.storage >= 0) function(place.storage);
    for (int operand : node.signature->written) function(node.operands[static_cast<size_t>(operand)].storage);
  }

  void fail(const Pending& part, const hpu::Status& status) {
    if (part.isCaptured) raise(status, "compiling " + describe(part.nodes));
    if (failure_.ok()) {
      failure_ = status;
      failed_ = describe(part.nodes);
    }
    ++undefined_;
    forEachWritten(part.nodes[0], [&](int storage) {
      if (const auto& kept = part.slots[static_cast<size_t>(storage)].kept) lost_.insert(kept);
    });
  }

  const RunGraph& run_;
  std::set<c10::intrusive_ptr<c10::StorageImpl>> lost_;  ///< Whose contents are undefined.
  hpu::Status failure_;
  std::string failed_;
  int64_t undefined_ = 0;  ///< Ops.
};

}  // namespace

void runInPieces(Pending& graph, const RunGraph& run) {
  const hpu::Status status = run(graph);
  if (status.ok()) return;
  if (graph.nodes.size() == 1) raise(status, "compiling " + describe(graph.nodes));
  ++runCounters().split;
  TORCH_WARN_ONCE(describe(graph.nodes), " cannot run as one graph, and runs in parts: ", status.message());
  Pieces pieces(run);
  pieces.halve(graph);
  pieces.finish();
}

}  // namespace hpu_torch
