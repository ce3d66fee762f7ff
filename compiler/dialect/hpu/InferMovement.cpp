// SPDX-License-Identifier: Apache-2.0
// Result types and checks of the ops that move or rename elements.
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/TensorOf.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace hpu::ir;

namespace {

/// The number of elements for people: the product of sizes from attributes may be no int64.
std::string elementsText(ArrayRef<int64_t> sizes) {
  int64_t count = 1;
  for (int64_t size : sizes)
    if (__builtin_mul_overflow(count, size, &count)) return "more than 2^63";
  return std::to_string(count);
}

}  // namespace

LogicalResult ReshapeOp::inferReturnTypes(MLIRContext*, std::optional<Location> loc, Adaptor adaptor,
                                          SmallVectorImpl<Type>& result) {
  RankedTensorType x = tensorOf(adaptor.getX());
  const SymShape shape = namedLike(symShape(x), namedShape(adaptor.getShape(), adaptor.getSymbols()));
  RankedTensorType type = tensorType(shape, x.getElementType());
  if (x.hasStaticShape() && type.hasStaticShape()) {
    const std::string from = elementsText(x.getShape()), to = elementsText(type.getShape());
    if (from != to && (hasNamedSizes(x) || hasNamedSizes(type)))
      return emitOptionalError(loc, "cannot reshape ", typeToString(x), " to ", typeToString(type), " (",
                               symElements(x).text(), " against ", symElements(type).text(), " elements)");
    if (from != to)
      return emitOptionalError(loc, "cannot reshape ", typeToString(x), " to ", typeToString(type), " (", from,
                               " against ", to, " elements)");
  }
  result.push_back(type);
  return success();
}

LogicalResult TransposeOp::inferReturnTypes(MLIRContext*, std::optional<Location> loc, Adaptor adaptor,
                                            SmallVectorImpl<Type>& result) {
  RankedTensorType x = tensorOf(adaptor.getX());
  SymShape in = symShape(x), shape;
  if (adaptor.getPerm().size() != in.size())
    return emitOptionalError(loc, "perm has ", adaptor.getPerm().size(), " entries for rank ", in.size());
  for (int64_t p : adaptor.getPerm()) {
    if (p < 0 || p >= static_cast<int64_t>(in.size()))
      return emitOptionalError(loc, "perm entry ", p, " is outside rank ", in.size());
    shape.push_back(in[p]);
  }
  result.push_back(tensorType(shape, x.getElementType()));
  return success();
}
LogicalResult TransposeOp::verify() {
  SmallVector<bool> seen(getPerm().size(), false);
  for (int64_t p : getPerm()) {
    if (p < 0 || p >= static_cast<int64_t>(seen.size()) || seen[p]) return emitOpError("perm must be a permutation");
    seen[p] = true;
  }
  return success();
}

bool SliceOp::isView() {
  return llvm::all_of(getSteps(), [](int64_t s) { return s > 0; });
}
LogicalResult SliceOp::inferReturnTypes(MLIRContext*, std::optional<Location> loc, Adaptor adaptor,
                                        SmallVectorImpl<Type>& result) {
  RankedTensorType x = tensorOf(adaptor.getX());
  SymShape in = symShape(x), shape = namedShape(adaptor.getSizes(), adaptor.getSymbols());
  if (adaptor.getSizes().size() != in.size() || adaptor.getStarts().size() != in.size() ||
      adaptor.getSteps().size() != in.size())
    return emitOptionalError(loc, "slice needs a start, size and step for each of ", in.size(), " dims");
  for (auto [i, dim] : llvm::enumerate(shape)) {
    const int64_t start = adaptor.getStarts()[i];
    if (dim.isNamed() || adaptor.getSteps()[i] != 1) continue;
    if (dim.isFree()) {
      if (start == 0) dim = in[i];
    } else if (in[i].isNamed() && !in[i].isFree() && start >= 0 && in[i].size - start == dim.size) {
      shape::DimExpr from = start;
      if (auto names = adaptor.getStartSymbols())
        if (auto name = i < names->size() ? dyn_cast<StringAttr>((*names)[i]) : StringAttr(); name && !name.empty())
          from = shape::DimExpr::parse(name.getValue());
      const std::optional<shape::DimExpr> size = exprOf(in[i])->minus(from);  // To the end.
      dim = dimOf(x.getContext(), size, dim.size);
    }
  }
  result.push_back(tensorType(shape, x.getElementType()));
  return success();
}
LogicalResult SliceOp::verify() {
  RankedTensorType x = tensorOf(getX());
  const SymShape from = symShape(x), to = symShape(tensorOf(getResult()));
  for (int64_t d = 0; d < x.getRank(); ++d) {
    int64_t start = getStarts()[d], size = getSizes()[d], step = getSteps()[d];
    if (step == 0) return emitOpError() << "step of dim " << d << " is zero";
    if (ShapedType::isDynamic(size) || ShapedType::isDynamic(start) || x.isDynamicDim(d) || size == 0) continue;
    if (size < 0) return emitOpError() << "has " << size << " elements along dim " << d;
    // Of sizes that are given late each launch asks it: those that they stand as may be outside of their bounds.
    auto names = getStartSymbols();
    auto startName = names ? dyn_cast<StringAttr>((*names)[d]) : StringAttr();
    if (from[d].isNamed() || to[d].isNamed() || (startName && !startName.empty())) continue;
    const __int128 last = start + (__int128{size} - 1) * step;
    if (start < 0 || start >= x.getDimSize(d) || last < 0 || last >= x.getDimSize(d))
      return emitOpError() << "leaves dim " << d << " of " << typeToString(x);
  }
  return success();
}

