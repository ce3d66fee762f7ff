// SPDX-License-Identifier: Apache-2.0
// Entry points: creating tensors and giving them their properties.
#include <algorithm>
#include <cstring>
#include <iterator>

#include "bindings/synapse/graph/DataTypes.h"
#include "bindings/synapse/graph/Describe.h"
#include "bindings/synapse/graph/Quantization.h"
#include "bindings/synapse/graph/TensorAccess.h"

namespace hpu::synapse {
namespace {

Result checkName(const char* name) {
  if (name && strnlen(name, ENQUEUE_TENSOR_NAME_MAX_SIZE) == ENQUEUE_TENSOR_NAME_MAX_SIZE)
    return badArgument(base::strCat("a tensor's name has at most ", ENQUEUE_TENSOR_NAME_MAX_SIZE - 1, " characters"));
  return {};
}

Result checkDataType(synDataType type) {
  if (findDataType(type)) return {};
  return badArgument(base::strCat(static_cast<int64_t>(type), " is no synDataType of a tensor"));
}

Result makeTensor(synTensor* out, uint64_t graphId, synTensorType type, const char* name,
                  std::shared_ptr<TensorObject>& tensor) {
  if (!out) return badArgument("the pointer to the tensor is null");
  *out = nullptr;
  if (type < DATA_TENSOR || type >= TENSOR_TYPE_MAX)
    return badArgument(base::strCat(static_cast<int>(type), " is no synTensorType"));
  SYN_RETURN_IF_ERROR(checkName(name));
  tensor = std::make_shared<TensorObject>();
  tensor->graphId = graphId;
  tensor->properties.type = type;
  tensor->properties.name = name && *name ? name : base::strCat("tensor_", tensor->id);
  tensor->properties.set = synTensorPropName | synTensorPropType;
  return {};
}

/// Remembers the handle in its graph, which ends it.
void addToGraph(GraphObject& graph, synTensor handle) {
  std::lock_guard lock(graph.mutex);
  graph.tensorHandles.push_back(handle);
}

std::shared_ptr<GraphObject> graphOf(const SectionObject& section) {
  for (auto& graph : graphs().all())
    if (graph->id == section.graphId) return graph;
  return nullptr;
}

/// The older way: everything in one structure of at most five dimensions.
Result fillFromDescriptor(TensorProperties& tensor, const synTensorDescriptor& from) {
  if (from.m_dims > SYN_MAX_TENSOR_DIM)
    return {synInvalidTensorDimensions, base::strCat("tensor '", tensor.name, "': a descriptor has at most ",
                                                     SYN_MAX_TENSOR_DIM, " dimensions, not ", from.m_dims)};
  SYN_RETURN_IF_ERROR(checkDataType(from.m_dataType));
  tensor.dataType = from.m_dataType;
  tensor.set |= synTensorPropDeviceDataType;
  uint64_t sizes[SYN_MAX_TENSOR_DIM] = {};
  std::copy_n(from.m_sizes, from.m_dims, sizes);
  if (from.m_dims) SYN_RETURN_IF_ERROR(setGeometry(tensor, sizes, from.m_dims, synGeometryMaxSizes));
  if (std::any_of(from.m_minSizes, from.m_minSizes + from.m_dims, [](unsigned size) { return size != 0; })) {
    std::copy_n(from.m_minSizes, from.m_dims, sizes);
    SYN_RETURN_IF_ERROR(setGeometry(tensor, sizes, from.m_dims, synGeometryMinSizes));
  }
  if (std::any_of(from.m_strides, from.m_strides + from.m_dims, [](unsigned stride) { return stride != 0; }))
    tensor.strides.assign(from.m_strides, from.m_strides + from.m_dims);
  if (from.m_dynamicRange.isSet) {
    synQuantDynamicRange range = {from.m_dynamicRange.min, from.m_dynamicRange.max};
    SYN_RETURN_IF_ERROR(setQuantization(tensor, SYN_QUANT_DYNAMIC_RANGE, &range, sizeof(range)));
  }
  return {};
}

}  // namespace

Result assignToSection(TensorObject& tensor, synSectionHandle handle, SectionObject& section, uint64_t offset) {
  if (tensor.graphId && tensor.graphId != section.graphId)
    return badArgument(
        base::strCat("section ", section.id, " and tensor '", tensor.properties.name, "' belong to different graphs"));
  std::lock_guard lock(section.mutex);
  if (section.rmw && section.persistent)
    return {synUnsupported, base::strCat("section ", section.id,
                                         " is persistent and for read-modify-write; clear one of "
                                         "the two with synSectionSetPersistent or synSectionSetRMW")};
  section.used = true;
  TensorProperties& properties = tensor.properties;
  properties.sectionHandle = handle;
  properties.offset = offset;
  properties.set |= synTensorPropSection | synTensorPropSectionOffset;
  return {};
}

Result setGeometry(TensorProperties& tensor, const uint64_t* sizes, uint32_t dims, synGeometryType type) {
  if (dims > HABANA_DIM_MAX)
    return {synInvalidTensorDimensions,
            base::strCat("tensor '", tensor.name, "': at most ", HABANA_DIM_MAX, " dimensions, not ", dims)};
  switch (type) {
    case synGeometryMaxSizes:
      tensor.maxSizes.assign(sizes, sizes + dims);
      tensor.dims = dims;
      tensor.set |= synTensorPropGeometryMax | synTensorPropGeometryDim;
      return {};
    case synGeometryMinSizes:
      tensor.minSizes.assign(sizes, sizes + dims);
      tensor.hasMin = true;
      tensor.set |= synTensorPropGeometryMin;
      return {};
    case synGeometryDims:
      if (tensor.maxSizes.empty()) tensor.maxSizes.assign(dims, 0);
      if (tensor.maxSizes.size() != dims)
        return {synInvalidTensorDimensions,
                base::strCat("tensor '", tensor.name, "' has ", tensor.maxSizes.size(), " dimensions, not ", dims)};
      tensor.set |= synTensorPropGeometryDim;
      return {};
  }
  return badArgument(base::strCat(static_cast<int>(type), " is no synGeometryType"));
}

Result setHostValue(TensorProperties& tensor, void* pointer, uint64_t size, synDataType type, bool copy) {
  if (size > INT64_MAX)
    return badArgument(base::strCat("tensor '", tensor.name, "': a host buffer of ", size, " bytes"));
  tensor.host = {};
  tensor.host.bytes = size;
  tensor.host.type = type;
  tensor.host.pointer = pointer;
  if (copy) {
    const auto* bytes = static_cast<const std::byte*>(pointer);
    auto owned = std::make_shared<std::vector<std::byte>>(bytes, bytes + size);
    tensor.host.pointer = owned->data();
    tensor.host.copyHash = base::hash128(owned->data(), owned->size());
    tensor.host.copy = std::move(owned);
  }
  tensor.set |= synTensorPropHostPtr;
  return {};
}

}  // namespace hpu::synapse

