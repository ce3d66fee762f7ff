// SPDX-License-Identifier: Apache-2.0
// Entry points: graphs, but for compilation and duplication.
#include <string>

#include "base/Format.h"
#include "bindings/synapse/api/EntryPoint.h"
#include "bindings/synapse/graph/Tables.h"

namespace hpu::synapse {
namespace {

Result targetOf(synDeviceType type, Target& target) {
  switch (type) {
    case synDeviceGaudi:
      target = Target::kGaudi1;
      return {};
    case synDeviceGaudi2:
      target = Target::kGaudi2;
      return {};
    case synDeviceGaudi3:
      target = Target::kGaudi3;
      return {};
    default:
      return badArgument(base::strCat("graphs are for Gaudi, Gaudi2 or Gaudi3, not for ", deviceTypeName(type)));
  }
}

Result createGraph(synGraphHandle* out, synDeviceType type, bool eager) {
  if (!out) return badArgument("pGraphHandle is null");
  *out = nullptr;
  Target target = Target::kGaudi2;
  SYN_RETURN_IF_ERROR(targetOf(type, target));
  *out = graphs().insert(std::make_shared<GraphObject>(type, target, eager));
  return {};
}

const char* attributeName(synGraphAttribute attribute) {
  switch (attribute) {
    case GRAPH_ATTRIBUTE_INFERENCE:
      return "inference";
    case GRAPH_ATTRIBUTE_QUANTIZATION:
      return "quantization";
    case GRAPH_ATTRIBUTE_BACKOFF_FACTOR:
      return "backoff factor";
    default:
      return nullptr;
  }
}

Result checkAttributes(const synGraphAttribute* attributes, const void* values, uint32_t size) {
  SYN_REQUIRE(attributes);
  SYN_REQUIRE(values);
  for (uint32_t i = 0; i < size; ++i)
    if (!attributeName(attributes[i]))
      return badArgument(base::strCat("entry ", i, " is no graph attribute: ", static_cast<int>(attributes[i])));
  return {};
}

Result setAttributes(synGraphHandle handle, const synGraphAttribute* attributes, const synGraphAttributeVal* values,
                     uint32_t size) {
  SYN_FIND(graph, graphs(), handle);
  SYN_RETURN_IF_ERROR(checkAttributes(attributes, values, size));
  std::lock_guard lock(graph->mutex);
  if (graph->compiled) return {synResourceBadUsage, "the graph was compiled; its attributes are fixed"};
  for (uint32_t i = 0; i < size; ++i) {
    const synGraphAttributeVal& value = values[i];
    if (attributes[i] == GRAPH_ATTRIBUTE_BACKOFF_FACTOR) {
      if (!(value.dAttrVal > 0)) return badArgument("the backoff factor must be greater than 0");
      graph->backoffFactor = value.dAttrVal;
      continue;
    }
    if (value.iAttrVal > 1)
      return badArgument(
          base::strCat("the attribute '", attributeName(attributes[i]), "' is 0 or 1, not ", value.iAttrVal));
    (attributes[i] == GRAPH_ATTRIBUTE_INFERENCE ? graph->inference : graph->quantization) = value.iAttrVal == 1;
  }
  return {};
}

Result getAttributes(synGraphHandle handle, const synGraphAttribute* attributes, synGraphAttributeVal* values,
                     uint32_t size) {
  SYN_FIND(graph, graphs(), handle);
  SYN_RETURN_IF_ERROR(checkAttributes(attributes, values, size));
  std::lock_guard lock(graph->mutex);
  for (uint32_t i = 0; i < size; ++i) {
    switch (attributes[i]) {
      case GRAPH_ATTRIBUTE_INFERENCE:
        values[i].iAttrVal = graph->inference;
        break;
      case GRAPH_ATTRIBUTE_QUANTIZATION:
        values[i].iAttrVal = graph->quantization;
        break;
      default:
        values[i].dAttrVal = graph->backoffFactor;
        break;
    }
  }
  return {};
}

/// The calls without a union cannot say a double.
Result refuseBackoffFactor(const synGraphAttribute* attributes, uint32_t size, const char* instead) {
  SYN_REQUIRE(attributes);
  for (uint32_t i = 0; i < size; ++i)
    if (attributes[i] == GRAPH_ATTRIBUTE_BACKOFF_FACTOR)
      return badArgument(base::strCat("the backoff factor is a double: use ", instead));
  return {};
}

}  // namespace
}  // namespace hpu::synapse

