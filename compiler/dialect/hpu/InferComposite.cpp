// SPDX-License-Identifier: Apache-2.0
// Result types and checks of reductions, normalisations, pooling and resampling.
#include <cmath>

#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/ResizeCoordinates.h"
#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/dialect/hpu/Windows.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace hpu::ir;

namespace {

LogicalResult sameType(Value x, SmallVectorImpl<Type>& result) {
  RankedTensorType type = tensorOf(x);
  result.push_back(tensorType(symShape(type), type.getElementType()));
  return success();
}

LogicalResult checkAxis(Operation* op, int64_t axis, int64_t rank) {
  if (axis < 0 || axis >= rank) return op->emitOpError() << "axis " << axis << " is outside rank " << rank;
  return success();
}

LogicalResult reduce(std::optional<Location> loc, Value x, ArrayRef<int64_t> axes, bool keepdims, Type element,
                     SmallVectorImpl<Type>& result) {
  SymShape in = symShape(tensorOf(x)), shape;
  for (int64_t axis : axes)
    if (axis < 0 || axis >= static_cast<int64_t>(in.size()))
      return emitOptionalError(loc, "axis ", axis, " is outside rank ", in.size());
  for (auto [i, dim] : llvm::enumerate(in)) {
    if (!llvm::is_contained(axes, static_cast<int64_t>(i)))
      shape.push_back(dim);
    else if (keepdims)
      shape.push_back({1});
  }
  result.push_back(tensorType(shape, element));
  return success();
}

LogicalResult checkAxes(Operation* op, ArrayRef<int64_t> axes, int64_t rank) {
  SmallVector<bool> seen(rank, false);
  for (int64_t axis : axes) {
    if (failed(checkAxis(op, axis, rank))) return failure();
    if (seen[axis]) return op->emitOpError() << "axis " << axis << " is named twice";
    seen[axis] = true;
  }
  return success();
}

LogicalResult pool(std::optional<Location> loc, Value x, ArrayRef<int64_t> kernel, ArrayRef<int64_t> strides,
                   ArrayRef<int64_t> dilations, ArrayRef<int64_t> pads, bool ceilMode, SmallVectorImpl<Type>& result) {
  RankedTensorType type = tensorOf(x);
  if (type.getRank() != 4 || kernel.size() != 2 || strides.size() != 2 || dilations.size() != 2 || pads.size() != 4 ||
      llvm::any_of(strides, [](int64_t s) { return s < 1; }))
    return emitOptionalError(loc,
                             "2-D pooling needs a rank-4 input, kernel, positive strides and dilations of 2, "
                             "pads of 4; got ",
                             typeToString(type));
  for (auto list : {kernel, dilations})
    for (int64_t v : list)
      if (v < 1) return emitOptionalError(loc, "kernel and dilations must be positive, not ", v);
  for (int64_t v : pads)
    if (v < 0) return emitOptionalError(loc, "pads must not be negative, as ", v, " is");
  SymShape in = symShape(type), shape = {in[0], in[1]};
  for (int i = 0; i < 2; ++i) {
    WindowDim window{in[2 + i].size, kernel[i], strides[i], dilations[i], pads[i], pads[2 + i], ceilMode};
    if (in[2 + i].isFree()) {
      shape.push_back(windowsOf(in[2 + i], window));
      continue;
    }
    std::optional<int64_t> extent = window.count();
    if (!extent)
      return emitOptionalError(loc, "no tensor holds the windows of ", kernel[i], " elements along dimension ", 2 + i);
    if (*extent < 1)
      return emitOptionalError(loc, "the window (", kernel[i], ", dilation ", dilations[i],
                               ") is larger than the padded input (", in[2 + i].size, " with pads ", pads[i], " and ",
                               pads[2 + i], ")");
    shape.push_back(in[2 + i].isNamed() ? windowsOf(in[2 + i], window) : SymDim{*extent});
  }
  result.push_back(tensorType(shape, type.getElementType()));
  return success();
}

template <typename Op>
LogicalResult checkPool(Op op) {
  for (auto list : {op.getKernel(), op.getDilations()})
    for (int64_t v : list)
      if (v < 1) return op.emitOpError("kernel and dilations must be positive");
  for (int64_t v : op.getPads())
    if (v < 0) return op.emitOpError("pads must not be negative");
  return success();
}

}  // namespace

#define HPU_SAME_TYPE(Op)                                                                        \
  LogicalResult Op::inferReturnTypes(MLIRContext*, std::optional<Location>, Op::Adaptor adaptor, \
                                     SmallVectorImpl<Type>& result) {                            \
    return sameType(adaptor.getX(), result);                                                     \
  }
