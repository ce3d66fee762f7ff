// SPDX-License-Identifier: Apache-2.0
// Entry points: nodes.
#include <algorithm>
#include <cstring>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "bindings/synapse/api/EntryPoint.h"
#include "bindings/synapse/graph/DataTypes.h"
#include "bindings/synapse/graph/NodeChecks.h"
#include "bindings/synapse/graph/NodeSizes.h"
#include "bindings/synapse/graph/Tables.h"

namespace hpu::synapse {
namespace {

using base::strCat;

struct NodeRequest {
  const synTensor* inputs;
  const synTensor* outputs;
  uint32_t numInputs, numOutputs;
  const void* params;
  unsigned paramsSize;
  const char* guid;
  const char* name;
  const char** inputLayouts;
  const char** outputLayouts;
};

using TensorList = std::vector<std::shared_ptr<TensorObject>>;

Result findTensors(const synTensor* handles, uint32_t count, const char* what, TensorList& out) {
  out.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    out.push_back(handles[i] ? tensors().find(handles[i]) : nullptr);
    if (handles[i] && !out.back()) return badArgument(strCat(what, " ", i, ": ", tensors().missing(handles[i]).text()));
  }
  return {};
}

Result readLayouts(const char** layouts, uint32_t count, std::vector<std::string>& out) {
  if (!layouts) return {};
  for (uint32_t i = 0; i < count; ++i) {
    if (!layouts[i]) continue;
    if (strnlen(layouts[i], MAX_LAYOUT_SIZE) == MAX_LAYOUT_SIZE)
      return badArgument(strCat("a layout has at most ", MAX_LAYOUT_SIZE - 1, " letters"));
    out.resize(count);
    out[i] = layouts[i];
  }
  return {};
}

/// Checks the tensors of one side. The graph's lock is held.
Result checkSide(const GraphObject& graph, const GuidInfo& info, const TensorList& list, bool isOutput) {
  const bool isStrided = !isOutput && (info.name == "strided_view" || info.name == "strided_insert");
  for (size_t i = 0; i < list.size(); ++i) {
    if (!list[i]) continue;
    std::lock_guard lock(list[i]->mutex);
    if (list[i]->graphId && list[i]->graphId != graph.id)
      return badArgument(strCat(isOutput ? "output " : "input ", i, ", tensor '", list[i]->properties.name,
                                "': it belongs to another graph"));
    SYN_RETURN_IF_ERROR(checkOperand(*list[i], i, isOutput, isStrided && i >= 2));
    for (size_t j = 0; isOutput && j < i; ++j)
      if (list[j] == list[i])
        return badArgument(strCat("output ", i, ", tensor '", list[i]->properties.name, "': it is output ", j, " too"));
  }
  return {};
}

OperandSizes sizesOf(const std::shared_ptr<TensorObject>& object) {
  OperandSizes result;
  if (!object) return result;
  std::lock_guard lock(object->mutex);
  const TensorProperties& tensor = object->properties;
  result.isShape = tensor.type != DATA_TENSOR && tensor.type != DATA_TENSOR_DYNAMIC;
  const bool isFixed = !tensor.hasMin || tensor.minSizes == tensor.maxSizes;
  if (!tensor.dims || !isFixed || tensor.maxSizes.size() > result.sizes.size()) return result;
  result.isKnown = true;
  result.rank = static_cast<uint32_t>(tensor.maxSizes.size());
  std::copy(tensor.maxSizes.begin(), tensor.maxSizes.end(), result.sizes.begin());
  return result;
}

/// Whether sizes of the node's tensors contradict each other. The graph's lock is held.
Result checkNodeSizes(const GuidInfo& info, const NodeRecord& node) {
  if (!hasSizeRule(info)) return {};
  SizedNode sized;
  for (const auto& tensor : node.inputs) sized.inputs.push_back(sizesOf(tensor));
  for (const auto& tensor : node.outputs) sized.outputs.push_back(sizesOf(tensor));
  sized.params = node.description.params;
  auto isGiven = [](const std::string& layout) { return !layout.empty(); };
  const auto &in = node.description.inputLayouts, &out = node.description.outputLayouts;
  sized.hasLayouts = std::any_of(in.begin(), in.end(), isGiven) || std::any_of(out.begin(), out.end(), isGiven);
  return checkSizes(info, sized);
}

/// Fixes the properties of the tensors that the node uses.
void useTensors(const GraphObject& graph, const TensorList& list, bool isOutput) {
  for (const auto& tensor : list) {
    if (!tensor) continue;
    std::lock_guard lock(tensor->mutex);
    tensor->graphId = graph.id;
    tensor->locked = true;
    if (isOutput) tensor->hasProducer = true;
  }
}

Result createNode(synGraphHandle handle, const NodeRequest& request, synNodeId* id) {
  SYN_FIND(graph, graphs(), handle);
  if (!request.guid) return badArgument("pGuid is null");
  if (!request.inputs && request.numInputs) return badArgument("pInputsTensorList is null");
  if (!request.outputs && request.numOutputs) return badArgument("pOutputsTensorList is null");
  HPU_ASSIGN(ParsedGuid guid, parseGuid({request.guid, strnlen(request.guid, 256)}));

  NodeRecord node;
  node.description.guid = request.guid;
  if (request.name) node.description.name.assign(request.name, strnlen(request.name, 4096));
  const std::string& name = node.description.name;
  SYN_RETURN_IF_ERROR(checkSignature(*guid.info, name, request.numInputs, request.numOutputs, request.params != nullptr,
                                     request.paramsSize));
  auto about = [&](const Result& result) {
    return Result(result.status(), strCat("node '", name, "' (", request.guid, "): ", result.text()));
  };
  Result result = findTensors(request.inputs, request.numInputs, "input", node.inputs);
  if (result.ok()) result = findTensors(request.outputs, request.numOutputs, "output", node.outputs);
  if (result.ok()) result = readLayouts(request.inputLayouts, request.numInputs, node.description.inputLayouts);
  if (result.ok()) result = readLayouts(request.outputLayouts, request.numOutputs, node.description.outputLayouts);
  if (!result.ok()) return about(result);
  if (request.params && request.paramsSize) {
    const auto* bytes = static_cast<const std::byte*>(request.params);
    node.description.params.assign(bytes, bytes + request.paramsSize);
  }
  node.runsOnMme = runsOnMme(*guid.info);

  std::lock_guard lock(graph->mutex);
  if (graph->compiled) return about({synResourceBadUsage, "the graph was compiled; it takes no more nodes"});
  result = checkSide(*graph, *guid.info, node.inputs, false);
  if (result.ok()) result = checkSide(*graph, *guid.info, node.outputs, true);
  if (result.ok()) result = checkNodeSizes(*guid.info, node);
  if (!result.ok()) return about(result);
  useTensors(*graph, node.inputs, false);
  useTensors(*graph, node.outputs, true);
  node.description.id = nextNodeId();
  if (name.empty()) node.description.name = strCat(request.guid, "_", node.description.id);
  if (id) *id = node.description.id;
  graph->nodes.push_back(std::move(node));
  return {};
}

/// `apply(NodeRecord&) -> Result` under the graph's lock.
template <typename Apply>
Result withNode(synGraphHandle handle, synNodeId id, bool changes, Apply&& apply) {
  SYN_FIND(graph, graphs(), handle);
  std::lock_guard lock(graph->mutex);
  NodeRecord* node = graph->findNode(id);
  if (!node) return badArgument(strCat("the graph has no node ", id));
  if (changes && graph->compiled) return {synResourceBadUsage, "the graph was compiled; its nodes are fixed"};
  return apply(*node);
}

Result needsMme(const NodeRecord& node) {
  if (node.runsOnMme) return {};
  return {synFail, strCat("node '", node.description.name, "' (", node.description.guid,
                          ") does not run on the MME and has no rounding mode")};
}

Result checkNodes(GraphObject& graph, const synNodeId* ids, uint32_t count, const char* what) {
  if (!ids || !count) return badArgument(strCat("the list of ", what, " nodes is empty"));
  for (uint32_t i = 0; i < count; ++i)
    if (!graph.findNode(ids[i])) return badArgument(strCat(what, " node ", i, ": the graph has no node ", ids[i]));
  return {};
}

}  // namespace
}  // namespace hpu::synapse

