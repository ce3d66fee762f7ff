// SPDX-License-Identifier: Apache-2.0
// A time that no schedule of a graph can beat, from the unfused graph alone: it never sees the schedule.
#pragma once

#include "arch/TargetDesc.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace hpu::pipeline {

struct LowerBound {
  double mmeUs = 0;  ///< Multiply-accumulates of all MME ops at the array's peak for their element type.
  double tpcUs = 0;  ///< One vector instruction for each 256 bytes of each TPC op's result, on all TPCs.
  double hbmUs = 0;  ///< Inputs, constants and outputs once, at the full pin rate.
  double us() const;
};

/// `function` after `precision`: ops are not yet units.
LowerBound lowerBound(mlir::func::FuncOp function, const arch::TargetDesc& target);

}  // namespace hpu::pipeline
