// SPDX-License-Identifier: Apache-2.0
// Entry points: reading the properties of tensors.
#include <algorithm>
#include <cstring>

#include "bindings/synapse/graph/Quantization.h"
#include "bindings/synapse/graph/TensorAccess.h"

using namespace hpu::synapse;
using hpu::base::strCat;

namespace {

/// The strides as they were given, 0 beyond.
template <size_t N>
void fillStrides(uint32_t (&out)[N], const std::vector<uint64_t>& strides, size_t skip) {
  std::fill(out, out + N, 0);
  for (size_t i = skip; i < strides.size() && i - skip < N; ++i) out[i - skip] = static_cast<uint32_t>(strides[i]);
}

}  // namespace

synStatus SYN_API_CALL synTensorGetSection(synTensor tensor, synSectionHandle* section, uint64_t* byteOffset) {
  return guarded("synTensorGetSection", [&]() -> Result {
    SYN_REQUIRE(byteOffset);
    return readTensor(tensor, section, synTensorPropSection, [&](const TensorProperties& p) -> Result {
      *section = p.sectionHandle;
      *byteOffset = p.offset;
      return {};
    });
  });
}

synStatus SYN_API_CALL synTensorGetHostPtr(synTensor tensor, void** hostPtr, uint64_t* size, synDataType* dataType) {
  return guarded("synTensorGetHostPtr", [&]() -> Result {
    SYN_REQUIRE(size);
    SYN_REQUIRE(dataType);
    return readTensor(tensor, hostPtr, synTensorPropHostPtr, [&](const TensorProperties& p) -> Result {
      *hostPtr = p.host.pointer;
      *size = p.host.bytes;
      *dataType = p.host.type;
      return {};
    });
  });
}

synStatus SYN_API_CALL synTensorGetQuantizationData(synTensor tensor, synQuantizationProperty prop, void* propVal,
                                                    uint64_t propSize) {
  return guarded("synTensorGetQuantizationData", [&]() -> Result {
    return readTensor(tensor, propVal, 0,
                      [&](const TensorProperties& p) { return getQuantization(p, prop, propVal, propSize); });
  });
}

synStatus SYN_API_CALL synTensorGetGeometryExt(const synTensor tensor, synTensorGeometryExt* geometry,
                                               synGeometryType geometryType) {
  return guarded("synTensorGetGeometryExt", [&]() -> Result {
    if (geometryType < synGeometryMinSizes || geometryType > synGeometryDims)
      return badArgument(strCat(static_cast<int>(geometryType), " is no synGeometryType"));
    uint32_t property = geometryType == synGeometryDims ? synTensorPropGeometryDim : synTensorPropGeometryMax;
    return readTensor(tensor, geometry, property, [&](const TensorProperties& p) -> Result {
      // Sizes that were not given separately are the largest ones; dimensions beyond the tensor's have size 1.
      const auto& sizes = geometryType == synGeometryMinSizes && p.hasMin ? p.minSizes : p.maxSizes;
      std::fill(std::begin(geometry->sizes), std::end(geometry->sizes), 1);
      if (geometryType != synGeometryDims) std::copy(sizes.begin(), sizes.end(), geometry->sizes);
      geometry->dims = static_cast<uint32_t>(sizes.size());
      return {};
    });
  });
}

synStatus SYN_API_CALL synTensorGetGeometry(const synTensor tensor, synTensorGeometry* geometry,
                                            synGeometryType geometryType) {
  return synTensorGetGeometryExt(tensor, reinterpret_cast<synTensorGeometryExt*>(geometry), geometryType);
}

synStatus SYN_API_CALL synTensorGetPermutation(const synTensor tensor, synTensorPermutation* permutation) {
  return guarded("synTensorGetPermutation", [&]() -> Result {
    return readTensor(tensor, permutation, synTensorPropPermutation, [&](const TensorProperties& p) -> Result {
      std::fill(std::begin(permutation->permutation), std::end(permutation->permutation), uint8_t{0});
      std::copy(p.permutation.begin(), p.permutation.end(), permutation->permutation);
      permutation->dims = static_cast<uint8_t>(p.permutation.size());
      return {};
    });
  });
}

synStatus SYN_API_CALL synTensorGetAllowPermutation(synTensor tensor, int8_t* allowPermutation) {
  return guarded("synTensorGetAllowPermutation", [&]() -> Result {
    return readTensor(tensor, allowPermutation, 0, [&](const TensorProperties& p) -> Result {
      *allowPermutation = p.allowPermutation;
      return {};
    });
  });
}

synStatus SYN_API_CALL synTensorGetDeviceDataType(synTensor tensor, synDataType* deviceDataType) {
  return guarded("synTensorGetDeviceDataType", [&]() -> Result {
    return readTensor(tensor, deviceDataType, synTensorPropDeviceDataType, [&](const TensorProperties& p) -> Result {
      *deviceDataType = p.dataType;
      return {};
    });
  });
}

synStatus SYN_API_CALL synTensorGetDeviceLayout(const synTensor tensor, synTensorDeviceLayout* layout) {
  return guarded("synTensorGetDeviceLayout", [&]() -> Result {
    return readTensor(tensor, layout, synTensorPropDeviceLayout, [&](const TensorProperties& p) -> Result {
      fillStrides(layout->strides, p.strides, 1);
      layout->deviceDataType = p.dataType;
      return {};
    });
  });
}

synStatus SYN_API_CALL synTensorGetDeviceFullLayout(const synTensor tensor, synTensorDeviceFullLayout* layout) {
  return guarded("synTensorGetDeviceFullLayout", [&]() -> Result {
    return readTensor(tensor, layout, synTensorPropDeviceLayout, [&](const TensorProperties& p) -> Result {
      fillStrides(layout->strides, p.strides, 0);
      layout->deviceDataType = p.dataType;
      return {};
    });
  });
}

synStatus SYN_API_CALL synTensorGetExternal(const synTensor tensor, bool* isExternal) {
  return guarded("synTensorGetExternal", [&]() -> Result {
    return readTensor(tensor, isExternal, 0, [&](const TensorProperties& p) -> Result {
      *isExternal = p.external;
      return {};
    });
  });
}

synStatus SYN_API_CALL synTensorGetName(const synTensor tensor, const uint64_t size, char* name) {
  return guarded("synTensorGetName", [&]() -> Result {
    return readTensor(tensor, name, 0, [&](const TensorProperties& p) -> Result {
      if (size <= p.name.size())
        return badArgument(strCat("the name needs ", p.name.size() + 1, " bytes, and there are ", size));
      std::memcpy(name, p.name.c_str(), p.name.size() + 1);
      return {};
    });
  });
}

synStatus SYN_API_CALL synTensorGetType(const synTensor tensor, synTensorType* type) {
  return guarded("synTensorGetType", [&]() -> Result {
    return readTensor(tensor, type, 0, [&](const TensorProperties& p) -> Result {
      *type = p.type;
      return {};
    });
  });
}