using namespace hpu::synapse;
using hpu::base::strCat;

synStatus SYN_API_CALL synNodeCreate(const synGraphHandle graphHandle, const synTensor* pInputsTensorList,
                                     const synTensor* pOutputsTensorList, const uint32_t numberInputs,
                                     const uint32_t numberOutputs, const void* pUserParams, const unsigned paramsSize,
                                     const char* pGuid, const char* pName, const char** inputLayouts,
                                     const char** outputLayouts) {
  return guarded("synNodeCreate", [&]() -> Result {
    return createNode(graphHandle,
                      {pInputsTensorList, pOutputsTensorList, numberInputs, numberOutputs, pUserParams, paramsSize,
                       pGuid, pName, inputLayouts, outputLayouts},
                      nullptr);
  });
}

synStatus SYN_API_CALL synNodeCreateWithId(const synGraphHandle graphHandle, const synTensor* pInputsTensorList,
                                           const synTensor* pOutputsTensorList, const uint32_t numberInputs,
                                           const uint32_t numberOutputs, const void* pUserParams,
                                           const unsigned paramsSize, const char* pGuid, const char* pName,
                                           synNodeId* nodeUniqueId, const char** inputLayouts,
                                           const char** outputLayouts) {
  return guarded("synNodeCreateWithId", [&]() -> Result {
    SYN_REQUIRE(nodeUniqueId);
    return createNode(graphHandle,
                      {pInputsTensorList, pOutputsTensorList, numberInputs, numberOutputs, pUserParams, paramsSize,
                       pGuid, pName, inputLayouts, outputLayouts},
                      nodeUniqueId);
  });
}

