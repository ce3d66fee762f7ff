// SPDX-License-Identifier: Apache-2.0
#include "tools/common/StateRows.h"

#include <algorithm>
#include <cstring>

namespace hpu::tools {
namespace {

/// Calls visit(byte in the dense tensor, byte in the memory, bytes) for each run of elements that is one in both.
template <typename Visit>
void forEachRun(const Shape& sizes, const TensorType& capacity, Visit visit) {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return;
  const int64_t element = elementSize(capacity.element);
  const size_t rank = sizes.size();
  const int64_t run = (rank == 0 ? 1 : sizes.back()) * element;
  std::vector<int64_t> strides(rank, element), at(rank, 0);
  for (size_t d = rank; d-- > 1;) strides[d - 1] = strides[d] * capacity.shape[d];
  for (int64_t dense = 0;; dense += run) {
    int64_t offset = 0;
    for (size_t d = 0; d + 1 < rank; ++d) offset += at[d] * strides[d];
    visit(static_cast<size_t>(dense), static_cast<size_t>(offset), static_cast<size_t>(run));
    size_t d = rank < 2 ? 0 : rank - 1;
    while (d > 0 && ++at[d - 1] == sizes[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

}  // namespace

std::vector<uint8_t> spreadRows(const HostTensor& tensor, const TensorType& capacity) {
  std::vector<uint8_t> memory(static_cast<size_t>(capacity.bytes()));
  forEachRun(tensor.type.shape, capacity, [&](size_t dense, size_t at, size_t bytes) {
    std::memcpy(memory.data() + at, tensor.bytes.data() + dense, bytes);
  });
  return memory;
}

void gatherRows(const std::vector<uint8_t>& memory, const TensorType& capacity, HostTensor& tensor) {
  forEachRun(tensor.type.shape, capacity, [&](size_t dense, size_t at, size_t bytes) {
    std::memcpy(tensor.bytes.data() + dense, memory.data() + at, bytes);
  });
}

}  // namespace hpu::tools
