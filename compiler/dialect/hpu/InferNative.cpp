// SPDX-License-Identifier: Apache-2.0
// hpu.native: its result's type, by the map that it has, and what its attributes must be.
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/TensorOf.h"

using namespace mlir;

namespace hpu::ir {
namespace {

using shape::DimExpr;

/// A size, and its value where sizes are given late.
struct Size {
  std::optional<DimExpr> expr;
  int64_t value = ShapedType::kDynamic;
};

/// Nothing where a divisor is not positive or numbers overflow.
std::optional<Size> evaluate(AffineExpr expr, ArrayRef<SymDim> dims) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return Size{DimExpr(constant.getValue()), constant.getValue()};
  if (auto dim = dyn_cast<AffineDimExpr>(expr)) {
    const SymDim& own = dims[dim.getPosition()];
    return Size{exprOf(own), own.size};
  }
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary) return std::nullopt;
  const std::optional<Size> a = evaluate(binary.getLHS(), dims), b = evaluate(binary.getRHS(), dims);
  if (!a || !b) return std::nullopt;
  const bool isFree = ShapedType::isDynamic(a->value) || ShapedType::isDynamic(b->value);
  const bool divides = expr.getKind() == AffineExprKind::FloorDiv || expr.getKind() == AffineExprKind::CeilDiv ||
                       expr.getKind() == AffineExprKind::Mod;
  if (divides && !isFree && b->value < 1) return std::nullopt;
  Size result;
  auto both = [&](auto make) {
    if (a->expr && b->expr) result.expr = make(*a->expr, *b->expr);
  };
  int64_t value = 0;
  switch (expr.getKind()) {
    case AffineExprKind::Add:
      both([](const DimExpr& x, const DimExpr& y) { return x.plus(y); });
      if (!isFree && llvm::AddOverflow(a->value, b->value, value)) return std::nullopt;
      break;
    case AffineExprKind::Mul:
      both([](const DimExpr& x, const DimExpr& y) { return x.times(y); });
      if (!isFree && llvm::MulOverflow(a->value, b->value, value)) return std::nullopt;
      break;
    case AffineExprKind::FloorDiv:
      both([](const DimExpr& x, const DimExpr& y) { return x.floorDiv(y); });
      if (!isFree) value = llvm::divideFloorSigned(a->value, b->value);
      break;
    case AffineExprKind::CeilDiv:
      both([](const DimExpr& x, const DimExpr& y) { return x.ceilDiv(y); });
      if (!isFree) value = llvm::divideCeilSigned(a->value, b->value);
      break;
    case AffineExprKind::Mod:
      both([](const DimExpr& x, const DimExpr& y) { return x.mod(y); });
      if (!isFree) value = a->value - llvm::divideFloorSigned(a->value, b->value) * b->value;
      break;
    default:
      return std::nullopt;
  }
  result.value = isFree ? ShapedType::kDynamic : value;
  return result;
}

SymShape shapeOfAll(ValueRange inputs) {
  SymShape dims;
  for (Value input : inputs) llvm::append_range(dims, symShape(tensorOf(input)));
  return dims;
}

}  // namespace

uint32_t NativeOp::getWholeDims() {
  uint32_t mask = 0;
  for (int64_t dim : getWhole()) mask |= 1u << dim;
  return mask;
}

LogicalResult NativeOp::inferReturnTypes(MLIRContext* context, std::optional<Location> loc, Adaptor adaptor,
                                         SmallVectorImpl<Type>& result) {
  const SymShape dims = shapeOfAll(adaptor.getInputs());
  const AffineMap map = adaptor.getSizes();
  if (map.getNumDims() != dims.size() || map.getNumSymbols() != 0)
    return emitOptionalError(loc, "its map of sizes takes ", map.getNumDims(), " sizes, and its operands have ",
                             dims.size());
  SymShape shape;
  for (AffineExpr expr : map.getResults()) {
    const std::optional<Size> size = evaluate(expr, dims);
    if (!size)
      return emitOptionalError(loc, "its map of sizes gives no size for dimension ", shape.size(),
                               " of its result: it divides by 0, or leaves 64 bits");
    if (!ShapedType::isDynamic(size->value) && size->value < 0)
      return emitOptionalError(loc, "its map of sizes gives the size ", size->value, " for dimension ", shape.size(),
                               " of its result");
    shape.push_back(dimOf(context, size->expr, size->value));
  }
  result.push_back(tensorType(shape, adaptor.getElement()));
  return success();
}

LogicalResult NativeOp::verify() {
  const auto rank = static_cast<int64_t>(getSizes().getNumResults());
  auto isDim = [&](int64_t dim) { return dim >= 0 && dim < rank; };
  if (!llvm::all_of(getWhole(), isDim))
    return emitOpError("names a whole dim that its index space of ") << rank << " does not have";
  if (getReads().size() != shapeOfAll(getInputs()).size())
    return emitOpError("says of ") << getReads().size() << " dimensions what it reads, and its operands have "
                                   << shapeOfAll(getInputs()).size();
  if (!llvm::all_of(getReads(), [&](int64_t dim) { return dim == -1 || isDim(dim); }))
    return emitOpError("reads along a dim that its index space of ") << rank << " does not have";
  if (getCost().size() != 4 || llvm::any_of(getCost(), [](double c) { return !(c >= 0 && c <= 1e9); }))
    return emitOpError("needs four costs from 0 to 1e9");
  if (getScratchBytes() > 80 * 1024) return emitOpError("needs more than the 80 KB of local memory that a TPC has");
  return success();
}

}  // namespace hpu::ir
