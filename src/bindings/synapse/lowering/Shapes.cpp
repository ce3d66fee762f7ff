// SPDX-License-Identifier: Apache-2.0
// Shape rules, and the nodes that compute on shape tensors alone.
#include <algorithm>

#include "bindings/synapse/lowering/Axes.h"
#include "habanalabs/synapse_common_types.h"

namespace hpu::synapse {

std::vector<int64_t> transposeParams(NodeContext& c, int64_t rank) {
  std::vector<int64_t> order;  // SynapseAI's.
  int64_t given = 0;
  if (c.paramsAre<synTransposeParams>()) {
    auto params = c.params<synTransposeParams>();
    given = params.tensorDim;
    for (int64_t i = 0; i < std::min<int64_t>(given, MAX_DIMENSIONS_NUM); ++i) order.push_back(params.permutation[i]);
  } else {
    auto params = c.params<synTransposeParamsNDims>();
    if (!c.ok()) return {};
    given = params.tensorDim;
    for (int64_t i = 0; i < std::min<int64_t>(given, HABANA_DIM_MAX); ++i) order.push_back(params.permutation[i]);
  }
  if (given != rank) return c.fail(strCat("tensorDim is ", given, ", the operand has rank ", rank)), order;
  if (static_cast<int64_t>(order.size()) != rank)
    return c.fail(strCat("a permutation of ", rank, " dims does not fit the structure")), order;
  std::vector<bool> seen(static_cast<size_t>(rank), false);
  std::vector<int64_t> perm(static_cast<size_t>(rank));
  for (int64_t i = 0; i < rank; ++i) {
    int64_t from = order[static_cast<size_t>(i)];
    if (from < 0 || from >= rank || seen[static_cast<size_t>(from)])
      return c.fail(strCat("the permutation is none: entry ", i, " is ", from)), perm;
    seen[static_cast<size_t>(from)] = true;
    perm[static_cast<size_t>(rank - 1 - i)] = rank - 1 - from;
  }
  return perm;
}

Shape expandDimsShape(NodeContext& c, const Shape& from) {
  auto params = c.params<synExpandDimsParams>();
  auto rank = static_cast<int64_t>(from.size());
  // SynapseAI's axis is the index of the new dim, so it may be the rank.
  int64_t axis = c.axis(params.axis, rank + 1);
  Shape shape = from;
  if (c.ok()) shape.insert(shape.begin() + axis, 1);
  return shape;
}

Shape squeezeShape(NodeContext& c, const Shape& from) {
  Shape shape;
  if (c.hasParams()) {
    auto params = c.params<synSqueezeParams>();
    int64_t axis = c.axis(params.axis, static_cast<int64_t>(from.size()));
    if (!c.ok()) return shape;
    shape = from;
    if (shape[static_cast<size_t>(axis)] != 1)
      return c.fail(strCat("axis ", params.axis, " has size ", shape[static_cast<size_t>(axis)], ", must have 1")),
             shape;
    shape.erase(shape.begin() + axis);
  } else {
    std::copy_if(from.begin(), from.end(), std::back_inserter(shape), [](int64_t size) { return size != 1; });
    // The declared sizes may keep some of the dims.
    if (std::optional<Shape> declared = c.declaredShape(0); declared && numElements(*declared) == numElements(from)) {
      Shape rest;
      std::copy_if(declared->begin(), declared->end(), std::back_inserter(rest),
                   [](int64_t size) { return size != 1; });
      if (rest == shape && declared->size() <= from.size()) return *declared;
    }
  }
  if (shape.empty()) shape.push_back(1);
  return shape;
}

Shape flattenShape(NodeContext& c, const Shape& from) {
  auto params = c.params<synFlattenParams>();
  int64_t axis = c.axis(params.axis, static_cast<int64_t>(from.size()));
  if (!c.ok()) return {};
  Shape shape = {1, 1};
  for (size_t d = 0; d < from.size(); ++d) shape[static_cast<int64_t>(d) < axis ? 0 : 1] *= from[d];
  return shape;
}

std::vector<int64_t> splitSizes(NodeContext& c, const Shape& from, int64_t axis, bool sums) {
  auto at = static_cast<size_t>(axis);
  std::vector<int64_t> sizes(c.numOutputs(), -1);
  int64_t total = 0;
  size_t open = SIZE_MAX;
  for (size_t i = 0; i < sizes.size(); ++i) {
    std::optional<Shape> declared = c.declaredShape(i);
    if (declared && declared->size() != from.size())
      return c.fail(strCat(c.outputName(i), " has rank ", declared->size(), ", the operand ", from.size())), sizes;
    if (declared)
      total += sizes[i] = (*declared)[at];
    else if (open != SIZE_MAX)
      return c.fail(strCat(c.outputName(i), " needs its sizes: they do not follow from the operand")), sizes;
    else
      open = i;
  }
  if (open != SIZE_MAX) total += sizes[open] = std::max<int64_t>(0, from[at] - total);
  if (sums && total != from[at])
    c.fail(strCat("the results have together ", total, " along the axis, the operand has ", from[at]));
  return sizes;
}

namespace {

/// The sizes of operand 0, a data or shape tensor, as a shape tensor.
void lowerExtractShape(NodeContext& c) {
  c.outputShape(0, c.inputShape(0));
}

void lowerTransposeShape(NodeContext& c) {
  Shape from = c.inputShape(0), to;
  for (int64_t d : transposeParams(c, static_cast<int64_t>(from.size()))) {
    if (!c.ok()) return;
    to.push_back(from[static_cast<size_t>(d)]);
  }
  c.outputShape(0, to);
}
void lowerExpandDimsShape(NodeContext& c) {
  c.outputShape(0, expandDimsShape(c, c.inputShape(0)));
}
void lowerSqueezeShape(NodeContext& c) {
  c.outputShape(0, squeezeShape(c, c.inputShape(0)));
}
void lowerFlattenShape(NodeContext& c) {
  c.outputShape(0, flattenShape(c, c.inputShape(0)));
}

void lowerSplitShape(NodeContext& c) {
  auto params = c.params<synSplitParams>();
  Shape shape = c.inputShape(0);
  int64_t axis = c.axis(params.axis, static_cast<int64_t>(shape.size()));
  if (!c.ok()) return;
  std::vector<int64_t> parts = splitSizes(c, shape, axis, /*sums=*/false);
  for (size_t i = 0; i < parts.size() && c.ok(); ++i) {
    shape[static_cast<size_t>(axis)] = parts[i];
    c.outputShape(i, shape);
  }
}

constexpr GuidRow kRows[] = {
    {"split_shape", "shape", "shapes...", "synSplitParams", "", lowerSplitShape, {}, kShapesOnly},
    {"extract_shape", "X", "shape", "none", "", lowerExtractShape, {}, kShapesOnly},
    {"transpose_shape",
     "shape",
     "shape",
     "synTransposeParams or synTransposeParamsNDims",
     "",
     lowerTransposeShape,
     {},
     kShapesOnly},
    {"expand_dims_shape", "shape", "shape", "synExpandDimsParams", "", lowerExpandDimsShape, {}, kShapesOnly},
    {"squeeze_shape", "shape", "shape", "synSqueezeParams?", "", lowerSqueezeShape, {}, kShapesOnly},
    {"flatten_shape", "shape", "shape", "synFlattenParams", "", lowerFlattenShape, {}, kShapesOnly},
};

}  // namespace

std::span<const GuidRow> shapeGuids() {
  return kRows;
}

}  // namespace hpu::synapse
