// SPDX-License-Identifier: Apache-2.0
// Nodes made by the formulas of src/compose, which front ends share.
// The one thing to know: a formula sees sizes as numbers. Where a node's sizes are free it is built for several of
// them, and how its numbers follow from these is found and checked (hpu/size_examples.h): so no formula knows of names.
//
//   composed(node, {node.input(0), node.input(1)}, [&](compose::Emitter& e, const std::vector<hpu::Value>& in) {
//     return std::vector<hpu::Value>{compose::gridSample(e, in[0], in[1], how)};
//   });
#pragma once

#include <functional>
#include <vector>

#include "compiler/import/NodeContext.h"
#include "compose/Emitter.h"

namespace hpu::importer {

/// Results in the order of the node's outputs; a null one is not set.
using Formula = std::function<std::vector<hpu::Value>(compose::Emitter&, const std::vector<hpu::Value>&)>;

/// What the formula makes of values of the module; null ones are null for the formula too. Failures of the formula are
/// the node's, and the result is then empty.
std::vector<Value> composedValues(NodeContext& node, const std::vector<Value>& inputs, const Formula& formula);
/// Sets the node's outputs to what the formula makes of values of the module; null ones are null for the formula too.
/// Failures of the formula are the node's.
void composed(NodeContext& node, const std::vector<Value>& inputs, const Formula& formula);

}  // namespace hpu::importer
