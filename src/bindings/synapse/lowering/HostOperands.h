// SPDX-License-Identifier: Apache-2.0
// What nodes read of host-to-device tensors.
#pragma once

#include <cstdint>
#include <vector>

#include "bindings/synapse/lowering/Lowering.h"

namespace hpu::synapse {

/// The place of the first host-to-device operand; numInputs() when there is none.
size_t hostInput(const NodeContext& c);

/// Its elements; a failure when there are fewer than `least`.
std::vector<double> hostNumbers(NodeContext& c, size_t input, size_t least);
/// The same, whole numbers from 0 on.
std::vector<int64_t> hostSizes(NodeContext& c, size_t input, size_t least);

/// A structure that the tensor holds; a failure when it has fewer bytes.
template <typename T>
T hostStruct(NodeContext& c, size_t input) {
  T value = {};
  const TensorDescription& tensor = *c.inputTensor(input);
  if (!tensor.hostData || tensor.hostData->size() < sizeof value)
    c.fail(strCat(c.inputName(input), " has no host data of ", sizeof value, " bytes"));
  else
    std::memcpy(&value, tensor.hostData->data(), sizeof value);
  return value;
}

}  // namespace hpu::synapse
