// SPDX-License-Identifier: Apache-2.0
// Sizes that are values of inputs: a model that is told by an input how long its result is ("k" of TopK, the limit of a
// Range). The one thing to know: each such element is a free dimension of the module, and is named here, as no type
// says where it comes from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/import/OnnxModel.h"
#include "mlir/IR/BuiltinOps.h"

namespace hpu::importer {

struct ValueSize {
  std::string input;     ///< The name of an input of integers.
  uint32_t element = 0;  ///< Of its elements, in order.
  std::string symbol;    ///< The free dimension that it is.
};

/// Of a module: by input in their order, all elements of each. Empty where no input's values are sizes.
std::vector<ValueSize> valueSizes(mlir::ModuleOp module);
void setValueSizes(mlir::ModuleOp module, const std::vector<ValueSize>& sizes);

/// The inputs of a graph whose elements say sizes: integers, at most kMostSizes of them, that an operand which is a
/// shape, a limit or a number of elements is made of, by arithmetic that is known at import. By input, the names of its
/// elements: that of the input for a single one, else NAME_0, NAME_1 ...; one that a dimension has gets "_value"
/// behind.
std::vector<ValueSize> findValueSizes(const GraphDef& graph, const std::vector<const ValueInfo*>& inputs);

}  // namespace hpu::importer