HPU_SAME_TYPE(SoftmaxOp)
HPU_SAME_TYPE(LogSoftmaxOp)
HPU_SAME_TYPE(LayerNormOp)
HPU_SAME_TYPE(InstanceNormOp)

LogicalResult SoftmaxOp::verify() {
  return checkAxis(*this, getAxis(), tensorOf(getX()).getRank());
}
LogicalResult LogSoftmaxOp::verify() {
  return checkAxis(*this, getAxis(), tensorOf(getX()).getRank());
}

uint32_t LayerNormOp::getWholeDims() {
  uint32_t dims = 0;
  for (int64_t d = getAxis(); d < tensorOf(getX()).getRank(); ++d) dims |= 1u << d;
  return dims;
}
LogicalResult LayerNormOp::verify() {
  RankedTensorType x = tensorOf(getX());
  if (failed(checkAxis(*this, getAxis(), x.getRank()))) return failure();
  ArrayRef<int64_t> normalised = x.getShape().drop_front(getAxis());
  for (Value v : {getScale(), getBias()}) {
    if (!v) continue;
    std::optional<SymShape> joined = broadcastShapes(symShape(tensorOf(v)), symShape(x));
    if (!joined || tensorOf(v).getRank() > static_cast<int64_t>(normalised.size()))
      return emitOpError() << "scale or bias " << typeToString(tensorOf(v)) << " does not fit the normalised dims of "
                           << typeToString(x);
  }
  return success();
}

LogicalResult BatchNormOp::verify() {
  RankedTensorType x = tensorOf(getX());
  if (x.getRank() < 2) return emitOpError("needs an input of rank 2 or more");
  for (Value v : {getScale(), getBias(), getMean(), getVariance()}) {
    RankedTensorType type = tensorOf(v);
    if (type.getRank() != 1 || (!x.isDynamicDim(1) && !type.isDynamicDim(0) && type.getDimSize(0) != x.getDimSize(1)))
      return emitOpError() << "statistics must be [" << x.getDimSize(1) << "], got " << typeToString(type);
  }
  return success();
}

uint32_t InstanceNormOp::getWholeDims() {
  uint32_t dims = 0;
  for (int64_t d = 2; d < tensorOf(getX()).getRank(); ++d) dims |= 1u << d;
  return dims;
}

/// A sum's own type, or that of its operand.
template <typename Adaptor>
Type reducedElement(Adaptor adaptor) {
  Type element = tensorOf(adaptor.getX()).getElementType();
  if constexpr (requires { adaptor.getTo(); }) return adaptor.getTo().value_or(element);
  return element;
}

template <typename Op>
LogicalResult checkReducedElement(Op op) {
  if constexpr (requires { op.getTo(); })
    if (op.getTo() && (!isa<FloatType>(*op.getTo()) || !isa<FloatType>(tensorOf(op.getX()).getElementType())))
      return op.emitOpError("sums up floats when it has a type of its own, which is a float as well");
  return success();
}

#define HPU_REDUCE(Op)                                                                                             \
  LogicalResult Op::inferReturnTypes(MLIRContext*, std::optional<Location> loc, Op::Adaptor adaptor,               \
                                     SmallVectorImpl<Type>& result) {                                              \
    return reduce(loc, adaptor.getX(), adaptor.getAxes(), adaptor.getKeepdims(), reducedElement(adaptor), result); \
  }                                                                                                                \
  LogicalResult Op::verify() {                                                                                     \
    if (failed(checkReducedElement(*this))) return failure();                                                      \
    return checkAxes(*this, getAxes(), tensorOf(getX()).getRank());                                                \
  }
HPU_REDUCE(ReduceSumOp)
HPU_REDUCE(ReduceMeanOp)
HPU_REDUCE(ReduceMaxOp)
HPU_REDUCE(ReduceMinOp)
HPU_REDUCE(ReduceProdOp)

LogicalResult ArgMaxOp::inferReturnTypes(MLIRContext* context, std::optional<Location> loc, Adaptor adaptor,
                                         SmallVectorImpl<Type>& result) {
  return reduce(loc, adaptor.getX(), {static_cast<int64_t>(adaptor.getAxis())}, adaptor.getKeepdims(),
                IntegerType::get(context, 64), result);
}

