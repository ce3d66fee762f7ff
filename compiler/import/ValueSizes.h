// SPDX-License-Identifier: Apache-2.0
// Which inputs of a model say sizes by their values.
#pragma once

#include <string>
#include <vector>

#include "compiler/dialect/hpu/ValueSizes.h"
#include "compiler/import/OnnxModel.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace hpu::importer {

using ir::setValueSizes;
using ir::ValueSize;
using ir::valueSizes;

/// The inputs of a graph whose elements say sizes: integers, at most kMostSizes of them, that an operand which is a
/// shape, a limit or a number of elements is made of, by arithmetic that is known at import. By input, the names of its
/// elements: that of the input for a single one, else NAME_0, NAME_1 ...; one that a dimension has gets "_value"
/// behind.
/// `isNamed`: the options say what is of a size of this name.
std::vector<ValueSize> findValueSizes(const GraphDef& graph, const std::vector<const ValueInfo*>& inputs,
                                      llvm::function_ref<bool(const std::string&)> isNamed);

}  // namespace hpu::importer
