// SPDX-License-Identifier: Apache-2.0
// Ops that move elements. Views only change where their operand is read; concat and pad cut the
// index space into pieces; gather and resize read at addresses that are looked up.
#include <cmath>

#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/ResizeCoordinates.h"
#include "compiler/kernels/PlanBuilder.h"

namespace hpu::kernels {
using namespace ir;
namespace {

Affine times(const Affine& a, const SymInt& factor) {
  Affine result = a;
  for (SymInt& c : result.coef)
    if (!isZero(c)) c *= factor;
  result.constant *= factor;
  for (Term& term : result.terms) term.factor *= factor;
  return result;
}
Affine plus(const Affine& a, const Affine& b) {
  Affine result = a;
  for (int d = 0; d < kMaxIterDims; ++d) result.coef[d] += b.coef[d];
  result.constant += b.constant;
  result.terms.append(b.terms.begin(), b.terms.end());
  return result;
}

int lowerTranspose(PlanBuilder& b, const Node& node, const IndexMap& map) {
  IndexMap operandMap(map.size());
  for (auto [i, p] : llvm::enumerate(node.intsAttr("perm"))) operandMap[p] = map[i];
  return b.lower(node.operands[0], operandMap);
}

int lowerSlice(PlanBuilder& b, const Node& node, const IndexMap& map) {
  IndexMap operandMap(map.size());
  const SymbolicNumbers::Numbers starts = node.numbersAttr("starts");
  for (size_t d = 0; d < map.size(); ++d) {
    operandMap[d] = times(map[d], node.intsAttr("steps")[d]);
    operandMap[d].constant += starts[d];
  }
  return b.lower(node.operands[0], operandMap);
}

int lowerExpand(PlanBuilder& b, const Node& node, const IndexMap& map) {
  return b.lower(node.operands[0], b.broadcastMap(map, b.node(node.operands[0]).shape));
}

int lowerCopy(PlanBuilder& b, const Node& node, const IndexMap& map) {
  return b.lower(node.operands[0], map);
}

/// Whether the dims whose sizes are multiplied to `left` need one more, rather than those of `right`: by what one
/// leaves of the other for all sizes, else by their values.
bool isSmaller(const SymInt& left, const SymInt& right) {
  if (!left.isConstant() || !right.isConstant()) {
    if (left.dividedBy(right)) return false;
    if (right.dividedBy(left)) return true;
  }
  return left.value() < right.value();
}

/// Result dims may split an operand dim (that is an affine sum), not merge several of them.
int lowerReshape(PlanBuilder& b, const Node& node, const IndexMap& map) {
  llvm::ArrayRef<SymInt> to = node.shape, from = b.node(node.operands[0]).shape;
  IndexMap operandMap(from.size());
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    // The next group of operand dims [i, i2) and result dims [j, j2) with the same number of
    // elements.
    size_t i2 = i, j2 = j;
    SymInt left = i2 < from.size() ? from[i2++] : 1, right = j2 < to.size() ? to[j2++] : 1;
    while (left != right) {
      const bool extendLeft = isSmaller(left, right);
      SymInt& smaller = extendLeft ? left : right;
      llvm::ArrayRef<SymInt> shape = extendLeft ? from : to;
      size_t& at = extendLeft ? i2 : j2;
      if (at >= shape.size() || left.value() < 0 || right.value() < 0)
        return b.fail(node, "the reshape of a computed value must have known sizes");
      smaller *= shape[at++];
    }
    int wide = -1;
    for (size_t d = i; d < i2; ++d) {
      if (from[d] == 1) continue;
      if (wide >= 0) return b.fail(node, "it joins dimensions of a value, which is a copy of its own");
      wide = static_cast<int>(d);
    }
    Affine sum;
    SymInt factor = 1;
    for (size_t d = j2; d-- > j;) {
      if (to[d] != 1) sum = plus(sum, times(map[d], factor));
      factor *= to[d];
    }
    if (wide >= 0) operandMap[wide] = sum;
    i = i2;
    j = j2;
  }
  return b.lower(node.operands[0], operandMap);
}

int lowerConcat(PlanBuilder& b, const Node& node, const IndexMap& map) {
  auto axis = static_cast<size_t>(node.intAttr("axis"));
  int piece = b.choosePiece(static_cast<int>(node.operands.size()));
  if (node.operands.size() == 1) return b.lower(node.operands[0], map);
  int dim = b.pureDim(map[axis]);
  if (dim < 0 || dim >= b.rankOfIndexSpace())
    return b.fail(node, "its axis is not a dimension of the kernel's index space");
  SymInt offset;
  for (int i = 0; i < piece; ++i) offset += b.node(node.operands[i]).shape[axis];
  const SymInt& size = b.node(node.operands[piece]).shape[axis];
  b.restrictBox(dim, offset, offset + size);
  IndexMap operandMap(map);
  operandMap[axis].constant -= offset;
  if (size == 1) operandMap[axis] = Affine();
  return b.lower(node.operands[piece], operandMap);
}

int lowerPad(PlanBuilder& b, const Node& node, const IndexMap& map) {
  const Node& x = b.node(node.operands[0]);
  const SymbolicNumbers::Numbers low = node.numbersAttr("low"), high = node.numbersAttr("high");
  llvm::SmallVector<size_t, 4> padded;
  for (size_t d = 0; d < low.size(); ++d)
    if (!isZero(low[d]) || !isZero(high[d])) padded.push_back(d);
  // Piece 0 is the operand; then, for each padded dim, what lies below and above it, as far as
  // earlier padded dims are inside the operand.
  int piece = b.choosePiece(1 + 2 * static_cast<int>(padded.size()));
  IndexMap operandMap(map);
  for (auto [i, d] : llvm::enumerate(padded)) {
    int dim = b.pureDim(map[d]);
    if (dim < 0 || dim >= b.rankOfIndexSpace())
      return b.fail(node, "a padded dimension is not one of the kernel's index space");
    int edge = piece - 1 - 2 * static_cast<int>(i);
    if (piece == 0 || edge > 1) {
      b.restrictBox(dim, low[d], low[d] + x.shape[d]);
      operandMap[d].constant -= low[d];
      if (x.shape[d] == 1) operandMap[d] = Affine();
      continue;
    }
    if (edge == 0) b.restrictBox(dim, 0, low[d]);
    if (edge == 1) b.restrictBox(dim, low[d] + x.shape[d], low[d] + x.shape[d] + high[d]);
    return b.constant(node.floatAttr("value"), node.type);
  }
  return b.lower(node.operands[0], operandMap);
}

/// Where a gather reads along its axis, of `size` elements.
int gatherIndex(PlanBuilder& b, int index, const SymInt& size) {
  constexpr ElementType i64 = ElementType::kI64;
  if (size.isConstant()) return b.lane(kind<GatherIndex>(), {index}, i64, {static_cast<double>(size.value())});
  return b.lane(kind<GatherIndexOf>(), {index, b.size(size, i64), b.size(size - 1, i64)}, i64);
}

int lowerGather(PlanBuilder& b, const Node& node, const IndexMap& map) {
  const Node& x = b.node(node.operands[0]);
  const Node& indices = b.node(node.operands[1]);
  auto axis = static_cast<size_t>(node.intAttr("axis"));
  size_t indexRank = indices.shape.size();
  IndexMap indexMap(map.begin() + axis, map.begin() + axis + indexRank);
  for (size_t d = 0; d < indexRank; ++d)
    if (indices.shape[d] == 1) indexMap[d] = Affine();
  if (x.shape[axis] == 0) return b.constant(0, node.type);
  int index = gatherIndex(b, b.lower(node.operands[1], indexMap), x.shape[axis]);
  IndexMap operandMap(map.begin(), map.begin() + axis);
  Affine looked;
  looked.terms.push_back({index, 1});
  operandMap.push_back(looked);
  operandMap.append(map.begin() + axis + indexRank, map.end());
  return b.lower(node.operands[0], operandMap);
}

int lowerGatherElements(PlanBuilder& b, const Node& node, const IndexMap& map) {
  const Node& x = b.node(node.operands[0]);
  auto axis = static_cast<size_t>(node.intAttr("axis"));
  if (x.shape[axis] == 0) return b.constant(0, node.type);
  int index = gatherIndex(b, b.lower(node.operands[1], map), x.shape[axis]);
  IndexMap operandMap(map);
  operandMap[axis] = Affine();
  operandMap[axis].terms.push_back({index, 1});
  for (size_t d = 0; d < x.shape.size(); ++d)
    if (d != axis && x.shape[d] == 1) operandMap[d] = Affine();
  return b.lower(node.operands[0], operandMap);
}

/// starts[0] + i * steps[0], as integers of 64 bits are converted to the result's type.
int lowerRange(PlanBuilder& b, const Node& node, const IndexMap& map) {
  Affine position = times(map[0], node.intsAttr("steps")[0]);
  position.constant += node.numbersAttr("starts")[0];
  int index = b.index(position);
  return node.type == ElementType::kI64 ? index : b.lane(kind<CastOp>(), {index}, node.type);
}

/// How a resize reads along one of its dims: one tap, or two with weights (prims; -1: one tap).
struct ResizedDim {
  Affine first, second;
  int weight = -1, rest = -1;
};

Affine lookedUp(int position) {
  Affine looked;
  looked.terms.push_back({position, 1});
  return looked;
}

/// The taps and weights of each position along a dim.
struct ResizeTables {
  Table low, high, weight, rest;
  bool isIdentity = false;
};

ResizeTables tablesOf(const ir::ResizeDim& resized, bool linear, ir::NearestMode rounding) {
  ResizeTables tables;
  tables.weight.type = tables.rest.type = ElementType::kF32;
  tables.isIdentity = resized.in == resized.out;
  for (int64_t p = 0; p < resized.out; ++p) {
    const float source = resized.coordinate(p);
    if (linear) {
      const ir::LinearTap tap = ir::linearTap(source, resized.in);
      tables.low.ints.push_back(tap.low);
      tables.high.ints.push_back(tap.high);
      tables.weight.floats.push_back(static_cast<float>(tap.weight));
      tables.rest.floats.push_back(static_cast<float>(1 - tap.weight));
      tables.isIdentity &= tap.low == tap.high;
    } else {
      tables.low.ints.push_back(ir::nearestElement(rounding, source, resized.in));
    }
    tables.isIdentity &= tables.low.ints.back() == p;
  }
  return tables;
}

/// From tables, one entry for each position.
ResizedDim resizedByTables(PlanBuilder& b, const Affine& position, const ir::ResizeDim& resized, bool linear,
                           ir::NearestMode rounding) {
  const ResizeTables tables = tablesOf(resized, linear, rounding);
  if (tables.isIdentity) return {position, position};
  const int dim = resized.out == 1 ? -1 : b.pureDim(position);
  auto load = [&](const Table& table) { return b.loadTable(b.table(table), dim); };
  ResizedDim result;
  result.first = lookedUp(load(tables.low));
  if (!linear) return result;
  result.second = lookedUp(load(tables.high));
  result.weight = load(tables.weight);
  result.rest = load(tables.rest);
  return result;
}

/// Computed for each position, where sizes are known at launch only. `resized` has the representatives.
ResizedDim resizedByArithmetic(PlanBuilder& b, const Affine& position, const SymInt& in, const SymInt& out,
                               const ir::ResizeDim& resized, bool linear, ir::NearestMode rounding) {
  constexpr ElementType f32 = ElementType::kF32, i64 = ElementType::kI64;
  // Then every position is its own coordinate, exactly; with the other mode it is where the product is exact.
  if (in == out && (resized.scale == 1 || resized.scale == 0) && resized.mode != ir::CoordMode::align_corners)
    return {position, position};
  const ResizeTables tables = tablesOf(resized, linear, rounding);
  const int last = b.size(in - 1, i64);
  const int coordinate = b.lane(kind<ResizeCoordinate>(), {b.index(position), b.size(in, i64), b.size(out, i64)}, f32,
                                {static_cast<double>(resized.mode), resized.scale});
  ResizedDim result;
  if (!linear) {
    const int nearest = b.lane(kind<ResizeNearest>(), {coordinate, last}, i64, {static_cast<double>(rounding)});
    result.first = lookedUp(b.pricedAs(nearest, tables.low));
    return result;
  }
  const int low = b.lane(kind<ResizeLow>(), {coordinate, last}, i64);
  const int fraction = b.lane(kind<ResizeFraction>(), {coordinate, last}, f32);
  const int high = b.lane(kind<ResizeHigh>(), {low, fraction}, i64);
  const int weight = b.lane(kind<ResizeWeight>(), {fraction}, f32);
  const int rest = b.lane(kind<SubOp>(), {b.constant(1, f32), weight}, f32);
  result.first = lookedUp(b.pricedAs(low, tables.low));
  result.second = lookedUp(b.pricedAs(high, tables.high));
  result.weight = b.pricedAs(weight, tables.weight);
  result.rest = b.pricedAs(rest, tables.rest);
  return result;
}

int lowerResize(PlanBuilder& b, const Node& node, const IndexMap& map) {
  const Node& x = b.node(node.operands[0]);
  const Attr* scales = node.attr("scales");
  bool linear = static_cast<ir::ResizeMode>(node.intAttr("mode")) == ir::ResizeMode::linear;
  auto coordinates = static_cast<ir::CoordMode>(node.intAttr("coordinates"));
  auto rounding = static_cast<ir::NearestMode>(node.intAttr("nearest"));
  if (linear && !isFloatType(node.type))
    return b.fail(node, "linear interpolation is not defined for " + std::string(elementTypeName(node.type)));
  b.setResized();
  ResizedDim dims[2];
  for (int i = 0; i < 2; ++i) {
    const SymInt &in = x.shape[2 + i], &out = node.shape[2 + i];
    const Affine& position = map[2 + i];
    if (out != 1 && b.pureDim(position) < 0) return b.fail(node, "its dims are not those of the kernel's index space");
    if (out.value() > kMostTableEntries)
      return b.fail(node, "it resizes to " + out.text() + " elements along one dimension, at most " +
                              std::to_string(kMostTableEntries) + " are supported");
    const ir::ResizeDim resized{coordinates, in.value(), out.value(), scales->floats[i]};
    if (!in.isConstant() || !out.isConstant()) {
      dims[i] = resizedByArithmetic(b, position, in, out, resized, linear, rounding);
      continue;
    }
    dims[i] = resizedByTables(b, position, resized, linear, rounding);
  }
  auto at = [&](const Affine& h, const Affine& w) {
    IndexMap operandMap(map);
    operandMap[2] = h;
    operandMap[3] = w;
    return b.lower(node.operands[0], operandMap);
  };
  // Not a + (c - a) * weight: of an infinite `a` that is no number.
  // Weights are f32, in which coordinates are computed.
  auto weight = [&](int w) {
    return node.type == ElementType::kF64 ? b.lane(kind<CastOp>(), {w}, ElementType::kF64) : w;
  };
  auto mix = [&](int a, int c, int i) { return b.sumOfProducts(a, weight(dims[i].rest), c, weight(dims[i].weight)); };
  // Whether enough rows of the result read a row that one before has read, where it is not the result's own.
  auto rowsRepeat = [&](const SymInt& in, const SymInt& out, bool isMixed) {
    const auto reads = static_cast<double>(out.value()) * (isMixed ? 2 : 1);
    return !dims[0].first.terms.empty() && static_cast<double>(in.value()) < 0.75 * reads;
  };
  auto alongWidth = [&](const Affine& h) {
    int left = at(h, dims[1].first);
    return dims[1].weight < 0 ? left : mix(left, at(h, dims[1].second), 1);
  };
  int top = alongWidth(dims[0].first);
  const bool isMixed = dims[0].weight >= 0;
  int bottom = isMixed ? alongWidth(dims[0].second) : -1;
  if (rowsRepeat(x.shape[2], node.shape[2], isMixed)) {
    llvm::SmallVector<KeyedRow, 2> rows = {{top, dims[0].first.terms[0].prim}};
    if (isMixed) rows.push_back({bottom, dims[0].second.terms[0].prim});
    b.shareRows(rows);
  }
  return isMixed ? mix(top, bottom, 0) : top;
}

}  // namespace

llvm::ArrayRef<OpLowering> movementLowerings() {
  static const OpLowering table[] = {
      {kind<TransposeOp>(), lowerTranspose},
      {kind<SliceOp>(), lowerSlice},
      {kind<ExpandOp>(), lowerExpand},
      {kind<ReshapeOp>(), lowerReshape},
      {kind<RelayoutOp>(), lowerCopy},
      {kind<ConcatOp>(), lowerConcat},
      {kind<PadOp>(), lowerPad},
      {kind<GatherOp>(), lowerGather},
      {kind<GatherElementsOp>(), lowerGatherElements},
      {kind<ResizeOp>(), lowerResize},
      {kind<RangeOp>(), lowerRange},
  };
  return table;
}

}  // namespace hpu::kernels
