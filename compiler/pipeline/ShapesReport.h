// SPDX-License-Identifier: Apache-2.0
// What is known of a model's sizes before they are given: the report "shapes".
#pragma once

#include <string>

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace hpu::pipeline {

/// Free dimensions and where they come from; types of inputs and outputs, with sizes as expressions; values whose size
/// nothing says before it is given. `function` as after `import`.
std::string shapesReport(mlir::func::FuncOp function);

}  // namespace hpu::pipeline