LogicalResult RangeOp::inferReturnTypes(MLIRContext*, std::optional<Location> loc, Adaptor adaptor,
                                        SmallVectorImpl<Type>& result) {
  if (adaptor.getStarts().size() != 1 || adaptor.getSizes().size() != 1 || adaptor.getSteps().size() != 1)
    return emitOptionalError(loc, "range has one start, one size and one step");
  result.push_back(tensorType(namedShape(adaptor.getSizes(), adaptor.getSymbols()), adaptor.getElement()));
  return success();
}
LogicalResult RangeOp::verify() {
  auto integer = dyn_cast<IntegerType>(getElement());
  if (!integer || integer.getWidth() < 8) return emitOpError() << "makes integers, not " << getElement();
  const int64_t start = getStarts()[0], size = getSizes()[0], step = getSteps()[0];
  if (ShapedType::isDynamic(size)) return success();
  if (size < 0) return emitOpError() << "cannot make " << size << " numbers";
  if (ShapedType::isDynamic(start) || size == 0) return success();
  const __int128 last = start + (__int128{size} - 1) * step;
  if (last < INT64_MIN || last > INT64_MAX) return emitOpError() << "leaves the numbers of 64 bits";
  return success();
}

LogicalResult ExpandOp::inferReturnTypes(MLIRContext*, std::optional<Location> loc, Adaptor adaptor,
                                         SmallVectorImpl<Type>& result) {
  RankedTensorType x = tensorOf(adaptor.getX());
  SymShape shape = namedShape(adaptor.getShape(), adaptor.getSymbols());
  std::optional<SymShape> joined = broadcastShapes(symShape(x), shape);
  if (!joined || joined->size() != shape.size())
    return emitOptionalError(loc, "cannot expand ", typeToString(x), " to ",
                             typeToString(tensorType(shape, x.getElementType())));
  for (auto [dim, both] : llvm::zip(shape, *joined))
    if (!dim.isFree() && !dim.isNamed() && both.size == dim.size) dim = both;
  result.push_back(tensorType(shape, x.getElementType()));
  return success();
}