synStatus SYN_API_CALL synNodeTypeSetPrecision(const synGraphHandle graphHandle, const char* guid,
                                               synDataType precision) {
  return guarded("synNodeTypeSetPrecision", [&]() -> Result {
    SYN_FIND(graph, graphs(), graphHandle);
    SYN_REQUIRE(guid);
    // A type of node is named with or without the suffix.
    std::string name(guid, strnlen(guid, 256));
    auto parsed = parseGuid(name);
    if (!parsed.ok()) parsed = parseGuid(name + "_f32");
    HPU_RETURN_IF_ERROR(parsed.status());
    if (!findDataType(precision)) return badArgument(strCat(static_cast<int64_t>(precision), " is no synDataType"));
    std::lock_guard lock(graph->mutex);
    if (graph->compiled) return {synResourceBadUsage, "the graph was compiled; its nodes are fixed"};
    std::string base(parsed->info->name);
    for (auto& [known, type] : graph->precisions)
      if (known == base) {
        type = precision;
        return {};
      }
    graph->precisions.emplace_back(std::move(base), precision);
    return {};
  });
}

synStatus SYN_API_CALL synNodeDependencySet(const synGraphHandle graphHandle, const synNodeId* pBlockingNodesIdList,
                                            const synNodeId* pBlockedNodesIdList, const uint32_t numberblocking,
                                            const uint32_t numberblocked) {
  return guarded("synNodeDependencySet", [&]() -> Result {
    SYN_FIND(graph, graphs(), graphHandle);
    std::lock_guard lock(graph->mutex);
    if (graph->compiled) return {synResourceBadUsage, "the graph was compiled; its nodes are fixed"};
    SYN_RETURN_IF_ERROR(checkNodes(*graph, pBlockingNodesIdList, numberblocking, "blocking"));
    SYN_RETURN_IF_ERROR(checkNodes(*graph, pBlockedNodesIdList, numberblocked, "blocked"));
    for (uint32_t i = 0; i < numberblocked; ++i)
      for (uint32_t j = 0; j < numberblocking; ++j)
        if (pBlockedNodesIdList[i] == pBlockingNodesIdList[j])
          return badArgument(strCat("node ", pBlockedNodesIdList[i], " cannot wait for itself"));
    for (uint32_t i = 0; i < numberblocked; ++i) {
      auto& after = graph->findNode(pBlockedNodesIdList[i])->description.after;
      after.insert(after.end(), pBlockingNodesIdList, pBlockingNodesIdList + numberblocking);
    }
    return {};
  });
}

synStatus SYN_API_CALL synNodeSetDeterministic(const synGraphHandle graphHandle, const synNodeId nodeId,
                                               const bool useDeterministic) {
  return guarded("synNodeSetDeterministic", [&]() -> Result {
    return withNode(graphHandle, nodeId, true, [&](NodeRecord& node) -> Result {
      node.description.deterministic = useDeterministic;
      return {};
    });
  });
}

