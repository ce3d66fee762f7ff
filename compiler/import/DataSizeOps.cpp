// SPDX-License-Identifier: Apache-2.0
// What each op asks for where a size depends on data (DataSizeResolver.h).
#include <cmath>
#include <limits>

#include "base/Format.h"
#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/import/DataSizeResolver.h"
#include "compiler/import/OpTable.h"
#include "compiler/interp/Elements.h"
#include "compiler/support/DiagnosticCapture.h"
#include "compiler/support/Units.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"

namespace hpu::importer {

using namespace mlir;
using base::strCat;
using interp::Tensor;
using ir::SymDim;
using ir::SymShape;
using shape::DimExpr;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The largest or least element of a type, infinities where it has them.
Value extreme(NodeContext& node, Value like, bool largest) {
  Type type = NodeContext::typeOf(like).getElementType();
  auto integer = dyn_cast<IntegerType>(type);
  if (!integer) return node.scalar(type, largest ? kInfinity : -kInfinity);
  Tensor tensor = Tensor::zeros({ir::elementType(type), {}});
  const unsigned bits = integer.getWidth();
  if (bits == 1 || integer.isUnsigned()) {
    const uint64_t value = largest ? ~uint64_t{0} >> (64 - bits) : 0;
    interp::storeElements(tensor.element(), tensor.writable(), 0, &value, 1);
  } else {
    const int64_t most = INT64_MAX >> (64 - bits), value = largest ? most : -most - 1;
    interp::storeElements(tensor.element(), tensor.writable(), 0, &value, 1);
  }
  return node.constantTensor(tensor);
}

Ints ints(ArrayRef<int64_t> values) {
  return Ints(values.begin(), values.end());
}

}  // namespace

Value DataSizeResolver::scalarOf(NodeContext& node, int64_t value) {
  return node.constantTensor(Tensor::of<int64_t>(ElementType::kI64, {}, {value}));
}

std::string DataSizeResolver::textOf(const SymDim& dim) {
  const std::optional<DimExpr> size = ir::exprOf(dim);
  return size ? size->text() : "?";
}

Status DataSizeResolver::visit(Operation* op) {
  bool asks = llvm::any_of(op->getOperands(), [&](Value each) { return hasData(each); }) ||
              llvm::any_of(op->getResults(), [&](Value each) { return hasData(each); });
  // A size that is read as data.
  if (auto range = dyn_cast<ir::RangeOp>(op))
    if (auto names = range.getStartSymbols())
      asks |= llvm::any_of(
          *names, [](mlir::Attribute name) { return hasDataSize(DimExpr::parse(cast<StringAttr>(name).getValue())); });
  if (asks) {
    builder_.setInsertionPoint(op);
    const std::vector<ir::SourceName> sources = ir::unitSources(op);
    NodeDef def;
    def.name = sources.empty() ? std::string() : sources.front().node;
    def.op = sources.empty() ? op->getName().stripDialect().str() : sources.front().op;
    NodeContext node(builder_, def, kNewestOpset, {}, {}, /*folding=*/false);
    settle(op);
    for (Value result : op->getResults())
      for (auto [d, dim] : llvm::enumerate(shapeOf(result))) {
        if (dim.isFree() && !ir::exprOf(dim))
          node.unsupported(strCat("how dimension ", d,
                                  " of its result follows from the sizes of its operands, which "
                                  "depend on data, is not known"));
        else if (isData(dim) && !bound(*ir::exprOf(dim)))
          node.unsupported(strCat("dimension ", d, " of its result is (", textOf(dim),
                                  "), of which the most that there can be is not known"));
      }
    if (!node.failed()) rewrite(node, op);
    if (const std::optional<Issue>& issue = node.issue())
      return Status(issue->kind == Issue::Kind::kInvalid ? StatusCode::kInvalidArgument : StatusCode::kUnimplemented,
                    strCat(def.op, def.name.empty() ? "" : " '" + def.name + "'", ": ", issue->reason));
    if (op->use_empty() && !op->hasAttr(kDataSizeAttr)) {
      for (Value result : op->getResults()) truth_.erase(result);  // Its address may become another one's.
      return op->erase(), okStatus();
    }
  }
  learn(op);
  return okStatus();
}

