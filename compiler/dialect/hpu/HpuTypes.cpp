// SPDX-License-Identifier: Apache-2.0
#include "compiler/dialect/hpu/HpuTypes.h"

#include "compiler/dialect/hpu/HpuDialect.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace hpu::ir {
namespace {

LayoutAttr layoutOf(RankedTensorType type) {
  return dyn_cast_or_null<LayoutAttr>(type.getEncoding());
}

RankedTensorType build(ArrayRef<int64_t> sizes, Type element, ArrayRef<int64_t> order, ArrayRef<StringAttr> symbols) {
  bool rowMajor = true;
  for (auto [i, dim] : llvm::enumerate(order)) rowMajor &= dim == static_cast<int64_t>(i);
  bool named = llvm::any_of(symbols, [](StringAttr s) { return s && !s.empty(); });
  if (rowMajor && !named) return RankedTensorType::get(sizes, element);
  return RankedTensorType::get(sizes, element,
                               LayoutAttr::get(element.getContext(), rowMajor ? ArrayRef<int64_t>() : order,
                                               named ? symbols : ArrayRef<StringAttr>()));
}

SmallVector<StringAttr> symbolsOf(RankedTensorType type) {
  SmallVector<StringAttr> symbols;
  LayoutAttr layout = layoutOf(type);
  if (layout && static_cast<int64_t>(layout.getSymbols().size()) == type.getRank())
    symbols.assign(layout.getSymbols().begin(), layout.getSymbols().end());
  else
    symbols.assign(type.getRank(), StringAttr::get(type.getContext(), ""));
  return symbols;
}

}  // namespace

bool compatibleTypes(TypeRange a, TypeRange b) {
  if (a.size() != b.size()) return false;
  for (auto [x, y] : llvm::zip(a, b)) {
    auto tx = dyn_cast<RankedTensorType>(x), ty = dyn_cast<RankedTensorType>(y);
    if (!tx || !ty || tx.getElementType() != ty.getElementType() || tx.getRank() != ty.getRank()) return false;
    for (auto [dx, dy] : llvm::zip(tx.getShape(), ty.getShape()))
      if (!ShapedType::isDynamic(dx) && !ShapedType::isDynamic(dy) && dx != dy) return false;
  }
  return true;
}

SymShape symShape(RankedTensorType type) {
  SymShape shape;
  SmallVector<StringAttr> symbols = symbolsOf(type);
  for (auto [size, symbol] : llvm::zip(type.getShape(), symbols)) {
    bool named = ShapedType::isDynamic(size) && !symbol.empty();
    shape.push_back({size, named ? symbol : StringAttr()});
  }
  return shape;
}

RankedTensorType tensorType(ArrayRef<SymDim> shape, Type element) {
  SmallVector<int64_t> sizes, order;
  SmallVector<StringAttr> symbols;
  for (auto [i, dim] : llvm::enumerate(shape)) {
    sizes.push_back(dim.size);
    order.push_back(i);
    symbols.push_back(dim.isFree() && dim.symbol ? dim.symbol : StringAttr::get(element.getContext(), ""));
  }
  return build(sizes, element, order, symbols);
}

SmallVector<int64_t> physicalOrder(RankedTensorType type) {
  LayoutAttr layout = layoutOf(type);
  if (layout && !layout.getOrder().empty()) return SmallVector<int64_t>(layout.getOrder());
  return llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
}

bool isRowMajor(RankedTensorType type) {
  LayoutAttr layout = layoutOf(type);
  return !layout || layout.getOrder().empty();
}

RankedTensorType withOrder(RankedTensorType type, ArrayRef<int64_t> order) {
  return build(type.getShape(), type.getElementType(), order, symbolsOf(type));
}

SmallVector<int64_t> denseStrides(RankedTensorType type) {
  SmallVector<int64_t> strides(type.getRank(), 1);
  int64_t stride = 1;
  SmallVector<int64_t> order = physicalOrder(type);
  for (int64_t dim : llvm::reverse(order)) {
    strides[dim] = stride;
    stride *= type.getDimSize(dim);
  }
  return strides;
}

std::optional<shape::DimExpr> exprOf(const SymDim& dim) {
  if (!dim.isFree()) return shape::DimExpr(dim.size);
  if (!dim.symbol || dim.symbol.empty()) return std::nullopt;
  return shape::DimExpr::parse(dim.symbol.getValue());
}

