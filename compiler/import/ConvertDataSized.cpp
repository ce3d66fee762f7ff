// SPDX-License-Identifier: Apache-2.0
// ONNX ops whose results are as large as the data says, and what reads them (DataSizes.h).
#include "base/Format.h"
#include "compiler/import/Composed.h"
#include "compiler/import/DataSizes.h"
#include "compiler/import/OpTable.h"
#include "compose/Detection.h"

namespace hpu::importer {
namespace {

using base::strCat;
using interp::Tensor;
using ir::SymDim;
using ir::SymShape;
using shape::DimExpr;

mlir::Type i32(NodeContext& node) {
  return node.builder().getI32Type();
}
mlir::Type i64(NodeContext& node) {
  return node.builder().getI64Type();
}

/// A size as a number that the device has: i64, rank 0.
Value numberOf(NodeContext& node, const DimExpr& size) {
  if (const std::optional<int64_t> known = size.constant())
    return node.constantTensor(Tensor::of<int64_t>(ElementType::kI64, {}, {*known}));
  return node.reshape(node.range(node.symDim(size), SymDim{1}, 1, ElementType::kI64), llvm::ArrayRef<int64_t>{});
}

/// 0, 1 ... along one of `rank` dimensions.
Value positionsAlong(NodeContext& node, const SymDim& size, size_t dim, size_t rank, ElementType element) {
  SymShape shape(rank, SymDim{1});
  shape[dim] = size;
  return node.reshape(node.range(SymDim{0}, size, 1, element), shape);
}

constexpr int64_t kBlock = 64;
/// So many elements are summed in less time by all pairs than by blocks.
constexpr int64_t kMostPairs = 4 * kBlock;

/// Whether an element along dimension 0 comes before one along dimension 1, of `size` each. Made of ops, not of
/// numbers, so that searches of one mask are the same ops, of which one remains.
Value isBefore(NodeContext& node, const SymDim& size) {
  return node.op("less", {positionsAlong(node, size, 0, 2, ElementType::kI32),
                          positionsAlong(node, size, 1, 2, ElementType::kI32)});
}

/// For each element of x, i32 of rank 1, the sum of those before it, by all pairs.
Value sumsByPairs(NodeContext& node, Value x) {
  const SymDim size = ir::symShape(NodeContext::typeOf(x))[0];
  Value counted = node.op("where", {isBefore(node, size), node.reshape(x, {size, SymDim{1}}), node.scalarLike(x, 0)});
  return node.op("reduce_sum", counted, {{"axes", Ints{0}}, {"keepdims", false}});
}

/// The same along rows of kBlock, as a product: their sums, at most kBlock * kBlock, are exact.
Value sumsOfRows(NodeContext& node, Value rows) {
  mlir::Type f32 = node.builder().getF32Type();
  Value matrix = node.cast(isBefore(node, SymDim{kBlock}), f32);
  Value sums = node.op("matmul", {node.cast(rows, f32), matrix}, {{"exact", true}});
  return node.cast(sums, i32(node));
}

/// For each element of x, i32 of rank 1, the sum of those before it: what is before it in its block, and what is in the
/// blocks before, which is found in turn. Elements are at most 1 on the outer of two levels.
Value sumsBefore(NodeContext& node, Value x, const DimExpr& size, int levels) {
  if (!x || levels == 0 || node.most(size) <= kMostPairs) return x ? sumsByPairs(node, x) : Value();
  // One of zeros where there is no element.
  const std::optional<DimExpr> filled = size.ceilDiv(kBlock);
  const std::optional<DimExpr> blocks = filled ? DimExpr::max(*filled, 1) : std::nullopt;
  const auto whole = blocks ? blocks->times(kBlock) : std::nullopt;
  if (!whole) return node.needsSize("the number of its elements"), Value();
  const Ints none = {0}, one = {1};
  Value padded = node.op("pad", x, {{"low", none}, {"high", Ints{kBlock}}, {"value", 0.0}});
  padded = node.slice(padded, SymDim{0}, node.symDim(whole), one);
  Value rows = node.reshape(padded, {node.symDim(blocks), SymDim{kBlock}});
  if (!rows) return {};
  Value ahead =
      sumsBefore(node, node.op("reduce_sum", rows, {{"axes", one}, {"keepdims", false}}), *blocks, levels - 1);
  Value sums = node.op("add", {sumsOfRows(node, rows), node.reshape(ahead, {node.symDim(blocks), SymDim{1}})});
  return node.slice(node.reshape(sums, {node.symDim(whole)}), SymDim{0}, node.symDim(size), one);
}

struct Found {
  Value places;  ///< Where the elements are, in order, i64 of rank 1; then zeros, as long as x.
  Value count;   ///< i64, rank 0.
};

/// The elements of a mask of rank 1 that hold.
Found findTrue(NodeContext& node, Value mask, const DimExpr& size) {
  const SymDim along = node.symDim(size);
  Value ones = node.cast(mask, i32(node));
  Value count = node.op("reduce_sum", ones, {{"axes", Ints{0}}, {"keepdims", false}});
  Value before = sumsBefore(node, ones, size, 2);
  Value nowhere = node.scalar(i32(node), INT32_MAX);
  Value zeros = node.expand(node.scalar(i64(node), 0), along);
  Value places =
      node.op("scatter_elements",
              {zeros, node.op("where", {mask, before, nowhere}), node.range(SymDim{0}, along, 1, ElementType::kI64)},
              {{"axis", 0}});
  return {places, node.cast(count, i64(node))};
}

/// NaN is not zero, and -0 is.
Value isNonZero(NodeContext& node, Value x) {
  if (!x || node.elementOf(x).isInteger(1)) return x;
  return node.op("not", node.op("equal", {x, node.scalarLike(x, 0)}));
}

}  // namespace

void findNonZero(NodeContext& node) {
  Value x = node.input(0);
  if (!x) return;
  const std::vector<std::optional<DimExpr>> sizes = NodeContext::dims(NodeContext::typeOf(x));
  const std::optional<DimExpr> size = NodeContext::product(sizes);
  if (!size) return node.needsSize("the number of its elements");
  const auto rank = static_cast<int64_t>(sizes.size());
  if (size->constant() == 0) return node.setOutput(0, Tensor::zeros({ElementType::kI64, {rank, 0}}));
  Value mask = node.reshape(isNonZero(node, x), {node.symDim(size)});
  if (rank == 0) {  // ONNX has no rows for it, and as many columns as there are elements.
    Value count = node.op("reduce_sum", node.cast(mask, i64(node)), {{"axes", Ints{0}}, {"keepdims", false}});
    Value none = node.constantTensor(Tensor::zeros({ElementType::kI64, {0, 1}}));
    return node.setOutput(0, cutToDataSize(node, none, 1, count));
  }
  const Found found = findTrue(node, mask, *size);
  llvm::SmallVector<Value> rows;
  std::optional<DimExpr> stride = DimExpr(1);
  for (int64_t d = rank; d-- > 0 && stride;) {
    Value row = found.places;
    // Where there are no elements there are no places either, and a divisor of 0 must not be.
    auto atLeastOne = [&](const DimExpr& number) {
      const DimExpr least = DimExpr::max(number, 1).value_or(number);
      return numberOf(node, least.simplified());
    };
    if (!(*stride == DimExpr(1))) row = node.op("div", {row, atLeastOne(*stride)});
    if (d > 0) row = node.op("mod", {row, atLeastOne(*sizes[static_cast<size_t>(d)])});
    rows.push_back(node.reshape(row, {SymDim{1}, node.symDim(size)}));
    stride = stride->times(*sizes[static_cast<size_t>(d)]);
  }
  if (!stride) return node.needsSize("the number of its elements");
  std::reverse(rows.begin(), rows.end());
  Value all = rows.size() == 1 ? rows[0] : node.op("concat", rows, {{"axis", 0}});
  node.setOutput(0, cutToDataSize(node, all, 1, found.count));
}

void convertCompress(NodeContext& node) {
  Value x = node.input(0), condition = node.input(1);
  if (!x || !condition) return;
  if (node.rank(condition) != 1) return node.invalid("its condition must have one dimension");
  int64_t axis = 0;
  if (node.hasAttribute("axis")) {
    const std::optional<int64_t> given = node.axis(node.integer("axis", 0), node.rank(x));
    if (!given) return;
    axis = *given;
  } else {
    const std::optional<DimExpr> all = NodeContext::product(NodeContext::dims(NodeContext::typeOf(x)));
    if (!all) return node.needsSize("the number of its elements");
    x = node.reshape(x, {node.symDim(all)});
    if (!x) return;
  }
  const SymDim own = ir::symShape(NodeContext::typeOf(condition))[0];
  const std::optional<DimExpr> size = ir::exprOf(own);
  const std::optional<DimExpr> most = ir::exprOf(ir::symShape(NodeContext::typeOf(x))[static_cast<size_t>(axis)]);
  if (!size || !most) return node.needsSize("the size of its condition");
  const auto room = most->minus(*size);
  if (room && room->interval().high < 0)
    return node.invalid(strCat("its condition has ", size->text(), " elements, and there are ", most->text()));
  SymShape shape = ir::symShape(NodeContext::typeOf(x));
  // That there are as many elements is asked of launches.
  if (!room || room->interval().low < 0) {
    shape[static_cast<size_t>(axis)] = own;
    if (!(x = node.slice(x, SymShape(shape.size(), SymDim{0}), shape, Ints(shape.size(), 1)))) return;
  }
  if (size->constant() == 0 || most->constant() == 0) {
    shape[static_cast<size_t>(axis)] = {0};
    const Ints steps(shape.size(), 1);
    return node.setOutput(0, node.slice(x, SymShape(shape.size(), SymDim{0}), shape, steps));
  }
  const Found found = findTrue(node, condition, *size);
  Value places = cutToDataSize(node, found.places, 0, found.count);
  node.setOutput(0, node.op("gather", {x, places}, {{"axis", axis}}));
}

void gatherTuples(NodeContext& node) {
  Value x = node.input(0), indices = node.input(1);
  if (!x || !indices) return;
  const int64_t batches = node.integer("batch_dims", 0), rank = node.rank(x), tuples = node.rank(indices) - 1;
  const SymShape from = ir::symShape(NodeContext::typeOf(x)), at = ir::symShape(NodeContext::typeOf(indices));
  if (tuples < 0) return node.invalid("its indices are one number");
  // How long the tuples are is how many dimensions they take away.
  if (const std::optional<int64_t> left = node.declaredRank(0);
      left && at.back().isFree() && tuples + rank - batches >= *left)
    if (!node.fixSize(indices, tuples, tuples + rank - batches - *left)) return;
  if (at.back().isFree()) return node.unsupported("tuples of indices whose length is not known");
  const int64_t depth = at.back().size;
  if (batches < 0 || batches > rank || depth < 1 || depth > rank - batches || batches > tuples)
    return node.invalid("its indices are deeper than the data");
  std::optional<DimExpr> places = DimExpr(1);
  Value place;
  SymShape shape(at.begin(), at.end() - 1);
  for (int64_t k = batches + depth; k-- > 0 && places;) {
    const std::optional<DimExpr> size = ir::exprOf(from[static_cast<size_t>(k)]);
    if (!size) return node.needsSize(strCat("dimension ", k, " of its data"));
    Value index;
    if (k < batches) {
      index = positionsAlong(node, at[static_cast<size_t>(k)], static_cast<size_t>(k), shape.size(), ElementType::kI64);
    } else {
      index = node.reshape(node.sliceDim(indices, tuples, k - batches, k - batches + 1), shape);
      Value isNegative = node.op("less", {index, node.scalarLike(index, 0)});
      index = node.op("where", {isNegative, node.op("add", {index, numberOf(node, *size)}), index});
    }
    if (!(*places == DimExpr(1))) index = node.op("mul", {index, numberOf(node, *places)});
    place = place ? node.op("add", {place, index}) : index;
    places = places->times(*size);
  }
  if (!places) return node.needsSize("the number of its elements");
  SymShape flat = {node.symDim(places)};
  flat.append(from.begin() + batches + depth, from.end());
  node.setOutput(0, node.op("gather", {node.reshape(x, flat), place}, {{"axis", 0}}));
}

void convertNonMaxSuppression(NodeContext& node) {
  const int64_t form = node.integer("center_point_box", 0);
  if (form != 0 && form != 1) return node.invalid(strCat("center_point_box is ", form));
  // Without a number nothing is selected.
  if (!node.has(2) || node.constantNumber(2) == 0.0)
    return node.setOutput(0, Tensor::zeros({ElementType::kI64, {0, 3}}));
  Value boxes = node.input(0), scores = node.input(1), most = node.input(2);
  Value overlap = node.has(3) ? node.input(3) : node.scalar(node.builder().getF32Type(), 0);
  Value threshold = node.has(4) ? node.input(4) : Value();
  if (!boxes || !scores || !most || !overlap || (node.has(4) && !threshold)) return;
  if (node.rank(scores) != 3) return node.invalid("scores must be [batch, classes, boxes]");
  if (node.rank(boxes) == 3 &&
      (!node.fixSize(boxes, 2, 4) || !node.sameSize(boxes, 0, scores, 0) || !node.sameSize(boxes, 1, scores, 2)))
    return;
  const std::vector<Value> done = composedValues(
      node, {boxes, scores, most, overlap, threshold}, [&](compose::Emitter& e, const std::vector<hpu::Value>& in) {
        return std::vector<hpu::Value>{compose::selectBoxes(e, in[0], in[1], in[2], in[3], in[4], form == 1)};
      });
  if (done.size() != 1) return;
  const auto sizes = NodeContext::dims(NodeContext::typeOf(scores));
  const std::optional<DimExpr> all = NodeContext::product(sizes);
  if (!all) return node.needsSize("the number of its scores");
  if (all->constant() == 0) return node.setOutput(0, Tensor::zeros({ElementType::kI64, {0, 3}}));
  // As many as are asked for of each class, where that is known: they come first.
  Value chosen = done[0];
  std::optional<DimExpr> each = *sizes[2];
  if (const std::optional<double> number = node.constantNumber(2)) {
    const std::optional<DimExpr> least = DimExpr::min(*each, static_cast<int64_t>(std::clamp(*number, 0.0, 1e12)));
    if (least) {
      each = least->simplified();
      SymShape to = ir::symShape(NodeContext::typeOf(chosen));
      to[2] = node.symDim(each);
      chosen = node.slice(chosen, {SymDim{0}, SymDim{0}, SymDim{0}}, to, Ints{1, 1, 1});
    }
  }
  const std::optional<DimExpr> ofBatch = each->times(*sizes[1]);
  const std::optional<DimExpr> whole = ofBatch ? ofBatch->times(*sizes[0]) : std::nullopt;
  if (!whole) return node.needsSize("the number of boxes that it selects");
  const SymDim rows = node.symDim(whole->simplified());
  chosen = node.reshape(chosen, rows);
  Value isThere = node.op("greater_equal", {chosen, node.scalarLike(chosen, 0)});
  const Found found = findTrue(node, isThere, whole->simplified());
  auto column = [&](Value v) { return node.reshape(v, {rows, SymDim{1}}); };
  Value batch = node.op("div", {found.places, numberOf(node, ofBatch->simplified())});
  Value kind = node.op("mod", {node.op("div", {found.places, numberOf(node, *each)}), numberOf(node, *sizes[1])});
  Value box = node.op("gather", {chosen, found.places}, {{"axis", 0}});
  Value all3 = node.op("concat", {column(batch), column(kind), column(box)}, {{"axis", 1}});
  node.setOutput(0, cutToDataSize(node, all3, 0, found.count));
}

void convertUnique(NodeContext& node) {
  Value x = node.input(0);
  if (!x) return;
  const bool isSorted = node.integer("sorted", 1) != 0, hasAxis = node.hasAttribute("axis");
  const std::vector<std::optional<DimExpr>> sizes = NodeContext::dims(NodeContext::typeOf(x));
  std::optional<DimExpr> count = NodeContext::product(sizes), width = DimExpr(1);
  if (!count) return node.needsSize("the number of its elements");
  int64_t axis = 0;
  Value rows;
  if (hasAxis) {
    const std::optional<int64_t> given = node.axis(node.integer("axis", 0), node.rank(x));
    if (!given) return;
    axis = *given;
    Ints perm = {axis};
    std::vector<std::optional<DimExpr>> others;
    for (int64_t d = 0; d < node.rank(x); ++d)
      if (d != axis) perm.push_back(d), others.push_back(sizes[static_cast<size_t>(d)]);
    count = sizes[static_cast<size_t>(axis)];
    width = NodeContext::product(others);
    if (!count || !width) return node.needsSize("the number of its elements");
    rows = node.transpose(x, perm);
  } else {
    x = rows = node.reshape(x, {node.symDim(count)});
  }
  rows = node.reshape(rows, {node.symDim(count), node.symDim(width)});
  if (!rows) return;
  const std::vector<Value> done =
      composedValues(node, {rows}, [&](compose::Emitter& e, const std::vector<hpu::Value>& in) {
        const compose::UniqueRows result = compose::uniqueRows(e, in[0], isSorted);
        return std::vector<hpu::Value>{result.places, result.inverse, result.counts, result.count};
      });
  if (done.size() != 4) return;
  Value all = node.op("gather", {x, done[0]}, {{"axis", axis}});
  if (node.wants(0)) node.setOutput(0, cutToDataSize(node, all, axis, done[3]));
  if (node.wants(1)) node.setOutput(1, cutToDataSize(node, done[0], 0, done[3]));
  if (node.wants(2)) node.setOutput(2, done[1]);
  if (node.wants(3)) node.setOutput(3, cutToDataSize(node, done[2], 0, done[3]));
}

}  // namespace hpu::importer
