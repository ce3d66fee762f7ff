// SPDX-License-Identifier: Apache-2.0
// TPC gathers, scatters and embeddings. The one thing to know: where several updates meet at one element, the last one
// stays (and sums, products and extremes take all of them), on every run. Indices outside of their dim change nothing.
#include <algorithm>

#include "bindings/synapse/lowering/Lowering.h"
#include "compose/Indexing.h"
#include "habanalabs/perf_lib_layer_params.h"

namespace hpu::synapse {
namespace {

using Ints = std::vector<int64_t>;

int64_t product(const Shape& shape, int64_t begin, int64_t end) {
  int64_t count = 1;
  for (int64_t d = begin; d < end; ++d) count *= shape[static_cast<size_t>(d)];
  return count;
}

// ---- gather --------------------------------------------------------------------------------------

void lowerGather(NodeContext& c) {
  ns_GatherKernel::ParamsV2 params{};
  params = c.versionedParams<ns_GatherKernel::ParamsV2, ns_GatherKernel::Params>(params);
  Value x = c.input(0), indices = c.input(1);
  Shape shape = c.shape(x), indexShape = c.shape(indices);
  auto rank = static_cast<int64_t>(shape.size());
  int64_t dim = c.axis(params.axis, rank), batch = params.batchDims;
  if (!c.ok()) return;
  if (batch < 0 || batch > dim || batch > static_cast<int64_t>(indexShape.size()))
    return (void)c.fail(strCat("batchDims ", batch, " with axis ", params.axis));
  for (int64_t d = 0; d < batch; ++d)
    if (shape[static_cast<size_t>(d)] != indexShape[static_cast<size_t>(d)])
      return (void)c.fail("the batch dims of x and the indices differ");
  int64_t size = shape[static_cast<size_t>(dim)];
  if (batch == 0) return c.output(0, c.gather(x, plainIndices(c, indices), dim));
  indices = wrapIndices(c, indices, size);
  // The batch becomes part of the gathered dim: [B, outer, n, inner] -> [outer, B * n, inner], index + b * n.
  int64_t batches = product(shape, 0, batch), outer = product(shape, batch, dim), inner = product(shape, dim + 1, rank);
  int64_t picks = product(indexShape, batch, static_cast<int64_t>(indexShape.size()));
  if (batches * size > INT32_MAX) return (void)c.unsupported("more than 2^31 elements along batch and axis");
  Value joined =
      c.reshape(c.transpose(c.reshape(x, {batches, outer, size, inner}), {1, 0, 2, 3}), {outer, batches * size, inner});
  Value offset = c.mul(counter(c, batches, 0, 2), c.scalar(static_cast<double>(size), ElementType::kI32));
  Value at = c.add(c.reshape(indices, {batches, picks}), offset);
  Value found = c.transpose(c.gather(joined, at, 1), {1, 0, 2, 3});  // [B, outer, picks, inner]
  Shape result(shape.begin(), shape.begin() + dim);
  result.insert(result.end(), indexShape.begin() + batch, indexShape.end());
  result.insert(result.end(), shape.begin() + dim + 1, shape.end());
  c.output(0, c.reshape(found, result));
}

void lowerGatherElements(NodeContext& c) {
  ns_GatherElementsKernel::ParamsV2 params{};
  params = c.versionedParams<ns_GatherElementsKernel::ParamsV2, ns_GatherElementsKernel::Params>(params);
  Value x = c.input(0), indices = c.input(1);
  int64_t dim = c.axis(params.axis, c.rank(x));
  if (!c.ok()) return;
  if (c.rank(indices) != c.rank(x)) return (void)c.fail("x and the indices must have the same rank");
  indices = plainIndices(c, indices);
  c.output(0, c.op("gather_elements", {x, indices}, {{"axis", dim}}));
}

/// The length of the tuples in the indices' fastest dim, 0 after a failure.
int64_t tupleLength(NodeContext& c, Value indices, const Shape& shape) {
  if (!c.ok()) return 0;
  if (c.rank(indices) < 1) return c.fail("the indices must have a dim of tuples"), 0;
  int64_t length = c.dim(indices, -1);
  if (length >= 1 && length <= static_cast<int64_t>(shape.size())) return length;
  return c.fail(strCat("index tuples of ", length, " for rank ", shape.size())), 0;
}

/// Tuples in the indices' fastest dim, slowest data dim first, as one index into x with those dims joined.
Value joinTuples(NodeContext& c, Value indices, const Shape& shape, int64_t& joined) {
  int64_t length = tupleLength(c, indices, shape), last = c.rank(indices) - 1;
  if (!c.ok()) return {};
  if (length == 1) return joined = shape[0], plainIndices(c, removeDim(c, indices, last));
  joined = product(shape, 0, length);
  if (joined > INT32_MAX) return c.unsupported("more than 2^31 elements along the indexed dims");
  Value sum;
  for (int64_t k = 0; k < length; ++k) {
    Value part = wrapIndices(c, removeDim(c, c.sliceDim(indices, last, k, 1), last), shape[static_cast<size_t>(k)]);
    int64_t stride = product(shape, k + 1, length);
    if (stride != 1) part = c.mul(part, c.scalarLike(part, static_cast<double>(stride)));
    sum = sum.handle ? c.add(sum, part) : part;
  }
  return sum;
}

void gatherNd(NodeContext& c, Value indices) {
  Value x = c.input(0);
  Shape shape = c.shape(x);
  int64_t joined = 0;
  Value at = joinTuples(c, indices, shape, joined);
  if (!c.ok()) return;
  int64_t length = c.dim(indices, -1);
  Shape flat = {joined}, result = c.shape(at);
  flat.insert(flat.end(), shape.begin() + length, shape.end());
  result.insert(result.end(), shape.begin() + length, shape.end());
  c.output(0, c.reshape(c.gather(c.reshape(x, flat), at, 0), result.empty() ? Shape{1} : result));
}

void lowerGatherNd(NodeContext& c) {
  gatherNd(c, c.input(1));
}

/// The tuples' parts lie along the indices' slowest dim instead.
void lowerGatherNdByParts(NodeContext& c) {
  Value indices = c.input(1);
  if (!c.ok()) return;
  Ints perm;
  for (int64_t d = 1; d < c.rank(indices); ++d) perm.push_back(d);
  perm.push_back(0);
  gatherNd(c, c.transpose(indices, perm));
}

// ---- scatter along an axis: indices have the updates' shape ---------------------------------------

struct Scatter {
  Value x, indices, updates;
  Shape shape;
  int64_t dim = 0;
};

/// Updates may cover less than x in the other dims: then x's part that they cover is what changes.
bool checkScatter(NodeContext& c, const Scatter& s) {
  if (!c.ok()) return false;
  Shape indexShape = c.shape(s.indices);
  if (c.shape(s.updates) != indexShape)
    return c.fail(
               strCat("updates have sizes ", sizesText(c.shape(s.updates)), ", the indices ", sizesText(indexShape))),
           false;
  if (indexShape.size() != s.shape.size()) return c.fail("x and the indices must have the same rank"), false;
  for (size_t d = 0; d < s.shape.size(); ++d)
    if (static_cast<int64_t>(d) != s.dim && indexShape[d] > s.shape[d])
      return c.fail(strCat("indices of sizes ", sizesText(indexShape), " reach beyond x, ", sizesText(s.shape))), false;
  return true;
}

void scatterReplace(NodeContext& c, const Scatter& s) {
  if (!checkScatter(c, s)) return;
  c.output(0, scatterAlong(c, s.x, plainIndices(c, s.indices), s.updates, s.dim, "replace"));
}

void scatterReduce(NodeContext& c, const Scatter& s, ScatterReduceMode_t mode, bool includeSelf) {
  if (!checkScatter(c, s)) return;
  ElementType type = c.element(s.x);
  Value at = plainIndices(c, s.indices), x = s.x, updates = s.updates;
  if (mode == SCATTER_REDUCE_AMAX || mode == SCATTER_REDUCE_AMIN) {
    // An extreme that leaves out x's own element begins with any of the updates.
    if (!includeSelf) x = scatterAlong(c, x, at, updates, s.dim, "replace");
    return c.output(0, scatterAlong(c, x, at, updates, s.dim, mode == SCATTER_REDUCE_AMAX ? "max" : "min"));
  }
  if (mode != SCATTER_REDUCE_SUM && mode != SCATTER_REDUCE_MEAN && mode != SCATTER_REDUCE_PROD)
    return (void)c.fail(strCat("unknown reduction ", static_cast<int>(mode)));
  if (isFloat(type)) x = c.toF32(x), updates = c.toF32(updates);
  Value count, isHit;
  if (!includeSelf || mode == SCATTER_REDUCE_MEAN) {
    Value none = c.full({ElementType::kI32, s.shape}, 0), one = c.full({ElementType::kI32, c.shape(at)}, 1);
    count = scatterAlong(c, none, at, one, s.dim, "add");
    isHit = c.op("greater", {count, c.scalarLike(count, 0)});
  }
  if (!includeSelf) x = c.where(isHit, c.scalarLike(x, mode == SCATTER_REDUCE_PROD ? 1 : 0), x);
  Value result = scatterAlong(c, x, at, updates, s.dim, mode == SCATTER_REDUCE_PROD ? "mul" : "add");
  if (mode == SCATTER_REDUCE_MEAN) {
    Value one = c.scalarLike(count, 1);
    Value parts = includeSelf ? c.add(count, one) : c.max(count, one);
    result = c.div(result, c.cast(parts, c.element(result)));
  }
  c.output(0, c.cast(result, type));
}

/// ns_ScatterKernel in all its versions; only the axis matters to these.
int64_t scatterAxis(NodeContext& c, int64_t rank) {
  ns_ScatterKernel::ParamsReduce params{};
  params = c.versionedParams<ns_ScatterKernel::ParamsReduce, ns_ScatterKernel::ParamsV2,
                             ns_ScatterKernel::ParamsIndices, ns_ScatterKernel::Params>(params);
  return c.axis(params.axis, rank);
}

Scatter scatterOf(NodeContext& c) {
  Scatter s;
  s.x = c.input(0);
  s.indices = c.input(1);
  s.shape = c.shape(s.x);
  return s;
}

void lowerScatter(NodeContext& c) {
  Scatter s = scatterOf(c);
  s.updates = c.input(2);
  s.dim = scatterAxis(c, static_cast<int64_t>(s.shape.size()));
  if (c.row().argument == "add") return scatterReduce(c, s, SCATTER_REDUCE_SUM, true);
  scatterReplace(c, s);
}

int64_t frameworkDim(NodeContext& c, int64_t dim, int64_t rank) {
  if (dim < 0) dim += rank;
  if (dim < 0 || dim >= rank) c.fail(strCat("dim ", dim, " is outside of rank ", rank));
  return dim;
}

void lowerScatterValue(NodeContext& c) {
  auto params = c.params<ns_ScatterValueKernel::Params>();
  Scatter s = scatterOf(c);
  s.dim = frameworkDim(c, params.dim, static_cast<int64_t>(s.shape.size()));
  if (!c.ok()) return;
  s.updates = c.full({c.element(s.x), c.shape(s.indices)}, params.value);
  scatterReplace(c, s);
}

void lowerScatterReduce(NodeContext& c) {
  auto params = c.params<ns_ScatterReduceKernel::Params>();
  Scatter s = scatterOf(c);
  s.updates = c.input(2);
  s.dim = frameworkDim(c, params.dim, static_cast<int64_t>(s.shape.size()));
  scatterReduce(c, s, params.mode, isSet(params.include_self));
}

/// buffer + what of dY went to each of its elements.
void lowerGatherBwd(NodeContext& c) {
  ns_GatherKernel::ParamsV2 params{};
  params = c.versionedParams<ns_GatherKernel::ParamsV2, ns_GatherKernel::Params>(params);
  if (params.batchDims) return (void)c.unsupported("batchDims");
  Value buffer = c.input(0), indices = c.input(1), dY = c.input(2);
  Shape shape = c.shape(buffer);
  auto rank = static_cast<int64_t>(shape.size());
  int64_t dim = c.axis(params.axis, rank);
  if (!c.ok()) return;
  if (c.shape(indices) == c.shape(dY) && c.rank(indices) == rank)
    return scatterReduce(c, {buffer, indices, dY, shape, dim}, SCATTER_REDUCE_SUM, true);
  // Indices of a gather: dY is [outer, picks, inner].
  int64_t picks = numElements(c.shape(indices)), outer = product(shape, 0, dim), inner = product(shape, dim + 1, rank);
  if (numElements(c.shape(dY)) != outer * picks * inner)
    return (void)c.fail(strCat("dY has sizes ", sizesText(c.shape(dY)), " for ", picks, " indices"));
  int64_t size = shape[static_cast<size_t>(dim)];
  Value at = c.reshape(plainIndices(c, indices), {1, picks, 1});
  Value sum =
      scatterAlong(c, c.reshape(buffer, {outer, size, inner}), at, c.reshape(dY, {outer, picks, inner}), 1, "add");
  c.output(0, c.reshape(sum, shape));
}

// ---- scatter of slices at index tuples -----------------------------------------------------------

/// The updates with a slice of x's dims that tuples do not name for each tuple.
Value slicesOf(NodeContext& c, Value updates, Value indices, const Shape& shape, int64_t length) {
  Shape wanted = c.shape(indices);
  if (!c.ok()) return {};
  wanted.pop_back();
  wanted.insert(wanted.end(), shape.begin() + length, shape.end());
  if (numElements(c.shape(updates)) != numElements(wanted))
    return c.fail(strCat("updates have sizes ", sizesText(c.shape(updates)), ", the indices need ", numElements(wanted),
                         " elements"));
  return c.reshape(updates, wanted);
}

void lowerScatterNd(NodeContext& c) {
  if (c.row().argument == "update" && c.hasParams()) c.params<ns_ScatterNdUpdateKernel::Params>();
  if (c.hasInput(3)) return (void)c.unsupported("a valid count (input 3)");
  Value x = c.input(0), indices = c.input(1), updates = c.input(2);
  Shape shape = c.shape(x);
  int64_t length = tupleLength(c, indices, shape);
  if (!c.ok()) return;
  Value slices = slicesOf(c, updates, indices, shape, length);
  if (c.ok() && numElements(c.shape(slices)) == 0) return c.output(0, x);
  c.output(0, c.op("scatter_nd", {x, plainIndices(c, indices), slices}));
}

/// Zeros plus, at tuple i, the slice of the updates that position i names. (Tuples come sorted, the updates do not; a
/// sum needs no order.)
void lowerScatterNdSum(NodeContext& c) {
  c.versionedParams<ns_ScatterNDKernel::ParamsV2, ns_ScatterNDKernel::Params>({}, /*optional=*/false);
  Value indices = c.input(0), positions = c.input(1), updates = c.input(2);
  Shape shape = c.requiredShape(0, 3);
  int64_t length = tupleLength(c, indices, shape);
  if (!c.ok()) return;
  int64_t count = numElements(c.shape(indices)) / length;
  if (numElements(c.shape(positions)) != count)
    return (void)c.fail(
        strCat(c.inputName(1), " has sizes ", sizesText(c.shape(positions)), " for ", count, " tuples"));
  Value tuples = c.reshape(plainIndices(c, indices), {count, length});
  ElementType type = c.element(updates);
  Value slices = slicesOf(c, isFloat(type) ? c.toF32(updates) : updates, tuples, shape, length);
  Value ordered = c.gather(slices, plainIndices(c, c.reshape(positions, {count})), 0);
  Value zeros = c.full({c.element(ordered), shape}, 0);
  c.output(0, c.cast(c.op("scatter_nd", {zeros, tuples, ordered}, {{"mode", std::string("add")}}), type));
}

void lowerIndexCopy(NodeContext& c) {
  auto params = c.params<ns_IndexCopy::Params>();
  Value x = c.input(0), indices = c.input(1), updates = c.input(2);
  Shape shape = c.shape(x);
  auto rank = static_cast<int64_t>(shape.size());
  int64_t dim = c.axis(params.axis, rank);
  if (!c.ok()) return;
  int64_t count = numElements(c.shape(indices));
  Shape wanted = shape, along(shape.size(), 1);
  wanted[static_cast<size_t>(dim)] = along[static_cast<size_t>(dim)] = count;
  if (c.shape(updates) != wanted)
    return (void)c.fail(strCat("updates have sizes ", sizesText(c.shape(updates)), ", not ", sizesText(wanted)));
  c.output(0, scatterAlong(c, x, c.reshape(plainIndices(c, indices), along), updates, dim, "replace"));
}

// ---- embeddings ----------------------------------------------------------------------------------

void lowerEmbedding(NodeContext& c) {
  Value weight = c.input(0), indices = c.input(1);
  if (!c.ok()) return;
  if (c.rank(weight) != 2) return (void)c.fail("the weight must be {width, rows}");
  c.output(0, c.gather(weight, plainIndices(c, indices), 0));
}

/// Zeros plus, at the row that each index names, its row of dY.
void lowerEmbeddingBwd(NodeContext& c) {
  auto params = c.params<ns_EmbeddingDensePtBwdKernel::Params>();
  Value dY = c.toF32(c.input(0)), indices = c.input(1);
  if (!c.ok()) return;
  int64_t rows = params.num_weights, width = c.dim(dY, -1), count = numElements(c.shape(indices));
  if (rows < 1) return (void)c.fail(strCat("num_weights ", rows));
  if (numElements(c.shape(dY)) != count * width)
    return (void)c.fail(strCat("dY has sizes ", sizesText(c.shape(dY)), " for ", count, " indices"));
  Value at = plainIndices(c, c.reshape(indices, {count, 1}));
  // An index behind the last row changes nothing.
  if (params.padding_idx >= 0)
    at = c.where(c.op("equal", {at, c.scalarLike(at, params.padding_idx)}), c.scalarLike(at, static_cast<double>(rows)),
                 at);
  Value sum =
      scatterAlong(c, c.full({ElementType::kF32, {rows, width}}, 0), at, c.reshape(dY, {count, width}), 0, "add");
  if (isSet(params.scaleGradByFreq)) {
    Value ones = c.full({ElementType::kF32, {count, 1}}, 1);
    Value times = scatterAlong(c, c.full({ElementType::kF32, {rows, 1}}, 0), at, ones, 0, "add");
    sum = c.div(sum, c.max(times, c.scalarLike(times, 1)));
  }
  c.output(0, sum);
}

/// Sum or mean of the rows of each bag; bag b holds the indices from offsets[b] to offsets[b + 1].
void lowerEmbeddingBag(NodeContext& c) {
  auto params = c.params<ns_EmbeddingBagWithSgdKernel::Params>();
  Value weight = c.input(0), indices = c.input(1), offsets = c.input(2);
  if (!c.ok()) return;
  if (c.rank(weight) != 2 || c.rank(indices) != 1 || c.rank(offsets) != 1)
    return (void)c.fail("needs a weight of rank 2, indices and offsets of rank 1");
  int64_t count = c.dim(indices, 0), bags = c.dim(offsets, 0);
  Value begin = c.cast(offsets, ElementType::kI32);
  std::optional<Shape> declared = c.declaredShape(0);
  if (declared && declared->size() == 2 && (*declared)[0] == bags - 1) --bags;
  Value end = bags == c.dim(offsets, 0) ? c.concat({c.sliceDim(begin, 0, 1, bags - 1), c.indices({1}, {count})}, 0)
                                        : c.sliceDim(begin, 0, 1, bags);
  if (bags == 1 && c.dim(offsets, 0) == 1) end = c.indices({1}, {count});
  begin = c.sliceDim(begin, 0, 0, bags);
  Value position = counter(c, count, 1, 2);
  Value inside = c.op("and", {c.op("greater_equal", {position, c.reshape(begin, {bags, 1})}),
                              c.op("less", {position, c.reshape(end, {bags, 1})})});
  Value member = c.cast(inside, ElementType::kF32);
  Value rows = c.toF32(c.gather(weight, plainIndices(c, indices), 0));
  Value sum = c.matmul(member, rows);
  if (params.mode == EMBEDDING_BAG_MODE_MEAN)
    sum = c.div(sum, c.max(c.reduceSum(member, {1}, true), c.scalarLike(sum, 1)));
  c.output(0, c.cast(sum, c.element(weight)));
}

/// TensorFlow's SparseSegmentSum: row s is the sum of the rows of x that the indices of segment s name.
void lowerSegmentSum(NodeContext& c) {
  Value x = c.input(0), indices = plainIndices(c, c.input(1)), segments = plainIndices(c, c.input(2));
  Shape shape = c.requiredShape(0), data = c.shape(x);
  if (!c.ok()) return;
  const int64_t count = numElements(c.shape(indices));
  if (numElements(c.shape(segments)) != count)
    return (void)c.fail(
        strCat(c.inputName(2), " has sizes ", sizesText(c.shape(segments)), " for ", count, " indices"));
  if (data.empty() || shape.size() != data.size() || !std::equal(data.begin() + 1, data.end(), shape.begin() + 1))
    return (void)c.fail(
        strCat(c.outputName(0), " has sizes ", sizesText(shape), ", rows of ", c.inputName(0), " ", sizesText(data)));
  const ElementType type = c.element(x);
  if (isFloat(type)) x = c.toF32(x);
  Shape along(data.size(), 1);
  along[0] = count;
  Value rows = c.gather(x, c.reshape(indices, {count}), 0), zeros = c.full({c.element(x), shape}, 0);
  c.output(0, c.cast(scatterAlong(c, zeros, c.reshape(segments, along), rows, 0, "add"), type));
}

void lowerOneHot(NodeContext& c) {
  ns_OneHotKernel::ParamsV2 params{};
  params = c.versionedParams<ns_OneHotKernel::ParamsV2, ns_OneHotKernel::Params>(params, /*optional=*/false);
  Value indices = c.input(0);
  if (!c.ok()) return;
  int64_t rank = c.rank(indices) + 1, dim = c.axis(params.axis, rank);
  if (!c.ok()) return;
  if (params.depth < 1) return (void)c.fail(strCat("depth ", params.depth));
  Value hit =
      c.op("equal", {insertDim(c, c.cast(indices, ElementType::kI32), dim), counter(c, params.depth, dim, rank)});
  ElementType type = c.dataType();
  Value y = c.where(hit, c.scalar(params.on_value, type), c.scalar(params.off_value, type));
  std::optional<Shape> declared = c.declaredShape(0);
  c.output(0, params.is_out_reshaped && declared && numElements(*declared) == numElements(c.shape(y))
                  ? c.reshape(y, *declared)
                  : y);
}

constexpr std::string_view kAny = "f32 bf16 f16 i32 u32 i16 u16 i8 u8 i64", kFloats = "f32 bf16 f16";
constexpr std::string_view kScatter = "ns_ScatterKernel::Params, ParamsIndices, ParamsV2 or ParamsReduce?";
constexpr std::string_view kGather = "ns_GatherKernel::Params or ParamsV2?";
constexpr std::string_view kBag = "ns_EmbeddingBagWithSgdKernel::Params";

// clang-format off
constexpr GuidRow kRows[] = {
    {"gather_fwd", "x, indices, [shape]", "y", kGather, kAny, lowerGather, {}, kMoves},
    {"gather_bwd", "buffer, indices, dY", "dX", kGather, kFloats, lowerGatherBwd},
    {"gather_elements_fwd", "x, indices", "y", "ns_GatherElementsKernel::Params or ParamsV2?", kAny, lowerGatherElements, {}, kMoves},
    {"gather_nd_onnx_fwd", "x, indices", "y", "none", kAny, lowerGatherNd, {}, kMoves},
    {"gather_nd_mxnet_fwd", "x, indices", "y", "none", kAny, lowerGatherNdByParts, {}, kMoves},
    {"scatter_fwd", "x, indices, updates", "y", kScatter, kAny, lowerScatter, "replace"},
    {"scatter_add_fwd", "x, indices, updates", "y", kScatter, kAny, lowerScatter, "add"},
    {"unsorted_scatter_add_fwd", "x, indices, updates", "y", kScatter, kAny, lowerScatter, "add"},
    {"complex_scatter_add", "x, indices, updates", "y", kScatter, kAny, lowerScatter, "add"},
    {"scatter_value_fwd", "x, indices", "y", "ns_ScatterValueKernel::Params", kAny, lowerScatterValue},
    {"scatter_reduce_fwd", "x, indices, updates", "y", "ns_ScatterReduceKernel::Params", kAny, lowerScatterReduce},
    {"scatter_nd_fwd", "indices, positions, updates, [shape]", "y", "ns_ScatterNDKernel::Params or ParamsV2", kAny, lowerScatterNdSum},
    {"scatter_nd_onnx_fwd", "x, indices, updates, [valid count]", "y", "none", kAny, lowerScatterNd},
    {"scatter_nd_update_fwd", "x, indices, updates, [valid count]", "y", "ns_ScatterNdUpdateKernel::Params?", kAny, lowerScatterNd, "update"},
    {"index_copy_fwd", "x, indices, updates", "y", "ns_IndexCopy::Params", kAny, lowerIndexCopy},
    {"sparse_segment_sum_fwd", "x, indices, segments", "y", "none", kAny, lowerSegmentSum},
    {"embedding_pt_fwd", "weight, indices", "y", "none", kFloats, lowerEmbedding},
    {"embedding_dense_pt_bwd", "dY, indices", "dW", "ns_EmbeddingDensePtBwdKernel::Params", kFloats, lowerEmbeddingBwd},
    {"embedding_bag_sgd_fwd", "weight, indices, offsets", "y", kBag, kFloats, lowerEmbeddingBag},
    {"embedding_bag_sgd_bwd", "operands...", "results...", kBag, kFloats, nullptr, "the order of its operands is not documented"},
    {"index", "x, indices...", "y", "ns_IndexKernel::Params", kAny, nullptr,
     "the layout of ns_IndexKernel is not documented; use gather_nd_onnx_fwd"},
    {"plain_index", "x, indices...", "y", "?", kAny, nullptr, "its parameters are not documented; use gather_nd_onnx_fwd"},
    {"trilu_indices", "[shape]", "y", "?", "i32", nullptr, "its parameters are not documented; use matrix_band_part_fwd and non_zero_fwd"},
    {"index_put_fwd", "x, operands...", "y", "?", kAny, nullptr,
     "its operands and parameters are not documented; use scatter_nd_onnx_fwd, or scatter_nd_fwd to accumulate"},
    {"one_hot_fwd", "indices", "y", "ns_OneHotKernel::Params or ParamsV2", kAny, lowerOneHot},
};
// clang-format on

}  // namespace

std::span<const GuidRow> indexGuids() {
  return kRows;
}

}  // namespace hpu::synapse
