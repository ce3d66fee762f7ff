// SPDX-License-Identifier: Apache-2.0
// Ops that move elements, where a size depends on data (DataSizeResolver.h): what comes behind elements that may not be
// there is taken from where it is.
#include "base/Format.h"
#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/import/DataSizeResolver.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace hpu::importer {

using namespace mlir;
using base::strCat;
using ir::SymDim;
using ir::SymShape;
using shape::DimExpr;

Value DataSizeResolver::taken(NodeContext& node, Value x, int64_t axis, Value at) {
  const std::optional<DimExpr> size = ir::exprOf(ir::symShape(ir::tensorOf(x))[static_cast<size_t>(axis)]);
  const std::optional<DimExpr> last = size ? size->minus(1) : std::nullopt;
  if (!last) return node.unsupported("a dimension whose size is not known"), Value();
  at = node.op("max", {node.op("min", {at, number(node, *last)}), scalarOf(node, 0)});
  return node.op("gather", {x, at}, {{"axis", axis}});
}

void DataSizeResolver::range(NodeContext& node, ir::RangeOp op) {
  const SymDim size = boundDim(shapeOf(op.getResult())[0]);
  auto names = op.getStartSymbols();
  const int64_t step = op.getSteps()[0];
  DimExpr start = op.getStarts()[0];
  if (auto name = names ? dyn_cast<StringAttr>((*names)[0]) : StringAttr(); name && !name.empty())
    start = known(DimExpr::parse(name.getValue()));
  const ElementType element = ir::elementType(op.getElement());
  if (!hasDataSize(start)) {
    const std::optional<int64_t> known = start.constant();
    return replace(node, op, node.range(known ? SymDim{*known} : node.symDim(start), size, step, element));
  }
  Value steps = node.range(SymDim{0}, size, step, ElementType::kI64);
  replace(node, op, node.cast(node.op("add", {steps, number(node, start)}), op.getElement()));
}

void DataSizeResolver::slice(NodeContext& node, ir::SliceOp op) {
  const SymShape from = shapeOf(op.getX()), to = shapeOf(op.getResult());
  auto names = op.getStartSymbols();
  Value x = op.getX();
  SymShape starts, sizes;
  Ints steps;
  SmallVector<std::pair<int64_t, Value>> picked;
  for (size_t d = 0; d < from.size(); ++d) {
    SymDim begin{op.getStarts()[d]};
    if (names)
      if (auto name = cast<StringAttr>((*names)[d]); !name.empty()) begin.symbol = name;
    std::optional<DimExpr> start = ir::exprOf(begin);
    if (start) start = known(*start);
    if (!start) return node.unsupported(strCat("where it begins in dimension ", d, " is not known"));
    const int64_t step = op.getSteps()[d];
    const bool isFixed = !hasDataSize(*start) && start->lowerBound().value_or(-1) >= 0 && step > 0;
    if ((isData(from[d]) || isData(to[d]) || hasDataSize(*start)) && !isFixed) {
      Value at =
          node.op("add", {node.range(SymDim{0}, boundDim(to[d]), step, ElementType::kI64), number(node, *start)});
      picked.emplace_back(static_cast<int64_t>(d), at);
      starts.push_back({0});
      sizes.push_back(ir::symShape(ir::tensorOf(x))[d]);
      steps.push_back(1);
      continue;
    }
    starts.push_back(begin);
    sizes.push_back(boundDim(to[d]));
    steps.push_back(step);
  }
  Value result = node.slice(x, starts, sizes, steps);
  for (auto& [dim, at] : picked) result = taken(node, result, dim, at);
  replace(node, op, result);
}

