// SPDX-License-Identifier: Apache-2.0
// Nodes that move, rename or create elements without looking at them.
#include <algorithm>
#include <numeric>

#include "bindings/synapse/lowering/Axes.h"
#include "bindings/synapse/lowering/Lowering.h"
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
  std::vector<int64_t> parts = splitSizes(c, shape, axis, /*sums=*/true);
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

ElementType unsignedOf(int64_t bytes) {
  return bytes == 1   ? ElementType::kU8
         : bytes == 2 ? ElementType::kU16
         : bytes == 4 ? ElementType::kU32
                      : ElementType::kU64;
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

/// The same bytes as elements of the result's type. Of another width, the fastest dim grows or shrinks: elements are
/// cut into their parts, or parts put together, least significant first (as memory has them).
void lowerReinterpretCast(NodeContext& c) {
  Value v = c.input(0);
  ElementType from = c.element(v), to = c.outputType(0, ElementType::kInvalid);
  Shape shape = c.inputShape(0);
  if (!c.ok()) return;
  if (to == ElementType::kInvalid) return (void)c.fail(strCat(c.outputName(0), " needs an element type"));
  if (shape.empty()) return (void)c.fail(strCat(c.inputName(0), " has no sizes"));
  int64_t wide = elementSize(from), narrow = elementSize(to), bytes = shape.back() * wide;
  if (bytes % narrow)
    return (void)c.fail(strCat(bytes, " bytes of size 0 are no whole number of ", elementTypeName(to)));
  if (wide == narrow) return c.output(0, bitcast(c, v, to));
  auto last = static_cast<int64_t>(shape.size()) - 1;
  int64_t parts = std::max(wide, narrow) / std::min(wide, narrow), partBits = std::min(wide, narrow) * 8;
  ElementType part = unsignedOf(std::min(wide, narrow)), whole = unsignedOf(std::max(wide, narrow));
  v = bitcast(c, v, unsignedOf(wide));
  shape.back() = bytes / narrow;
  if (wide > narrow) {
    Shape column = c.shape(v);
    column.push_back(1);
    std::vector<int64_t> shifts;
    for (int64_t k = 0; k < parts; ++k) shifts.push_back(k * partBits);
    Value shifted = c.op("shift_right", {c.reshape(v, column), c.cast(c.indices({parts}, shifts), whole)});
    v = c.reshape(c.cast(shifted, part), shape);
  } else {
    Value sum;
    for (int64_t k = 0; k < parts; ++k) {
      Value piece = c.cast(c.sliceDim(v, last, k, shape.back(), parts), whole);
      if (k) piece = c.op("shift_left", {piece, c.scalarLike(piece, static_cast<double>(k * partBits))});
      sum = sum.handle ? c.op("bit_or", {sum, piece}) : piece;
    }
    v = sum;
  }
  c.output(0, bitcast(c, v, to));
}

constexpr GuidRow kRows[] = {
    {"transpose", "X", "Y", "synTransposeParams or synTransposeParamsNDims", "", lowerTranspose, {}, kOneType | kMoves},
    {"reshape", "X, [shape]", "Y", "none", "", lowerReshape, {}, kOneType | kMoves},
    {"broadcast", "X, [shape]", "Y", "none", "", lowerBroadcast, {}, kOneType | kMoves},
    {"concat", "in...", "Y", "synConcatenateParams", "", lowerConcat, {}, kOneType | kMoves},
    {"split", "X", "out...", "synSplitParams", "", lowerSplit, {}, kOneType | kMoves},
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
