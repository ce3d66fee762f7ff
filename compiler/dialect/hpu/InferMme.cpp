// SPDX-License-Identifier: Apache-2.0
// Result types and checks of the MME ops.
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/dialect/hpu/Windows.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace hpu::ir;

namespace {

/// 8-bit operands give bf16: the accumulators are f32, and bf16 is the cast that rides on the MME.
Type productElement(Type operand) {
  return operand.getIntOrFloatBitWidth() == 8 && isa<FloatType>(operand) ? BFloat16Type::get(operand.getContext())
                                                                         : operand;
}

/// Integers and f64 no MME multiplies.
bool isOfMme(Type element) {
  return isa<FloatType>(element) && !element.isF64();
}

/// Output extent of a window op.
FailureOr<SymDim> windowExtent(std::optional<Location> loc, SymDim in, int64_t kernel, int64_t stride, int64_t dilation,
                               int64_t padBegin, int64_t padEnd) {
  const WindowDim window{in.size, kernel, stride, dilation, padBegin, padEnd};
  if (in.isFree()) return windowsOf(in, window);
  std::optional<int64_t> count = window.count();
  if (count && *count > 0) return in.isNamed() ? windowsOf(in, window) : SymDim{*count};
  (void)emitOptionalError(loc, "the window (", kernel, ", dilation ", dilation, ") is larger than the padded input (",
                          in.size, " with pads ", padBegin, " and ", padEnd, ")");
  return failure();
}

/// What arithmetic on the attributes needs, ahead of the verifier.
LogicalResult checkWindow(std::optional<Location> loc, ArrayRef<int64_t> strides, ArrayRef<int64_t> dilations,
                          ArrayRef<int64_t> pads, int64_t groups) {
  constexpr int64_t kMostGroups = int64_t{1} << 20;
  constexpr int64_t kMost = int64_t{1} << 31;  // Of a recipe's window.
  for (ArrayRef<int64_t> list : {strides, dilations})
    for (int64_t v : list)
      if (v < 1 || v > kMost)
        return emitOptionalError(loc, "strides and dilations must be 1 to ", kMost, ", and one is ", v);
  for (int64_t v : pads)
    if (v < 0) return emitOptionalError(loc, "pads must not be negative, as ", v, " is");
  if (groups < 1 || groups > kMostGroups) return emitOptionalError(loc, "there cannot be ", groups, " groups");
  return success();
}

/// The channels of so many groups, which are free when those of one are; nullopt when they are no number.
std::optional<int64_t> channelsOf(int64_t groups, int64_t channelsOfOne) {
  if (ShapedType::isDynamic(channelsOfOne)) return ShapedType::kDynamic;
  int64_t channels;
  return __builtin_mul_overflow(groups, channelsOfOne, &channels) ? std::nullopt : std::optional<int64_t>(channels);
}

LogicalResult checkConv(Operation* op, RankedTensorType x, RankedTensorType w, ArrayRef<int64_t> strides,
                        ArrayRef<int64_t> dilations, ArrayRef<int64_t> pads, int64_t groups,
                        std::optional<int64_t> channelsOfW) {
  if (x.getRank() != 4 || w.getRank() != 4) return op->emitOpError("needs rank-4 input and weights");
  if (strides.size() != 2 || dilations.size() != 2 || pads.size() != 4)
    return op->emitOpError("needs 2 strides, 2 dilations and 4 pads");
  for (int64_t v : strides)
    if (v < 1) return op->emitOpError("strides must be positive");
  for (int64_t v : dilations)
    if (v < 1) return op->emitOpError("dilations must be positive");
  for (int64_t v : pads)
    if (v < 0) return op->emitOpError("pads must not be negative");
  if (x.getElementType() != w.getElementType())
    return op->emitOpError("input and weights have different element types");
  if (!channelsOfW) return op->emitOpError() << "its weights in " << groups << " groups have no number of channels";
  int64_t channels = x.getDimSize(1);
  if (!ShapedType::isDynamic(channels) && !ShapedType::isDynamic(*channelsOfW) && *channelsOfW != channels)
    return op->emitOpError() << "input has " << channels << " channels, the weights (groups " << groups << ") need "
                             << *channelsOfW;
  return success();
}

}  // namespace

