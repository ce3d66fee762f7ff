// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/graph/Quantization.h"

#include <algorithm>
#include <string>

#include "base/Format.h"

namespace hpu::synapse {
namespace {

using base::strCat;

constexpr unsigned kMaxChannels = 1u << 24;

Result wrongSize(const TensorProperties& tensor, const char* structure, uint64_t size) {
  return {synFail, strCat("tensor '", tensor.name, "': ", size, " bytes are not the size of ", structure)};
}

bool validRange(const synQuantDynamicRange& range) {
  return range.min <= range.max;  // False for NaN.
}

Result checkArray(const TensorProperties& tensor, const void* entries, unsigned count, const char* what) {
  if (entries && count > 0 && count <= kMaxChannels) return {};
  return badArgument(strCat("tensor '", tensor.name, "': the array of ", what, " is null or has ", count, " entries"));
}

/// Reads one of the three kinds with an array.
template <typename Structure, typename Entry>
Result readArray(const TensorProperties& tensor, const std::vector<Entry>& from, Entry* Structure::* array,
                 unsigned Structure::* count, void* value, uint64_t size, const char* name) {
  auto& out = *static_cast<Structure*>(value);
  uint64_t withArray = sizeof(Structure) + from.size() * sizeof(Entry);
  if (!(out.*array)) {
    if (size != sizeof(Structure) && size != withArray) return wrongSize(tensor, name, size);
    out.*count = static_cast<unsigned>(from.size());
    return {};
  }
  if (size != withArray) return wrongSize(tensor, strCat(name, " with its array").c_str(), size);
  out.*count = static_cast<unsigned>(from.size());
  std::copy(from.begin(), from.end(), out.*array);
  return {};
}

uint32_t bitOf(synQuantizationProperty property) {
  switch (property) {
    case SYN_QUANT_DYNAMIC_RANGE:
      return synTensorPropDynamicRange;
    case SYN_QUANT_METADATA:
      return synTensorPropQuantMetadata;
    case SYN_FP_QUANT_METADATA:
      return synTensorPropFpQuantMetadata;
    case SYN_QUANT_FLAGS:
      return synTensorPropFlags;
    case SYN_QUANT_PC_DYNAMIC_RANGE:
      return synTensorPropPCDynamicRange;
  }
  return 0;
}

Result unknownProperty(synQuantizationProperty property) {
  return badArgument(strCat(static_cast<int>(property), " is no synQuantizationProperty"));
}

Result wrongType(const TensorProperties& tensor) {
  return badArgument(strCat("tensor '", tensor.name, "' has no quantisation of this data type"));
}

}  // namespace

Result setQuantization(TensorProperties& tensor, synQuantizationProperty property, const void* value, uint64_t size) {
  if (!bitOf(property)) return unknownProperty(property);
  auto changed = tensor.quantization ? std::make_shared<QuantizationData>(*tensor.quantization)
                                     : std::make_shared<QuantizationData>();
  QuantizationData& data = *changed;
  switch (property) {
    case SYN_QUANT_DYNAMIC_RANGE: {
      if (size != sizeof(synQuantDynamicRange)) return wrongSize(tensor, "synQuantDynamicRange", size);
      const auto& range = *static_cast<const synQuantDynamicRange*>(value);
      if (!validRange(range))
        return badArgument(
            strCat("tensor '", tensor.name, "': the dynamic range ", range.min, " to ", range.max, " is empty"));
      data.range = range;
      break;
    }
    case SYN_QUANT_PC_DYNAMIC_RANGE: {
      if (size != sizeof(synPerChannelDynamicRange)) return wrongSize(tensor, "synPerChannelDynamicRange", size);
      const auto& ranges = *static_cast<const synPerChannelDynamicRange*>(value);
      SYN_RETURN_IF_ERROR(checkArray(tensor, ranges.ranges, ranges.numChannels, "ranges"));
      if (!std::all_of(ranges.ranges, ranges.ranges + ranges.numChannels, validRange))
        return badArgument(strCat("tensor '", tensor.name, "': the dynamic range of a channel is empty"));
      data.channelRanges.assign(ranges.ranges, ranges.ranges + ranges.numChannels);
      break;
    }
    case SYN_QUANT_METADATA: {
      if (size != sizeof(synQuantMetadata)) return wrongSize(tensor, "synQuantMetadata", size);
      const auto& metadata = *static_cast<const synQuantMetadata*>(value);
      SYN_RETURN_IF_ERROR(checkArray(tensor, metadata.zpScales, metadata.numZPScales, "scales"));
      data.zpType = metadata.dataType;
      data.zpScales.assign(metadata.zpScales, metadata.zpScales + metadata.numZPScales);
      break;
    }
    case SYN_FP_QUANT_METADATA: {
      if (size != sizeof(synFpQuantMetadata)) return wrongSize(tensor, "synFpQuantMetadata", size);
      const auto& metadata = *static_cast<const synFpQuantMetadata*>(value);
      SYN_RETURN_IF_ERROR(checkArray(tensor, metadata.fpQuantParams, metadata.numFpQuantParams, "scales"));
      data.fpType = metadata.dataType;
      data.fpParams.assign(metadata.fpQuantParams, metadata.fpQuantParams + metadata.numFpQuantParams);
      break;
    }
    case SYN_QUANT_FLAGS:
      if (size != sizeof(synQuantFlags)) return wrongSize(tensor, "synQuantFlags", size);
      data.flags = *static_cast<const synQuantFlags*>(value);
      break;
  }
  tensor.quantization = std::move(changed);
  tensor.set |= bitOf(property);
  return {};
}

Result getQuantization(const TensorProperties& tensor, synQuantizationProperty property, void* value, uint64_t size) {
  if (!bitOf(property)) return unknownProperty(property);
  if (!(tensor.set & bitOf(property)) || !tensor.quantization)
    return {synObjectNotInitialized, strCat("tensor '", tensor.name, "' was not given this property")};
  const QuantizationData& data = *tensor.quantization;
  switch (property) {
    case SYN_QUANT_DYNAMIC_RANGE:
      if (size != sizeof(synQuantDynamicRange)) return wrongSize(tensor, "synQuantDynamicRange", size);
      *static_cast<synQuantDynamicRange*>(value) = data.range;
      return {};
    case SYN_QUANT_PC_DYNAMIC_RANGE:
      if (size < sizeof(synPerChannelDynamicRange)) return wrongSize(tensor, "synPerChannelDynamicRange", size);
      return readArray(tensor, data.channelRanges, &synPerChannelDynamicRange::ranges,
                       &synPerChannelDynamicRange::numChannels, value, size, "synPerChannelDynamicRange");
    case SYN_QUANT_METADATA:
      if (size < sizeof(synQuantMetadata)) return wrongSize(tensor, "synQuantMetadata", size);
      if (static_cast<synQuantMetadata*>(value)->dataType != data.zpType) return wrongType(tensor);
      return readArray(tensor, data.zpScales, &synQuantMetadata::zpScales, &synQuantMetadata::numZPScales, value, size,
                       "synQuantMetadata");
    case SYN_FP_QUANT_METADATA:
      if (size < sizeof(synFpQuantMetadata)) return wrongSize(tensor, "synFpQuantMetadata", size);
      if (static_cast<synFpQuantMetadata*>(value)->dataType != data.fpType) return wrongType(tensor);
      return readArray(tensor, data.fpParams, &synFpQuantMetadata::fpQuantParams, &synFpQuantMetadata::numFpQuantParams,
                       value, size, "synFpQuantMetadata");
    case SYN_QUANT_FLAGS:
      if (size != sizeof(synQuantFlags)) return wrongSize(tensor, "synQuantFlags", size);
      *static_cast<synQuantFlags*>(value) = data.flags;
      return {};
  }
  return unknownProperty(property);
}

}  // namespace hpu::synapse