using namespace hpu::synapse;

synStatus SYN_API_CALL synGraphCreate(synGraphHandle* pGraphHandle, const synDeviceType deviceType) {
  return guardedCreate("synGraphCreate", pGraphHandle,
                       [&]() -> Result { return createGraph(pGraphHandle, deviceType, false); });
}

synStatus SYN_API_CALL synGraphCreateEager(synGraphHandle* pGraphHandle, const synDeviceType deviceType) {
  return guardedCreate("synGraphCreateEager", pGraphHandle,
                       [&]() -> Result { return createGraph(pGraphHandle, deviceType, true); });
}

synStatus SYN_API_CALL synGraphDestroy(const synGraphHandle graphHandle) {
  return guarded("synGraphDestroy", [&]() -> Result {
    auto graph = graphs().remove(graphHandle);
    if (!graph) return graphs().missing(graphHandle);
    std::vector<synTensor> handles;
    std::vector<synSectionHandle> ownSections;
    {
      std::lock_guard lock(graph->mutex);
      handles.swap(graph->tensorHandles);
      ownSections.swap(graph->ownSections);
    }
    for (synTensor handle : handles) tensors().remove(handle);  // Some were destroyed before.
    for (synSectionHandle handle : ownSections) sections().remove(handle);
    return {};
  });
}

synStatus SYN_API_CALL synGraphGetDeviceType(const synGraphHandle graphHandle, synDeviceType* deviceType) {
  return guarded("synGraphGetDeviceType", [&]() -> Result {
    SYN_FIND(graph, graphs(), graphHandle);
    SYN_REQUIRE(deviceType);
    *deviceType = graph->deviceType;
    return {};
  });
}

synStatus SYN_API_CALL synGraphSetAttribute(synGraphHandle graphHandle, const synGraphAttribute* attributes,
                                            const uint64_t* values, const uint32_t size) {
  return guarded("synGraphSetAttribute", [&]() -> Result {
    SYN_RETURN_IF_ERROR(refuseBackoffFactor(attributes, size, "synGraphSetAttributes"));
    static_assert(sizeof(synGraphAttributeVal) == sizeof(uint64_t));
    return setAttributes(graphHandle, attributes, reinterpret_cast<const synGraphAttributeVal*>(values), size);
  });
}

synStatus SYN_API_CALL synGraphSetAttributes(synGraphHandle graphHandle, const synGraphAttribute* attributes,
                                             const synGraphAttributeVal* values, const uint32_t size) {
  return guarded("synGraphSetAttributes",
                 [&]() -> Result { return setAttributes(graphHandle, attributes, values, size); });
}

synStatus SYN_API_CALL synGraphGetAttribute(synGraphHandle graphHandle, const synGraphAttribute* attributes,
                                            uint64_t* values, const uint32_t size) {
  return guarded("synGraphGetAttribute", [&]() -> Result {
    SYN_RETURN_IF_ERROR(refuseBackoffFactor(attributes, size, "synGraphGetAttributes"));
    return getAttributes(graphHandle, attributes, reinterpret_cast<synGraphAttributeVal*>(values), size);
  });
}

synStatus SYN_API_CALL synGraphGetAttributes(synGraphHandle graphHandle, const synGraphAttribute* attributes,
                                             synGraphAttributeVal* values, const uint32_t size) {
  return guarded("synGraphGetAttributes",
                 [&]() -> Result { return getAttributes(graphHandle, attributes, values, size); });
}
