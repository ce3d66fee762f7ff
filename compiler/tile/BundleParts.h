// SPDX-License-Identifier: Apache-2.0
// BundleParts: the MME op of a bundle and the TPC ops behind it, and the two apart.
// The one thing to know: a bundle has one MME op, whose product is what is cut into tiles.
#pragma once

#include "compiler/dialect/hpu/HpuOps.h"

namespace hpu::tile {

ir::HpuOp mmeOp(ir::BundleOp bundle);
/// Of any unit, in their order.
llvm::SmallVector<mlir::Operation*> mmeOps(mlir::Operation* unit);
bool hasTpcOps(ir::BundleOp bundle);

/// For a product that no tile of can be held in SRAM: the MME op alone, and its TPC ops as a cluster that reads the
/// product from HBM. The bundle is gone then.
void splitBundle(ir::BundleOp bundle);

}  // namespace hpu::tile