LogicalResult MatMulOp::inferReturnTypes(MLIRContext*, std::optional<Location> loc, Adaptor adaptor,
                                         SmallVectorImpl<Type>& result) {
  RankedTensorType lhs = tensorOf(adaptor.getLhs()), rhs = tensorOf(adaptor.getRhs());
  if (lhs.getRank() < 2 || rhs.getRank() < 2)
    return emitOptionalError(loc, "matmul operands need rank 2 or more, got ", lhs, " and ", rhs);
  if (lhs.getElementType() != rhs.getElementType())
    return emitOptionalError(loc, "element types differ: ", lhs, " and ", rhs);
  SymShape a = symShape(lhs), b = symShape(rhs);
  SymDim ka = a.back(), kb = b[b.size() - 2];
  if (!ka.isFree() && !kb.isFree() && ka.size != kb.size)
    return emitOptionalError(loc, "inner dimensions differ: ", typeToString(lhs), " x ", typeToString(rhs), " (",
                             ka.size, " against ", kb.size, ")");
  std::optional<SymShape> shape = broadcastShapes(ArrayRef(a).drop_back(2), ArrayRef(b).drop_back(2));
  if (!shape)
    return emitOptionalError(loc, "batch dimensions do not broadcast: ", typeToString(lhs), " x ", typeToString(rhs));
  shape->push_back(a[a.size() - 2]);
  shape->push_back(b.back());
  result.push_back(tensorType(*shape, productElement(lhs.getElementType())));
  return success();
}

EngineKind MatMulOp::getEngine() {
  return isOfMme(tensorOf(getLhs()).getElementType()) ? EngineKind::Mme : EngineKind::Tpc;
}

EngineKind Conv2dOp::getEngine() {
  if (!isOfMme(tensorOf(getX()).getElementType())) return EngineKind::Tpc;
  int64_t channels = cast<RankedTensorType>(getX().getType()).getDimSize(1);
  int64_t outputs = cast<RankedTensorType>(getW().getType()).getDimSize(0);
  bool depthwise = getGroups() > 1 && static_cast<int64_t>(getGroups()) == channels && channels == outputs;
  return depthwise ? EngineKind::Tpc : EngineKind::Mme;
}

LogicalResult Conv2dOp::inferReturnTypes(MLIRContext*, std::optional<Location> loc, Adaptor adaptor,
                                         SmallVectorImpl<Type>& result) {
  RankedTensorType x = tensorOf(adaptor.getX()), w = tensorOf(adaptor.getW());
  ArrayRef<int64_t> strides = adaptor.getStrides(), dilations = adaptor.getDilations(), pads = adaptor.getPads();
  if (x.getRank() != 4 || w.getRank() != 4 || strides.size() != 2 || dilations.size() != 2 || pads.size() != 4 ||
      llvm::any_of(strides, [](int64_t s) { return s < 1; }))
    return emitOptionalError(loc, "conv2d needs rank-4 operands, 2 positive strides, 2 dilations and 4 pads; got ",
                             typeToString(x), " and ", typeToString(w));
  if (failed(checkWindow(loc, strides, dilations, pads, static_cast<int64_t>(adaptor.getGroups())))) return failure();
  SymShape in = symShape(x), shape = {in[0], symShape(w)[0]};
  for (int i = 0; i < 2; ++i) {
    FailureOr<SymDim> extent =
        windowExtent(loc, in[2 + i], w.getDimSize(2 + i), strides[i], dilations[i], pads[i], pads[2 + i]);
    if (failed(extent)) return failure();
    shape.push_back(*extent);
  }
  result.push_back(tensorType(shape, productElement(x.getElementType())));
  return success();
}

