// SPDX-License-Identifier: Apache-2.0
// SizeTies: which sizes of a graph's inputs must be equal, and from which of them those follow that results declare.
// The one thing to know: nodes are asked, one at a time. Each is lowered alone for sizes that all differ; where it
// refuses them, the fewest of what it reads are made equal with which it does not.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "bindings/synapse/graph/GraphDescription.h"
#include "hpu/status.h"

namespace hpu::synapse {

/// A dimension of a tensor that no node produces, whose size changes.
struct FreePlace {
  size_t tensor = 0, dim = 0;
  int64_t least = 0, largest = 0;
};

/// Where a declared size of a result comes from: `factor` / `divisor` times what it is read from: dims `dim` to
/// `dim` + `count` - 1 of operand `operand` of its node, multiplied, or a place, or nothing.
struct SizeSource {
  static constexpr size_t kNone = SIZE_MAX;
  size_t operand = kNone, dim = 0, count = 0;
  size_t place = kNone;
  int64_t factor = 1, divisor = 1;
};

struct SizeTies {
  std::vector<size_t> firsts;  ///< By place: the first place that has the same size (itself, where it is alone).
  /// By tensor, by dimension: of results whose sizes do not follow from what their node reads. All others do.
  std::map<size_t, std::vector<SizeSource>> declared;
  int64_t multiple = 1;         ///< Nodes take sizes that are multiples of it, as parts and halves of sizes ask for.
  std::vector<uint32_t> types;  ///< By tensor, its synDataType.
  std::vector<std::vector<uint64_t>> largest;  ///< By tensor, its sizes at the largest of all.
};

struct TieOptions {
  bool all = false;   ///< As lowerFree: every size of a result but 0 and 1 may change.
  bool tied = false;  ///< Places of equal largest size are one from the start.
};

/// `graph`: its largest sizes are right. Errors: kUnimplemented, what the first node says that takes no sizes but
/// those.
StatusOr<SizeTies> tieSizes(const GraphDescription& graph, const std::vector<FreePlace>& places,
                            const TieOptions& options);

/// By tensor: sizes of the results in `ties.declared` when places have `sizes`; others are empty. Errors: what a node
/// says that does not take them.
StatusOr<std::vector<std::vector<uint64_t>>> declaredSizes(const GraphDescription& graph,
                                                           const std::vector<FreePlace>& places, const SizeTies& ties,
                                                           const std::vector<int64_t>& sizes, bool all);

/// Adds to `actual` (CompileRequest::actualSizes) sizes of results that follow from nothing but their declaration. A
/// result declares bounds; which sizes of the inputs are meant is found as above. What is not found is left out.
void addResultSizes(const GraphDescription& graph, std::vector<std::vector<uint64_t>>& actual);

}  // namespace hpu::synapse
