// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/graph/MemoryLayout.h"

#include <algorithm>
#include <numeric>

#include "base/Format.h"
#include "bindings/synapse/graph/DataTypes.h"

namespace hpu::synapse {

using base::strCat;

namespace {

uint64_t saturated(unsigned __int128 bytes) {
  return bytes > UINT64_MAX ? UINT64_MAX : static_cast<uint64_t>(bytes);
}

}  // namespace

bool hasStrides(const TensorDescription& tensor) {
  return tensor.permutation.empty() &&
         std::any_of(tensor.strides.begin(), tensor.strides.end(), [](uint64_t stride) { return stride != 0; });
}

uint64_t strideOf(const TensorDescription& tensor, size_t d) {
  return d < tensor.strides.size() ? tensor.strides[d] : 0;
}

std::string strideFault(const TensorDescription& tensor, const std::vector<uint64_t>& sizes, uint64_t elementBytes,
                        bool isWritten) {
  if (std::find(sizes.begin(), sizes.end(), 0u) != sizes.end()) return {};
  std::vector<size_t> order;
  bool isGiven = false;  // A slower dimension has a stride: 0 is meant.
  for (size_t d = sizes.size(); d-- > 0;) {
    isGiven |= strideOf(tensor, d) != 0;
    if (sizes[d] < 2) continue;
    order.push_back(d);
    if (!isGiven) return strCat("its strides say nothing of dim ", d, ", whose size is ", sizes[d]);
  }
  if (!isWritten) return {};
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return strideOf(tensor, a) < strideOf(tensor, b); });
  unsigned __int128 reach = elementBytes;  // Of all that is faster.
  for (size_t d : order) {
    if (strideOf(tensor, d) < reach)
      return strCat("it is written, and its strides put several elements at one place (stride of dim ", d, " is ",
                    strideOf(tensor, d), " bytes)");
    reach += static_cast<unsigned __int128>(sizes[d] - 1) * strideOf(tensor, d);
    if (reach >> 64) break;
  }
  return {};
}

uint64_t extentOf(const TensorDescription& tensor, const std::vector<uint64_t>& sizes) {
  if (!hasStrides(tensor) || std::find(sizes.begin(), sizes.end(), 0u) != sizes.end())
    return bytesOf(sizes, tensor.dataType);
  unsigned __int128 bytes = bytesOf({1}, tensor.dataType);
  for (size_t d = 0; d < sizes.size(); ++d) {
    bytes += static_cast<unsigned __int128>(sizes[d] - 1) * strideOf(tensor, d);
    if (bytes >> 64) return UINT64_MAX;
  }
  return saturated(bytes);
}

std::vector<std::byte> memoryImage(const TensorDescription& tensor, const std::vector<uint64_t>& sizes,
                                   std::vector<std::byte> elements) {
  const uint64_t extent = extentOf(tensor, sizes), size = bytesOf({1}, tensor.dataType);
  if (!hasStrides(tensor) || elements.size() == extent) return elements;
  std::vector<std::byte> memory(extent);
  std::vector<uint64_t> at(sizes.size(), 0);
  for (uint64_t from = 0; from + size <= elements.size(); from += size) {
    uint64_t to = 0;
    for (size_t d = 0; d < sizes.size(); ++d) to += at[d] * strideOf(tensor, d);
    std::copy_n(elements.begin() + static_cast<ptrdiff_t>(from), size, memory.begin() + static_cast<ptrdiff_t>(to));
    for (size_t d = 0; d < sizes.size() && ++at[d] == sizes[d]; ++d) at[d] = 0;
  }
  return memory;
}

uint64_t bytesOf(const std::vector<uint64_t>& sizes, uint32_t dataType) {
  const DataTypeInfo* type = findDataType(dataType);
  if (!type) return 0;
  unsigned __int128 bits = type->bits;
  for (uint64_t size : sizes) {
    bits *= size;
    if (bits >> 67) bits = static_cast<unsigned __int128>(1) << 67;  // A later 0 still gives 0.
  }
  return saturated((bits + 7) / 8);
}

}  // namespace hpu::synapse
