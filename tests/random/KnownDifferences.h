// SPDX-License-Identifier: Apache-2.0
// What ONNX leaves open, and where the reference is not what ONNX says: every difference that the random models do not
// count, with its reason. The one thing to know: an entry says which elements it is about, as narrowly as it can, and
// has a probe, a node on which the difference is really there; the test fails when a probe shows none any more.
#pragma once

#include "tests/random/Evaluate.h"

namespace hpu::randomtest {

struct KnownDifference {
  const char* name;
  const char* reason;
  /// Whether element `index` of a result is one; called for nodes that `concerns`. Null: the node as a whole, which is
  /// then not made.
  bool (*concerns)(const Node& node, int64_t opset, const std::vector<const HostTensor*>& operands);
  bool (*isOpen)(const Node& node, const std::vector<const HostTensor*>& operands, const HostTensor& result,
                 int64_t index);
  /// A small model that shows the difference.
  Model (*probe)();
  Precision probedAt = Precision::kF32;
};

const std::vector<KnownDifference>& knownDifferences();

/// The name of a difference that concerns the node as a whole; null for none.
const char* differsAsAWhole(const Node& node, int64_t opset, const std::vector<const HostTensor*>& operands);

/// Makes the errors of open elements infinite; gives the names of the differences that were met.
std::vector<std::string> leaveOpen(const Node& node, int64_t opset, const std::vector<const HostTensor*>& operands,
                                   Evaluated& result);

}  // namespace hpu::randomtest
