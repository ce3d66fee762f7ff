// SPDX-License-Identifier: Apache-2.0
// Comparing a compiled model with the reference interpreter, as a whole and unit by unit in one
// run. The one thing to know: for the units, every result that crosses the border of a unit becomes
// an output of the program after the phase fuse, so the units and their kernels are those of the
// normal program.
#pragma once

#include <string>
#include <vector>

#include "hpu/compiler.h"
#include "tools/common/Compare.h"
#include "tools/common/HostTensor.h"

namespace hpu::tools {

/// The outputs of a model as the interpreter computes them on the imported ops, before any
/// rewriting.
StatusOr<std::vector<HostTensor>> interpretModel(const std::string& model, const CompileOptions& options,
                                                 const std::vector<HostTensor>& inputs);

/// One result of a unit: a bundle, a cluster or a copy.
struct UnitResult {
  std::string name;    ///< "conv1+bn1+relu"
  std::string engine;  ///< "mme", "tpc", "dma"
  TensorType type;
  std::vector<std::string> nodes;  ///< "Conv conv1": the source nodes.
  Comparison whole;                ///< Against the interpreter's value: with the errors of all units before.
  Comparison local;                ///< Against the interpreter's value of this unit on the device's own inputs.
};

/// Compiles the model with all results of units as outputs, runs it once and compares, in program
/// order.
StatusOr<std::vector<UnitResult>> verifyUnits(const std::string& model, const CompileOptions& options,
                                              const std::vector<HostTensor>& inputs, const Tolerance& tolerance);

}  // namespace hpu::tools