void DataSizeResolver::settle(Operation* op) {
  for (Value result : op->getResults())
    if (auto found = truth_.find(result); found != truth_.end())
      for (SymDim& dim : found->second)
        if (isData(dim)) dim = ir::dimOf(op->getContext(), settled(*ir::exprOf(dim)));
  auto slice = dyn_cast<ir::SliceOp>(op);
  if (!slice) return;
  const SymShape from = shapeOf(slice.getX()), to = shapeOf(slice.getResult());
  for (size_t d = 0; d < to.size(); ++d) {
    const auto whole = isData(to[d]) ? ir::exprOf(boundDim(from[d])) : std::nullopt;
    const auto most = whole ? whole->ceilDiv(std::abs(slice.getSteps()[d])) : std::nullopt;
    if (most) limit(*ir::exprOf(to[d]), *most);
  }
}

void DataSizeResolver::rewrite(NodeContext& node, Operation* op) {
  if (auto o = dyn_cast<ir::RangeOp>(op)) return range(node, o);
  if (auto o = dyn_cast<ir::SliceOp>(op)) return slice(node, o);
  if (auto o = dyn_cast<ir::ReshapeOp>(op)) return reshape(node, o);
  if (auto o = dyn_cast<ir::ConcatOp>(op)) return concat(node, o);
  if (auto o = dyn_cast<ir::PadOp>(op)) return pad(node, o);
  if (auto o = dyn_cast<ir::MatMulOp>(op)) return product(node, o);
  if (auto o = dyn_cast<ir::GatherOp>(op)) return gather(node, op, static_cast<int64_t>(o.getAxis()));
  if (auto o = dyn_cast<ir::GatherElementsOp>(op)) return gather(node, op, static_cast<int64_t>(o.getAxis()));
  if (auto o = dyn_cast<ir::ScatterNdOp>(op)) return scatterNd(node, o);
  if (auto o = dyn_cast<ir::ScatterElementsOp>(op)) return scatterElements(node, o);
  if (auto o = dyn_cast<ir::ReduceMeanOp>(op)) return mean(node, o);
  if (isa<ir::ReduceSumOp, ir::ReduceProdOp, ir::ReduceMaxOp, ir::ReduceMinOp>(op)) return reduction(node, op);
  if (auto o = dyn_cast<ir::ArgMaxOp>(op)) return order(node, op, static_cast<int64_t>(o.getAxis()));
  if (auto o = dyn_cast<ir::TopIndicesOp>(op)) return order(node, op, static_cast<int64_t>(o.getAxis()));
  if (auto o = dyn_cast<ir::SoftmaxOp>(op)) return order(node, op, static_cast<int64_t>(o.getAxis()));
  if (auto o = dyn_cast<ir::LogSoftmaxOp>(op)) return order(node, op, static_cast<int64_t>(o.getAxis()));
  if (isa<ir::TransposeOp>(op)) return infer(node, op);
  if (isa<ir::ExpandOp>(op)) return elementwise(node, op);
  if (auto o = dyn_cast<ir::LayerNormOp>(op))
    return fixedBut(node, op, llvm::to_vector(llvm::seq<int64_t>(0, static_cast<int64_t>(o.getAxis()))));
  if (isa<ir::BatchNormOp>(op)) {
    Ints free = {0};
    for (int64_t d = 2; d < ir::tensorOf(op->getOperand(0)).getRank(); ++d) free.push_back(d);
    return fixedBut(node, op, free);
  }
  auto known = dyn_cast<ir::HpuOp>(op);
  if (known && known.isElementwise()) return elementwise(node, op);
  fixedBut(node, op, {0});  // Batches of images.
}

// ---- types -------------------------------------------------------------------------------------

void DataSizeResolver::replaceOperand(Operation* op, unsigned index, Value value) {
  if (value) op->setOperand(index, value);
}

