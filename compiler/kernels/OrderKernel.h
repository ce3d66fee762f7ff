// SPDX-License-Identifier: Apache-2.0
// Kernels that order rows (hpu.top_indices). The one thing to know: the host's code is an object of its own
// (OrderCode.cpp), and the price is that of a TPC's networks (TpcOrder.h); both give the same indices.
#pragma once

#include <optional>

#include "compiler/kernels/KernelPlan.h"

namespace hpu::kernels {

/// The kernel of a graph that is one top_indices of an operand; nothing of another one, for the first element alone
/// (a reduction), or for types that it does not have (8-bit floats).
std::optional<PlannedKernel> planOrderKernel(const KernelGraph& graph, llvm::ArrayRef<OperandView> inputs,
                                             llvm::ArrayRef<OperandView> outputs);

}  // namespace hpu::kernels