LogicalResult Conv2dOp::verify() {
  RankedTensorType x = tensorOf(getX()), w = tensorOf(getW());
  int64_t groups = getGroups();
  if (failed(
          checkConv(*this, x, w, getStrides(), getDilations(), getPads(), groups, channelsOf(groups, w.getDimSize(1)))))
    return failure();
  if (w.getDimSize(0) % groups) return emitOpError("output channels must be a multiple of groups");
  return success();
}

LogicalResult ConvTranspose2dOp::inferReturnTypes(MLIRContext*, std::optional<Location> loc, Adaptor adaptor,
                                                  SmallVectorImpl<Type>& result) {
  RankedTensorType x = tensorOf(adaptor.getX()), w = tensorOf(adaptor.getW());
  ArrayRef<int64_t> strides = adaptor.getStrides(), dilations = adaptor.getDilations(), pads = adaptor.getPads();
  if (x.getRank() != 4 || w.getRank() != 4 || strides.size() != 2 || dilations.size() != 2 || pads.size() != 4 ||
      adaptor.getOutputPadding().size() != 2)
    return emitOptionalError(loc,
                             "conv_transpose2d needs rank-4 operands, 2 strides, 2 dilations, 4 pads and 2 "
                             "output paddings; got ",
                             typeToString(x), " and ", typeToString(w));
  if (failed(checkWindow(loc, strides, dilations, pads, static_cast<int64_t>(adaptor.getGroups())))) return failure();
  SymShape in = symShape(x);
  // In groups their number is known.
  const std::optional<int64_t> outputs = channelsOf(static_cast<int64_t>(adaptor.getGroups()), w.getDimSize(1));
  if (!outputs || (adaptor.getGroups() != 1 && ShapedType::isDynamic(*outputs)))
    return emitOptionalError(loc, "conv_transpose2d: its weights have no number of channels");
  SymShape shape = {in[0], adaptor.getGroups() == 1 ? symShape(w)[1] : SymDim{*outputs}};
  for (int i = 0; i < 2; ++i) {
    using Wide = __int128;  // Attributes of a damaged model may be any integers.
    const Wide added = Wide{adaptor.getOutputPadding()[i]} + Wide{dilations[i]} * (w.getDimSize(2 + i) - 1) + 1 -
                       pads[i] - pads[2 + i] - strides[i];
    std::optional<shape::DimExpr> size = exprOf(in[2 + i]);
    if (size) size = size->times(strides[i]);
    const bool fits = added >= INT64_MIN && added <= INT64_MAX;
    if (size) size = fits ? size->plus(static_cast<int64_t>(added)) : std::nullopt;
    if (in[2 + i].isFree()) {
      shape.push_back(dimOf(x.getContext(), size));
      continue;
    }
    const Wide extent = Wide{strides[i]} * in[2 + i].size + added;
    if (extent < 1) return emitOptionalError(loc, "conv_transpose2d has an empty output");
    if (extent > INT64_MAX) return emitOptionalError(loc, "no tensor holds the output along dimension ", 2 + i);
    shape.push_back(in[2 + i].isNamed() ? dimOf(x.getContext(), size, static_cast<int64_t>(extent))
                                        : SymDim{static_cast<int64_t>(extent)});
  }
  result.push_back(tensorType(shape, productElement(x.getElementType())));
  return success();
}

LogicalResult ConvTranspose2dOp::verify() {
  RankedTensorType x = tensorOf(getX()), w = tensorOf(getW());
  int64_t groups = getGroups();
  if (failed(checkConv(*this, x, w, getStrides(), getDilations(), getPads(), groups, w.getDimSize(0))))
    return failure();
  if (w.getDimSize(0) % groups) return emitOpError("input channels must be a multiple of groups");
  return success();
}