using namespace hpu::synapse;
using hpu::base::strCat;

synStatus SYN_API_CALL synTensorHandleCreate(synTensor* tensor, synGraphHandle graph, synTensorType type,
                                             const char* tensorName) {
  return guardedCreate("synTensorHandleCreate", tensor, [&]() -> Result {
    SYN_FIND(owner, graphs(), graph);
    std::shared_ptr<TensorObject> object;
    SYN_RETURN_IF_ERROR(makeTensor(tensor, owner->id, type, tensorName, object));
    *tensor = tensors().insert(std::move(object));
    addToGraph(*owner, *tensor);
    return {};
  });
}

synStatus SYN_API_CALL synTensorCreate(synTensor* pTensor, const synTensorDescriptor* descriptor,
                                       const synSectionHandle pSectionHandle, const uint64_t sectionOffset) {
  return guardedCreate("synTensorCreate", pTensor, [&]() -> Result {
    SYN_REQUIRE(descriptor);
    std::shared_ptr<TensorObject> object;
    SYN_RETURN_IF_ERROR(makeTensor(pTensor, 0, descriptor->m_tensorType, descriptor->m_name, object));
    SYN_RETURN_IF_ERROR(fillFromDescriptor(object->properties, *descriptor));
    if (!pSectionHandle && sectionOffset)
      return badArgument(strCat("an offset of ", sectionOffset, " bytes needs a section"));
    std::shared_ptr<GraphObject> owner;
    if (pSectionHandle) {
      SYN_FIND(section, sections(), pSectionHandle);
      owner = graphOf(*section);
      object->graphId = section->graphId;
      SYN_RETURN_IF_ERROR(assignToSection(*object, pSectionHandle, *section, sectionOffset));
      object->properties.section = section;
    }
    *pTensor = tensors().insert(std::move(object));
    if (owner) addToGraph(*owner, *pTensor);
    return {};
  });
}

