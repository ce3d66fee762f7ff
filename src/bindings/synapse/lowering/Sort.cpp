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

/// x with what is behind the valid count replaced by what sorts last; ties leave it behind, since the count's elements
/// come first. The count is one for all rows along `dim`, or has one for each.
Value validOnly(NodeContext& c, Value x, Value count, int64_t dim, bool largest) {
  Shape rows = c.shape(x);
  if (!c.ok()) return {};
  rows[static_cast<size_t>(dim)] = 1;
  const int64_t counts = numElements(c.shape(count));
  if (counts != 1 && counts != numElements(rows))
    return c.fail(strCat(c.inputName(1), " has sizes ", sizesText(c.shape(count)), "; one count for all, or one for ",
                         "each of ", numElements(rows), " rows"));
  count = c.reshape(c.cast(count, ElementType::kI32), counts == 1 ? Shape(rows.size(), 1) : rows);
  Value isValid = c.op("less", {counter(c, c.dim(x, dim), dim, c.rank(x)), count});
  return c.where(isValid, x, compose::sortedLast(c, c.element(x), largest));
}

/// The first k elements along an axis. k is bsw; or, with a k operand, what the results (or it) declare.
void lowerTopK(NodeContext& c) {
  // synBeamParams and ns_TopkNode have the layout of ParamsV3.
  ns_TopkNodeV2::ParamsV5 params{};
  params = c.versionedParams<ns_TopkNodeV2::ParamsV5, ns_TopkNodeV2::ParamsV4, ns_TopkNodeV2::ParamsV3,
                             ns_TopkNodeV2::ParamsV2, ns_TopkNodeV2::Params>(params, /*optional=*/false);
  int64_t count = params.bsw;
  const bool hasFlags = !c.paramsAre<ns_TopkNodeV2::ParamsV3>();  // Else they are what fills the structure up.
  if (hasFlags && isSet(params.isVcData) && !c.hasInput(1))
    return (void)c.fail(strCat(c.inputName(1), " is missing, and isVcData is set"));
  Value x = c.input(0);
  int64_t dim = c.axis(params.axis, c.rank(x));
  if (!c.ok()) return;
  const auto at = static_cast<size_t>(dim);
  for (size_t i : {2, 3}) {
    if (!c.isShapeTensor(i)) continue;
    const Shape k = c.inputShape(i);
    if (k.size() == c.shape(x).size())
      count = k[at];
    else if (k.size() == 1)
      count = k[0];
    else if (std::optional<Shape> declared = c.declaredShape(0); declared && declared->size() == c.shape(x).size())
      count = (*declared)[at];
  }
  if (count < 0 || count > c.dim(x, dim))
    return (void)c.fail(strCat("k is ", count, " of ", c.dim(x, dim), " elements"));
  const bool largest = !isSet(params.bottomK);
  Value keys = c.hasInput(1) ? validOnly(c, x, c.input(1), dim, largest) : x;
  Sorted sorted = firstSorted(c, keys, dim, count, largest);
  if (c.hasInput(1)) sorted.values = c.op("gather_elements", {x, sorted.indices}, {{"axis", dim}});
  outputSorted(c, sorted);
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

/// Of rows 0, 1 ...: the first place of `upTo`, [total] and never falling, whose value exceeds the row's number; total
/// where none does. A binary search of all rows at once.
Value firstExceeding(NodeContext& c, Value upTo, Value row, int64_t total, int64_t largest) {
  Value found = c.full({ElementType::kI32, c.shape(row)}, 0);  // Elements known not to exceed.
  int64_t step = 1;
  while (step * 2 <= (largest ? largest : total)) step *= 2;
  for (Value one = c.scalar(1, ElementType::kI32); step > 0 && c.ok(); step /= 2) {
    Value next = c.add(found, c.scalarLike(found, static_cast<double>(step)));
    Value probe = c.gather(upTo, c.min(c.sub(next, one), c.scalarLike(found, static_cast<double>(total - 1))), 0);
    Value isBefore = c.op("and", {c.op("less_equal", {probe, row}),
                                  c.op("less_equal", {next, c.scalarLike(found, static_cast<double>(total))})});
    found = c.where(isBefore, next, found);
  }
  return found;
}

/// All dims of operand 0 at their largest; 0 where nothing says.
int64_t largestElements(NodeContext& c, const Shape& shape) {
  int64_t largest = 1;
  for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d) largest *= c.largestDim(0, d);
  return largest;
}

