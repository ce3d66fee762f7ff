// SPDX-License-Identifier: Apache-2.0
#include "compiler/layout/Views.h"

#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/States.h"
#include "compiler/dialect/hpu/TensorOf.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace hpu::ir {
namespace {

using shape::DimExpr;
using shape::SymInt;

std::optional<int64_t> quotient(int64_t a, int64_t b) {
  return b != 0 && a % b == 0 ? std::optional(a / b) : std::nullopt;
}
std::optional<SymInt> quotient(const SymInt& a, const SymInt& b) {
  return a.dividedBy(b);
}

template <typename Number>
SmallVector<Number> sizesOf(RankedTensorType type) {
  if constexpr (std::is_same_v<Number, SymInt>)
    return symSizes(type);
  else
    return SmallVector<int64_t>(type.getShape());
}

template <typename Number>
std::optional<SmallVector<Number>> stridesOfReshape(ArrayRef<Number> sizes, ArrayRef<Number> strides,
                                                    ArrayRef<Number> shape) {
  const Number none = 0, one = 1;
  // A tensor that has no elements is dense whatever its strides are.
  if (llvm::is_contained(shape, none)) return SmallVector<Number>(shape.size(), one);
  // Old dims without the ones of size 1, and merged where one steps exactly over the next.
  SmallVector<Number> oldSizes, oldStrides;
  for (const auto& [size, stride] : llvm::zip(sizes, strides)) {
    if (size == one) continue;
    if (!oldSizes.empty() && oldStrides.back() == size * stride) {
      oldSizes.back() *= size;
      oldStrides.back() = stride;
    } else {
      oldSizes.push_back(size);
      oldStrides.push_back(stride);
    }
  }
  SmallVector<Number> result(shape.size(), one);
  // Take new dims from the fastest one out of the merged old ones.
  size_t old = oldSizes.size();
  Number left = 1, stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    const Number& size = shape[i];
    if (size == one) continue;
    if (left == one) {
      if (old == 0) return std::nullopt;
      --old;
      left = oldSizes[old];
      stride = oldStrides[old];
    }
    const std::optional<Number> rest = quotient(left, size);
    if (!rest) return std::nullopt;
    result[i] = stride;
    left = *rest;
    stride *= size;
  }
  if (!(left == one) || old != 0) return std::nullopt;
  return result;
}

/// Whether the elements lie one after another, in their order.
template <typename Number>
bool isDense(const BasicView<Number>& view) {
  Number stride = 1;
  for (size_t d = view.sizes.size(); d-- > 0;) {
    if (!(view.sizes[d] == Number(1)) && !(view.strides[d] == stride)) return false;
    stride *= view.sizes[d];
  }
  return true;
}

template <typename Number>
std::optional<BasicView<Number>> applied(Operation* op, const BasicView<Number>& in) {
  using View = BasicView<Number>;
  const Number one = 1;
  View out{in.base, in.offset, {}, {}};
  return TypeSwitch<Operation*, std::optional<View>>(op)
      .template Case<TransposeOp>([&](TransposeOp transpose) {
        for (int64_t dim : transpose.getPerm()) {
          out.sizes.push_back(in.sizes[dim]);
          out.strides.push_back(in.strides[dim]);
        }
        return std::optional(out);
      })
      .template Case<SliceOp>([&](SliceOp slice) -> std::optional<View> {
        if (!slice.isView()) return std::nullopt;
        const SmallVector<Number> sizes = sizesOf<Number>(cast<RankedTensorType>(slice.getResult().getType()));
        for (size_t d = 0; d < in.sizes.size(); ++d) {
          out.sizes.push_back(ShapedType::isDynamic(slice.getSizes()[d]) ? in.sizes[d] : sizes[d]);
          out.strides.push_back(in.strides[d] * slice.getSteps()[d]);
          Number start = slice.getStarts()[d];
          if constexpr (std::is_same_v<Number, SymInt>)
            if (std::optional<ArrayAttr> names = slice.getStartSymbols())
              start = numberOf({slice.getStarts()[d], dyn_cast<StringAttr>((*names)[d])});
          out.offset += start * in.strides[d];
        }
        return out;
      })
      .template Case<ExpandOp>([&](ExpandOp expand) {
        const SmallVector<Number> sizes = sizesOf<Number>(cast<RankedTensorType>(expand.getResult().getType()));
        const size_t added = sizes.size() - in.sizes.size();
        for (size_t d = 0; d < sizes.size(); ++d) {
          const bool repeats = d < added || (in.sizes[d - added] == one && !(sizes[d] == one));
          out.sizes.push_back(sizes[d]);
          out.strides.push_back(repeats ? Number(0) : in.strides[d - added]);
        }
        return std::optional(out);
      })
      .template Case<ReshapeOp>([&](ReshapeOp reshape) -> std::optional<View> {
        out.sizes = sizesOf<Number>(cast<RankedTensorType>(reshape.getResult().getType()));
        std::optional<SmallVector<Number>> strides = stridesOfReshape<Number>(in.sizes, in.strides, out.sizes);
        // What is dense is so in any shape of as many elements, which are guards where no expression says that.
        if (!strides && isDense(in)) {
          strides.emplace(out.sizes.size(), Number(1));
          for (size_t d = out.sizes.size(); d-- > 1;) (*strides)[d - 1] = (*strides)[d] * out.sizes[d];
        }
        if (!strides) return std::nullopt;
        out.strides = *strides;
        return out;
      })
      .Default([](Operation*) { return std::nullopt; });
}

