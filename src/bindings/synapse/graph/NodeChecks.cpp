// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/graph/NodeChecks.h"

#include <algorithm>
#include <string_view>

#include "base/Format.h"
#include "bindings/synapse/graph/Describe.h"

namespace hpu::synapse {
namespace {

using base::strCat;

std::string countText(uint16_t least, uint16_t most) {
  if (most == kMany) return strCat(least, " or more");
  return least == most ? strCat(least) : strCat(least, " to ", most);
}

Result checkCount(const char* what, size_t count, uint16_t least, uint16_t most) {
  if (count >= least && (most == kMany || count <= most)) return {};
  return badArgument(strCat("it has ", countText(least, most), " ", what, ", and ", count, " were given"));
}

}  // namespace

Result checkSignature(const GuidInfo& info, const std::string& name, size_t inputs, size_t outputs, bool hasParams,
                      unsigned paramsSize) {
  // Texts are made for failures only: this is on the path of every eager op.
  auto refuse = [&](const std::string& text) {
    return badArgument(strCat("node '", name, "' (", info.name, "): ", text));
  };
  Result result = checkCount("inputs", inputs, info.minInputs, info.maxInputs);
  if (result.ok()) result = checkCount("outputs", outputs, info.minOutputs, info.maxOutputs);
  if (!result.ok()) return refuse(result.text());
  // Where parameters may be left out, null is none whatever size is said to be there.
  if (!hasParams && info.params == GuidParams::kOptional) paramsSize = 0;
  if (paramsSize > kMaxParamsBytes)
    return refuse(strCat("parameters of ", paramsSize, " bytes; no structure has more than ", kMaxParamsBytes));
  if (paramsSize && !hasParams) return refuse(strCat("pUserParams is null and paramsSize ", paramsSize));
  if (info.params == GuidParams::kRequired && (!hasParams || !paramsSize)) return refuse("it needs parameters");
  if (info.params == GuidParams::kNone && paramsSize) return refuse("it takes no parameters");
  return {};
}

Result checkOperand(const TensorObject& object, size_t place, bool isOutput, bool isAddress) {
  const TensorProperties& tensor = object.properties;
  auto refuse = [&](synStatus status, const std::string& text) {
    return Result(status, strCat(isOutput ? "output " : "input ", place, ", tensor '", tensor.name, "': ", text));
  };
  if (isOutput && tensor.isConstant()) return refuse(synInvalidArgument, "a constant cannot be an output");
  if (isOutput && object.hasProducer) return refuse(synInvalidArgument, "another node produces it already");
  if (tensor.hasMin && tensor.dims) {
    if (tensor.minSizes.size() != tensor.maxSizes.size())
      return refuse(synInvalidTensorProperties, strCat("its least sizes have ", tensor.minSizes.size(),
                                                       " dimensions and its largest ", tensor.maxSizes.size()));
    for (size_t i = 0; i < tensor.minSizes.size(); ++i)
      if (tensor.minSizes[i] > tensor.maxSizes[i] && !(isAddress && tensor.type != DATA_TENSOR))
        return refuse(synInvalidTensorProperties, strCat("dimension ", i, " is at least ", tensor.minSizes[i],
                                                         " and at most ", tensor.maxSizes[i]));
  }
  if (tensor.hasMin && tensor.dims > MAX_DIMENSIONS_NUM && tensor.minSizes != tensor.maxSizes)
    return refuse(synInvalidTensorDimensions,
                  strCat("it has ", tensor.dims, " dimensions; sizes that change are those of ", "tensors of at most ",
                         MAX_DIMENSIONS_NUM));
  bool persistent = tensor.isPersistent();
  if (!tensor.permutation.empty()) {
    if (!persistent) return refuse(synInvalidArgument, "only tensors of persistent sections have a permutation");
    if (tensor.dims && tensor.permutation.size() != tensor.dims)
      return refuse(synInvalidArgument,
                    strCat("its permutation has ", tensor.permutation.size(), " dimensions and it has ", tensor.dims));
  }
  uint64_t bytes = tensor.dims && tensor.dataType ? bytesOf(tensor.maxSizes, tensor.dataType) : 0;
  if (bytes > INT64_MAX) return refuse(synInvalidTensorDimensions, "it has more than 2^63 bytes");
  if (tensor.offset > INT64_MAX - bytes) return refuse(synInvalidArgument, "its offset in the section is too large");
  if (tensor.section) {
    std::lock_guard lock(tensor.section->mutex);
    if (tensor.section->rmw && tensor.offset + bytes > kMaxRmwSectionBytes)
      return refuse(synFail,
                    strCat("it ends ", tensor.offset + bytes,
                           " bytes into a section for read-modify-write, which has at most ", kMaxRmwSectionBytes));
  }
  return {};
}

bool runsOnMme(const GuidInfo& info) {
  constexpr std::string_view kMme[] = {"gemm",
                                       "gemm_dedx",
                                       "gemm_dedw",
                                       "batch_gemm",
                                       "batch_gemm_dedx",
                                       "batch_gemm_dedw",
                                       "dedw",
                                       "dedw3d",
                                       "dedx",
                                       "dedx3d",
                                       "masked_batch_gemm",
                                       "spatial_convolution",
                                       "fp8_gemm",
                                       "spatial_convolution3d"};
  return std::find(std::begin(kMme), std::end(kMme), info.name) != std::end(kMme);
}

}  // namespace hpu::synapse