void DataSizeResolver::stateSizes(Operation* op) {
  if (!isa<ir::ReshapeOp, ir::ExpandOp, ir::SliceOp, ir::TopIndicesOp>(op)) return;
  auto top = dyn_cast<ir::TopIndicesOp>(op);
  const char* list = top || isa<ir::SliceOp>(op) ? "sizes" : "shape";
  SymShape truth = shapeOf(op->getResult(0));
  if (top) truth = {truth[top.getAxis()]};
  auto sizes = ints(op->getAttrOfType<DenseI64ArrayAttr>(list).asArrayRef());
  auto old = op->getAttrOfType<ArrayAttr>("symbols");
  Builder b(op->getContext());
  SmallVector<mlir::Attribute> names;
  bool isAny = false;
  for (auto [d, dim] : llvm::enumerate(truth)) {
    mlir::Attribute name = old && d < old.size() ? old[d] : mlir::Attribute(b.getStringAttr(""));
    // One whose bounds say what it is depends on no data any more.
    if (isData(dim) || hasDataSize(DimExpr::parse(cast<StringAttr>(name).getValue()))) {
      const SymDim most = boundDim(dim);
      sizes[d] = most.size;
      name = most.isNamed() ? most.symbol : b.getStringAttr("");
    }
    isAny |= !cast<StringAttr>(name).empty();
    names.push_back(name);
  }
  op->setAttr(list, b.getDenseI64ArrayAttr(sizes));
  if (isAny)
    op->setAttr("symbols", b.getArrayAttr(names));
  else
    op->removeAttr("symbols");
}

void DataSizeResolver::infer(NodeContext& node, Operation* op) {
  if (node.failed()) return;
  stateSizes(op);
  SmallVector<Type> types;
  ir::DiagnosticCapture capture(op->getContext());
  auto inferring = dyn_cast<InferTypeOpInterface>(op);
  if (!inferring ||
      failed(inferring.inferReturnTypes(op->getContext(), op->getLoc(), op->getOperands(), op->getAttrDictionary(),
                                        op->getPropertiesStorage(), op->getRegions(), types)))
    return node.invalid(capture.entries().empty() ? std::string("its operands do not fit together")
                                                  : capture.entries().front().text);
  for (auto [result, type] : llvm::zip(op->getResults(), types)) result.setType(type);
}

void DataSizeResolver::replace(NodeContext& node, Operation* op, Value value) {
  if (node.failed() || !value) return;
  Value result = op->getResult(0);
  if (auto found = truth_.find(result); found != truth_.end()) truth_[value] = SymShape(found->second);
  result.replaceAllUsesWith(value);
}

void DataSizeResolver::fixedBut(NodeContext& node, Operation* op, Dims free) {
  for (Value operand : op->getOperands())
    for (int64_t d : dataDims(operand))
      if (operand != op->getOperand(0) || !llvm::is_contained(free, d))
        return node.unsupported(strCat("dimension ", d, " of an operand has a size that depends on data (",
                                       textOf(shapeOf(operand)[static_cast<size_t>(d)]),
                                       "), and it computes with elements across it"));
  infer(node, op);
}

void DataSizeResolver::elementwise(NodeContext& node, Operation* op) {
  const SymShape result = shapeOf(op->getResult(0));
  for (Value operand : op->getOperands()) {
    const SymShape own = shapeOf(operand);
    if (own.size() > result.size()) continue;
    for (size_t i = 1; i <= own.size(); ++i) {
      const SymDim &a = own[own.size() - i], &b = result[result.size() - i];
      if ((!isData(a) && !isData(b)) || a == SymDim{1} || agree(a, b)) continue;
      return node.unsupported(strCat("its sizes ", textOf(a), " and ", textOf(b),
                                     " have to be equal, and one of them depends on data, so that no launch can tell"));
    }
  }
  infer(node, op);
}

// ---- reductions --------------------------------------------------------------------------------

void DataSizeResolver::reduction(NodeContext& node, Operation* op) {
  Value x = op->getOperand(0);
  const auto dims = dataDims(x, op->getAttrOfType<DenseI64ArrayAttr>("axes").asArrayRef());
  if (!dims.empty()) {
    Value neutral = isa<ir::ReduceSumOp>(op)    ? node.scalarLike(x, 0)
                    : isa<ir::ReduceProdOp>(op) ? node.scalarLike(x, 1)
                                                : extreme(node, x, isa<ir::ReduceMinOp>(op));
    replaceOperand(op, 0, filled(node, x, dims, neutral));
  }
  infer(node, op);
}