/// `value` becomes what its views start from.
SmallVector<Operation*> viewsBelow(Value& value) {
  SmallVector<Operation*> chain;
  while (Operation* def = value.getDefiningOp()) {
    auto op = dyn_cast<HpuOp>(def);
    if (!op || !op.isView()) break;
    chain.push_back(def);
    value = def->getOperand(0);
  }
  return chain;
}

template <typename Number>
std::optional<BasicView<Number>> resolved(BasicView<Number> base, ArrayRef<Operation*> chain) {
  std::optional<BasicView<Number>> view = std::move(base);
  for (Operation* op : llvm::reverse(chain))
    if (!(view = applied(op, *view))) return std::nullopt;
  return view;
}

/// The strides of a value that is not dense; empty for others.
SmallVector<int64_t> ownStrides(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  if (std::optional<StateMemory> state = stateOfArgument(value)) return state->strides();
  auto result = dyn_cast<OpResult>(value);
  auto strides = result ? result.getOwner()->getAttrOfType<ArrayAttr>(kStridesAttr) : ArrayAttr();
  if (!strides || result.getResultNumber() >= strides.size() || type.getRank() == 0) return {};
  auto own = dyn_cast<DenseI64ArrayAttr>(strides[result.getResultNumber()]);
  return own && own.size() == type.getRank() ? SmallVector<int64_t>(own.asArrayRef()) : SmallVector<int64_t>();
}

}  // namespace

SmallVector<int64_t> valuesOf(ArrayRef<SymInt> numbers) {
  SmallVector<int64_t> values;
  for (const SymInt& number : numbers) values.push_back(number.value());
  return values;
}

std::optional<SmallVector<int64_t>> reshapeStrides(ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides,
                                                   ArrayRef<int64_t> shape) {
  return stridesOfReshape<int64_t>(sizes, strides, shape);
}
std::optional<SymInts> reshapeStrides(ArrayRef<SymInt> sizes, ArrayRef<SymInt> strides, ArrayRef<SymInt> shape) {
  return stridesOfReshape<SymInt>(sizes, strides, shape);
}

StridedView baseView(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  const SmallVector<int64_t> own = ownStrides(value);
  return {value, 0, SmallVector<int64_t>(type.getShape()), own.empty() ? denseStrides(type) : own};
}

SymView baseSymView(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  SymView view{value, 0, symSizes(type), {}};
  const SmallVector<int64_t> own = ownStrides(value);
  if (own.empty()) {
    view.strides = symDenseStrides(type);
    return view;
  }
  view.strides.assign(own.begin(), own.end());
  auto result = dyn_cast<OpResult>(value);
  if (!result) return view;
  auto names = result.getOwner()->getAttrOfType<ArrayAttr>(kStrideNamesAttr);
  auto named = names && result.getResultNumber() < names.size() ? dyn_cast<ArrayAttr>(names[result.getResultNumber()])
                                                                : ArrayAttr();
  for (size_t d = 0; named && d < named.size() && d < own.size(); ++d)
    view.strides[d] = numberOf({own[d], dyn_cast<StringAttr>(named[d])});
  return view;
}

