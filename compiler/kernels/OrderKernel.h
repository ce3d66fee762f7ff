// SPDX-License-Identifier: Apache-2.0
// Kernels that order rows (hpu.top_indices). The one thing to know: the host's code is an object of its own
// (OrderCode.cpp), and the price is that of a TPC's networks (TpcOrder.h); both give the same indices.
#pragma once

#include <memory>
#include <optional>

#include "compiler/kernels/KernelPlan.h"
#include "compiler/kernels/TpcOrder.h"

namespace hpu::kernels {

/// Of a point of the result, where a row is one TPC's: it has `points` in so many rows.
recipe::TpcCost costOfRows(const OrderCycles& row, double rows, double points);

/// Makes the kernel one of object code, which reads its numbers from HpuKernelArgs::dims where they are not the same
/// for all sizes. Fails if one of them is no expression of the free dimensions.
Status takeNumbers(PlannedKernel& kernel, std::shared_ptr<NativeKernel> native);

/// The kernel of a graph that is one top_indices of an operand, with or without the gather_elements of what it names;
/// nothing of another one, for the index of the first element alone (a reduction), or for types that it does not have
/// (8-bit floats).
std::optional<PlannedKernel> planOrderKernel(const KernelGraph& graph, llvm::ArrayRef<OperandView> inputs,
                                             llvm::ArrayRef<OperandView> outputs);

}  // namespace hpu::kernels
