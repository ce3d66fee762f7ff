// SPDX-License-Identifier: Apache-2.0
// Kernels that select boxes (hpu.select_boxes). The one thing to know: the host's code is an object of its own
// (BoxesCode.cpp), and the price is that of a TPC's passes over boxes in local memory (TpcBoxes.h).
#pragma once

#include <optional>

#include "compiler/kernels/KernelPlan.h"

namespace hpu::kernels {

/// Nothing of a graph without select_boxes.
std::optional<StatusOr<PlannedKernel>> planBoxesKernel(const KernelGraph& graph, llvm::ArrayRef<OperandView> inputs,
                                                       llvm::ArrayRef<OperandView> outputs);

}  // namespace hpu::kernels