SymDim dimOf(MLIRContext* context, const std::optional<shape::DimExpr>& size) {
  if (!size) return {ShapedType::kDynamic};
  if (std::optional<int64_t> constant = size->constant(); constant && *constant >= 0) return {*constant};
  return {ShapedType::kDynamic, StringAttr::get(context, size->text())};
}

/// Two free dimensions: one that is 1 takes the other's size.
static SymDim broadcastFree(const SymDim& x, const SymDim& y) {
  if (x == y) return x;
  const std::optional<shape::DimExpr> a = exprOf(x), b = exprOf(y);
  if (!a || !b) return {ShapedType::kDynamic};
  return dimOf(x.symbol.getContext(), shape::DimExpr::select(shape::DimExpr::Compare::kEqual, *a, 1, *b, *a));
}

std::optional<SymShape> broadcastShapes(ArrayRef<SymDim> a, ArrayRef<SymDim> b) {
  size_t rank = std::max(a.size(), b.size());
  SymShape result(rank);
  for (size_t i = 0; i < rank; ++i) {
    // Missing leading dims count as 1.
    SymDim x = i < rank - a.size() ? SymDim{1} : a[i - (rank - a.size())];
    SymDim y = i < rank - b.size() ? SymDim{1} : b[i - (rank - b.size())];
    if (!x.isFree() && !y.isFree() && x.size != y.size && x.size != 1 && y.size != 1) return std::nullopt;
    if (!x.isFree() && x.size == 1) {
      result[i] = y;
    } else if (!y.isFree() && y.size == 1) {
      result[i] = x;
    } else {
      // A known size wins over a free one: the free one can then only be that size or 1.
      result[i] = x.isFree() ? y : x;
      if (x.isFree() && y.isFree()) result[i] = broadcastFree(x, y);
    }
  }
  return result;
}

ElementType elementType(Type type) {
  if (type.isF32()) return ElementType::kF32;
  if (type.isF16()) return ElementType::kF16;
  if (type.isBF16()) return ElementType::kBF16;
  if (type.isF64()) return ElementType::kF64;
  if (isa<Float8E4M3FNType>(type)) return ElementType::kF8E4M3;
  if (isa<Float8E4M3Type>(type)) return ElementType::kF8E4M3Ieee;
  if (isa<Float8E5M2Type>(type)) return ElementType::kF8E5M2;
  if (auto integer = dyn_cast<IntegerType>(type)) {
    bool isUnsigned = integer.isUnsigned();
    switch (integer.getWidth()) {
      case 1:
        return ElementType::kBool;
      case 8:
        return isUnsigned ? ElementType::kU8 : ElementType::kI8;
      case 16:
        return isUnsigned ? ElementType::kU16 : ElementType::kI16;
      case 32:
        return isUnsigned ? ElementType::kU32 : ElementType::kI32;
      case 64:
        return isUnsigned ? ElementType::kU64 : ElementType::kI64;
      default:
        return ElementType::kInvalid;
    }
  }
  return ElementType::kInvalid;
}

Type mlirElementType(MLIRContext* context, ElementType type) {
  auto integer = [&](unsigned width, bool isUnsigned) -> Type {
    return IntegerType::get(context, width, isUnsigned ? IntegerType::Unsigned : IntegerType::Signless);
  };
  switch (type) {
    case ElementType::kF32:
      return Float32Type::get(context);
    case ElementType::kF16:
      return Float16Type::get(context);
    case ElementType::kBF16:
      return BFloat16Type::get(context);
    case ElementType::kF64:
      return Float64Type::get(context);
    case ElementType::kF8E4M3:
      return Float8E4M3FNType::get(context);
    case ElementType::kF8E4M3Ieee:
      return Float8E4M3Type::get(context);
    case ElementType::kF8E5M2:
      return Float8E5M2Type::get(context);
    case ElementType::kI8:
      return integer(8, false);
    case ElementType::kU8:
      return integer(8, true);
    case ElementType::kI16:
      return integer(16, false);
    case ElementType::kU16:
      return integer(16, true);
    case ElementType::kI32:
      return integer(32, false);
    case ElementType::kU32:
      return integer(32, true);
    case ElementType::kI64:
      return integer(64, false);
    case ElementType::kU64:
      return integer(64, true);
    case ElementType::kBool:
      return integer(1, false);
    case ElementType::kInvalid:
      return {};
  }
  return {};
}

std::string typeToString(RankedTensorType type) {
  std::string text;
  for (int64_t size : type.getShape())
    text += (ShapedType::isDynamic(size) ? std::string("?") : std::to_string(size)) + "x";
  return text + std::string(elementTypeName(elementType(type.getElementType())));
}

}  // namespace hpu::ir
