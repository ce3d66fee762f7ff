// SPDX-License-Identifier: Apache-2.0
// Nodes that move, rename or create elements without looking at them.
#include <algorithm>
#include <numeric>

#include "bindings/synapse/lowering/Axes.h"
#include "bindings/synapse/lowering/HostOperands.h"
#include "bindings/synapse/lowering/Lowering.h"
#include "compose/Reinterpret.h"
#include "habanalabs/synapse_common_types.h"

namespace hpu::synapse {

namespace {

void lowerTranspose(NodeContext& c) {
  Shape shape = c.inputShape(0);
  std::vector<int64_t> perm = transposeParams(c, static_cast<int64_t>(shape.size()));
  if (c.ok()) c.output(0, c.transpose(c.input(0), perm));
}

/// Elements in memory order under the sizes of the result (or of the shape tensor).
void lowerReshape(NodeContext& c) {
  Shape from = c.inputShape(0), to = c.requiredShape(0, 1);
  if (!c.ok()) return;
  if (numElements(from) != numElements(to))
    return (void)c.fail(strCat("cannot reshape ", sizesText(from), " to ", sizesText(to)));
  c.output(0, c.reshape(c.input(0), to));
}

/// Where a shape tensor says so the result is smaller than the operand: its sizes are the actual ones.
void lowerBroadcast(NodeContext& c) {
  Shape from = c.inputShape(0), to = c.requiredShape(0, 1);
  if (!c.ok()) return;
  const bool clips = c.isShapeTensor(1);
  bool fits = from.size() <= to.size();
  Shape kept = from;
  for (size_t i = 1; fits && i <= from.size(); ++i) {
    int64_t size = from[from.size() - i], wanted = to[to.size() - i];
    fits = size == 1 || size == wanted || (clips && size > wanted);
    if (clips && size > wanted) kept[from.size() - i] = wanted;
  }
  if (!fits) return (void)c.fail(strCat("cannot broadcast ", sizesText(from), " to ", sizesText(to)));
  Value x = c.input(0);
  if (kept != from) x = c.slice(x, std::vector<int64_t>(from.size(), 0), kept, std::vector<int64_t>(from.size(), 1));
  c.output(0, c.expand(x, to));
}

void lowerConcat(NodeContext& c) {
  auto params = c.params<synConcatenateParams>();
  std::vector<Value> values;
  size_t count = c.numInputs();
  if (count > 1 && c.isShapeTensor(count - 1)) --count;
  Shape first = c.inputShape(0);
  int64_t axis = c.axis(params.axis, static_cast<int64_t>(first.size()));
  for (size_t i = 0; i < count && c.ok(); ++i) {
    Shape shape = c.inputShape(i);
    bool fits = shape.size() == first.size();
    for (size_t d = 0; fits && d < shape.size(); ++d) fits = shape[d] == first[d] || static_cast<int64_t>(d) == axis;
    if (!fits)
      return (void)c.fail(strCat(c.inputName(i), " of sizes ", sizesText(shape), " cannot be joined to ",
                                 sizesText(first), " along axis ", params.axis));
    values.push_back(c.input(i));
  }
  c.output(0, c.concat(values, axis));
}

void lowerSplit(NodeContext& c) {
  auto params = c.params<synSplitParams>();
  Shape shape = c.inputShape(0);
  int64_t axis = c.axis(params.axis, static_cast<int64_t>(shape.size()));
  if (!c.ok()) return;
  std::vector<int64_t> parts;
  if (c.isHostTensor(1)) {
    parts = hostSizes(c, 1, c.numOutputs());
    parts.resize(c.numOutputs());
    const int64_t total = std::accumulate(parts.begin(), parts.end(), int64_t{0});
    if (c.ok() && total != shape[static_cast<size_t>(axis)])
      c.fail(strCat(c.inputName(1), " has together ", total, ", the operand has ", shape[static_cast<size_t>(axis)]));
  } else {
    parts = splitSizes(c, shape, axis, /*sums=*/true);
  }
  Value v = c.input(0);
  int64_t start = 0;
  for (size_t i = 0; i < parts.size() && c.ok(); ++i) {
    c.output(i, c.sliceDim(v, axis, start, parts[i]));
    start += parts[i];
  }
}

// Reshapes whose result follows from an axis.
void lowerExpandDims(NodeContext& c) {
  Shape shape = expandDimsShape(c, c.inputShape(0));
  if (c.ok()) c.output(0, c.reshape(c.input(0), shape));
}
void lowerSqueeze(NodeContext& c) {
  Shape shape = squeezeShape(c, c.inputShape(0));
  if (c.ok()) c.output(0, c.reshape(c.input(0), shape));
}
void lowerFlatten(NodeContext& c) {
  Shape shape = flattenShape(c, c.inputShape(0));
  if (c.ok()) c.output(0, c.reshape(c.input(0), shape));
}

void lowerMemset(NodeContext& c) {
  Shape shape = c.requiredShape(0, 0);
  ElementType type = c.outputType(0, ElementType::kInvalid);
  if (!c.ok()) return;
  if (type == ElementType::kInvalid) return (void)c.fail(strCat(c.outputName(0), " needs an element type"));
  c.output(0, c.full({type, shape}, 0));
}

Value bitcast(NodeContext& c, Value v, ElementType to) {
  return c.element(v) == to ? v : c.op("bitcast", {v}, {{"to", std::string(elementTypeName(to))}});
}

/// The operand; as elements of another type of the same width, if the result is declared so, with the same bits.
void lowerIdentity(NodeContext& c) {
  Value v = c.input(0);
  const ElementType from = c.element(v), to = c.outputType(0, from);
  if (c.ok() && elementSize(from) != elementSize(to))
    return (void)c.fail(strCat(c.outputName(0), " is ", elementTypeName(to), ", the operand ", elementTypeName(from),
                               "; only types of one width are reinterpreted (memcpy and cast convert)"));
  c.output(0, bitcast(c, v, to));
}

/// A copy; into another type, the same numbers in it.
void lowerMemcpy(NodeContext& c) {
  Value v = c.input(0);
  c.output(0, convert(c, v, c.outputType(0, c.element(v))));
}

/// The same bytes as elements of the result's type.
void lowerReinterpretCast(NodeContext& c) {
  Value v = c.input(0);
  ElementType to = c.outputType(0, ElementType::kInvalid);
  if (!c.ok()) return;
  if (to == ElementType::kInvalid) return (void)c.fail(strCat(c.outputName(0), " needs an element type"));
  if (c.inputShape(0).empty()) return (void)c.fail(strCat(c.inputName(0), " has no sizes"));
  c.output(0, compose::reinterpret(c, v, to));
}

constexpr GuidRow kRows[] = {
    {"transpose", "X", "Y", "synTransposeParams or synTransposeParamsNDims", "", lowerTranspose, {}, kOneType | kMoves},
    {"reshape", "X, [shape]", "Y", "none", "", lowerReshape, {}, kOneType | kMoves},
    {"broadcast", "X, [shape]", "Y", "none", "", lowerBroadcast, {}, kOneType | kMoves},
    {"concat", "in...", "Y", "synConcatenateParams", "", lowerConcat, {}, kOneType | kMoves},
    {"split", "X, [host sizes]", "out...", "synSplitParams", "", lowerSplit, {}, kOneType | kMoves},
    {"transpose_dma",
     "X",
     "Y",
     "synTransposeParams or synTransposeParamsNDims",
     "",
     lowerTranspose,
     {},
     kOneType | kMoves},
    {"static_reshape", "X, [shape]", "Y", "any?", "", lowerReshape, {}, kOneType | kMoves},
    {"concat_logical_internal", "in...", "Y", "synConcatenateParams", "", lowerConcat, {}, kOneType | kMoves},
    {"physical_concat", "in...", "Y", "synConcatenateParams", "", lowerConcat, {}, kOneType | kMoves},
    {"expand_dims", "X", "Y", "synExpandDimsParams", "", lowerExpandDims, {}, kOneType | kMoves},
    {"squeeze", "X", "Y", "synSqueezeParams?", "", lowerSqueeze, {}, kOneType | kMoves},
    {"flatten", "X", "Y", "synFlattenParams", "", lowerFlatten, {}, kOneType | kMoves},
    {"identity", "X, [shape]", "Y", "none", "", lowerIdentity, {}, kMoves},
    {"memcpy", "X, [shape]", "Y", "none", "", lowerMemcpy, {}, kMoves},
    {"memset", "[shape]", "Y", "none", "", lowerMemset},
    {"reinterpret_cast", "X", "Y", "none", "", lowerReinterpretCast},
};

}  // namespace

std::span<const GuidRow> movementGuids() {
  return kRows;
}

}  // namespace hpu::synapse
