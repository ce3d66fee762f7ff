// SPDX-License-Identifier: Apache-2.0
// Ops whose results are stored where data says: scatters, and the positions of the largest where OrderKernel.h has
// no kernel of its own.
// The one thing to know: a scatter's kernel runs over its updates and leaves the rest of its result as it is, so its
// data must be there before. Dims that indices name are whole in every call and hold the updates in order; the other
// dims are independent, and lanes lie along them.
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/kernels/PlanBuilder.h"

namespace hpu::kernels {
using namespace ir;
namespace {

using Result = StoreLowering::Result;

struct Place {
  int position = -1, condition = -1;
};

/// Where an index points to along a dim of `size` elements: within the dim in any case, and whether it did.
Place placeOf(PlanBuilder& b, int index, const SymInt& size, bool fromEnd) {
  constexpr ElementType i64 = ElementType::kI64, flag = ElementType::kBool;
  int zero = b.constant(0, i64), extent = b.size(size, i64);
  if (fromEnd) {
    int negative = b.lane(kind<LessOp>(), {index, zero}, flag);
    index = b.lane(kind<WhereOp>(), {negative, b.lane(kind<AddOp>(), {index, extent}, i64), index}, i64);
  }
  Place place;
  place.condition = b.lane(
      kind<AndOp>(),
      {b.lane(kind<GreaterEqualOp>(), {index, zero}, flag), b.lane(kind<LessOp>(), {index, extent}, flag)}, flag);
  place.position = b.lane(kind<WhereOp>(), {place.condition, index, zero}, i64);
  return place;
}

Affine atIndex(int position) {
  Affine looked;
  looked.terms.push_back({position, 1});
  return looked;
}

int asI64(PlanBuilder& b, int index, ElementType type) {
  return type == ElementType::kI64 ? index : b.lane(kind<CastOp>(), {index}, ElementType::kI64);
}

/// What is stored: an update, or what it and the element that it meets make.
int combined(PlanBuilder& b, const Node& node, const IndexMap& places, int update) {
  const auto mode = static_cast<ScatterMode>(node.intAttr("mode"));
  if (mode == ScatterMode::replace) return update;
  const Node& data = b.node(node.operands[0]);
  if (data.kind != Node::Kind::Input) return b.fail(node, "the data that it updates is no operand of the kernel");
  const int old = b.loadUpdated(b.inputOf(node.operands[0]), places);
  switch (mode) {
    case ScatterMode::add:
      return b.lane(kind<AddOp>(), {old, update}, node.type);
    case ScatterMode::mul:
      return b.lane(kind<MulOp>(), {old, update}, node.type);
    case ScatterMode::max:
      return b.lane(kind<MaxOp>(), {old, update}, node.type);
    default:
      return b.lane(kind<MinOp>(), {old, update}, node.type);
  }
}

/// The data has to lie in memory: it is what is updated.
bool checkData(PlanBuilder& b, const Node& node) {
  if (b.node(node.operands[0]).kind != Node::Kind::Op) return true;
  b.fail(node, "it updates a value that another op of the kernel computes");
  return false;
}

Affine along(PlanBuilder& b, int number, const SymInt& size) {
  Affine result;
  const int dim = b.updateDim("update" + std::to_string(number), size);
  if (size != 1) result.coef[static_cast<size_t>(dim)] = 1;
  return result;
}

Result lowerScatterNd(PlanBuilder& b, const Node& node, const IndexMap& map) {
  Result result;
  const Node &data = b.node(node.operands[0]), &indices = b.node(node.operands[1]), &updates = b.node(node.operands[2]);
  const size_t outer = indices.shape.size() - 1;
  const auto depth = static_cast<size_t>(indices.shape.back().value());
  if (!checkData(b, node)) return result;
  IndexMap tuple, update;
  for (size_t d = 0; d < outer; ++d) tuple.push_back(along(b, static_cast<int>(d), indices.shape[d]));
  update = tuple;
  tuple.emplace_back();
  for (size_t d = depth; d < map.size(); ++d)
    update.push_back(updates.shape[outer + d - depth] == 1 ? Affine() : map[d]);
  for (size_t k = 0; k < depth; ++k) {
    tuple.back().constant = static_cast<int64_t>(k);
    const Place place =
        placeOf(b, asI64(b, b.lower(node.operands[1], tuple), indices.type), data.shape[k], /*fromEnd=*/true);
    result.condition = result.condition < 0
                           ? place.condition
                           : b.lane(kind<AndOp>(), {result.condition, place.condition}, ElementType::kBool);
    result.places.push_back(atIndex(place.position));
    result.placed |= 1u << k;
  }
  result.places.append(map.begin() + static_cast<std::ptrdiff_t>(depth), map.end());
  result.prim = combined(b, node, result.places, b.lower(node.operands[2], update));
  return result;
}

Result lowerScatterElements(PlanBuilder& b, const Node& node, const IndexMap& map) {
  Result result;
  const Node &data = b.node(node.operands[0]), &indices = b.node(node.operands[1]), &updates = b.node(node.operands[2]);
  const auto axis = static_cast<size_t>(node.intAttr("axis"));
  if (!checkData(b, node)) return result;
  IndexMap update = map;
  update[axis] = along(b, 0, updates.shape[axis]);
  IndexMap indexMap = update;
  for (size_t d = 0; d < map.size(); ++d) {
    if (updates.shape[d] == 1) update[d] = Affine();
    if (indices.shape[d] == 1) indexMap[d] = Affine();
    // Of other dims the updates may have a part only.
    if (d != axis && updates.shape[d] != data.shape[d]) {
      const int dim = b.pureDim(map[d]);
      if (dim >= 0) b.restrictBox(dim, 0, updates.shape[d]);
    }
  }
  int index = asI64(b, b.lower(node.operands[1], indexMap), indices.type);
  const bool advances = node.intAttr("advance") != 0, wraps = node.intAttr("wraps") != 0;
  if (advances) index = b.lane(kind<AddOp>(), {index, b.index(update[axis])}, ElementType::kI64);
  if (wraps) index = b.lane(kind<ModOp>(), {index, b.size(data.shape[axis], ElementType::kI64)}, ElementType::kI64);
  const Place place = placeOf(b, index, data.shape[axis], /*fromEnd=*/!advances && !wraps);
  result.places = map;
  result.places[axis] = atIndex(place.position);
  result.condition = place.condition;
  result.placed = 1u << axis;
  result.prim = combined(b, node, result.places, b.lower(node.operands[2], update));
  return result;
}

Result lowerTopIndices(PlanBuilder& b, const Node& node, const IndexMap& map) {
  Result result;
  const Node& x = b.node(node.operands[0]);
  const auto axis = static_cast<size_t>(node.intAttr("axis"));
  // A value that is computed would be computed again for each pick.
  if (x.kind == Node::Kind::Op) {
    b.fail(node, "its operand is computed in the same kernel");
    return result;
  }
  IndexMap row = map;
  const int dim = b.reductionDim("picked", x.shape[axis]);
  row[axis] = Affine();
  if (x.shape[axis] != 1) row[axis].coef[static_cast<size_t>(dim)] = 1;
  const int value = b.lower(node.operands[0], row);
  const ElementType key = x.type == ElementType::kF64 ? ElementType::kI64
                          : isFloatType(x.type)       ? ElementType::kI32
                                                      : x.type;
  result.prim = b.pick(b.lane(kind<SortKey>(), {value}, key, {static_cast<double>(node.intAttr("largest", 1))}), dim,
                       static_cast<int>(axis));
  result.places = map;
  result.places[axis] = Affine();
  result.placed = 1u << axis;
  return result;
}

}  // namespace

llvm::ArrayRef<StoreLowering> scatterLowerings() {
  static const StoreLowering table[] = {
      {kind<ScatterNdOp>(), lowerScatterNd},
      {kind<ScatterElementsOp>(), lowerScatterElements},
      {kind<TopIndicesOp>(), lowerTopIndices},
  };
  return table;
}

}  // namespace hpu::kernels
