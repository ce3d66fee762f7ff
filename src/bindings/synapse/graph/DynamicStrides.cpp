// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/graph/DynamicStrides.h"

#include <algorithm>
#include <numeric>

#include "bindings/synapse/graph/DataTypes.h"

namespace hpu::synapse {
namespace {

constexpr uint64_t kMost = uint64_t{1} << 60;

void strideByLargest(TensorDescription& tensor) {
  const size_t rank = tensor.maxSizes.size();
  const DataTypeInfo* type = findDataType(tensor.dataType);
  const bool hasStrides =
      std::any_of(tensor.strides.begin(), tensor.strides.end(), [](uint64_t stride) { return stride != 0; });
  if (tensor.minSizes == tensor.maxSizes || tensor.minSizes.size() != rank || hasStrides || !type || type->bits < 8)
    return;
  std::vector<size_t> order(rank);  // Fastest first.
  std::iota(order.begin(), order.end(), size_t{0});
  if (!tensor.permutation.empty()) order.assign(tensor.permutation.begin(), tensor.permutation.end());
  std::vector<uint64_t> strides(rank, 0);
  uint64_t stride = type->bits / 8;
  bool isFaster = false, differs = false;
  for (size_t d : order) {
    // No order, or more than there can be: the compilation says so.
    if (d >= rank || strides[d] != 0 || stride > kMost / std::max<uint64_t>(tensor.maxSizes[d], 1)) return;
    differs |= isFaster && tensor.maxSizes[d] > 1;  // Dense smaller ones would lie closer together.
    isFaster |= tensor.minSizes[d] != tensor.maxSizes[d];
    strides[d] = stride;
    stride *= std::max<uint64_t>(tensor.maxSizes[d], 1);
  }
  if (!differs || order.size() != rank) return;
  tensor.strides = std::move(strides);
  tensor.permutation.clear();
}

}  // namespace

void strideByLargest(GraphDescription& graph) {
  for (TensorDescription& tensor : graph.tensors)
    if (tensor.section < graph.sections.size() && graph.sections[tensor.section].persistent &&
        (tensor.type == kDataTensor || tensor.type == kDynamicDataTensor))
      strideByLargest(tensor);
}

}  // namespace hpu::synapse
