// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/RunningSums.h"

#include <algorithm>

#include "base/Format.h"
#include "compiler/dialect/hpu/HpuTypes.h"

namespace hpu::importer {

using base::strCat;
using ir::SymDim;
using ir::SymShape;
using shape::DimExpr;

namespace {

/// With a dimension of blocks there are as many as a recipe has.
constexpr int64_t kMostRank = 7;
/// Elements of a block: six doublings.
constexpr int64_t kSumBlock = 64;
/// Of sizes that are not known: blocks of blocks, of which all pairs are looked at. 4096 elements are one.
constexpr int kFreeLevels = 2;
/// All pairs of so few elements are one kernel, which is faster than several.
constexpr int64_t kFewPairs = 1 << 16;

SymShape sumShape(Value x) {
  return ir::symShape(NodeContext::typeOf(x));
}

/// Zeros before (or behind) the elements of dimension `axis`, and as many less at its other end: the size stays.
Value shifted(NodeContext& node, Value x, int64_t axis, int64_t by, bool isReverse) {
  if (!x) return {};
  const SymShape shape = sumShape(x);
  Ints low(shape.size(), 0), high(shape.size(), 0);
  (isReverse ? high : low)[static_cast<size_t>(axis)] = by;
  SymShape starts(shape.size(), SymDim{0});
  if (isReverse) starts[static_cast<size_t>(axis)] = SymDim{by};
  return node.slice(node.op("pad", x, {{"low", low}, {"high", high}, {"value", 0.0}}), starts, shape,
                    Ints(shape.size(), 1));
}

/// Along a dimension of a known size: each step adds what the one before has found of as many elements.
Value byDoubling(NodeContext& node, Value x, int64_t axis, int64_t size, bool isReverse) {
  for (int64_t by = 1; by < size && x; by *= 2) {
    const int64_t begin = isReverse ? by : 0;
    Value part = node.sliceDim(x, axis, begin, begin + size - by);
    if (!part) return {};
    Ints low(sumShape(x).size(), 0), high = low;
    (isReverse ? high : low)[static_cast<size_t>(axis)] = by;
    x = node.op("add", {x, node.op("pad", part, {{"low", low}, {"high", high}, {"value", 0.0}})});
  }
  return x;
}

/// Where there are few elements: of each all that are not behind (before) it.
Value byPairs(NodeContext& node, Value x, int64_t axis, bool isReverse) {
  SymShape each = sumShape(x);
  const auto dim = static_cast<size_t>(axis);
  const SymDim size = each[dim];
  each.insert(each.begin() + axis, SymDim{1});
  SymShape columns(each.size() - dim - 1, SymDim{1}), rows(each.size() - dim, SymDim{1});
  columns[0] = rows[0] = size;
  Value positions = node.range(SymDim{0}, size, 1, ElementType::kI64);
  Value from = node.reshape(positions, columns), to = node.reshape(positions, rows);
  if (isReverse) std::swap(from, to);
  Value counted = node.op("where", {node.op("less_equal", {from, to}), node.reshape(x, each), node.scalarLike(x, 0)});
  return node.op("reduce_sum", counted, {{"axes", Ints{axis + 1}}, {"keepdims", false}});
}

Value inclusive(NodeContext& node, Value x, int64_t axis, bool isReverse, int levels) {
  if (!x) return {};
  const auto dim = static_cast<size_t>(axis);
  const SymShape shape = sumShape(x);
  const std::optional<DimExpr> size = ir::exprOf(shape[dim]);
  if (!size) return node.needsSize(strCat("dimension ", axis, ", along which it sums")), Value();
  const std::optional<int64_t> known = size->constant();
  const std::optional<DimExpr> count = NodeContext::product(NodeContext::dims(NodeContext::typeOf(x)));
  const std::optional<int64_t> elements = count ? count->constant() : std::nullopt;
  if (known && elements && *elements <= kFewPairs / std::max<int64_t>(*known, 1))
    return byPairs(node, x, axis, isReverse);
  if (known && *known <= kSumBlock) return byDoubling(node, x, axis, *known, isReverse);
  if (!known && levels == 0) return byPairs(node, x, axis, isReverse);
  // One block of zeros where there is no element.
  const std::optional<DimExpr> filled = size->ceilDiv(kSumBlock);
  const std::optional<DimExpr> blocks = filled ? DimExpr::max(*filled, 1) : std::nullopt;
  const std::optional<DimExpr> whole = blocks ? blocks->times(kSumBlock) : std::nullopt;
  if (!whole) return node.needsSize(strCat("dimension ", axis, ", along which it sums")), Value();
  Value padded = x;
  if (!(*whole == *size)) {
    const int64_t room = known ? *whole->constant() - *known : kSumBlock;
    Ints low(shape.size(), 0), high(shape.size(), 0);
    high[dim] = room;
    padded = node.op("pad", x, {{"low", low}, {"high", high}, {"value", 0.0}});
    if (!known) {
      SymShape sizes = shape;
      sizes[dim] = node.symDim(whole);
      padded = node.slice(padded, SymShape(shape.size(), SymDim{0}), sizes, Ints(shape.size(), 1));
    }
  }
  SymShape joined = shape, parted = shape, totals = shape;
  joined[dim] = node.symDim(whole);
  totals[dim] = parted[dim] = node.symDim(blocks);
  SymShape aside = parted;
  parted.insert(parted.begin() + axis + 1, SymDim{kSumBlock});
  aside.insert(aside.begin() + axis + 1, SymDim{1});
  Value own = byDoubling(node, node.reshape(padded, parted), axis + 1, kSumBlock, isReverse);
  if (!own) return {};
  const int64_t last = isReverse ? 0 : kSumBlock - 1;
  Value sums = node.reshape(node.sliceDim(own, axis + 1, last, last + 1), totals);
  Value ahead = shifted(node, inclusive(node, sums, axis, isReverse, levels - 1), axis, 1, isReverse);
  if (!ahead) return {};
  Value all = node.reshape(node.op("add", {own, node.reshape(ahead, aside)}), joined);
  return node.slice(all, SymShape(shape.size(), SymDim{0}), shape, Ints(shape.size(), 1));
}

}  // namespace

Value runningSums(NodeContext& node, Value x, int64_t axis, RunningSumForm form) {
  if (!x) return {};
  const mlir::Type element = node.elementOf(x);
  const SymShape whole = sumShape(x);
  if (static_cast<int64_t>(whole.size()) > kMostRank) {
    const auto sizes = NodeContext::dims(NodeContext::typeOf(x));
    const auto outer = NodeContext::product(llvm::ArrayRef(sizes).take_front(static_cast<size_t>(axis))),
               inner = NodeContext::product(llvm::ArrayRef(sizes).drop_front(static_cast<size_t>(axis) + 1));
    if (!outer || !inner) return node.needsSize("the number of its elements"), Value();
    const SymShape joined = {node.symDim(outer), whole[static_cast<size_t>(axis)], node.symDim(inner)};
    Value sums = runningSums(node, node.reshape(x, joined), 1, form);
    return sums ? node.reshape(sums, whole) : Value();
  }
  Value sums = inclusive(node, node.widened(x), axis, form.isReverse, kFreeLevels);
  if (form.isExclusive) sums = shifted(node, sums, axis, 1, form.isReverse);
  return sums ? node.cast(sums, element) : Value();
}

}  // namespace hpu::importer
