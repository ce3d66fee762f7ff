// SPDX-License-Identifier: Apache-2.0
// tensor: what surrounds ops of linalg, with sizes that may be free.
#include "base/Format.h"
#include "compiler/mlir_import/MlirNode.h"
#include "compose/Regions.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace hpu::importer {
namespace {

using base::strCat;
using mlir::OpFoldResult;
using mlir::ShapedType;
using shape::DimExpr;

Size sizeOf(MlirNode& n, OpFoldResult value) {
  if (std::optional<int64_t> number = mlir::getConstantIntValue(value)) return DimExpr(*number);
  auto dynamic = mlir::dyn_cast_if_present<Value>(value);
  if (!dynamic) return std::nullopt;
  std::optional<Sizes> sizes = n.sizes(dynamic);
  return sizes && sizes->size() == 1 ? (*sizes)[0] : std::nullopt;
}

std::optional<ir::SymShape> dimsOf(MlirNode& n, llvm::ArrayRef<OpFoldResult> values) {
  ir::SymShape dims;
  for (OpFoldResult value : values) {
    Size size = sizeOf(n, value);
    if (n.failed()) return std::nullopt;
    if (!size) return n.node().needsSize("a size that is not known"), std::nullopt;
    dims.push_back(n.dim(size));
  }
  return dims;
}

std::optional<Ints> numbersOf(MlirNode& n, llvm::ArrayRef<OpFoldResult> values) {
  Ints numbers;
  for (OpFoldResult value : values) {
    Size size = sizeOf(n, value);
    std::optional<int64_t> number = size ? size->constant() : std::nullopt;
    if (!number) {
      if (!n.failed()) n.node().needsSize("a place that follows from a free size");
      return std::nullopt;
    }
    numbers.push_back(*number);
  }
  return numbers;
}

void empty(MlirNode& n) {
  auto op = mlir::cast<mlir::tensor::EmptyOp>(n.source());
  std::optional<ir::SymShape> shape = dimsOf(n, op.getMixedSizes());
  if (shape) n.set(0, ForeignValue{.undefined = std::move(*shape)});
}

void dim(MlirNode& n) {
  std::optional<Ints> index = n.numbers(n.source().getOperand(1));
  if (!index) return;
  const Value source = n.source().getOperand(0);
  const ForeignValue* known = n.known(source);
  ir::SymShape shape;
  if (known && known->undefined) {
    shape = *known->undefined;
  } else if (Value v = n.in(0)) {
    shape = n.shape(v);
  } else {
    return;
  }
  if ((*index)[0] < 0 || (*index)[0] >= static_cast<int64_t>(shape.size())) return n.invalid("no such dimension");
  n.setSizes(0, {ir::exprOf(shape[(*index)[0]])});
}

void castShape(MlirNode& n) {
  const ForeignValue* known = n.known(n.source().getOperand(0));
  if (known) n.set(0, *known);
}

void expandShape(MlirNode& n) {
  auto op = mlir::cast<mlir::tensor::ExpandShapeOp>(n.source());
  std::optional<ir::SymShape> shape = dimsOf(n, op.getMixedOutputShape());
  Value x = n.in(0);
  if (x && shape) n.set(0, n.reshape(x, *shape));
}

void collapseShape(MlirNode& n) {
  auto op = mlir::cast<mlir::tensor::CollapseShapeOp>(n.source());
  Value x = n.in(0);
  if (!x) return;
  const ir::SymShape own = n.shape(x);
  ir::SymShape shape;
  for (const auto& group : op.getReassociationIndices()) {
    Sizes sizes;
    for (int64_t d : group) sizes.push_back(ir::exprOf(own[d]));
    shape.push_back(n.dim(NodeContext::product(sizes)));
  }
  n.set(0, n.reshape(x, shape));
}

/// Without the dims that `dropped` names.
ir::SymShape without(const ir::SymShape& shape, const llvm::SmallBitVector& dropped) {
  ir::SymShape kept;
  for (size_t d = 0; d < shape.size(); ++d)
    if (!dropped.test(d)) kept.push_back(shape[d]);
  return kept;
}

void extractSlice(MlirNode& n) {
  auto op = mlir::cast<mlir::tensor::ExtractSliceOp>(n.source());
  Value x = n.in(0);
  std::optional<ir::SymShape> starts = dimsOf(n, op.getMixedOffsets()), sizes = dimsOf(n, op.getMixedSizes());
  std::optional<Ints> steps = numbersOf(n, op.getMixedStrides());
  if (!x || !starts || !sizes || !steps) return;
  n.set(0, n.reshape(n.slice(x, *starts, *sizes, *steps), without(*sizes, op.getDroppedDims())));
}

void insertSlice(MlirNode& n) {
  auto op = mlir::cast<mlir::tensor::InsertSliceOp>(n.source());
  Value piece = n.in(0), whole = n.in(1);
  std::optional<Ints> starts = numbersOf(n, op.getMixedOffsets()), sizes = numbersOf(n, op.getMixedSizes()),
                      steps = numbersOf(n, op.getMixedStrides());
  if (!piece || !whole || !starts || !sizes || !steps) return;
  ir::SymShape shape;
  for (int64_t size : *sizes) shape.push_back({size});
  compose::Region region{
      {starts->begin(), starts->end()}, {sizes->begin(), sizes->end()}, {steps->begin(), steps->end()}};
  n.set(0, n.compose({whole, n.reshape(piece, shape)}, [&](compose::Emitter& e, const std::vector<hpu::Value>& in) {
    return compose::insertRegion(e, in[0], in[1], region);
  }));
}

void pad(MlirNode& n) {
  auto op = mlir::cast<mlir::tensor::PadOp>(n.source());
  Value x = n.in(0);
  std::optional<Ints> low = numbersOf(n, op.getMixedLowPad()), high = numbersOf(n, op.getMixedHighPad());
  if (!x || !low || !high) return;
  mlir::Value value = op.getConstantPaddingValue();
  std::optional<double> number = value ? n.splat(value) : std::nullopt;
  if (value && !number) {
    mlir::Attribute constant;
    if (auto def = value.getDefiningOp<mlir::arith::ConstantOp>()) constant = def.getValue();
    if (auto f = mlir::dyn_cast_or_null<mlir::FloatAttr>(constant)) number = f.getValueAsDouble();
    if (auto i = mlir::dyn_cast_or_null<mlir::IntegerAttr>(constant)) number = static_cast<double>(i.getInt());
  }
  if (!number) return n.unsupported("padding with something else than one constant");
  n.set(0, n.op("pad", x, {{"low", *low}, {"high", *high}, {"value", *number}}));
}

void concat(MlirNode& n) {
  std::vector<Value> parts;
  for (size_t i = 0; i < n.numOperands(); ++i)
    if (parts.push_back(n.in(i)), !parts.back()) return;
  n.set(0, n.op("concat", parts, {{"axis", n.integer("dim")}}));
}

void splat(MlirNode& n) {
  auto op = mlir::cast<mlir::tensor::SplatOp>(n.source());
  Value x = n.in(0);
  std::vector<OpFoldResult> sizes;
  unsigned next = 0;
  mlir::Builder builder(n.source().getContext());
  for (int64_t size : op.getType().getShape())
    sizes.push_back(ShapedType::isDynamic(size) ? OpFoldResult(op.getDynamicSizes()[next++])
                                                : OpFoldResult(builder.getIndexAttr(size)));
  std::optional<ir::SymShape> shape = dimsOf(n, sizes);
  if (x && shape) n.set(0, ForeignValue{.tensor = n.expand(x, *shape), .splat = n.splat(n.source().getOperand(0))});
}

void fromElements(MlirNode& n) {
  std::vector<Value> parts;
  for (size_t i = 0; i < n.numOperands(); ++i) {
    Value part = n.in(i);
    if (!part) return;
    parts.push_back(n.reshape(part, {{1}}));
  }
  if (parts.empty()) return n.unsupported("no elements");
  Value joined = parts.size() == 1 ? parts[0] : n.op("concat", parts, {{"axis", 0}});
  ir::SymShape shape;
  for (int64_t size : n.resultType().getShape()) shape.push_back({size});
  n.set(0, n.reshape(joined, shape));
}

void extract(MlirNode& n) {
  Value x = n.in(0);
  if (!x) return;
  ir::SymShape starts, sizes;
  for (Value index : n.source().getOperands().drop_front()) {
    std::optional<Ints> at = n.numbers(index);
    if (!at) return;
    starts.push_back({(*at)[0]}), sizes.push_back({1});
  }
  n.set(0, n.reshape(n.slice(x, starts, sizes, Ints(sizes.size(), 1)), {}));
}

constexpr ForeignRow kRows[] = {
    {"tensor.cast", castShape},
    {"tensor.collapse_shape", collapseShape},
    {"tensor.concat", concat},
    {"tensor.dim", dim},
    {"tensor.empty", empty},
    {"tensor.expand_shape", expandShape},
    {"tensor.extract", extract, "", "constant indices"},
    {"tensor.extract_slice", extractSlice},
    {"tensor.from_elements", fromElements},
    {"tensor.insert_slice", insertSlice, "", "known places"},
    {"tensor.pad", pad, "", "known widths, one constant"},
    {"tensor.splat", splat},
};

}  // namespace

llvm::ArrayRef<ForeignRow> tensorRows() {
  return kRows;
}

}  // namespace hpu::importer