synStatus SYN_API_CALL synConstTensorCreate(synTensor* pTensor, const synTensorDescriptor* descriptor) {
  return guardedCreate("synConstTensorCreate", pTensor, [&]() -> Result {
    SYN_REQUIRE(descriptor);
    SYN_REQUIRE(descriptor->m_ptr);
    std::shared_ptr<TensorObject> object;
    SYN_RETURN_IF_ERROR(makeTensor(pTensor, 0, descriptor->m_tensorType, descriptor->m_name, object));
    TensorProperties& properties = object->properties;
    SYN_RETURN_IF_ERROR(fillFromDescriptor(properties, *descriptor));
    SYN_RETURN_IF_ERROR(setHostValue(properties, descriptor->m_ptr, bytesOf(properties.maxSizes, properties.dataType),
                                     properties.dataType, true));
    *pTensor = tensors().insert(std::move(object));
    return {};
  });
}

synStatus SYN_API_CALL synTensorDestroy(const synTensor tensor) {
  return guarded("synTensorDestroy",
                 [&]() -> Result { return tensors().remove(tensor) ? Result() : tensors().missing(tensor); });
}

synStatus SYN_API_CALL synTensorAssignToSection(synTensor tensor, synSectionHandle section, uint64_t byteOffset) {
  return guarded("synTensorAssignToSection", [&]() -> Result {
    SYN_FIND(object, tensors(), tensor);
    SYN_FIND(target, sections(), section);
    std::lock_guard lock(object->mutex);
    if (object->locked)
      return {synObjectAlreadyInitialized,
              strCat("tensor '", object->properties.name, "' is used by a node; its properties are fixed")};
    SYN_RETURN_IF_ERROR(assignToSection(*object, section, *target, byteOffset));
    object->properties.section = std::move(target);
    return {};
  });
}

synStatus SYN_API_CALL synTensorSetSectionOffset(synTensor tensor, uint64_t byteOffset) {
  return guarded("synTensorSetSectionOffset", [&]() -> Result {
    return changeTensor(tensor, [&](TensorProperties& p) -> Result {
      if (!p.section)
        return badArgument(strCat("tensor '", p.name, "' is in no section; call synTensorAssignToSection first"));
      p.offset = byteOffset;
      return {};
    });
  });
}

synStatus SYN_API_CALL synTensorSetHostPtr(synTensor tensor, void* hostPtr, uint64_t size, synDataType dataType,
                                           bool copyBuffer) {
  return guarded("synTensorSetHostPtr", [&]() -> Result {
    if (size > 0) SYN_REQUIRE(hostPtr);
    SYN_RETURN_IF_ERROR(checkDataType(dataType));
    return changeTensor(tensor,
                        [&](TensorProperties& p) { return setHostValue(p, hostPtr, size, dataType, copyBuffer); });
  });
}

synStatus SYN_API_CALL synTensorSetExternal(synTensor tensor, bool isExternal) {
  return guarded("synTensorSetExternal", [&]() -> Result {
    return changeTensor(tensor, [&](TensorProperties& p) -> Result {
      p.external = isExternal;
      return {};
    });
  });
}

synStatus SYN_API_CALL synTensorSetGeometryExt(synTensor tensor, const synTensorGeometryExt* geometry,
                                               synGeometryType geometryType) {
  return guarded("synTensorSetGeometryExt", [&]() -> Result {
    SYN_FIND(object, tensors(), tensor);
    SYN_REQUIRE(geometry);
    std::lock_guard lock(object->mutex);
    TensorProperties& properties = object->properties;
    if (object->locked && !object->duplicated)
      return {synObjectAlreadyInitialized,
              strCat("tensor '", properties.name, "' is used by a node; its geometry is fixed")};
    // A duplicate's sizes are given anew as a whole.
    if (object->duplicated && geometryType == synGeometryMaxSizes) properties.hasMin = false;
    SYN_RETURN_IF_ERROR(setGeometry(properties, geometry->sizes, geometry->dims, geometryType));
    if (object->duplicated) object->sizedAfterDuplication = true;
    return {};
  });
}

synStatus SYN_API_CALL synTensorSetGeometry(synTensor tensor, const synTensorGeometry* geometry,
                                            synGeometryType geometryType) {
  static_assert(sizeof(synTensorGeometry) == sizeof(synTensorGeometryExt));
  return synTensorSetGeometryExt(tensor, reinterpret_cast<const synTensorGeometryExt*>(geometry), geometryType);
}

