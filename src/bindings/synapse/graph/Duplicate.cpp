// SPDX-License-Identifier: Apache-2.0
// Entry point synGraphDuplicate: a copy of a graph with tensors, sections and nodes of its own.
#include <unordered_map>

#include "base/Format.h"
#include "bindings/synapse/api/EntryPoint.h"
#include "bindings/synapse/graph/Tables.h"

namespace hpu::synapse {
namespace {

using base::strCat;

class Duplicator {
 public:
  /// The mutex of `from` is held as long as this lives.
  explicit Duplicator(GraphObject& from)
      : from_(from), to_(std::make_shared<GraphObject>(from.deviceType, from.target, from.eager)) {
    to_->duplicated = true;
    to_->inference = from.inference;
    to_->quantization = from.quantization;
    to_->backoffFactor = from.backoffFactor;
    to_->precisions = from.precisions;
    to_->nextSection = from.nextSection;
  }

  std::shared_ptr<GraphObject> run(synNodeHandleMap* nodesMap) {
    for (const NodeRecord& node : from_.nodes) ids_[node.description.id] = nextNodeId();
    to_->nodes.reserve(from_.nodes.size());
    for (const NodeRecord& node : from_.nodes) {
      *nodesMap++ = {node.description.id, ids_[node.description.id]};
      NodeRecord& copy = to_->nodes.emplace_back(node);
      copy.description.id = ids_[node.description.id];
      for (uint64_t& id : copy.description.after) id = ids_[id];
      for (auto* list : {&copy.inputs, &copy.outputs})
        for (auto& tensor : *list)
          if (tensor) tensor = copyOf(*tensor);
    }
    return to_;
  }

  std::shared_ptr<TensorObject> copyOf(TensorObject& tensor) {
    auto& copy = tensors_[&tensor];
    if (copy) return copy;
    copy = std::make_shared<TensorObject>();
    std::lock_guard lock(tensor.mutex);
    copy->graphId = to_->id;
    copy->duplicated = true;
    copy->locked = tensor.locked;
    copy->hasProducer = tensor.hasProducer;
    copy->properties = tensor.properties;
    if (tensor.properties.section) moveToCopy(copy->properties);
    return copy;
  }

 private:
  void moveToCopy(TensorProperties& properties) {
    auto& [section, handle] = sections_[properties.section.get()];
    if (!section) {
      SectionObject& original = *properties.section;
      section = std::make_shared<SectionObject>(original.id, to_->id);
      std::lock_guard lock(original.mutex);
      section->group = original.group;
      section->persistent = original.persistent;
      section->isConst = original.isConst;
      section->rmw = original.rmw;
      section->used = original.used;
      handle = sections().insert(section);
      to_->ownSections.push_back(handle);
    }
    properties.section = section;
    properties.sectionHandle = handle;
  }

  GraphObject& from_;
  std::shared_ptr<GraphObject> to_;
  std::unordered_map<uint64_t, uint64_t> ids_;
  std::unordered_map<const TensorObject*, std::shared_ptr<TensorObject>> tensors_;
  std::unordered_map<const SectionObject*, std::pair<std::shared_ptr<SectionObject>, synSectionHandle>> sections_;
};

using LiveTensors = std::vector<std::pair<synTensor, std::shared_ptr<TensorObject>>>;

/// The tensors whose handles were not destroyed. The mutex of the graph is held.
LiveTensors liveTensors(const GraphObject& graph) {
  LiveTensors live;
  for (synTensor handle : graph.tensorHandles)
    if (auto tensor = tensors().find(handle)) live.emplace_back(handle, std::move(tensor));
  return live;
}

Result checkRoom(const char* what, size_t have, uint32_t given) {
  if (have == given) return {};
  return badArgument(strCat("the graph has ", have, " ", what, ", and the map has room for ", given));
}

}  // namespace
}  // namespace hpu::synapse

using namespace hpu::synapse;

synStatus SYN_API_CALL synGraphDuplicate(synGraphHandle graphHandle, synGraphHandle* newGraphHandle,
                                         synTensorHandleMap* tensorsMap, uint32_t* numTensors,
                                         synNodeHandleMap* nodesMap, uint32_t* numNodes) {
  return guardedCreate("synGraphDuplicate", newGraphHandle, [&]() -> Result {
    SYN_FIND(graph, graphs(), graphHandle);
    SYN_REQUIRE(newGraphHandle);
    SYN_REQUIRE(numTensors);
    SYN_REQUIRE(numNodes);
    std::lock_guard lock(graph->mutex);
    if (graph->compiled) return {synResourceBadUsage, "the graph was compiled; duplicate it before that"};
    LiveTensors live = liveTensors(*graph);
    if (!tensorsMap || !nodesMap) {
      *numTensors = static_cast<uint32_t>(live.size());
      *numNodes = static_cast<uint32_t>(graph->nodes.size());
      return {};
    }
    SYN_RETURN_IF_ERROR(checkRoom("tensors", live.size(), *numTensors));
    SYN_RETURN_IF_ERROR(checkRoom("nodes", graph->nodes.size(), *numNodes));
    Duplicator duplicator(*graph);
    std::shared_ptr<GraphObject> copy = duplicator.run(nodesMap);
    for (auto& [handle, tensor] : live) {
      synTensor duplicate = tensors().insert(duplicator.copyOf(*tensor));
      copy->tensorHandles.push_back(duplicate);
      *tensorsMap++ = {handle, duplicate};
    }
    *newGraphHandle = graphs().insert(std::move(copy));
    return {};
  });
}
