// SPDX-License-Identifier: Apache-2.0
// ONNX ops that index element by element. Those without a kernel (GatherND, NonZero, CumSum) are evaluated when all
// their operands are known at import, as in masks and tables that exporters compute in the graph; else they are made of
// others.
#include <algorithm>

#include "base/Format.h"
#include "compiler/import/Composed.h"
#include "compiler/import/DataSizes.h"
#include "compiler/import/OpTable.h"
#include "compiler/import/RunningSums.h"
#include "compiler/interp/Elements.h"
#include "compose/Indexing.h"

namespace hpu::importer {
namespace {

using base::strCat;
using interp::Tensor;
using shape::DimExpr;

constexpr int64_t kMaxGenerated = 16 << 20;  // Elements of a constant that is larger than its operands.

/// The operands as tensors; null and a failure when one is not known.
std::optional<std::vector<Tensor>> operands(NodeContext& node, size_t count) {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < count; ++i) {
    if (!node.has(i)) return node.invalid(strCat("input ", i, " is missing")), std::nullopt;
    const Tensor* tensor = node.constant(i);
    if (!tensor) return node.unsupported("operands that are not known at import"), std::nullopt;
    tensors.push_back(*tensor);
  }
  return tensors;
}

std::vector<int64_t> integersOf(const Tensor& tensor) {
  std::vector<int64_t> values(tensor.count());
  interp::loadElements(tensor.element(), tensor.data(), 0, 1, tensor.count(), values.data());
  return values;
}

/// Calls fn(row, offset): the element offset in `shape` that each row of indices [..., depth] points to.
template <typename Fn>
bool forEachIndexRow(NodeContext& node, const Tensor& indices, const Shape& shape, int64_t batchDims, Fn fn) {
  int64_t depth = indices.rank() ? indices.shape().back() : 0, rank = shape.size();
  if (indices.rank() < 1 || depth + batchDims > rank)
    return node.invalid("its indices are deeper than the data"), false;
  std::vector<int64_t> values = integersOf(indices), strides = interp::rowMajorStrides(shape);
  int64_t rows = depth ? indices.count() / depth : 0, batches = 1, batchStride = 1;
  for (int64_t d = 0; d < batchDims; ++d) batches *= shape[d];
  for (int64_t d = batchDims; d < rank; ++d) batchStride *= shape[d];
  for (int64_t row = 0; row < rows; ++row) {
    int64_t offset = batches > 1 ? row / (rows / batches) * batchStride : 0;
    for (int64_t k = 0; k < depth; ++k) {
      std::optional<int64_t> index = node.index(values[row * depth + k], batchDims + k, shape[batchDims + k]);
      if (!index) return false;
      offset += *index * strides[batchDims + k];
    }
    fn(row, offset);
  }
  return true;
}

/// Elements of the slice that an index of `depth` leading dims leaves.
int64_t sliceCount(const Shape& shape, int64_t depth) {
  int64_t count = 1;
  for (size_t d = depth; d < shape.size(); ++d) count *= shape[d];
  return count;
}

void convertGatherNd(NodeContext& node) {
  if (!node.constant(0) || !node.constant(1)) return gatherTuples(node);
  auto in = operands(node, 2);
  if (!in) return;
  const Tensor &data = (*in)[0], &indices = (*in)[1];
  int64_t batchDims = node.integer("batch_dims", 0), depth = indices.rank() ? indices.shape().back() : 0;
  if (batchDims < 0 || batchDims > data.rank() - depth) return node.invalid("its indices are deeper than the data");
  if (indices.rank() < 1) return node.invalid("its indices are no rows");
  Shape shape(indices.shape().begin(), indices.shape().end() - 1);
  shape.insert(shape.end(), data.shape().begin() + batchDims + depth, data.shape().end());
  if (indices.rank() <= batchDims ||
      !std::equal(data.shape().begin(), data.shape().begin() + batchDims, indices.shape().begin()))
    return node.invalid(strCat("the first ", batchDims, " dimensions of its data and indices differ"));
  int64_t unit = elementSize(data.element()), count = sliceCount(data.shape(), batchDims + depth), elements = count;
  for (size_t d = 0; d + 1 < indices.shape().size(); ++d)
    if (__builtin_mul_overflow(elements, indices.shape()[d], &elements) || elements > kMaxGenerated)
      return node.unsupported(strCat("a constant result of more than ", kMaxGenerated, " elements"));
  Tensor out = Tensor::zeros({data.element(), shape});
  if (forEachIndexRow(node, indices, data.shape(), batchDims, [&](int64_t row, int64_t offset) {
        std::memcpy(out.writable() + row * count * unit, data.data() + offset * unit, count * unit);
      }))
    node.setOutput(0, out);
}

/// What becomes of an element that an update meets; nullopt and a failure when the model says something unknown.
std::optional<ir::ScatterMode> scatterMode(NodeContext& node) {
  const std::string text = node.text("reduction", "none");
  if (text == "none") return ir::ScatterMode::replace;
  std::optional<ir::ScatterMode> mode = ir::symbolizeScatterMode(text);
  if (!mode || *mode == ir::ScatterMode::replace) return node.invalid("unknown reduction '" + text + "'"), std::nullopt;
  return mode;
}

void convertScatterNd(NodeContext& node) {
  Value data = node.input(0), indices = node.input(1), updates = node.input(2);
  std::optional<ir::ScatterMode> mode = scatterMode(node);
  if (!data || !indices || !updates || !mode) return;
  // Known indices are checked now; others that are outside are left out by the device.
  const Shape shape(node.typeOf(data).getShape());
  if (const Tensor* known = node.constant(1); known && node.typeOf(data).hasStaticShape())
    if (!forEachIndexRow(node, *known, shape, 0, [](int64_t, int64_t) {})) return;
  node.setOutput(
      0, node.op("scatter_nd", {data, indices, updates}, {{"mode", ir::ScatterModeAttr::get(node.context(), *mode)}}));
}

void convertGatherElements(NodeContext& node) {
  Value x = node.input(0), indices = node.input(1);
  if (!x || !indices) return;
  std::optional<int64_t> axis = node.axis(node.integer("axis", 0), node.rank(x));
  if (!axis || !node.checkIndices(1, x, *axis)) return;
  node.setOutput(0, node.op("gather_elements", {x, indices}, {{"axis", *axis}}));
}

void convertScatterElements(NodeContext& node) {
  Value data = node.input(0), indices = node.input(1), updates = node.input(2);
  std::optional<ir::ScatterMode> mode = scatterMode(node);
  if (!data || !indices || !updates || !mode) return;
  std::optional<int64_t> axis = node.axis(node.integer("axis", 0), node.rank(data));
  if (!axis || !node.checkIndices(1, data, *axis)) return;
  // A size that is not known yet may be any; the launch asks it.
  const auto sizes = node.typeOf(indices).getShape(), own = node.typeOf(updates).getShape();
  const bool fit = sizes.size() == own.size() && llvm::all_of(llvm::zip_equal(sizes, own), [](auto both) {
                     auto [ofIndices, ofUpdates] = both;
                     return ofIndices == ofUpdates || mlir::ShapedType::isDynamic(ofIndices) ||
                            mlir::ShapedType::isDynamic(ofUpdates);
                   });
  if (!fit) return node.invalid("its updates do not fit the indices");
  node.setOutput(0, node.op("scatter_elements", {data, indices, updates},
                            {{"axis", *axis}, {"mode", ir::ScatterModeAttr::get(node.context(), *mode)}}));
}

/// Updates of a cache from a position on: the first one's for each batch element.
void convertTensorScatter(NodeContext& node) {
  Value data = node.input(0), updates = node.input(1);
  if (!data || !updates) return;
  const int64_t rank = node.rank(data);
  std::optional<int64_t> axis = node.axis(node.integer("axis", -2), rank);
  if (!axis) return;
  if (*axis == 0) return node.invalid("axis 0 is the batch");
  const std::string mode = node.text("mode", "linear");
  if (mode != "linear" && mode != "circular") return node.invalid("unknown mode '" + mode + "'");
  Value positions;
  if (node.has(2)) {
    positions = node.input(2);
    if (!positions) return;
    if (node.rank(positions) != 1) return node.invalid("write_indices must have one dimension, the batch");
    llvm::SmallVector<ir::SymDim> shape(static_cast<size_t>(rank), ir::SymDim{1});
    shape[0] = ir::symShape(node.typeOf(positions))[0];
    positions = node.reshape(positions, shape);
  } else {
    const std::vector<int64_t> zero = {0};
    positions = node.constantTensor(Tensor::of<int64_t>(ElementType::kI64, Shape(static_cast<size_t>(rank), 1), zero));
  }
  node.setOutput(0, node.op("scatter_elements", {data, positions, updates},
                            {{"axis", *axis}, {"advance", true}, {"wraps", mode == "circular"}}));
}

void convertNonZero(NodeContext& node) {
  if (!node.constant(0)) return findNonZero(node);
  auto in = operands(node, 1);
  if (!in) return;
  const Tensor& x = (*in)[0];
  std::vector<std::vector<int64_t>> found(x.rank());
  int64_t hits = 0;
  for (int64_t i = 0; i < x.count(); ++i) {
    if (x.number(i) == 0) continue;
    ++hits;
    int64_t rest = i;
    for (int64_t d = x.rank(); d-- > 0;) {
      found[d].push_back(rest % x.shape()[d]);
      rest /= x.shape()[d];
    }
  }
  std::vector<int64_t> all;
  for (const auto& list : found) all.insert(all.end(), list.begin(), list.end());
  node.setOutput(0, Tensor::of<int64_t>(ElementType::kI64, {x.rank(), hits}, all));
}

template <typename W>
Tensor runningSums(const Tensor& x, int64_t axis, bool exclusive, bool reverse) {
  std::vector<W> values(x.count()), sums(x.count());
  interp::loadElements(x.element(), x.data(), 0, 1, x.count(), values.data());
  int64_t length = x.shape()[axis], inner = sliceCount(x.shape(), axis + 1);
  for (int64_t first = 0; first < x.count(); first += length * inner)
    for (int64_t lane = 0; lane < inner; ++lane) {
      W sum = 0;
      for (int64_t i = 0; i < length; ++i) {
        int64_t at = first + lane + (reverse ? length - 1 - i : i) * inner;
        sums[at] = exclusive ? sum : sum + values[at];
        sum += values[at];
      }
    }
  Tensor out = Tensor::zeros(x.type());
  interp::storeElements(x.element(), out.writable(), 0, sums.data(), x.count());
  return out;
}

/// Of values that are not known at import.
void computeRunningSums(NodeContext& node, Value x) {
  const std::optional<Ints> given = node.constantInts(1);
  if (!given || given->size() != 1) return node.unsupported("an axis that is not known at import");
  const std::optional<int64_t> axis = node.axis((*given)[0], node.rank(x));
  if (!axis) return;
  const RunningSumForm form{node.integer("exclusive", 0) != 0, node.integer("reverse", 0) != 0};
  if (Value sums = runningSums(node, x, *axis, form)) node.setOutput(0, sums);
}

void convertCumSum(NodeContext& node) {
  if (!node.constant(0)) {
    if (Value x = node.input(0)) computeRunningSums(node, x);
    return;
  }
  auto in = operands(node, 2);
  if (!in) return;
  if ((*in)[1].count() != 1) return node.invalid("needs one axis");
  std::optional<int64_t> axis = node.axis((*in)[1].integer(0), (*in)[0].rank());
  if (!axis) return;
  bool exclusive = node.integer("exclusive", 0), reverse = node.integer("reverse", 0);
  bool isFloat = interp::wideKind((*in)[0].element()) == interp::Wide::kFloat;
  node.setOutput(0, isFloat ? runningSums<double>((*in)[0], *axis, exclusive, reverse)
                            : runningSums<int64_t>((*in)[0], *axis, exclusive, reverse));
}

void convertCumProd(NodeContext& node) {
  Value x = node.input(0);
  const std::optional<Ints> given = node.constantInts(1);
  if (!x) return;
  if (!given || given->size() != 1) return node.unsupported("an axis that is not known at import");
  const std::optional<int64_t> axis = node.axis((*given)[0], node.rank(x));
  if (!axis) return;
  const bool isExclusive = node.integer("exclusive", 0) != 0, isReverse = node.integer("reverse", 0) != 0;
  const mlir::Type element = node.elementOf(x);
  Value wide = node.widened(x);
  if (!wide) return;
  const std::optional<DimExpr> size = NodeContext::dims(NodeContext::typeOf(x))[static_cast<size_t>(*axis)];
  if (!size) return node.needsSize(strCat("dimension ", *axis, ", along which it multiplies"));
  // As many doublings as the size asks for; where nothing bounds that, as a tensor can have.
  constexpr int64_t kMost = int64_t{1} << 31;
  const int64_t largest = size->isConstant() ? 0 : std::clamp<int64_t>(node.most(*size), 1, kMost);
  const std::vector<Value> done =
      composedValues(node, {wide}, [&](compose::Emitter& e, const std::vector<hpu::Value>& in) {
        return std::vector<hpu::Value>{compose::scan(e, in[0], *axis, "mul", isExclusive, isReverse, largest)};
      });
  if (!done.empty()) node.setOutput(0, node.cast(done[0], element));
}

constexpr OpRow kRows[] = {
    {"GatherND", 11, kNewestOpset, convertGatherNd, "", "tuples of a known length"},
    {"GatherElements", 11, kNewestOpset, convertGatherElements, "gather_elements"},
    {"ScatterND", 11, kNewestOpset, convertScatterNd, "scatter_nd"},
    {"ScatterElements", 11, kNewestOpset, convertScatterElements, "scatter_elements"},
    {"Scatter", 9, 10, convertScatterElements, "scatter_elements"},
    {"TensorScatter", 24, kNewestOpset, convertTensorScatter, "scatter_elements"},
    {"NonZero", 9, kNewestOpset, convertNonZero},
    {"Compress", 9, kNewestOpset, convertCompress, "", "a condition that is surely not too long"},
    {"NonMaxSuppression", 10, kNewestOpset, convertNonMaxSuppression},
    {"Unique", 11, kNewestOpset, convertUnique, "", "all pairs are compared; no rows without elements"},
    {"CumSum", 11, kNewestOpset, convertCumSum, "", "a constant axis"},
    {"CumProd", 26, kNewestOpset, convertCumProd, "", "a constant axis"},
};

}  // namespace

llvm::ArrayRef<OpRow> indexingRows() {
  return kRows;
}

}  // namespace hpu::importer
