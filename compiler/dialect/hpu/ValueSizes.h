// SPDX-License-Identifier: Apache-2.0
// Sizes that are values of inputs: a model that is told by an input how long its result is ("k" of TopK, the limit of a
// Range). The one thing to know: each such element is a free dimension of the module, and is named here, as no type
// says where it comes from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mlir/IR/BuiltinOps.h"

namespace hpu::ir {

struct ValueSize {
  std::string input;     ///< The name of an input of integers.
  uint32_t element = 0;  ///< Of its elements, in order.
  std::string symbol;    ///< The free dimension that it is.
};

/// Of a module: by input in their order, all elements of each. Empty where no input's values are sizes.
std::vector<ValueSize> valueSizes(mlir::ModuleOp module);
void setValueSizes(mlir::ModuleOp module, const std::vector<ValueSize>& sizes);

}  // namespace hpu::ir