void DataSizeResolver::mean(NodeContext& node, ir::ReduceMeanOp op) {
  Value x = op.getX();
  const auto dims = dataDims(x, op.getAxes());
  if (dims.empty()) return infer(node, op);
  std::optional<DimExpr> size = DimExpr(1);
  const SymShape shape = shapeOf(x);
  for (int64_t d : op.getAxes())
    if (const auto own = ir::exprOf(shape[static_cast<size_t>(d)]); size && own) size = size->times(*own);
  if (!size) return node.unsupported("the number of elements that it takes the mean of has too long an expression");
  Value count = number(node, *size);
  Type to = ir::tensorOf(op.getResult()).getElementType();
  const bool isFloat = isa<FloatType>(to);
  Type wide = isFloat ? Type(node.builder().getF32Type()) : Type(node.builder().getI64Type());
  if (isFloat && to.getIntOrFloatBitWidth() > 32) wide = to;
  // Integers have no quotient by 0; nothing but zeros is divided there.
  if (!isFloat) count = node.op("max", {count, scalarOf(node, 1)});
  Value sum = node.op("reduce_sum", node.cast(filled(node, x, dims, node.scalarLike(x, 0)), wide),
                      {{"axes", ints(op.getAxes())}, {"keepdims", op.getKeepdims()}});
  replace(node, op, node.cast(node.op("div", {sum, node.cast(count, wide)}), to));
}

/// What takes no part in a softmax and is never among the first: below all others, or above where the least ones are
/// taken. Of equal elements those that there are come first.
void DataSizeResolver::order(NodeContext& node, Operation* op, int64_t axis) {
  Value x = op->getOperand(0);
  if (const auto dims = dataDims(x, {axis}); !dims.empty()) {
    auto top = dyn_cast<ir::TopIndicesOp>(op);
    const bool least = top && !top.getLargest();
    Value last = !least                                             ? extreme(node, x, /*largest=*/false)
                 : isa<FloatType>(ir::tensorOf(x).getElementType()) ? node.scalarLike(x, std::nan(""))
                                                                    : extreme(node, x, /*largest=*/true);
    replaceOperand(op, 0, filled(node, x, dims, last));
  }
  infer(node, op);
}

void DataSizeResolver::product(NodeContext& node, ir::MatMulOp op) {
  const SymShape left = shapeOf(op.getLhs()), right = shapeOf(op.getRhs());
  const SymDim &a = left.back(), &b = right[right.size() - 2];
  auto differ = [&](const SymDim& x, const SymDim& y) {
    if ((!isData(x) && !isData(y)) || x == SymDim{1} || y == SymDim{1} || agree(x, y)) return false;
    node.unsupported(strCat("its sizes ", textOf(x), " and ", textOf(y),
                            " have to be equal, and one of them depends on data, so that no launch can tell"));
    return true;
  };
  if ((isData(a) || isData(b)) && !agree(a, b) && (differ(a, b) || a == SymDim{1} || b == SymDim{1}))
    return node.unsupported(strCat("it multiplies along ", textOf(a), " and ", textOf(b)));
  for (size_t i = 3; i <= std::min(left.size(), right.size()); ++i)
    if (differ(left[left.size() - i], right[right.size() - i])) return;
  if (isData(a)) {
    Value lhs = op.getLhs(), rhs = op.getRhs();
    const int64_t last = ir::tensorOf(lhs).getRank() - 1, row = ir::tensorOf(rhs).getRank() - 2;
    replaceOperand(op, 0, filled(node, lhs, {last}, node.scalarLike(lhs, 0)));
    replaceOperand(op, 1, filled(node, rhs, {row}, node.scalarLike(rhs, 0)));
  }
  infer(node, op);
}

// ---- indices -----------------------------------------------------------------------------------

Value DataSizeResolver::indices(NodeContext& node, Value indices, Value x, int64_t dim, Value otherwise) {
  const SymDim size = shapeOf(x)[static_cast<size_t>(dim)];
  const auto own = dataDims(indices);
  Value result = indices;
  if (isData(size)) {
    Value count = node.cast(number(node, *ir::exprOf(size)), node.elementOf(indices));
    Value isNegative = node.op("less", {indices, node.scalarLike(indices, 0)});
    result = node.op("where", {isNegative, node.op("add", {indices, count}), indices});
  }
  if (own.empty()) return result;
  return node.op("where", {present(node, indices, own), result, node.cast(otherwise, node.elementOf(indices))});
}

void DataSizeResolver::gather(NodeContext& node, Operation* op, int64_t axis) {
  Value x = op->getOperand(0), at = op->getOperand(1);
  replaceOperand(op, 1, indices(node, at, x, axis, scalarOf(node, 0)));
  infer(node, op);
}