synStatus SYN_API_CALL synNodeGetDeterministic(const synGraphHandle graphHandle, const synNodeId nodeId,
                                               bool* useDeterministic) {
  return guarded("synNodeGetDeterministic", [&]() -> Result {
    SYN_REQUIRE(useDeterministic);
    return withNode(graphHandle, nodeId, false, [&](NodeRecord& node) -> Result {
      *useDeterministic = node.description.deterministic;
      return {};
    });
  });
}

synStatus SYN_API_CALL synNodeSetRoundingMode(const synGraphHandle graphHandle, const synNodeId nodeId,
                                              const synRoundingMode roundingMode) {
  return guarded("synNodeSetRoundingMode", [&]() -> Result {
    if (roundingMode < synRoundToNearest || roundingMode > synStochasticRoundingAndNearest)
      return badArgument(strCat(static_cast<int>(roundingMode), " is no synRoundingMode"));
    return withNode(graphHandle, nodeId, true, [&](NodeRecord& node) -> Result {
      SYN_RETURN_IF_ERROR(needsMme(node));
      if (roundingMode != synRoundToNearest)
        return {synUnsupported, strCat("rounding mode ", static_cast<int>(roundingMode), " of node '",
                                       node.description.name, "': products are rounded to nearest even only")};
      node.description.roundingMode = roundingMode;
      return {};
    });
  });
}

synStatus SYN_API_CALL synNodeGetRoundingMode(const synGraphHandle graphHandle, const synNodeId nodeId,
                                              synRoundingMode* pRoundingMode) {
  return guarded("synNodeGetRoundingMode", [&]() -> Result {
    SYN_REQUIRE(pRoundingMode);
    return withNode(graphHandle, nodeId, false, [&](NodeRecord& node) -> Result {
      SYN_RETURN_IF_ERROR(needsMme(node));
      *pRoundingMode = static_cast<synRoundingMode>(node.description.roundingMode);
      return {};
    });
  });
}

synStatus SYN_API_CALL synNodeSetUserParams(const synGraphHandle graphHandle, const synNodeId nodeId,
                                            const void* userParams, const unsigned paramsSize) {
  return guarded("synNodeSetUserParams", [&]() -> Result {
    return withNode(graphHandle, nodeId, true, [&](NodeRecord& node) -> Result {
      HPU_ASSIGN(ParsedGuid guid, parseGuid(node.description.guid));
      SYN_RETURN_IF_ERROR(checkSignature(*guid.info, node.description.name, node.inputs.size(), node.outputs.size(),
                                         userParams != nullptr, paramsSize));
      const auto* bytes = static_cast<const std::byte*>(userParams);
      node.description.params.assign(bytes, bytes + (bytes ? paramsSize : 0));
      return {};
    });
  });
}

synStatus SYN_API_CALL synNodeGetUserParams(const synGraphHandle graphHandle, const synNodeId nodeId, void* userParams,
                                            unsigned* paramsSize) {
  return guarded("synNodeGetUserParams", [&]() -> Result {
    SYN_REQUIRE(paramsSize);
    return withNode(graphHandle, nodeId, false, [&](NodeRecord& node) -> Result {
      const auto& params = node.description.params;
      if (userParams && *paramsSize < params.size())
        return badArgument(
            strCat("the parameters have ", params.size(), " bytes, and there is room for ", *paramsSize));
      if (userParams && !params.empty()) std::memcpy(userParams, params.data(), params.size());
      *paramsSize = static_cast<unsigned>(params.size());
      return {};
    });
  });
}

synStatus SYN_API_CALL synNodeSetUserProgrammability(const synGraphHandle graphHandle, const synNodeId nodeId,
                                                     const synUserProgrammability* userProgrammability) {
  return guarded("synNodeSetUserProgrammability", [&]() -> Result {
    SYN_REQUIRE(userProgrammability);
    return withNode(graphHandle, nodeId, true, [&](NodeRecord& node) -> Result {
      const synUserExecOrder* order = userProgrammability->userExecOrder;
      node.hasOrder = order != nullptr;
      if (order) {
        node.orderGroup = order->groupId;
        node.orderIndex = order->executionOrderedIndex;
      }
      return {};
    });
  });
}
