// SPDX-License-Identifier: Apache-2.0
#include "compiler/layout/Views.h"

#include "compiler/dialect/hpu/HpuOps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace hpu::ir {

std::optional<SmallVector<int64_t>> reshapeStrides(ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides,
                                                   ArrayRef<int64_t> shape) {
  // A tensor that has no elements is dense whatever its strides are.
  if (llvm::is_contained(shape, 0)) return SmallVector<int64_t>(shape.size(), 1);
  // Old dims without the ones of size 1, and merged where one steps exactly over the next.
  SmallVector<int64_t> oldSizes, oldStrides;
  for (auto [size, stride] : llvm::zip(sizes, strides)) {
    if (size == 1) continue;
    if (!oldSizes.empty() && oldStrides.back() == size * stride) {
      oldSizes.back() *= size;
      oldStrides.back() = stride;
    } else {
      oldSizes.push_back(size);
      oldStrides.push_back(stride);
    }
  }
  SmallVector<int64_t> result(shape.size(), 1);
  // Take new dims from the fastest one out of the merged old ones.
  size_t old = oldSizes.size();
  int64_t left = 1, stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    int64_t size = shape[i];
    if (size == 1) {
      result[i] = 1;
      continue;
    }
    if (left == 1) {
      if (old == 0) return std::nullopt;
      --old;
      left = oldSizes[old];
      stride = oldStrides[old];
    }
    if (left % size != 0) return std::nullopt;
    result[i] = stride;
    left /= size;
    stride *= size;
  }
  if (left != 1 || old != 0) return std::nullopt;
  return result;
}

StridedView baseView(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  if (auto result = dyn_cast<OpResult>(value))
    if (auto strides = result.getOwner()->getAttrOfType<ArrayAttr>(kStridesAttr);
        strides && result.getResultNumber() < strides.size()) {
      auto own = dyn_cast<DenseI64ArrayAttr>(strides[result.getResultNumber()]);
      if (own && own.size() == type.getRank() && type.getRank() != 0)
        return {value, 0, SmallVector<int64_t>(type.getShape()), SmallVector<int64_t>(own.asArrayRef())};
    }
  return {value, 0, SmallVector<int64_t>(type.getShape()), denseStrides(type)};
}

std::optional<StridedView> applyView(Operation* op, const StridedView& in) {
  StridedView out{in.base, in.offset, {}, {}};
  return TypeSwitch<Operation*, std::optional<StridedView>>(op)
      .Case<TransposeOp>([&](TransposeOp transpose) {
        for (int64_t dim : transpose.getPerm()) {
          out.sizes.push_back(in.sizes[dim]);
          out.strides.push_back(in.strides[dim]);
        }
        return std::optional(out);
      })
      .Case<SliceOp>([&](SliceOp slice) -> std::optional<StridedView> {
        if (!slice.isView()) return std::nullopt;
        for (size_t d = 0; d < in.sizes.size(); ++d) {
          int64_t size = slice.getSizes()[d];
          out.sizes.push_back(ShapedType::isDynamic(size) ? in.sizes[d] : size);
          out.strides.push_back(in.strides[d] * slice.getSteps()[d]);
          out.offset += slice.getStarts()[d] * in.strides[d];
        }
        return out;
      })
      .Case<ExpandOp>([&](ExpandOp expand) {
        auto type = cast<RankedTensorType>(expand.getResult().getType());
        size_t added = type.getRank() - in.sizes.size();
        for (int64_t d = 0; d < type.getRank(); ++d) {
          bool fresh = d < static_cast<int64_t>(added);
          int64_t from = fresh ? 1 : in.sizes[d - added];
          out.sizes.push_back(type.getDimSize(d));
          out.strides.push_back(from == 1 && type.getDimSize(d) != 1 ? 0 : (fresh ? 0 : in.strides[d - added]));
        }
        return std::optional(out);
      })
      .Case<ReshapeOp>([&](ReshapeOp reshape) -> std::optional<StridedView> {
        auto type = cast<RankedTensorType>(reshape.getResult().getType());
        std::optional<SmallVector<int64_t>> strides = reshapeStrides(in.sizes, in.strides, type.getShape());
        if (!strides) return std::nullopt;
        out.sizes.assign(type.getShape().begin(), type.getShape().end());
        out.strides = *strides;
        return out;
      })
      .Default([](Operation*) { return std::nullopt; });
}

std::optional<StridedView> resolveView(Value value) {
  SmallVector<Operation*> chain;
  while (Operation* def = value.getDefiningOp()) {
    auto op = dyn_cast<HpuOp>(def);
    if (!op || !op.isView()) break;
    chain.push_back(def);
    value = def->getOperand(0);
  }
  std::optional<StridedView> view = baseView(value);
  for (Operation* op : llvm::reverse(chain)) {
    view = applyView(op, *view);
    if (!view) return std::nullopt;
  }
  return view;
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