void DataSizeResolver::reshape(NodeContext& node, ir::ReshapeOp op) {
  Value x = op.getX();
  const SymShape from = shapeOf(x), to = shapeOf(op.getResult());
  ArrayRef<SymDim> a = from, b = to;
  while (!a.empty() && !b.empty() && agree(a.front(), b.front())) a = a.drop_front(), b = b.drop_front();
  while (!a.empty() && !b.empty() && agree(a.back(), b.back())) a = a.drop_back(), b = b.drop_back();
  // Rows stay rows as long as what is counted comes first, and as many elements are there at the bounds.
  auto elements = [](ArrayRef<SymDim> dims, llvm::function_ref<SymDim(const SymDim&)> sizeOf) {
    std::optional<DimExpr> product = DimExpr(1);
    for (const SymDim& dim : dims)
      if (const auto size = ir::exprOf(sizeOf(dim)); product) product = size ? product->times(*size) : std::nullopt;
    return product;
  };
  auto countedFirst = [&](ArrayRef<SymDim> dims) {
    dims = dims.drop_while([](const SymDim& dim) { return dim == SymDim{1}; });
    return llvm::none_of(dims.empty() ? dims : dims.drop_front(), isData);
  };
  auto most = [&](const SymDim& dim) { return boundDim(dim); };
  const auto own = elements(a, most), asked = elements(b, most);
  const bool isAlike = llvm::none_of(a, isData) && llvm::none_of(b, isData);
  if (isAlike || (own && asked && countedFirst(a) && countedFirst(b) && DimExpr::equal(*own, *asked) == true))
    return infer(node, op);
  // Else each element is taken from where it is: by its number among those that there are.
  Value at, one = scalarOf(node, 1);
  std::optional<DimExpr> stride = DimExpr(1);
  SymShape shape;
  for (const SymDim& dim : to) shape.push_back(boundDim(dim));
  for (size_t d = to.size(); d-- > 0 && stride;) {
    SymShape along(to.size(), SymDim{1});
    along[d] = shape[d];
    Value position = node.reshape(node.range(SymDim{0}, shape[d], 1, ElementType::kI64), along);
    Value part = node.op("mul", {position, number(node, *stride)});
    at = at ? node.op("add", {at, part}) : part;
    const auto size = ir::exprOf(to[d]);
    stride = size ? stride->times(*size) : std::nullopt;
  }
  Value offset;
  std::optional<DimExpr> inMemory = DimExpr(1);
  const SymShape memory = ir::symShape(ir::tensorOf(x));
  for (size_t d = from.size(); d-- > 0 && inMemory;) {
    const auto size = ir::exprOf(from[d]), whole = ir::exprOf(memory[d]);
    if (!size || !whole) break;
    Value count = node.op("max", {number(node, *size), one});
    Value index = d == 0 ? at : node.op("mod", {at, count});
    if (d > 0) at = node.op("div", {at, count});
    Value part = node.op("mul", {index, number(node, *inMemory)});
    offset = offset ? node.op("add", {offset, part}) : part;
    inMemory = inMemory->times(*whole);
  }
  if (!stride || !inMemory || !offset || !at)
    return node.unsupported("how its elements follow from those of its operand has too long an expression");
  Value flat = node.reshape(x, {node.symDim(inMemory)});
  replace(node, op, node.reshape(taken(node, flat, 0, offset), shape));
}

void DataSizeResolver::concat(NodeContext& node, ir::ConcatOp op) {
  const auto axis = static_cast<size_t>(op.getAxis());
  const SymShape result = shapeOf(op.getResult());
  std::optional<DimExpr> begin = DimExpr(0), place = DimExpr(0);
  bool isMoved = false;  // Something comes behind elements that may not be there.
  SmallVector<std::pair<DimExpr, DimExpr>> parts;
  for (Value input : op.getInputs()) {
    const SymShape own = shapeOf(input);
    for (size_t d = 0; d < own.size(); ++d)
      if (d != axis && (isData(own[d]) || isData(result[d])) && !agree(own[d], result[d]))
        return node.unsupported(strCat("its sizes ", textOf(own[d]), " and ", textOf(result[d]), " of dimension ", d,
                                       " have to be equal, and one of them depends on data, so that no launch can "
                                       "tell"));
    const auto size = ir::exprOf(own[axis]), most = ir::exprOf(ir::symShape(ir::tensorOf(input))[axis]);
    if (!begin || !place || !size || !most) return node.unsupported("a size that is not known");
    isMoved |= hasDataSize(*begin);
    parts.emplace_back(*begin, *place);
    begin = begin->plus(*size);
    place = place->plus(*most);
  }
  if (!isMoved) return infer(node, op);
  Value whole = node.op("concat", SmallVector<Value>(op.getInputs()), {{"axis", static_cast<int64_t>(axis)}});
  if (!whole) return;
  Value position = positions(node, whole, static_cast<int64_t>(axis), NodeContext::rank(whole));
  position = node.reshape(position, {ir::symShape(ir::tensorOf(whole))[axis]});
  Value at;
  for (const auto& [start, where] : parts) {
    const auto ahead = where.minus(start);
    if (!ahead) return node.unsupported("a size that has too long an expression");
    Value own = node.op("add", {position, number(node, *ahead)});
    at = at ? node.op("where", {node.op("less", {position, number(node, start)}), at, own}) : own;
  }
  replace(node, op, taken(node, whole, static_cast<int64_t>(axis), at));
}

void DataSizeResolver::pad(NodeContext& node, ir::PadOp op) {
  const SymShape shape = shapeOf(op.getX());
  SmallVector<std::pair<int64_t, DimExpr>> ends;
  for (int64_t d : dataDims(op.getX()))
    if (op.getHigh()[d] > 0)
      if (const auto end = ir::exprOf(shape[static_cast<size_t>(d)])->plus(op.getLow()[d])) ends.emplace_back(d, *end);
  infer(node, op);
  // What is padded behind lies behind the elements that there are.
  Value result = op.getResult();
  const SymShape truth = shapeOf(result);
  builder_.setInsertionPointAfter(op);
  Value padded = result;
  for (const auto& [d, end] : ends) {
    Value inside = node.op("less", {positions(node, result, d, NodeContext::rank(result)), number(node, end)});
    padded = node.op("where", {inside, padded, node.scalarLike(result, op.getValue().convertToDouble())});
  }
  if (padded == result || !padded) return;
  truth_[padded] = truth;
  llvm::SmallPtrSet<Operation*, 8> own;
  for (Operation* made = op->getNextNode(); own.insert(made).second && made != padded.getDefiningOp();)
    made = made->getNextNode();
  result.replaceUsesWithIf(padded, [&](OpOperand& use) { return !own.contains(use.getOwner()); });
}

}  // namespace hpu::importer
