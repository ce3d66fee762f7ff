// SPDX-License-Identifier: Apache-2.0
// Sizes that depend on data: how many elements NonZero finds. While a model is imported such a size is a free dimension
// as any other (a *data size*); then resolveDataSizes() takes it out of the module, before anything looks at sizes.
// The one thing to know: from then on a tensor has the largest size that the data can ask for, its *bound*, of which
// the elements that there are come first along each dimension. What is behind them is never read as data; how many
// there are is computed on the device, and leaves it in an output of its own.
//
//   Value count = ...;                                          // i64, rank 0
//   Value found = cutToDataSize(node, places, 1, count);        // [2, 'computed size of nonzero'] of [2, 8400]
#pragma once

#include "compiler/dialect/hpu/DataSizes.h"
#include "compiler/import/NodeContext.h"
#include "hpu/status.h"
#include "mlir/IR/BuiltinOps.h"
#include "shape/DimExpr.h"

namespace hpu::importer {

/// Names of data sizes begin with it, so that what a model says of ordinary sizes is not concluded of them.
inline constexpr llvm::StringLiteral kDataSizePrefix = "computed size of ";
bool hasDataSize(const shape::DimExpr& size);

/// The first `count` (i64, rank 0) elements of x along `dim`, as a tensor whose size there is a new data size. The
/// others must be such that indices among them are inside of what they index.
Value cutToDataSize(NodeContext& node, Value x, int64_t dim, Value count);

/// NonZero, GatherND, Compress, NonMaxSuppression and Unique of what is not known at import.
void findNonZero(NodeContext& node);
void gatherTuples(NodeContext& node);
void convertCompress(NodeContext& node);
void convertNonMaxSuppression(NodeContext& node);
void convertUnique(NodeContext& node);

/// Takes all data sizes out of a function as the importer makes it, and adds the output of sizes
/// (dialect/hpu/DataSizes.h) where an output depends on one. Errors: kUnimplemented, naming the node whose result
/// cannot be said with bounds; kInvalidArgument where sizes of the data need not agree.
Status resolveDataSizes(mlir::ModuleOp module);

/// The outputs of a function that was evaluated, with the sizes that its data has; the output of sizes is taken away.
/// Errors: kInternal when a size is beyond its bound.
StatusOr<std::vector<interp::Tensor>> withTrueSizes(mlir::ModuleOp module, std::vector<interp::Tensor> outputs);

}  // namespace hpu::importer
