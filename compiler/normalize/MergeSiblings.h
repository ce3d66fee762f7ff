// SPDX-License-Identifier: Apache-2.0
// Horizontal fusion: products that share their activations (Q, K and V; gate and up) become one product with
// the weights side by side, whose results are slices, which are views. Legality, profitability and rewriting
// are a file each.
#pragma once

#include <memory>
#include <string>

#include "arch/TargetDesc.h"
#include "compiler/dialect/hpu/HpuOps.h"

namespace hpu::normalize {

/// A product with constant rank-2 weights, and the add of its constant bias if only that reads the product.
struct Sibling {
  ir::MatMulOp product;
  ir::AddOp bias;  ///< May be null.
  mlir::Value result() { return bias ? bias.getResult() : product.getResult(); }
};
using Siblings = llvm::SmallVector<Sibling, 4>;

/// Legality: the products of `activations` that can be one, in program order; fewer than two: none.
Siblings findSiblings(mlir::Value activations);

/// Profitability: device time that the merged product saves, in picoseconds (negative: it costs), by the
/// performance model. `type` is what the products will be computed in.
int64_t savedByMerging(Siblings& siblings, const arch::TargetDesc& target, ElementType type);

}  // namespace hpu::normalize
