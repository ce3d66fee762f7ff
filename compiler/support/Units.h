// SPDX-License-Identifier: Apache-2.0
// What the phases after fuse share about units: what is one, what it is called, where it came from.
#pragma once

#include <string>
#include <vector>

#include "mlir/IR/Operation.h"

namespace hpu::ir {

/// The operands and results of a TPC kernel together: so many tensors have descriptors.
inline constexpr size_t kMaxKernelTensors = 16;

/// A bundle or a cluster, or a copy (concat, relayout) at function level.
bool isUnit(mlir::Operation* op);

/// A node of the source model.
struct SourceName {
  std::string node, op;
  bool operator==(const SourceName&) const = default;
};
/// The source nodes of a location: `loc(fused<"Relu">["relu1"])` or `loc("relu1")`; unknown ones give none.
std::vector<SourceName> sourceNames(mlir::Location loc);
/// All source nodes of an op and its body, each once, in program order.
std::vector<SourceName> unitSources(mlir::Operation* unit);
/// "conv1+bn1+relu" (shortened in the middle when there are many).
std::string unitName(mlir::Operation* unit);

}  // namespace hpu::ir
