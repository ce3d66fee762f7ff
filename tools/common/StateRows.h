// SPDX-License-Identifier: Apache-2.0
// Tensors on the host that lie in larger ones, as those of states (hpu::StateInfo) and outputs with sizes that depend
// on data (hpu::DataSizeInfo): dense, and as they lie in memory.
#pragma once

#include <cstdint>
#include <vector>

#include "hpu/recipe.h"
#include "tools/common/HostTensor.h"

namespace hpu::tools {

/// A state's memory with the elements of a tensor, and zeros elsewhere. The tensor's sizes are at most the capacity's.
std::vector<uint8_t> spreadRows(const HostTensor& tensor, const TensorType& capacity);
/// The tensor's elements from a state's memory; its type says which.
void gatherRows(const std::vector<uint8_t>& memory, const TensorType& capacity, HostTensor& tensor);

}  // namespace hpu::tools