std::optional<StridedView> applyView(Operation* op, const StridedView& in) {
  return applied(op, in);
}
std::optional<SymView> applyView(Operation* op, const SymView& in) {
  return applied(op, in);
}

std::optional<StridedView> resolveView(Value value) {
  const Value whole = value;
  const SmallVector<Operation*> chain = viewsBelow(value);
  const bool isLate = hasNamedSizes(value.getType()) ||
                      llvm::any_of(chain, [](Operation* op) { return hasNamedSizes(op->getResult(0).getType()); });
  if (!isLate) return resolved(baseView(value), chain);
  std::optional<SymView> view = resolveSymView(whole);
  if (!view) return std::nullopt;
  return StridedView{view->base, view->offset.value(), valuesOf(view->sizes), valuesOf(view->strides)};
}

std::optional<SymView> resolveSymView(Value value) {
  const SmallVector<Operation*> chain = viewsBelow(value);
  return resolved(baseSymView(value), chain);
}

Value baseOf(Value value) {
  viewsBelow(value);
  return value;
}

std::optional<SymInts> stridesOfBase(Value value, SymInts strides) {
  for (Operation* view : viewsBelow(value)) {
    RankedTensorType source = tensorOf(view->getOperand(0));
    if (auto transpose = dyn_cast<TransposeOp>(view)) {
      SymInts in(strides.size());
      for (auto [d, from] : llvm::enumerate(transpose.getPerm())) in[from] = strides[d];
      strides = in;
    } else if (isa<ReshapeOp>(view)) {
      std::optional<SymInts> in = reshapeStrides(symSizes(tensorOf(view->getResult(0))), strides, symSizes(source));
      if (!in) return std::nullopt;
      strides = *in;
    } else {
      return std::nullopt;
    }
  }
  return strides;
}

bool sameStrides(ArrayRef<SymInt> sizes, ArrayRef<SymInt> a, ArrayRef<SymInt> b) {
  for (size_t d = 0; d < sizes.size(); ++d)
    if (!(sizes[d] == 1) && !(a[d] == b[d])) return false;
  return true;
}

namespace {

/// One entry of an attribute that has one a result; without any left, the attribute goes.
void setOfResult(OpResult result, const char* name, Attribute value, Attribute none) {
  Operation* unit = result.getOwner();
  SmallVector<Attribute> all(unit->getNumResults(), none);
  if (auto old = unit->getAttrOfType<ArrayAttr>(name)) all.assign(old.begin(), old.end());
  all[result.getResultNumber()] = value;
  if (llvm::all_of(all, [&](Attribute own) { return own == none; }))
    unit->removeAttr(name);
  else
    unit->setAttr(name, ArrayAttr::get(unit->getContext(), all));
}

}  // namespace

void setStrides(Value value, ArrayRef<SymInt> strides) {
  auto result = cast<OpResult>(value);
  Builder builder(value.getContext());
  SmallVector<int64_t> numbers;
  SmallVector<Attribute> names;
  for (const SymInt& stride : strides) {
    numbers.push_back(stride.value());
    names.push_back(builder.getStringAttr(stride.isConstant() ? "" : stride.text()));
  }
  const bool isNamed = llvm::any_of(strides, [](const SymInt& stride) { return !stride.isConstant(); });
  setOfResult(result, kStridesAttr, builder.getDenseI64ArrayAttr(numbers), builder.getDenseI64ArrayAttr({}));
  setOfResult(result, kStrideNamesAttr, isNamed ? builder.getArrayAttr(names) : builder.getArrayAttr({}),
              builder.getArrayAttr({}));
}

bool haveSameCount(Value a, Value b) {
  const SymInt one = symElements(tensorOf(a)), other = symElements(tensorOf(b));
  if (one == other) return true;
  if (one.value() != other.value() || one.isUnknown() || other.isUnknown()) return false;
  Operation* parent = a.getParentRegion() ? a.getParentRegion()->getParentOp() : nullptr;
  return DimExpr::equal(*one.expr(), *other.expr(), parent ? sizeBounds(parent) : shape::SymbolBounds()) == true;
}

bool isDenseRowMajor(const StridedView& view) {
  if (view.offset != 0) return false;
  int64_t stride = 1;
  for (size_t d = view.sizes.size(); d-- > 0;) {
    if (view.sizes[d] != 1 && view.strides[d] != stride) return false;
    stride *= view.sizes[d];
  }
  return true;
}

}  // namespace hpu::ir
