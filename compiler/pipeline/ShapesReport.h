// SPDX-License-Identifier: Apache-2.0
// What is known of a model's sizes before they are given: the report "shapes".
#pragma once

#include <string>

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "recipe/Recipe.h"

namespace hpu::pipeline {

/// Free dimensions and where they come from; types of inputs and outputs, with sizes as expressions; values whose size
/// nothing says before it is given. `function` as after `import`.
std::string shapesReport(mlir::func::FuncOp function);

/// What became of the sizes that are given late: their bounds and the sizes that choices were made for, guards, where
/// units are cut otherwise, and the sizes up to which launches share a plan. `program` has free dimensions.
std::string lateSizesReport(const recipe::Program& program);

}  // namespace hpu::pipeline
