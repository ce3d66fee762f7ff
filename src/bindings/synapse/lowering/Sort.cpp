// SPDX-License-Identifier: Apache-2.0
// TPC sorts, top-k, scans, and non_zero on them. The one thing to know: sorts are stable, and NaN counts as the largest
// number, as top_indices of the hpu dialect has it.
#include "bindings/synapse/lowering/Lowering.h"
#include "compose/Indexing.h"
#include "habanalabs/perf_lib_layer_params.h"

namespace hpu::synapse {
namespace {

struct Sorted {
  Value values, indices;  ///< Indices are i64.
};

/// The first `count` elements along `dim`, largest first or smallest first.
Sorted firstSorted(NodeContext& c, Value x, int64_t dim, int64_t count, bool largest) {
  Value indices =
      c.op("top_indices", {x}, {{"axis", dim}, {"sizes", std::vector<int64_t>{count}}, {"largest", int64_t{largest}}});
  return {c.op("gather_elements", {x, indices}, {{"axis", dim}}), indices};
}

void outputSorted(NodeContext& c, const Sorted& sorted) {
  c.output(0, sorted.values);
  if (c.wantsOutput(1)) c.output(1, c.cast(sorted.indices, c.outputType(1, ElementType::kI32)));
}

void lowerTopK(NodeContext& c) {
  // synBeamParams and ns_TopkNode have the layout of ParamsV3.
  ns_TopkNodeV2::ParamsV5 params{};
  params = c.versionedParams<ns_TopkNodeV2::ParamsV5, ns_TopkNodeV2::ParamsV4, ns_TopkNodeV2::ParamsV3,
                             ns_TopkNodeV2::ParamsV2, ns_TopkNodeV2::Params>(params, /*optional=*/false);
  int64_t count = params.bsw;
  if (isSet(params.isVcData) && !c.paramsAre<ns_TopkNodeV2::ParamsV3>())
    return (void)c.unsupported("isVcData (a valid count)");
  if (c.hasInput(1)) return (void)c.unsupported("a valid count (input 1)");
  Value x = c.input(0);
  int64_t dim = c.axis(params.axis, c.rank(x));
  if (!c.ok()) return;
  if (std::optional<Shape> declared = c.declaredShape(0); c.isShapeTensor(3) && declared)
    count = (*declared)[static_cast<size_t>(dim)];
  if (count < 1 || count > c.dim(x, dim))
    return (void)c.fail(strCat("k is ", count, " of ", c.dim(x, dim), " elements"));
  outputSorted(c, firstSorted(c, x, dim, count, !isSet(params.bottomK)));
}

void lowerSort(NodeContext& c) {
  auto params = c.params<ns_Sort::Params>();
  Value x = c.input(0);
  int64_t dim = c.axis(params.axis, c.rank(x));
  if (c.ok()) outputSorted(c, firstSorted(c, x, dim, c.dim(x, dim), isSet(params.isDescending)));
}

/// dY goes back to where the sorted elements came from.
void lowerSortBwd(NodeContext& c) {
  auto params = c.params<ns_SortBwd::Params>();
  Value dY = c.toF32(c.input(0)), indices = plainIndices(c, c.input(1));
  int64_t dim = c.axis(params.axis, c.rank(dY));
  Shape shape = c.requiredShape(0);
  if (!c.ok()) return;
  c.output(0, c.cast(scatterAlong(c, c.full({ElementType::kF32, shape}, 0), indices, dY, dim, "add"), c.inputType(0)));
}

void lowerScan(NodeContext& c) {
  auto params = c.params<ns_CumSumKernel::Params>();  // ns_CumProdKernel has the same fields.
  Value x = c.input(0);
  int64_t dim = c.axis(params.axis, c.rank(x));
  if (!c.ok()) return;
  ElementType type = c.element(x);
  if (isFloat(type)) x = c.toF32(x);
  c.output(0,
           c.cast(scan(c, x, dim, c.row().argument, params.exclusive != 0, params.reverse != 0, c.largestDim(0, dim)),
                  type));
}

/// The number of sorted elements below each value (or not above it).
void lowerSearchSorted(NodeContext& c) {
  auto params = c.paramsOr<ns_SearchSorted::Params>({0});
  Value sorted = c.input(0), values = c.input(1);
  if (!c.ok()) return;
  int64_t rank = c.rank(values);
  if (c.rank(sorted) != 1 && c.rank(sorted) != rank)
    return (void)c.fail("the sorted tensor must have rank 1 or that of the values");
  if (rank < 1) return (void)c.fail("the values must have a dim");
  Shape shape = c.shape(sorted);
  shape.insert(shape.end() - 1, 1);
  Value below = c.op(params.right ? "less_equal" : "less", {c.reshape(sorted, shape), insertDim(c, values, rank)});
  c.output(0, c.cast(c.reduceSum(c.cast(below, ElementType::kI32), {rank}, false), c.outputType(0, ElementType::kI32)));
}

/// Coordinates of the elements that are not zero, in the framework's order, one row each; then the sizes that this
/// result would have had: {rank, count, 1, 1, 1}. Rows behind the count are zeros.
void lowerNonZero(NodeContext& c) {
  if (c.row().argument == "v2") {
    auto params = c.paramsOr<ns_NonzeroV2::Params>({});
    bool isPlain = params.max_chunks == 0;
    for (unsigned pad : params.pads) isPlain &= pad == 0;
    if (!isPlain) return (void)c.unsupported("pads or max_chunks");
  }
  Value x = c.condition(0);
  Shape shape = c.shape(x);
  if (!c.ok()) return;
  int64_t total = numElements(shape), rank = static_cast<int64_t>(shape.size());
  if (rank < 1) return (void)c.fail(strCat(c.inputName(0), " has no elements"));
  if (total >= INT32_MAX) return (void)c.unsupported("more than 2^31 elements");
  int64_t rows = total;
  if (std::optional<Shape> declared = c.declaredShape(0)) {
    if (declared->size() != 2 || (*declared)[1] != rank || (*declared)[0] < total)
      return (void)c.fail(strCat(c.outputName(0), " has sizes ", sizesText(*declared), ", must have {", rank, ", ",
                                 total, "} or more rows"));
    rows = (*declared)[0];
  }
  if (total == 0) {
    c.outputAs(0, c.full({ElementType::kI32, {rows, rank}}, 0), ElementType::kI32);
    return c.outputAs(1, c.indices({5}, {rank, 0, 1, 1, 1}), ElementType::kU32);
  }
  int64_t largest = 1;
  for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d) largest *= c.largestDim(0, d);
  // Of each element, how many up to it are not zero; row r is the first element where that exceeds r.
  Value upTo = scan(c, c.cast(c.reshape(x, {total}), ElementType::kI32), 0, "add", false, false, largest);
  Value count = c.sliceDim(upTo, 0, total - 1, 1), row = counter(c, rows, 0, 1);
  Value found =
      c.full({ElementType::kI32, {rows}}, 0);  // Elements known not to exceed r: a binary search of all rows at once.
  int64_t step = 1;
  while (step * 2 <= (largest ? largest : total)) step *= 2;
  for (Value one = c.scalar(1, ElementType::kI32); step > 0 && c.ok(); step /= 2) {
    Value next = c.add(found, c.scalarLike(found, static_cast<double>(step)));
    Value probe = c.gather(upTo, c.min(c.sub(next, one), c.scalarLike(found, static_cast<double>(total - 1))), 0);
    Value isBefore = c.op("and", {c.op("less_equal", {probe, row}),
                                  c.op("less_equal", {next, c.scalarLike(found, static_cast<double>(total))})});
    found = c.where(isBefore, next, found);
  }
  Value isThere = c.op("less", {row, count}), zero = c.scalar(0, ElementType::kI32);
  std::vector<Value> columns;
  int64_t stride = total;
  for (int64_t size : shape) {
    stride /= size;
    Value at = stride == 1 ? found : c.div(found, c.scalarLike(found, static_cast<double>(stride)));
    if (columns.size()) at = c.op("mod", {at, c.scalarLike(found, static_cast<double>(size))});
    columns.push_back(c.reshape(c.where(isThere, at, zero), {rows, 1}));
  }
  c.outputAs(0, c.concat(columns, 1), ElementType::kI32);
  Value ones = c.full({ElementType::kI32, {3}}, 1);
  c.outputAs(1, c.concat({c.indices({1}, {rank}), count, ones}, 0), ElementType::kU32);
}

constexpr std::string_view kNumbers = "f32 bf16 f16 i32 i16 i8 u8", kFloats = "f32 bf16 f16";
constexpr std::string_view kAny = "f32 bf16 f16 i32 u32 i16 u16 i8 u8 i64";
constexpr std::string_view kTopK = "synBeamParams, or ns_TopkNodeV2::Params .. ParamsV5";

// clang-format off
constexpr GuidRow kRows[] = {
    {"topk", "x, [valid count], [unused], [k]", "values, [indices]", kTopK, "", lowerTopK},
    {"sort_fwd", "x", "values, [indices]", "ns_Sort::Params", kNumbers, lowerSort},
    {"sort_bwd", "dY, indices", "dX", "ns_SortBwd::Params", kFloats, lowerSortBwd},
    {"cumsum_fwd", "x", "y", "ns_CumSumKernel::Params", "f32 bf16 f16 i32 i64", lowerScan, "add"},
    {"cumprod_fwd", "x", "y", "ns_CumProdKernel::Params", "f32 bf16 f16 i32 i64", lowerScan, "mul"},
    {"search_sorted_fwd", "sorted, values", "y", "ns_SearchSorted::Params?", kNumbers, lowerSearchSorted},
    {"non_zero_fwd", "x, [shape]", "coordinates, sizes", "none", kAny, lowerNonZero},
    {"non_zero_v2_fwd", "x, [shape]", "coordinates, sizes", "ns_NonzeroV2::Params?", kAny, lowerNonZero, "v2"},
};
// clang-format on

}  // namespace

std::span<const GuidRow> sortGuids() {
  return kRows;
}

}  // namespace hpu::synapse