LogicalResult ConcatOp::inferReturnTypes(MLIRContext*, std::optional<Location> loc, Adaptor adaptor,
                                         SmallVectorImpl<Type>& result) {
  if (adaptor.getInputs().empty()) return emitOptionalError(loc, "concat needs an input");
  RankedTensorType first = tensorOf(adaptor.getInputs()[0]);
  SymShape shape = symShape(first);
  int64_t axis = adaptor.getAxis();
  if (axis < 0 || axis >= first.getRank())
    return emitOptionalError(loc, "axis ", axis, " is outside rank ", first.getRank());
  for (Value input : adaptor.getInputs().drop_front()) {
    RankedTensorType type = tensorOf(input);
    SymShape other = symShape(type);
    if (type.getRank() != first.getRank() || type.getElementType() != first.getElementType())
      return emitOptionalError(loc, "cannot join ", typeToString(first), " and ", typeToString(type));
    for (int64_t d = 0; d < first.getRank(); ++d) {
      if (d == axis) {
        const std::optional<shape::DimExpr> a = exprOf(shape[d]), b = exprOf(other[d]);
        const bool known = !shape[d].isFree() && !other[d].isFree();
        if (known && !shape[d].isNamed() && !other[d].isNamed())
          shape[d] = {shape[d].size + other[d].size};
        else
          shape[d] = dimOf(first.getContext(), a && b ? a->plus(*b) : std::nullopt,
                           known ? shape[d].size + other[d].size : ShapedType::kDynamic);
      } else if (!shape[d].isFree() && !other[d].isFree() && shape[d].size != other[d].size) {
        return emitOptionalError(loc, "cannot join ", typeToString(first), " and ", typeToString(type), " along axis ",
                                 axis);
      } else if (shape[d].isFree() ? !other[d].isFree() || !shape[d].symbol
                                   : !other[d].isFree() && other[d].isNamed() &&
                                         (!shape[d].isNamed() || other[d].symbol.size() < shape[d].symbol.size())) {
        shape[d] = other[d];  // Of two names either is right: whether they are equal is seen when they have values.
      }
    }
  }
  result.push_back(tensorType(shape, first.getElementType()));
  return success();
}
LogicalResult ConcatOp::verify() {
  return success();
}

LogicalResult PadOp::inferReturnTypes(MLIRContext*, std::optional<Location> loc, Adaptor adaptor,
                                      SmallVectorImpl<Type>& result) {
  RankedTensorType x = tensorOf(adaptor.getX());
  SymShape shape = symShape(x);
  if (adaptor.getLow().size() != shape.size() || adaptor.getHigh().size() != shape.size())
    return emitOptionalError(loc, "pad needs low and high for each of ", shape.size(), " dims");
  for (auto [i, dim] : llvm::enumerate(shape)) {
    const int64_t low = adaptor.getLow()[i], high = adaptor.getHigh()[i];
    if (low < 0 || high < 0) return emitOptionalError(loc, "low and high must not be negative (use hpu.slice to cut)");
    const __int128 extra = __int128{low} + high, extent = extra + (dim.isFree() ? 0 : dim.size);
    if (extra == 0) continue;
    if (extent > INT64_MAX) return emitOptionalError(loc, "no tensor holds dimension ", i, " with its padding");
    const std::optional<shape::DimExpr> size = exprOf(dim);
    if (dim.isFree() || dim.isNamed())
      dim = dimOf(x.getContext(), size ? size->plus(static_cast<int64_t>(extra)) : std::nullopt,
                  dim.isFree() ? ShapedType::kDynamic : static_cast<int64_t>(extent));
    else
      dim = {static_cast<int64_t>(extent)};
  }
  result.push_back(tensorType(shape, x.getElementType()));
  return success();
}
LogicalResult PadOp::verify() {
  return success();
}

LogicalResult GatherOp::inferReturnTypes(MLIRContext*, std::optional<Location> loc, Adaptor adaptor,
                                         SmallVectorImpl<Type>& result) {
  RankedTensorType x = tensorOf(adaptor.getX()), indices = tensorOf(adaptor.getIndices());
  int64_t axis = adaptor.getAxis();
  if (axis < 0 || axis >= x.getRank()) return emitOptionalError(loc, "axis ", axis, " is outside rank ", x.getRank());
  if (!indices.getElementType().isInteger(64) && !indices.getElementType().isInteger(32))
    return emitOptionalError(loc, "indices must be i32 or i64, not ", typeToString(indices));
  SymShape in = symShape(x), shape(in.begin(), in.begin() + axis);
  llvm::append_range(shape, symShape(indices));
  shape.append(in.begin() + axis + 1, in.end());
  result.push_back(tensorType(shape, x.getElementType()));
  return success();
}

LogicalResult GatherElementsOp::inferReturnTypes(MLIRContext*, std::optional<Location> loc, Adaptor adaptor,
                                                 SmallVectorImpl<Type>& result) {
  RankedTensorType x = tensorOf(adaptor.getX()), indices = tensorOf(adaptor.getIndices());
  int64_t axis = adaptor.getAxis();
  if (x.getRank() != indices.getRank())
    return emitOptionalError(loc, "x of rank ", x.getRank(), " and indices of rank ", indices.getRank());
  if (axis < 0 || axis >= x.getRank()) return emitOptionalError(loc, "axis ", axis, " is outside rank ", x.getRank());
  if (!indices.getElementType().isInteger(64) && !indices.getElementType().isInteger(32))
    return emitOptionalError(loc, "indices must be i32 or i64, not ", typeToString(indices));
  for (int64_t d = 0; d < x.getRank(); ++d)
    if (d != axis && !x.isDynamicDim(d) && !indices.isDynamicDim(d) && indices.getDimSize(d) > x.getDimSize(d))
      return emitOptionalError(loc, "dimension ", d, " of indices, ", indices.getDimSize(d), ", is larger than x's ",
                               x.getDimSize(d));
  result.push_back(tensorType(symShape(indices), x.getElementType()));
  return success();
}

