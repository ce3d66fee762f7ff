// SPDX-License-Identifier: Apache-2.0
// From graphs that one builder has made for several sizes to one graph of free dimensions.
// The one thing to know: the graphs must be the same but for sizes. How a size follows from the free dimensions is
// guessed from the first graphs and has to hold in all of them, and the types of all values are inferred again; what
// fits no expression is an error, so that nothing depends on a size that is not a size any more.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "hpu/graph.h"
#include "hpu/status.h"

namespace hpu::importer {

struct SizeExamples {
  /// By input and dimension the name of the free dimension that it is; "" where the size is fixed.
  std::vector<std::vector<std::string>> inputs;
  /// By graph, the size that it was built for of every name. At least two graphs; the first ones best have sizes that
  /// are far from each other and from the model's own numbers.
  std::vector<std::map<std::string, int64_t>> sizes;
};

/// Gives the first graph free dimensions; the others are compared with it. Errors: kUnimplemented, naming the op of
/// which a size, a number or a constant is no expression of the free dimensions that is known. The first graph is
/// then broken and must be dropped.
Status freeSizes(const std::vector<Graph*>& graphs, const SizeExamples& examples);

}  // namespace hpu::importer