/// torch.unique(sorted=True) of x as a list: the values, where asked for the place of each element among them and how
/// often each is there, last how many there are. Behind that count are zeros.
void lowerUnique(NodeContext& c) {
  ns_UniqueKernel::Params params{0, 0, -1};
  params = c.paramsOr(params);
  Value x = c.input(0);
  Shape shape = c.shape(x);
  if (!c.ok()) return;
  if (shape.size() > 1 && params.dim >= 0) return (void)c.unsupported("unique slices along a dim (dim is not -1)");
  const int64_t total = numElements(shape);
  if (total >= INT32_MAX) return (void)c.unsupported("more than 2^31 elements");
  if (total < 1) {  // No values, and zeros for what there is place for.
    for (size_t i = 0; i < c.numOutputs(); ++i) {
      const bool isCount = i > 0 && i + 1 == c.numOutputs();
      const Shape own = c.declaredShape(i).value_or(isCount                        ? Shape{1}
                                                    : i == 0 || c.numOutputs() > 3 ? Shape{0}
                                                                                   : shape);
      const ElementType element = i == 0 ? c.element(x) : ElementType::kI32;
      if (c.wantsOutput(i)) c.outputAs(i, c.full({element, own}, 0), element);
    }
    return;
  }
  Sorted sorted = firstSorted(c, c.reshape(x, {total}), 0, total, /*largest=*/false);
  // Which value of the list each sorted element is, from 1: it grows where an element differs from the one before it.
  Value before = c.gather(sorted.values, c.max(c.sub(counter(c, total, 0, 1), 1.0), c.scalar(0, ElementType::kI32)), 0);
  Value differs = c.cast(c.op("not", {c.op("equal", {sorted.values, before})}), ElementType::kI32);
  Value isLater = c.cast(c.op("greater", {counter(c, total, 0, 1), c.scalar(0, ElementType::kI32)}), ElementType::kI32);
  const int64_t largest = largestElements(c, shape);
  Value upTo = c.add(scan(c, c.mul(differs, isLater), 0, "add", false, false, largest), 1.0);
  Value count = c.sliceDim(upTo, 0, total - 1, 1), zero = c.scalar(0, ElementType::kI32);
  if (!c.ok()) return;
  auto rowsOf = [&](size_t i) {
    std::optional<Shape> declared = c.declaredShape(i);
    return declared ? numElements(*declared) : total;
  };
  auto put = [&](size_t i, Value v, ElementType inferred) {
    c.outputAs(i, c.reshape(v, c.declaredShape(i).value_or(c.shape(v))), inferred);
  };
  const int64_t rows = rowsOf(0);
  Value row = counter(c, rows, 0, 1), first = firstExceeding(c, upTo, row, total, largest);
  Value isThere = c.op("less", {row, count});
  Value values = c.gather(sorted.values, c.where(isThere, first, zero), 0);
  put(0, c.where(isThere, values, c.scalarLike(values, 0)), c.element(x));
  // Between the first result and the last: the inverse, then the counts; of one alone the parameters say which.
  const size_t results = c.numOutputs();
  const bool onlyCounts = results == 3 && params.returnCounts && !params.returnInverse;
  const size_t inverse = results > 2 && !onlyCounts ? 1 : SIZE_MAX;
  const size_t counts = onlyCounts ? 1 : results > 3 ? 2 : SIZE_MAX;
  if (c.wantsOutput(inverse)) {
    Value place = firstSorted(c, sorted.indices, 0, total, /*largest=*/false).indices;
    Value of = c.sub(c.gather(upTo, place, 0), 1.0);
    put(inverse, c.declaredShape(inverse) ? of : c.reshape(of, shape), ElementType::kI32);
  }
  if (c.wantsOutput(counts)) {
    if (rowsOf(counts) != rows) return (void)c.fail(strCat(c.outputName(counts), " must be as long as the values"));
    Value next = firstExceeding(c, upTo, c.add(row, 1.0), total, largest);
    put(counts, c.where(isThere, c.sub(next, first), zero), ElementType::kI32);
  }
  if (results < 2) return;
  // A result of five elements says it as the sizes that the values would have had.
  std::optional<Shape> declared = c.declaredShape(results - 1);
  if (declared && numElements(*declared) == 5) count = c.concat({count, c.full({ElementType::kI32, {4}}, 1)}, 0);
  put(results - 1, count, ElementType::kI32);
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
  const int64_t largest = largestElements(c, shape);
  // Of each element, how many up to it are not zero; row r is the first element where that exceeds r.
  Value upTo = scan(c, c.cast(c.reshape(x, {total}), ElementType::kI32), 0, "add", false, false, largest);
  Value count = c.sliceDim(upTo, 0, total - 1, 1), row = counter(c, rows, 0, 1);
  Value found = firstExceeding(c, upTo, row, total, largest);
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
    {"unique_fwd", "x", "values, [inverse], [counts], [valid count]", "ns_UniqueKernel::Params?", kAny, lowerUnique},
    {"non_zero_fwd", "x, [shape]", "coordinates, sizes", "none", kAny, lowerNonZero},
    {"non_zero_v2_fwd", "x, [shape]", "coordinates, sizes", "ns_NonzeroV2::Params?", kAny, lowerNonZero, "v2"},
};
// clang-format on

}  // namespace

std::span<const GuidRow> sortGuids() {
  return kRows;
}

}  // namespace hpu::synapse