namespace {

/// Sizes that are numbers and not the same.
bool sizesDiffer(RankedTensorType a, int64_t i, RankedTensorType b, int64_t j) {
  return !a.isDynamicDim(i) && !b.isDynamicDim(j) && a.getDimSize(i) != b.getDimSize(j);
}

LogicalResult checkScatter(std::optional<Location> loc, RankedTensorType data, RankedTensorType indices,
                           RankedTensorType updates, ScatterMode mode) {
  if (!indices.getElementType().isInteger(64) && !indices.getElementType().isInteger(32))
    return emitOptionalError(loc, "indices must be i32 or i64, not ", typeToString(indices));
  if (updates.getElementType() != data.getElementType())
    return emitOptionalError(loc, "updates ", typeToString(updates), " for data ", typeToString(data));
  if (mode != ScatterMode::replace && data.getElementType().isInteger(1))
    return emitOptionalError(loc, "bool elements can only be replaced");
  return success();
}

}  // namespace

uint32_t ScatterNdOp::getWholeDims() {
  RankedTensorType indices = tensorOf(getIndices());
  const int64_t depth = indices.getRank() > 0 ? indices.getShape().back() : 0;
  return (1u << depth) - 1;
}
LogicalResult ScatterNdOp::inferReturnTypes(MLIRContext*, std::optional<Location> loc, Adaptor adaptor,
                                            SmallVectorImpl<Type>& result) {
  RankedTensorType data = tensorOf(adaptor.getData()), indices = tensorOf(adaptor.getIndices()),
                   updates = tensorOf(adaptor.getUpdates());
  if (failed(checkScatter(loc, data, indices, updates, adaptor.getMode()))) return failure();
  if (indices.getRank() < 1) return emitOptionalError(loc, "indices have no dim of tuples");
  if (indices.isDynamicDim(indices.getRank() - 1))
    return emitOptionalError(loc, "the tuples of indices must have a known length");
  const int64_t depth = indices.getShape().back(), outer = indices.getRank() - 1;
  if (depth < 1 || depth > data.getRank())
    return emitOptionalError(loc, "tuples of ", depth, " indices for data of rank ", data.getRank());
  bool fits = updates.getRank() == outer + data.getRank() - depth;
  for (int64_t d = 0; fits && d < updates.getRank(); ++d)
    fits = d < outer ? !sizesDiffer(updates, d, indices, d) : !sizesDiffer(updates, d, data, d - outer + depth);
  if (!fits)
    return emitOptionalError(loc, "updates ", typeToString(updates), " do not fit indices ", typeToString(indices),
                             " and data ", typeToString(data));
  result.push_back(tensorType(symShape(data), data.getElementType()));
  return success();
}

LogicalResult ScatterElementsOp::inferReturnTypes(MLIRContext*, std::optional<Location> loc, Adaptor adaptor,
                                                  SmallVectorImpl<Type>& result) {
  RankedTensorType data = tensorOf(adaptor.getData()), indices = tensorOf(adaptor.getIndices()),
                   updates = tensorOf(adaptor.getUpdates());
  if (failed(checkScatter(loc, data, indices, updates, adaptor.getMode()))) return failure();
  const int64_t axis = adaptor.getAxis(), rank = data.getRank();
  if (axis < 0 || axis >= rank) return emitOptionalError(loc, "axis ", axis, " is outside rank ", rank);
  if (indices.getRank() != rank || updates.getRank() != rank)
    return emitOptionalError(loc, "data, indices and updates have the ranks ", rank, ", ", indices.getRank(), " and ",
                             updates.getRank());
  for (int64_t d = 0; d < rank; ++d) {
    const bool isOne = d == axis ? adaptor.getAdvance() : indices.getDimSize(d) == 1;
    if (isOne && !indices.isDynamicDim(d) && indices.getDimSize(d) != 1)
      return emitOptionalError(loc, "indices that advance along axis ", axis, " have one element there, not ",
                               indices.getDimSize(d));
    if (!isOne && sizesDiffer(indices, d, updates, d))
      return emitOptionalError(loc, "dimension ", d, " of indices, ", indices.getDimSize(d), ", and of updates, ",
                               updates.getDimSize(d), ", differ");
    const bool isLate = symShape(data)[d].isNamed() || symShape(updates)[d].isNamed();  // Each launch asks it.
    if (d != axis && !isLate && !data.isDynamicDim(d) && !updates.isDynamicDim(d) &&
        updates.getDimSize(d) > data.getDimSize(d))
      return emitOptionalError(loc, "dimension ", d, " of updates, ", updates.getDimSize(d), ", is larger than data's ",
                               data.getDimSize(d));
  }
  result.push_back(tensorType(symShape(data), data.getElementType()));
  return success();
}

