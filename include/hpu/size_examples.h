// SPDX-License-Identifier: Apache-2.0
// From graphs that a front end has built for several sizes to one graph of free dimensions, for front ends that see
// sizes as numbers. The one thing to know: the graphs must be the same but for sizes. How a size follows from the free
// dimensions is guessed from the first graphs and has to hold in all of them, and the types of all values are inferred
// again; what fits no expression is an error, so that nothing depends on a size that is not a size any more.
//
//   hpu::SizeExamples examples;
//   examples.inputs = {{"batch", ""}};                 // One input of two dimensions.
//   examples.sizes = {{{"batch", 7}}, {{"batch", 12}}};
//   HPU_RETURN_IF_ERROR(hpu::freeSizes({&ofSeven, &ofTwelve}, examples));
//   options.dimBounds["batch"] = {2, 4096};
//   HPU_ASSIGN(auto compiled, hpu::compile(ofSeven, options));
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "hpu/graph.h"
#include "hpu/status.h"

namespace hpu {

struct SizeExamples {
  /// By input and dimension the name of the free dimension that it is, or how it follows from such ("2*batch*seq"; each
  /// name is a dimension of its own somewhere); "" where the size is fixed.
  std::vector<std::vector<std::string>> inputs;
  /// By graph, the size that it was built for of every name. At least two graphs; the first ones best have sizes that
  /// are far from each other and from the model's own numbers.
  std::vector<std::map<std::string, int64_t>> sizes;
};

HPU_API Status freeSizes(const std::vector<Graph*>& graphs, const SizeExamples& examples, size_t examplesBytes);
/// Gives the first graph free dimensions; the others are compared with it. Graphs are used by this thread alone.
/// Errors: kInvalidArgument (examples that do not say the sizes of these graphs), kUnimplemented, naming the op of
/// which a size, a number or a constant is no expression of the free dimensions that is known. The first graph is then
/// broken and must be dropped.
inline Status freeSizes(const std::vector<Graph*>& graphs, const SizeExamples& examples) {
  return freeSizes(graphs, examples, sizeof(SizeExamples));
}

}  // namespace hpu