synStatus SYN_API_CALL synTensorSetPermutation(synTensor tensor, const synTensorPermutation* permutation) {
  return guarded("synTensorSetPermutation", [&]() -> Result {
    SYN_REQUIRE(permutation);
    return changeTensor(tensor, [&](TensorProperties& p) -> Result {
      if (permutation->dims > HABANA_DIM_MAX)
        return {synInvalidTensorDimensions,
                strCat("tensor '", p.name, "': a permutation of ", permutation->dims, " dimensions")};
      uint32_t seen = 0;
      for (unsigned i = 0; i < permutation->dims; ++i) {
        unsigned dim = permutation->permutation[i];
        if (dim >= permutation->dims || seen >> dim & 1)
          return badArgument(strCat("tensor '", p.name, "': entry ", i, " of the permutation is ", dim,
                                    "; each of 0 to ", permutation->dims - 1, " must appear once"));
        seen |= 1u << dim;
      }
      p.permutation.assign(permutation->permutation, permutation->permutation + permutation->dims);
      // No dimensions: the permutation is taken back.
      p.set = permutation->dims ? p.set | synTensorPropPermutation : p.set & ~uint32_t{synTensorPropPermutation};
      return {};
    });
  });
}

synStatus SYN_API_CALL synTensorSetAllowPermutation(synTensor tensor, int8_t allowPermutation) {
  return guarded("synTensorSetAllowPermutation", [&]() -> Result {
    // Frameworks call it after the node was made: it is a permission, not a property of the data.
    SYN_FIND(object, tensors(), tensor);
    std::lock_guard lock(object->mutex);
    object->properties.allowPermutation = allowPermutation;
    return {};
  });
}

synStatus SYN_API_CALL synTensorSetDeviceDataType(synTensor tensor, synDataType deviceDataType) {
  return guarded("synTensorSetDeviceDataType", [&]() -> Result {
    SYN_RETURN_IF_ERROR(checkDataType(deviceDataType));
    return changeTensor(tensor, [&](TensorProperties& p) -> Result {
      p.dataType = deviceDataType;
      p.set |= synTensorPropDeviceDataType;
      return {};
    });
  });
}

synStatus SYN_API_CALL synTensorSetDeviceFullLayout(synTensor tensor, const synTensorDeviceFullLayout* layout) {
  return guarded("synTensorSetDeviceFullLayout", [&]() -> Result {
    SYN_REQUIRE(layout);
    SYN_RETURN_IF_ERROR(checkDataType(layout->deviceDataType));
    return changeTensor(tensor, [&](TensorProperties& p) -> Result {
      const uint32_t* end = layout->strides + HABANA_DIM_MAX;
      while (end != layout->strides && end[-1] == 0) --end;
      p.strides.assign(layout->strides, end);
      p.dataType = layout->deviceDataType;
      p.set |= synTensorPropDeviceLayout;
      return {};
    });
  });
}

synStatus SYN_API_CALL synTensorSetDeviceLayout(synTensor tensor, const synTensorDeviceLayout* layout) {
  return guarded("synTensorSetDeviceLayout", [&]() -> Result {
    SYN_REQUIRE(layout);
    SYN_RETURN_IF_ERROR(checkDataType(layout->deviceDataType));
    return changeTensor(tensor, [&](TensorProperties& p) -> Result {
      const uint32_t* end = std::end(layout->strides);
      while (end != layout->strides && end[-1] == 0) --end;
      p.strides.clear();
      if (end != layout->strides) {
        p.strides.push_back(std::max<uint64_t>(1, findDataType(layout->deviceDataType)->bits / 8));
        p.strides.insert(p.strides.end(), layout->strides, end);
      }
      p.dataType = layout->deviceDataType;
      p.set |= synTensorPropDeviceLayout;
      return {};
    });
  });
}

synStatus SYN_API_CALL synTensorSetQuantizationData(synTensor tensor, synQuantizationProperty prop, void* propVal,
                                                    uint64_t propSize) {
  return guarded("synTensorSetQuantizationData", [&]() -> Result {
    SYN_REQUIRE(propVal);
    return changeTensor(tensor, [&](TensorProperties& p) { return setQuantization(p, prop, propVal, propSize); });
  });
}
