// SPDX-License-Identifier: Apache-2.0
// Ops that move elements without looking at them, except the indices of gathers.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/Format.h"
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/interp/Elements.h"
#include "compiler/interp/Kernels.h"

namespace hpu::interp {
namespace {

using namespace hpu::ir;
using mlir::Operation;
using mlir::ShapedType;
using shape::DimExpr;
using shape::SymbolBindings;
using Inputs = llvm::ArrayRef<Tensor>;

/// Copies the box `sizes`: element by element in units of `unit` bytes, strides in elements. Negative
/// and zero strides are fine.
void copyBox(int64_t unit, const Shape& sizes, const uint8_t* in, llvm::ArrayRef<int64_t> inStrides, uint8_t* out,
             llvm::ArrayRef<int64_t> outStrides) {
  int64_t rank = sizes.size();
  if (rank == 0) {
    std::memcpy(out, in, unit);
    return;
  }
  for (int64_t size : sizes)
    if (size == 0) return;
  std::vector<int64_t> index(rank, 0);
  int64_t row = sizes[rank - 1], inStep = inStrides[rank - 1] * unit, outStep = outStrides[rank - 1] * unit;
  while (true) {
    int64_t inOffset = 0, outOffset = 0;
    for (int64_t d = 0; d + 1 < rank; ++d) {
      inOffset += index[d] * inStrides[d];
      outOffset += index[d] * outStrides[d];
    }
    const uint8_t* from = in + inOffset * unit;
    uint8_t* to = out + outOffset * unit;
    if (inStep == unit && outStep == unit)
      std::memcpy(to, from, row * unit);
    else
      for (int64_t i = 0; i < row; ++i) std::memcpy(to + i * outStep, from + i * inStep, unit);
    int64_t d = rank - 2;
    while (d >= 0 && ++index[d] == sizes[d]) index[d--] = 0;
    if (d < 0) return;
  }
}

/// The result as a strided walk over `x` from `offset` (in elements).
StatusOr<Tensor> gatherBox(const Tensor& x, const Shape& shape, int64_t offset, llvm::ArrayRef<int64_t> strides) {
  StatusOr<Tensor> out = makeTensor(x.element(), shape);
  if (!out.ok() || out->count() == 0) return out;
  int64_t unit = elementSize(x.element());
  copyBox(unit, shape, x.data() + offset * unit, strides, out->writable(), rowMajorStrides(shape));
  return out;
}

StatusOr<Tensor> reshape(ReshapeOp op, const Tensor& x, const SymbolBindings& bindings) {
  Shape shape = bindShape(op.getShape(), op.getSymbols(), bindings);
  int64_t known = 1, freeDims = 0;
  for (int64_t size : shape) {
    freeDims += ShapedType::isDynamic(size);
    if (!ShapedType::isDynamic(size)) known *= size;
  }
  if (freeDims > 1) return invalidArgument("hpu.reshape has more than one free size without a value");
  for (int64_t& size : shape)
    if (ShapedType::isDynamic(size)) size = known ? x.count() / known : 0;
  if (numElements(shape) != x.count())
    return invalidArgument(base::strCat("cannot reshape ", shapeToString(x.shape()), " to ", shapeToString(shape)));
  return x.retyped({x.element(), shape});
}

StatusOr<Tensor> transpose(TransposeOp op, const Tensor& x) {
  std::vector<int64_t> own = rowMajorStrides(x.shape()), strides;
  Shape shape;
  for (int64_t p : op.getPerm()) {
    shape.push_back(x.shape()[p]);
    strides.push_back(own[p]);
  }
  return gatherBox(x, shape, 0, strides);
}

StatusOr<Tensor> slice(SliceOp op, const Tensor& x, const SymbolBindings& bindings) {
  std::vector<int64_t> strides = rowMajorStrides(x.shape());
  const Shape starts = bindShape(op.getStarts(), op.getStartSymbols(), bindings);
  const Shape sizes = bindShape(op.getSizes(), op.getSymbols(), bindings);
  Shape shape;
  int64_t offset = 0;
  for (int64_t d = 0; d < x.rank(); ++d) {
    int64_t start = starts[d], size = sizes[d], step = op.getSteps()[d], extent = x.shape()[d];
    if (ShapedType::isDynamic(start)) return invalidArgument("hpu.slice has a free start without a value");
    // A free size without a name is: as far as the dimension goes.
    if (ShapedType::isDynamic(size))
      size = step > 0 ? std::max<int64_t>(0, (extent - start + step - 1) / step) : start / -step + 1;
    if (size > 0) {
      int64_t last = start + (size - 1) * step;
      if (start < 0 || start >= extent || last < 0 || last >= extent)
        return invalidArgument(base::strCat("hpu.slice leaves dimension ", d, " of ", shapeToString(x.shape())));
    }
    shape.push_back(size);
    offset += start * strides[d];
    strides[d] *= step;
  }
  return gatherBox(x, shape, offset, strides);
}

StatusOr<Tensor> range(RangeOp op, const SymbolBindings& bindings) {
  const int64_t start = bindShape(op.getStarts(), op.getStartSymbols(), bindings)[0];
  const int64_t size = bindShape(op.getSizes(), op.getSymbols(), bindings)[0], step = op.getSteps()[0];
  if (ShapedType::isDynamic(start) || ShapedType::isDynamic(size))
    return invalidArgument("hpu.range has a free start or size without a value");
  StatusOr<Tensor> out = makeTensor(elementType(op.getElement()), {size});
  if (!out.ok()) return out;
  std::vector<int64_t> values(static_cast<size_t>(size));
  for (size_t i = 0; i < values.size(); ++i) values[i] = start + static_cast<int64_t>(i) * step;
  storeElements(out->element(), out->writable(), 0, values.data(), size);
  return out;
}

StatusOr<Tensor> expand(ExpandOp op, const Tensor& x, const SymbolBindings& bindings) {
  Shape shape = bindShape(op.getShape(), op.getSymbols(), bindings);
  size_t lead = shape.size() - x.rank();
  for (size_t d = 0; d < shape.size(); ++d) {
    if (!ShapedType::isDynamic(shape[d])) continue;
    if (d < lead) return invalidArgument("hpu.expand has a free size without a value");
    shape[d] = x.shape()[d - lead];
  }
  for (size_t d = lead; d < shape.size(); ++d)
    if (x.shape()[d - lead] != 1 && x.shape()[d - lead] != shape[d])
      return invalidArgument(base::strCat("cannot expand ", shapeToString(x.shape()), " to ", shapeToString(shape)));
  return gatherBox(x, shape, 0, broadcastStrides(x.shape(), shape));
}

StatusOr<Tensor> concat(Inputs in, int64_t axis) {
  Shape shape = in[0].shape();
  shape[axis] = 0;
  for (const Tensor& input : in) {
    for (int64_t d = 0; d < in[0].rank(); ++d)
      if (d != axis && input.shape()[d] != shape[d])
        return invalidArgument(base::strCat("cannot join ", shapeToString(in[0].shape()), " and ",
                                            shapeToString(input.shape()), " along axis ", axis));
    shape[axis] += input.shape()[axis];
  }
  StatusOr<Tensor> out = makeTensor(in[0].element(), shape);
  if (!out.ok()) return out;
  int64_t unit = elementSize(in[0].element()), offset = 0;
  std::vector<int64_t> strides = rowMajorStrides(shape);
  for (const Tensor& input : in) {
    if (input.count())
      copyBox(unit, input.shape(), input.data(), rowMajorStrides(input.shape()), out->writable() + offset * unit,
              strides);
    offset += input.shape()[axis] * strides[axis];
  }
  return out;
}

StatusOr<Tensor> pad(PadOp op, const Tensor& x) {
  Shape shape = x.shape();
  std::vector<int64_t> strides;
  for (int64_t d = 0; d < x.rank(); ++d) shape[d] += op.getLow()[d] + op.getHigh()[d];
  StatusOr<Tensor> out = makeTensor(x.element(), shape);
  if (!out.ok()) return out;
  strides = rowMajorStrides(shape);
  int64_t unit = elementSize(x.element()), offset = 0, count = out->count();
  double value = op.getValue().convertToDouble();
  std::vector<double> run(std::min<int64_t>(count, 4096), value);
  for (int64_t i = 0; i < count; i += run.size())
    storeElements(x.element(), out->writable(), i, run.data(), std::min<int64_t>(run.size(), count - i));
  for (int64_t d = 0; d < x.rank(); ++d) offset += op.getLow()[d] * strides[d];
  if (x.count())
    copyBox(unit, x.shape(), x.data(), rowMajorStrides(x.shape()), out->writable() + offset * unit, strides);
  return out;
}

StatusOr<Tensor> gather(const Tensor& x, const Tensor& indices, int64_t axis) {
  Shape shape(x.shape().begin(), x.shape().begin() + axis);
  shape.insert(shape.end(), indices.shape().begin(), indices.shape().end());
  shape.insert(shape.end(), x.shape().begin() + axis + 1, x.shape().end());
  StatusOr<Tensor> out = makeTensor(x.element(), shape);
  if (!out.ok() || out->count() == 0) return out;
  int64_t outer = 1, inner = elementSize(x.element()), extent = x.shape()[axis], count = indices.count();
  for (int64_t d = 0; d < axis; ++d) outer *= x.shape()[d];
  for (int64_t d = axis + 1; d < x.rank(); ++d) inner *= x.shape()[d];
  std::vector<int64_t> index(count);
  loadElements(indices.element(), indices.data(), 0, 1, count, index.data());
  for (int64_t& i : index) {
    if (i < -extent || i >= extent)
      return outOfRange(base::strCat("index ", i, " is outside dimension ", axis, " of ", shapeToString(x.shape())));
    if (i < 0) i += extent;
  }
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(out->writable() + (o * count + i) * inner, x.data() + (o * extent + index[i]) * inner, inner);
  return out;
}

StatusOr<Tensor> gatherElements(const Tensor& x, const Tensor& indices, int64_t axis) {
  StatusOr<Tensor> out = makeTensor(x.element(), indices.shape());
  if (!out.ok()) return out;
  int64_t unit = elementSize(x.element()), extent = x.shape()[axis];
  std::vector<int64_t> index(indices.count()), strides = rowMajorStrides(x.shape());
  loadElements(indices.element(), indices.data(), 0, 1, indices.count(), index.data());
  for (int64_t i = 0; i < indices.count(); ++i) {
    if (index[i] < -extent || index[i] >= extent)
      return outOfRange(
          base::strCat("index ", index[i], " is outside dimension ", axis, " of ", shapeToString(x.shape())));
    int64_t offset = (index[i] < 0 ? index[i] + extent : index[i]) * strides[axis], rest = i;
    for (int64_t d = x.rank(); d-- > 0;) {
      if (d != axis) offset += rest % indices.shape()[d] * strides[d];
      rest /= indices.shape()[d];
    }
    std::memcpy(out->writable() + i * unit, x.data() + offset * unit, unit);
  }
  return out;
}

/// `x` in a wide type, the only one in which numbers are combined.
template <typename W>
W combined(ScatterMode mode, W old, W update) {
  switch (mode) {
    case ScatterMode::add:
      return old + update;
    case ScatterMode::mul:
      return old * update;
    case ScatterMode::max:
      return std::isnan(static_cast<double>(old)) || old > update ? old : update;
    case ScatterMode::min:
      return std::isnan(static_cast<double>(old)) || old < update ? old : update;
    default:
      return update;
  }
}

/// `count` elements of `updates` from `from` on, into `out` from `to` on.
void scatterRun(ScatterMode mode, const Tensor& updates, int64_t from, Tensor& out, int64_t to, int64_t count) {
  const int64_t unit = elementSize(out.element());
  if (mode == ScatterMode::replace) {
    std::memcpy(out.writable() + to * unit, updates.data() + from * unit, static_cast<size_t>(count * unit));
    return;
  }
  auto combine = [&](auto wide) {
    using W = decltype(wide);
    for (int64_t i = 0; i < count; ++i) {
      W old, update;
      loadElements(out.element(), out.data(), to + i, 1, 1, &old);
      loadElements(updates.element(), updates.data(), from + i, 1, 1, &update);
      old = combined(mode, old, update);
      storeElements(out.element(), out.writable(), to + i, &old, 1);
    }
  };
  if (wideKind(out.element()) == Wide::kFloat)
    combine(double());
  else if (wideKind(out.element()) == Wide::kUnsigned)
    combine(uint64_t());
  else
    combine(int64_t());
}

StatusOr<Tensor> scatterNd(const Tensor& data, const Tensor& indices, const Tensor& updates, ScatterMode mode) {
  Tensor out = Tensor::copyOf(data.type(), data.data());
  const int64_t depth = indices.shape().back(), rows = depth ? indices.count() / depth : 0;
  const std::vector<int64_t> strides = rowMajorStrides(data.shape());
  std::vector<int64_t> index(indices.count());
  loadElements(indices.element(), indices.data(), 0, 1, indices.count(), index.data());
  int64_t run = 1;
  for (int64_t d = depth; d < data.rank(); ++d) run *= data.shape()[d];
  for (int64_t row = 0; row < rows; ++row) {
    int64_t offset = 0;
    bool isInside = true;
    for (int64_t k = 0; k < depth; ++k) {
      const int64_t extent = data.shape()[k], at = index[row * depth + k], place = at < 0 ? at + extent : at;
      isInside &= place >= 0 && place < extent;
      offset += place * strides[k];
    }
    if (isInside) scatterRun(mode, updates, row * run, out, offset, run);
  }
  return out;
}

StatusOr<Tensor> scatterElements(ScatterElementsOp op, const Tensor& data, const Tensor& indices,
                                 const Tensor& updates) {
  Tensor out = Tensor::copyOf(data.type(), data.data());
  const auto axis = static_cast<int64_t>(op.getAxis());
  const int64_t extent = data.shape()[axis];
  const std::vector<int64_t> strides = rowMajorStrides(data.shape()), own = rowMajorStrides(indices.shape());
  std::vector<int64_t> index(indices.count());
  loadElements(indices.element(), indices.data(), 0, 1, indices.count(), index.data());
  for (int64_t i = 0; i < updates.count(); ++i) {
    int64_t offset = 0, from = 0, along = 0, rest = i;
    for (int64_t d = data.rank(); d-- > 0;) {
      const int64_t at = rest % updates.shape()[d];
      rest /= updates.shape()[d];
      if (indices.shape()[d] != 1) from += at * own[d];
      if (d == axis)
        along = at;
      else
        offset += at * strides[d];
    }
    int64_t place = index[from];
    if (op.getAdvance()) place += along;
    if (op.getWraps() && extent > 0) place = (place % extent + extent) % extent;
    if (place < 0 && !op.getAdvance()) place += extent;
    if (place >= 0 && place < extent) scatterRun(op.getMode(), updates, i, out, offset + place * strides[axis], 1);
  }
  return out;
}

/// Ends along x and y, and the area; NaN of what has one.
struct Box {
  float low[2], high[2], area;
};
Box boxOf(const float* box, bool centred) {
  Box result;
  for (int axis = 0; axis < 2; ++axis) {
    float a = box[1 - axis], b = box[3 - axis];
    if (centred) {
      const float half = box[axis + 2] * 0.5f;
      a = box[axis] - half, b = box[axis] + half;
    }
    result.low[axis] = centred || a < b ? a : b;
    result.high[axis] = centred || a < b ? b : a;
  }
  result.area = (result.high[0] - result.low[0]) * (result.high[1] - result.low[1]);
  for (int k = 0; k < 4; ++k)
    if (std::isnan(box[k])) result.area = std::numeric_limits<float>::quiet_NaN();
  return result;
}

bool overlaps(const Box& a, const Box& b, float limit) {
  float both = 1;
  for (int axis = 0; axis < 2; ++axis) {
    const float length = std::min(a.high[axis], b.high[axis]) - std::max(a.low[axis], b.low[axis]);
    both *= length > 0 ? length : 0;
  }
  return both > 0 && both / (a.area + b.area - both) > limit;
}

StatusOr<Tensor> selectBoxes(SelectBoxesOp op, Inputs in) {
  const Shape& shape = in[1].shape();
  StatusOr<Tensor> out = makeTensor(ElementType::kI64, shape);
  if (!out.ok() || out->count() == 0) return out;
  auto floats = [](const Tensor& x) {
    std::vector<double> values(static_cast<size_t>(x.count()));
    loadElements(x.element(), x.data(), 0, 1, x.count(), values.data());
    return std::vector<float>(values.begin(), values.end());
  };
  const std::vector<float> boxes = floats(in[0]), scores = floats(in[1]);
  std::vector<int64_t> order(static_cast<size_t>(in[2].count())), most(1);
  loadElements(in[2].element(), in[2].data(), 0, 1, in[2].count(), order.data());
  loadElements(in[3].element(), in[3].data(), 0, 1, 1, most.data());
  const float limit = floats(in[4])[0];
  const bool hasThreshold = in.size() > 5;
  const float threshold = hasThreshold ? floats(in[5])[0] : 0;
  auto* result = reinterpret_cast<int64_t*>(out->writable());
  const int64_t count = shape[2];
  for (int64_t row = 0; row < shape[0] * shape[1]; ++row) {
    std::vector<Box> chosen;
    int64_t* own = result + row * count;
    std::fill(own, own + count, -1);
    for (int64_t i = 0; i < count && static_cast<int64_t>(chosen.size()) < most[0]; ++i) {
      const int64_t index = std::clamp<int64_t>(order[static_cast<size_t>(row * count + i)], 0, count - 1);
      if (hasThreshold && !(scores[static_cast<size_t>(row * count + index)] > threshold)) continue;
      const Box box = boxOf(boxes.data() + (row / shape[1] * count + index) * 4, op.getCentred());
      if (std::any_of(chosen.begin(), chosen.end(), [&](const Box& other) { return overlaps(other, box, limit); }))
        continue;
      own[chosen.size()] = index;
      chosen.push_back(box);
    }
  }
  return out;
}

template <typename W>
void sortRow(std::vector<int64_t>& order, const std::vector<W>& row, bool largest) {
  // NaN is above all numbers; what is equal keeps its order.
  auto isLess = [](W a, W b) {
    const bool nanA = std::isnan(static_cast<double>(a)), nanB = std::isnan(static_cast<double>(b));
    return nanA || nanB ? nanB && !nanA : a < b;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return largest ? isLess(row[b], row[a]) : isLess(row[a], row[b]); });
}

StatusOr<Tensor> topIndices(TopIndicesOp op, const Tensor& x, const SymbolBindings& bindings) {
  const int64_t count = bindShape(op.getSizes(), op.getSymbols(), bindings)[0];
  const auto axis = static_cast<int64_t>(op.getAxis());
  const int64_t length = x.shape()[axis];
  if (ShapedType::isDynamic(count)) return invalidArgument("hpu.top_indices has a free size without a value");
  if (count > length)
    return invalidArgument(base::strCat("hpu.top_indices cannot take ", count, " of ", length, " elements"));
  Shape shape = x.shape();
  shape[axis] = count;
  StatusOr<Tensor> out = makeTensor(ElementType::kI64, shape);
  if (!out.ok() || out->count() == 0) return out;
  int64_t inner = 1;
  for (int64_t d = axis + 1; d < x.rank(); ++d) inner *= x.shape()[d];
  auto* result = reinterpret_cast<int64_t*>(out->writable());
  auto sortRows = [&](auto wide) {
    std::vector<decltype(wide)> row(static_cast<size_t>(length));
    std::vector<int64_t> order(static_cast<size_t>(length));
    for (int64_t lane = 0; lane < x.count() / length; ++lane) {
      const int64_t from = lane / inner * inner * length + lane % inner;
      loadElements(x.element(), x.data(), from, inner, length, row.data());
      std::iota(order.begin(), order.end(), int64_t{0});
      sortRow(order, row, op.getLargest());
      for (int64_t k = 0; k < count; ++k) result[lane / inner * inner * count + k * inner + lane % inner] = order[k];
    }
  };
  if (wideKind(x.element()) == Wide::kFloat)
    sortRows(double());
  else if (wideKind(x.element()) == Wide::kUnsigned)
    sortRows(uint64_t());
  else
    sortRows(int64_t());
  return out;
}

}  // namespace

