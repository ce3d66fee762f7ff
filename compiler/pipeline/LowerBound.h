// SPDX-License-Identifier: Apache-2.0
// A time that no schedule of a graph can beat: the most that one of MME, TPCs and HBM has to do, at its peak.
// The one thing to know: it is computed from the unfused graph alone and never sees units, slices or queues;
// docs/performance-model.md ("The lower bound") says what counts as required work, and why.
#pragma once

#include "arch/TargetDesc.h"
#include "hpu/status.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace hpu::pipeline {

struct LowerBound {
  double mmeUs = 0;  ///< Multiply-accumulates of all MME ops at the array's peak for their element type.
  double tpcUs = 0;  ///< The fullest of the TPCs' vector, load and store slots.
  double hbmUs = 0;  ///< Inputs, constants and outputs once, at the full pin rate.

  // What tpcUs is made of: 256-byte vectors and vector instructions.
  double tpcVectorOps = 0, tpcLoads = 0, tpcStores = 0;
  double hbmBytes = 0;
  double macs = 0;  ///< Of mmeUs, as the model counts them.

  double us() const;
  const char* boundBy() const;  ///< "mme", "tpc" or "hbm".
};

/// `function` after `precision`, with static shapes: ops are not yet units.
LowerBound lowerBound(mlir::func::FuncOp function, const arch::TargetDesc& target);

}  // namespace hpu::pipeline
