// SPDX-License-Identifier: Apache-2.0
// Kernels that come as object code (hpu.native): what is made around them.
#pragma once

#include <vector>

#include "compiler/kernels/KernelCost.h"
#include "compiler/kernels/KernelPlan.h"

namespace hpu::kernels {

/// The kernel's function `name`, which calls kNativeName with the sizes and strides of its operands: those of the
/// launch where they depend on free dimensions, else a table of the image.
void emitNative(mlir::ModuleOp module, mlir::StringRef name, const PlannedKernel& kernel);

/// As declared. `terms`: gets the cost of the whole index space for all sizes; null: not asked for.
recipe::TpcCost nativeCost(const NativeKernel& kernel, std::vector<CostTerm>* terms);

}  // namespace hpu::kernels