#define HPU_POOL(Op)                                                                                    \
  LogicalResult Op::inferReturnTypes(MLIRContext*, std::optional<Location> loc, Op::Adaptor adaptor,    \
                                     SmallVectorImpl<Type>& result) {                                   \
    return pool(loc, adaptor.getX(), adaptor.getKernel(), adaptor.getStrides(), adaptor.getDilations(), \
                adaptor.getPads(), adaptor.getCeilMode(), result);                                      \
  }                                                                                                     \
  LogicalResult Op::verify() {                                                                          \
    return checkPool(*this);                                                                            \
  }
HPU_POOL(MaxPool2dOp)
HPU_POOL(AvgPool2dOp)

/// The fraction of small numbers that the scale is as f32; nullopt when there is none, or scaledSize() is not the exact
/// product rounded down for all sizes of images. That it is follows from how near the float is: a product that is no
/// whole number is at least 1 / denominator away from one, and one that is a whole number n is rounded to n where the
/// float is not smaller by 2^-25 or more of it, as neighbours of n are at least 2^-24 of it away.
static std::optional<std::pair<int64_t, int64_t>> fractionOf(double scale) {
  constexpr int64_t kMost = 63;
  const auto single = static_cast<double>(static_cast<float>(scale));
  for (int64_t below = 2; below <= kMost; ++below) {
    const double above = std::round(single * static_cast<double>(below));
    if (above < 1 || above > static_cast<double>(kMost)) continue;
    const double exact = above / static_cast<double>(below), gap = (single - exact) / exact;
    if (static_cast<float>(exact) == static_cast<float>(scale) && gap > -0x1p-25 && gap < 0x1p-23)
      return std::pair(static_cast<int64_t>(above), below);
  }
  return std::nullopt;
}

/// As scaledSize(); a free one gets a name where the scale is exact: a whole number, or a small one of halves, quarters
/// ... (for which a product with any size of an image is no rounded float), or a fraction of small numbers.
static SymDim scaledDim(MLIRContext* context, const SymDim& dim, double scale) {
  if (scale == 1) return dim;
  const int64_t value =
      dim.isFree() ? ShapedType::kDynamic : scaledSize(dim.size, scale).value_or(ShapedType::kDynamic);
  if (!dim.isNamed()) return {value};
  const std::optional<hpu::shape::DimExpr> size = exprOf(dim);
  constexpr double kMost = 1 << 16;
  if (!(scale > 1 / kMost && scale < kMost)) return dimOf(context, std::nullopt, value);
  if (const auto times = static_cast<int64_t>(scale); static_cast<double>(times) == scale)
    return dimOf(context, size->times(times), value);
  constexpr int64_t kMostTimes = 255;
  for (int64_t part = 2; part < kMost; part *= 2) {
    const double times = scale * static_cast<double>(part);
    if (times > kMostTimes) break;
    if (times != std::floor(times)) continue;
    const auto product = size->times(static_cast<int64_t>(times));
    return dimOf(context, product ? product->floorDiv(part) : std::nullopt, value);
  }
  if (const auto fraction = fractionOf(scale)) {
    const auto product = size->times(fraction->first);
    return dimOf(context, product ? product->floorDiv(fraction->second) : std::nullopt, value);
  }
  return dimOf(context, std::nullopt, value);
}

LogicalResult ResizeOp::inferReturnTypes(MLIRContext*, std::optional<Location> loc, Adaptor adaptor,
                                         SmallVectorImpl<Type>& result) {
  RankedTensorType x = tensorOf(adaptor.getX());
  if (x.getRank() != 4 || adaptor.getSizes().size() != 2)
    return emitOptionalError(loc, "resize needs a rank-4 input and 2 sizes, got ", typeToString(x));
  SymShape shape = symShape(x);
  if (adaptor.getScales().size() != 2) return emitOptionalError(loc, "resize needs 2 scales");
  const SymShape stated = namedShape(adaptor.getSizes(), adaptor.getSymbols());
  for (int i = 0; i < 2; ++i) {
    const double scale = adaptor.getScales()[i];
    if (scale == 0)
      shape[2 + i] = stated[i];
    else
      shape[2 + i] = stated[i].isFree() ? scaledDim(x.getContext(), shape[2 + i], scale) : SymDim{stated[i].size};
  }
  result.push_back(tensorType(shape, x.getElementType()));
  return success();
}
LogicalResult ResizeOp::verify() {
  if (getScales().size() != 2) return emitOpError("needs 2 scales");
  for (auto [size, scale] : llvm::zip(getSizes(), getScales()))
    if (size < (scale == 0 ? 0 : 1) && !ShapedType::isDynamic(size)) return emitOpError("sizes must be positive");
  for (double scale : getScales())
    if (!(scale >= 0)) return emitOpError("scales must be positive, or 0 for that of the size");
  return success();
}