static std::string symbolName(std::optional<mlir::ArrayAttr> symbols, size_t dim) {
  if (!symbols || dim >= symbols->size()) return {};
  auto name = llvm::dyn_cast<mlir::StringAttr>((*symbols)[dim]);
  return name ? name.str() : std::string();
}

Shape bindShape(llvm::ArrayRef<int64_t> sizes, std::optional<mlir::ArrayAttr> symbols, const SymbolBindings& bindings) {
  Shape shape(sizes.begin(), sizes.end());
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!ShapedType::isDynamic(shape[i])) continue;
    std::string name = symbolName(symbols, i);
    if (name.empty()) continue;
    if (std::optional<int64_t> size = DimExpr::parse(name).evaluate(bindings)) shape[i] = *size;
  }
  return shape;
}

Evaluated evaluateMovement(Operation* op, Inputs in, const SymbolBindings& bindings) {
  if (auto o = llvm::dyn_cast<ReshapeOp>(op)) return reshape(o, in[0], bindings);
  if (auto o = llvm::dyn_cast<TransposeOp>(op)) return transpose(o, in[0]);
  if (auto o = llvm::dyn_cast<SliceOp>(op)) return slice(o, in[0], bindings);
  if (auto o = llvm::dyn_cast<RangeOp>(op)) return range(o, bindings);
  if (auto o = llvm::dyn_cast<ExpandOp>(op)) return expand(o, in[0], bindings);
  if (auto o = llvm::dyn_cast<ConcatOp>(op)) return concat(in, o.getAxis());
  if (auto o = llvm::dyn_cast<PadOp>(op)) return pad(o, in[0]);
  if (auto o = llvm::dyn_cast<GatherOp>(op)) return gather(in[0], in[1], o.getAxis());
  if (auto o = llvm::dyn_cast<GatherElementsOp>(op)) return gatherElements(in[0], in[1], o.getAxis());
  if (auto o = llvm::dyn_cast<ScatterNdOp>(op)) return scatterNd(in[0], in[1], in[2], o.getMode());
  if (auto o = llvm::dyn_cast<ScatterElementsOp>(op)) return scatterElements(o, in[0], in[1], in[2]);
  if (auto o = llvm::dyn_cast<SelectBoxesOp>(op)) return selectBoxes(o, in);
  if (auto o = llvm::dyn_cast<TopIndicesOp>(op)) return topIndices(o, in[0], bindings);
  if (llvm::isa<RelayoutOp>(op)) return in[0];
  return std::nullopt;
}

}  // namespace hpu::interp
