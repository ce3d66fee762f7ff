// SPDX-License-Identifier: Apache-2.0
#include "compiler/dialect/hpu/HpuTypes.h"

#include "compiler/dialect/hpu/HpuDialect.h"
#include "llvm/ADT/bit.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

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
    shape.push_back({size, symbol.empty() ? StringAttr() : symbol});
  }
  return shape;
}

RankedTensorType tensorType(ArrayRef<SymDim> shape, Type element) {
  SmallVector<int64_t> sizes, order;
  SmallVector<StringAttr> symbols;
  for (auto [i, dim] : llvm::enumerate(shape)) {
    sizes.push_back(dim.size);
    order.push_back(i);
    symbols.push_back(dim.symbol ? dim.symbol : StringAttr::get(element.getContext(), ""));
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

shape::SymInt numberOf(const SymDim& dim) {
  if (!dim.isNamed()) return dim.size;
  if (dim.symbol == kNoExpression) return shape::SymInt::unknown(dim.size);
  return {*exprOf(dim), dim.size};
}

SymInts symSizes(RankedTensorType type) {
  SymInts sizes;
  for (const SymDim& dim : symShape(type)) sizes.push_back(numberOf(dim));
  return sizes;
}

SymInts symDenseStrides(RankedTensorType type) {
  const SymInts sizes = symSizes(type);
  SymInts strides(sizes.size(), 1);
  shape::SymInt stride = 1;
  SmallVector<int64_t> order = physicalOrder(type);
  for (int64_t dim : llvm::reverse(order)) {
    strides[dim] = stride;
    stride *= sizes[dim];
  }
  return strides;
}

shape::SymInt symElements(RankedTensorType type) {
  shape::SymInt elements = 1;
  for (const shape::SymInt& size : symSizes(type)) elements *= size;
  return elements;
}

std::optional<shape::DimExpr> exprOf(const SymDim& dim) {
  if (dim.isNamed()) return shape::DimExpr::parse(dim.symbol.getValue());
  return dim.isFree() ? std::nullopt : std::optional(shape::DimExpr(dim.size));
}

SymShape namedShape(ArrayRef<int64_t> sizes, std::optional<ArrayAttr> symbols) {
  SymShape shape;
  for (auto [i, size] : llvm::enumerate(sizes)) {
    StringAttr symbol;
    if (symbols && i < symbols->size()) symbol = dyn_cast<StringAttr>((*symbols)[i]);
    shape.push_back({size, symbol && !symbol.empty() ? symbol : StringAttr()});
  }
  return shape;
}

SymDim dimOf(MLIRContext* context, const std::optional<shape::DimExpr>& size, int64_t value) {
  if (!size) return {value, ShapedType::isDynamic(value) ? StringAttr() : StringAttr::get(context, kNoExpression)};
  if (std::optional<int64_t> constant = size->constant(); constant && *constant >= 0) return {*constant};
  return {value, StringAttr::get(context, size->text())};
}

bool hasNamedSizes(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && llvm::any_of(symShape(tensor), [](const SymDim& dim) { return !dim.isFree() && dim.isNamed(); });
}

shape::SymbolBounds sizeBounds(Operation* op) {
  shape::SymbolBounds bounds;
  auto module = isa<ModuleOp>(op) ? cast<ModuleOp>(op) : op->getParentOfType<ModuleOp>();
  auto all = module ? module->getAttrOfType<DictionaryAttr>(kBoundsAttr) : DictionaryAttr();
  for (NamedAttribute each : all ? all : DictionaryAttr::get(op->getContext()))
    if (auto pair = dyn_cast<DenseI64ArrayAttr>(each.getValue()); pair && pair.size() == 2)
      bounds[each.getName().str()] = {pair[0], pair[1]};
  return bounds;
}

int64_t primeOf(int64_t sample) {
  constexpr int64_t kLeastPrime = 101;  // Of those that representatives are multiples of.
  sample >>= llvm::countr_zero(static_cast<uint64_t>(sample));
  for (const int64_t factor : {3, 5, 7})
    while (sample % factor == 0 && sample / factor >= kLeastPrime) sample /= factor;
  return sample;
}

bool dependsOnSamples(Operation* op, RankedTensorType type) {
  auto module = op->getParentOfType<ModuleOp>();
  auto samples = module ? module->getAttrOfType<DictionaryAttr>(kSamplesAttr) : DictionaryAttr();
  if (!samples) return false;
  if (op->hasAttr("start_symbols")) return true;
  return llvm::any_of(samples, [&](NamedAttribute each) {
    const int64_t prime = primeOf(cast<IntegerAttr>(each.getValue()).getInt());
    return llvm::any_of(symShape(type),
                        [&](const SymDim& dim) { return dim.isNamed() || (dim.size != 0 && dim.size % prime == 0); });
  });
}

ArrayAttr sizeNames(RankedTensorType type) {
  SmallVector<Attribute> names;
  bool isAny = false;
  for (const SymDim& dim : symShape(type)) {
    const bool isNamed = !dim.isFree() && dim.isNamed();
    names.push_back(isNamed ? dim.symbol : StringAttr::get(type.getContext(), ""));
    isAny |= isNamed;
  }
  return isAny ? ArrayAttr::get(type.getContext(), names) : ArrayAttr();
}

namespace {

/// The dimensions of one side of a group, as numbers with their expressions.
using Group = SmallVector<shape::SymInt>;

shape::SymInt product(const Group& group) {
  shape::SymInt all = 1;
  for (const shape::SymInt& size : group) all *= size;
  return all;
}

/// A product of some of `factors` whose value is `value`. Representatives are chosen so that at most one is.
std::optional<shape::SymInt> partOf(const Group& factors, int64_t value) {
  constexpr size_t kMostFactors = 12;
  if (factors.size() > kMostFactors) return std::nullopt;
  std::optional<shape::SymInt> found;
  for (uint32_t chosen = 1; chosen < 1u << factors.size(); ++chosen) {
    shape::SymInt part = 1;
    for (size_t i = 0; i < factors.size(); ++i)
      if (chosen >> i & 1) part *= factors[i];
    if (part.value() != 0 && value % part.value() == 0 && !part.isConstant()) {
      // What is left is a number of its own: "2*seq" of a dimension of seq and one of 2.
      const shape::SymInt whole = part * (value / part.value());
      if (found && !(*found == whole)) return std::nullopt;
      found = whole;
    }
  }
  return found;
}

/// Names the dimensions of `to` in [begin, end), which have as many elements as `factors`.
void nameGroup(MLIRContext* context, const Group& factors, SymShape& to, size_t begin, size_t end) {
  const shape::SymInt all = product(factors);
  if (all.isConstant()) return;
  Group named;
  SmallVector<size_t> open;
  for (size_t i = begin; i < end; ++i) {
    if (!to[i].isNamed() && to[i].size != 1) open.push_back(i);
    if (to[i].isNamed()) named.push_back(numberOf(to[i]));
  }
  std::optional<shape::SymInt> left = all.dividedBy(product(named));
  for (size_t i : open) {
    if (!left) return;
    const bool isLast = i == open.back();
    const std::optional<shape::SymInt> part = isLast               ? left
                                              : left->isConstant() ? std::nullopt
                                                                   : partOf(factors, to[i].size);
    const shape::SymInt size = part && part->value() == to[i].size ? *part : shape::SymInt(to[i].size);
    if (!size.isConstant()) to[i] = dimOf(context, size.expr(), size.value());
    left = left->dividedBy(size);
  }
}

}  // namespace

SymShape namedLike(ArrayRef<SymDim> from, SymShape to) {
  auto known = [](const SymDim& dim) { return !dim.isFree(); };
  if (!llvm::all_of(from, known) || !llvm::all_of(to, known)) return to;
  auto named = llvm::find_if(from, [](const SymDim& dim) { return dim.isNamed(); });
  if (named == from.end()) return to;
  MLIRContext* context = named->symbol.getContext();
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    // The next group of dims [i, i2) and [j, j2) with the same number of elements.
    size_t i2 = i, j2 = j;
    __int128 left = i2 < from.size() ? from[i2++].size : 1, right = j2 < to.size() ? to[j2++].size : 1;
    while (left != right) {
      const bool takesFrom = left < right;
      if (takesFrom ? i2 >= from.size() : j2 >= to.size()) return to;
      if (takesFrom)
        left *= from[i2++].size;
      else
        right *= to[j2++].size;
      if (left > INT64_MAX || right > INT64_MAX) return to;
    }
    Group factors;
    for (size_t d = i; d < i2; ++d) factors.push_back(numberOf(from[d]));
    nameGroup(context, factors, to, j, j2);
    i = i2;
    j = j2;
  }
  return to;
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
    // One that is 1 now and has a name, as min(1, batch), may be another size later.
    if (!x.isFree() && x.size == 1 && !(x.isNamed() && y == SymDim{1})) {
      result[i] = y;
    } else if (!y.isFree() && y.size == 1) {
      result[i] = x;
    } else {
      // A known size wins over a free one: the free one can then only be that size or 1.
      // Of two names that have to be equal the shorter one says more: seq, where it is beside min(seq, 256).
      const bool namesY = !y.isFree() && y.isNamed() && (!x.isNamed() || y.symbol.size() < x.symbol.size());
      result[i] = x.isFree() || namesY ? y : x;
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
  // "[batch, 2*seq, 64] f32": what is free is named, for representatives say nothing to people, and two free sizes that
  // differ would look alike.
  const SymShape shape = symShape(type);
  if (llvm::any_of(shape, [](const SymDim& dim) { return dim.isNamed(); })) {
    for (const SymDim& dim : shape)
      text += (text.empty() ? "[" : ", ") + (dim.isNamed()  ? dim.symbol.str()
                                             : dim.isFree() ? std::string("?")
                                                            : std::to_string(dim.size));
    return text + "] " + std::string(elementTypeName(elementType(type.getElementType())));
  }
  for (int64_t size : type.getShape())
    text += (ShapedType::isDynamic(size) ? std::string("?") : std::to_string(size)) + "x";
  return text + std::string(elementTypeName(elementType(type.getElementType())));
}

}  // namespace hpu::ir
