// SPDX-License-Identifier: Apache-2.0
// Sizes that contradict each other, seen when a node is created: of the API nodes and of elementwise kernels.
// The one thing to know: only what is certain is refused, so sizes that are not given, or that launches decide, are
// not looked at, and what other node types compute is the compiler's to judge.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "bindings/synapse/api/Result.h"
#include "bindings/synapse/graph/GuidList.h"
#include "habanalabs/synapse_common_types.h"

namespace hpu::synapse {

/// Of one operand; index 0 varies fastest.
struct OperandSizes {
  bool isKnown = false;  ///< Given, and the same at every launch.
  bool isShape = false;  ///< A shape or host-to-device tensor.
  uint32_t rank = 0;
  std::array<uint64_t, HABANA_DIM_MAX> sizes;

  /// Sizes that are missing at the end are 1.
  uint64_t operator[](size_t d) const { return d < rank ? sizes[d] : 1; }
  bool operator==(const OperandSizes& other) const;
};

struct SizedNode {
  std::vector<OperandSizes> inputs, outputs;
  std::span<const std::byte> params;
  bool hasLayouts = false;  ///< Dims may be in another order than the node type's.
};

/// Whether checkSizes has a rule for nodes of this type.
bool hasSizeRule(const GuidInfo& info);
/// The first contradiction, in words.
Result checkSizes(const GuidInfo& info, const SizedNode& node);

}  // namespace hpu::synapse