LogicalResult SelectBoxesOp::inferReturnTypes(MLIRContext*, std::optional<Location> loc, Adaptor adaptor,
                                              SmallVectorImpl<Type>& result) {
  RankedTensorType boxes = tensorOf(adaptor.getBoxes()), scores = tensorOf(adaptor.getScores()),
                   order = tensorOf(adaptor.getOrder());
  if (!isa<FloatType>(boxes.getElementType()) || !isa<FloatType>(scores.getElementType()))
    return emitOptionalError(loc, "boxes and scores have to be floats");
  if (!order.getElementType().isInteger(64) || !tensorOf(adaptor.getMost()).getElementType().isInteger(64))
    return emitOptionalError(loc, "order and most have to be i64");
  if (boxes.getRank() != 3 || scores.getRank() != 3 || order.getRank() != 3)
    return emitOptionalError(loc, "needs boxes [B, N, 4], scores and order [B, C, N]");
  for (Value number : {adaptor.getMost(), adaptor.getOverlap(), adaptor.getThreshold()})
    if (number && tensorOf(number).getRank() != 0) return emitOptionalError(loc, "its numbers have to be of rank 0");
  const SymShape ofBoxes = symShape(boxes), ofScores = symShape(scores), ofOrder = symShape(order);
  auto differ = [](const SymDim& a, const SymDim& b) {
    return !a.isFree() && !b.isFree() && !a.isNamed() && !b.isNamed() && a.size != b.size;
  };
  if (differ(ofBoxes[0], ofScores[0]) || differ(ofBoxes[1], ofScores[2]) || differ(ofBoxes[2], SymDim{4}))
    return emitOptionalError(loc, "boxes have to be [B, N, 4] beside scores [B, C, N]");
  for (size_t d = 0; d < 3; ++d)
    if (differ(ofOrder[d], ofScores[d])) return emitOptionalError(loc, "order has to have the sizes of scores");
  result.push_back(tensorType(ofScores, order.getElementType()));
  return success();
}

LogicalResult TopIndicesOp::inferReturnTypes(MLIRContext* context, std::optional<Location> loc, Adaptor adaptor,
                                             SmallVectorImpl<Type>& result) {
  RankedTensorType x = tensorOf(adaptor.getX());
  const int64_t axis = adaptor.getAxis();
  if (axis < 0 || axis >= x.getRank()) return emitOptionalError(loc, "axis ", axis, " is outside rank ", x.getRank());
  if (adaptor.getSizes().size() != 1) return emitOptionalError(loc, "top_indices has one size");
  if (x.getElementType().isInteger(1)) return emitOptionalError(loc, "bool elements have no order");
  SymShape shape = symShape(x);
  const SymDim count = namedShape(adaptor.getSizes(), adaptor.getSymbols()).front();
  // Of sizes that are given late each launch asks it.
  const bool isLate = count.isNamed() || shape[axis].isNamed();
  if (!count.isFree() && (count.size < 0 || (!isLate && !shape[axis].isFree() && count.size > shape[axis].size)))
    return emitOptionalError(loc, "cannot take ", count.size, " of the ", x.getDimSize(axis), " elements of dimension ",
                             axis);
  shape[axis] = count;
  result.push_back(tensorType(shape, IntegerType::get(context, 64)));
  return success();
}

LogicalResult RelayoutOp::verify() {
  if (!compatibleTypes(getX().getType(), getResult().getType())) return emitOpError("must keep shape and element type");
  return success();
}