/// Tuples that are none are outside, and so left out.
void DataSizeResolver::scatterNd(NodeContext& node, ir::ScatterNdOp op) {
  Value data = op.getData(), at = op.getIndices();
  const SymShape own = shapeOf(at), updates = shapeOf(op.getUpdates()), whole = shapeOf(data);
  const size_t outer = own.size() - 1, depth = static_cast<size_t>(ir::tensorOf(at).getShape().back());
  for (size_t d = 0; d < updates.size(); ++d) {
    const SymDim& other = d < outer ? own[d] : whole[d - outer + depth];
    if ((isData(updates[d]) || isData(other)) && !agree(updates[d], other))
      return node.unsupported(strCat("dimension ", d, " of its updates, ", textOf(updates[d]), ", has to be ",
                                     textOf(other), ", and one of them depends on data"));
  }
  SmallVector<Value> parts;
  const int64_t tuple = static_cast<int64_t>(outer);
  for (size_t k = 0; k < depth; ++k) {
    if (!isData(whole[k])) continue;
    if (parts.empty())
      for (int64_t j = 0; j < static_cast<int64_t>(depth); ++j) parts.push_back(node.sliceDim(at, tuple, j, j + 1));
    Value isNegative = node.op("less", {parts[k], node.scalarLike(parts[k], 0)});
    Value count = node.cast(number(node, *ir::exprOf(whole[k])), node.elementOf(at));
    parts[k] = node.op("where", {isNegative, node.op("add", {parts[k], count}), parts[k]});
  }
  Value placed = parts.empty() ? at : parts.size() == 1 ? parts[0] : node.op("concat", parts, {{"axis", tuple}});
  if (const auto dims = dataDims(at); !dims.empty() && placed)
    placed = node.op("where", {present(node, at, dims), placed, node.scalarLike(at, INT32_MAX)});
  replaceOperand(op, 1, placed);
  infer(node, op);
}

/// Indices and updates have one shape: where the data says one of two sizes, no launch can tell whether they are the
/// same, and what is not there in both is left out.
void DataSizeResolver::scatterElements(NodeContext& node, ir::ScatterElementsOp op) {
  if (op.getAdvance() || op.getWraps()) return fixedBut(node, op, {});
  Value at = op.getIndices(), updates = op.getUpdates();
  const SymShape ofIndices = shapeOf(at), ofUpdates = shapeOf(updates);
  SymShape common;
  SmallVector<int64_t> apart;
  for (size_t d = 0; d < ofIndices.size(); ++d) {
    const SymDim one = boundDim(ofIndices[d]), other = boundDim(ofUpdates[d]);
    if (!agree(ofIndices[d], ofUpdates[d]) && isData(ofUpdates[d])) apart.push_back(static_cast<int64_t>(d));
    if (!agree(one, other) && (one.isNamed() || other.isNamed()))
      return node.unsupported(strCat("dimension ", d, " of its updates, ", textOf(ofUpdates[d]), ", has to be ",
                                     textOf(ofIndices[d]), ", and one of them depends on data"));
    common.push_back(one.size <= other.size ? one : other);
    // No more than there are places, or the model is wrong for these data.
    const SymDim places = ir::symShape(ir::tensorOf(op.getData()))[d];
    const bool isBound = isData(ofIndices[d]) || isData(ofUpdates[d]);
    if (isBound && d != op.getAxis() && !common.back().isNamed() && !places.isNamed() &&
        places.size < common.back().size)
      common.back() = places;
  }
  const auto cut = [&](Value x, const SymShape& truth) {
    if (llvm::all_of(llvm::zip_equal(common, ir::symShape(ir::tensorOf(x))),
                     [](auto both) { return std::get<0>(both) == std::get<1>(both); }))
      return x;
    Value part = node.slice(x, SymShape(common.size()), common, Ints(common.size(), 1));
    truth_[part] = truth;
    return part;
  };
  at = cut(at, ofIndices), updates = cut(updates, ofUpdates);
  Value placed = indices(node, at, op.getData(), static_cast<int64_t>(op.getAxis()), scalarOf(node, INT32_MAX));
  if (!apart.empty() && placed)
    placed = node.op("where", {present(node, updates, apart), placed, node.scalarLike(placed, INT32_MAX)});
  replaceOperand(op, 1, placed);
  replaceOperand(op, 2, updates);
  infer(node, op);
}

}  // namespace hpu::importer
