// SPDX-License-Identifier: Apache-2.0
// What can be said of a node without the compiler: its type, operand counts, parameters and tensors.
// The one thing to know: every refusal names the node and its type; shapes and types are the compiler's to judge.
#pragma once

#include "bindings/synapse/api/Result.h"
#include "bindings/synapse/graph/GuidList.h"
#include "bindings/synapse/graph/Objects.h"

namespace hpu::synapse {

inline constexpr unsigned kMaxParamsBytes = 4096;
/// A section for read-modify-write is in SRAM.
inline constexpr uint64_t kMaxRmwSectionBytes = uint64_t{16} << 20;

/// The counts and the parameters against the table.
Result checkSignature(const GuidInfo& info, const std::string& name, size_t inputs, size_t outputs, bool hasParams,
                      unsigned paramsSize);
/// One operand; its lock and its graph's are held. `isAddress`: a shape tensor says strides or an offset, whose bounds
/// have no order.
Result checkOperand(const TensorObject& tensor, size_t place, bool isOutput, bool isAddress);
/// Whether the MME runs nodes of this type.
bool runsOnMme(const GuidInfo& info);

}  // namespace hpu::synapse
